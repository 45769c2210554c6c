"""The first node with a fault is named, and a healthy file differs nowhere."""

from __future__ import annotations

from pathlib import Path

import torch

from pnne_nb.export.proof.eager_run import Model
from pnne_nb.export.proof.parity import compare, histograms
from tests.export.faults import Exported, first_bad
from tests.export.kinds import KINDS, chained, draw


def test_faults_are_named(tmp_path: Path) -> None:
    exported = Exported(KINDS["mobile"](), tmp_path)
    for scale in (1.0, 100.0):
        healthy = {name: tensor * scale for name, tensor in exported.batch().items()}
        assert first_bad(exported.compare(exported.path, healthy)) is None
    for seed in range(12):
        fault = exported.with_fault(seed, tmp_path / "faulty.onnx")
        found = first_bad(exported.compare(tmp_path / "faulty.onnx", exported.batch()))
        assert found == fault.node, fault.kind


def test_memory_that_nobody_has_written_is_not_compared(tmp_path: Path) -> None:
    graph = draw(
        "unwritten",
        (("Input", "x", {"shape": ("N", 4)}), ("empty_like", "memory"), ("fill_", "twos", {"value": 2.0}), ("mul", "product"),
         ("Output", "y")),
        "x memory twos product.other", "x product.input", "product y",
    )  # fmt: skip
    exported = Exported(graph, tmp_path)
    nodes = exported.compare(exported.path, exported.batch())
    assert nodes["memory"].difference is None
    assert nodes["memory"].note == "gives memory that was never written, whose values are arbitrary"
    assert nodes["product"].difference is not None
    assert first_bad(nodes) is None


def test_numbers_of_any_bits_are_compared() -> None:
    signalling = torch.tensor([0x7FA00000, 0x7F800000, 0x7F7FFFFF, 1], dtype=torch.int32).view(torch.float32)
    reference = Model(torch.nn.Identity(), ["y"]).run([signalling.clone()])
    array = signalling.numpy()
    assert compare(array, reference.outputs["y"], "auto").ratio == 0
    assert histograms(array, array) is not None


def test_results_of_one_shape_of_which_the_file_keeps_some_are_told_apart(tmp_path: Path) -> None:
    lstm = {"input_size": 5, "hidden_size": 4, "num_layers": 2, "batch_first": True}
    graph = draw(
        "states",
        (("Input", "x", {"shape": ("N", 6, 5)}), ("LSTM", "lstm", lstm), ("Output", "y"), ("Output", "h")),
        "x lstm",
        "lstm.output y",
        "lstm.h_n h",
    )
    exported = Exported(graph, tmp_path)
    assert first_bad(exported.compare(exported.path, exported.batch())) is None
    exported.with_fault(1, tmp_path / "faulty.onnx")
    assert first_bad(exported.compare(tmp_path / "faulty.onnx", exported.batch())) == "lstm"


def test_a_coordinate_may_be_rounded_otherwise(tmp_path: Path) -> None:
    graph = chained("resized", ("N", 2, 11, 13), ("interpolate", "resize", {"size": (7, 7), "mode": "bilinear"}))
    exported = Exported(graph, tmp_path)
    batch = exported.batch({"N": 7})
    assert first_bad(exported.compare(exported.path, batch)) is None
    assert first_bad(exported.compare(exported.path, {"x": batch["x"] * 100})) is None
