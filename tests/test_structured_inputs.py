"""Inputs in a tuple or a dict go through every function that takes data, not through the training alone."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import pnne_nb as pn

A, B = torch.randn(16, 4), torch.randn(16, 5)
CLASSES = torch.arange(16) % 3
IDS, MASK = torch.randint(0, 9, (16, 6)), torch.ones(16, 6)


class Two(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = nn.Linear(4, 3), nn.Linear(5, 3)

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        product: Tensor = self.left(a) * self.right(b)
        return product


class Words(nn.Module):
    """Takes one batch in a dict, as loaders of texts give it."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.head = nn.Embedding(9, 8), nn.Linear(8, 3)

    def forward(self, batch: dict[str, Tensor]) -> Tensor:
        weights = batch["mask"].unsqueeze(-1)
        read: Tensor = self.head((self.table(batch["ids"]) * weights).sum(1) / weights.sum(1))
        return read


def trained(net: nn.Module, data: Any) -> pn.TrainingEngine:
    engine = pn.TrainingEngine(net, data, data, epochs=1, device="cpu")
    assert engine.start().wait(60)
    assert engine.error is None
    return engine


@pytest.mark.parametrize("inputs", [(A, B), {"a": A, "b": B}])
def test_a_pair_of_inputs(inputs: Any, tmp_path: Path) -> None:
    data = (inputs, CLASSES)
    net = Two()
    engine = trained(pn.compile(pn.from_module(net, (A[:3], B[:3]))), data)
    model = engine.snapshot().eval()
    expected = model(A, B)
    torch.testing.assert_close(engine.predict((A, B)), expected)
    assert len(pn.worst(engine, 3, data=data).indices) == 3
    assert pn.export(engine, tmp_path / "m.onnx", data=data).ok
    torch.testing.assert_close(pn.InferenceEngine.load(tmp_path / "m.onnx").predict((A, B)), expected)
    assert pn.quantize(engine, data).nodes
    with closing(pn.ModuleExplorer(model, data=data)) as explorer:
        assert "Example 0 of 16" in explorer.describe()


def test_a_dict_that_is_the_only_argument(tmp_path: Path) -> None:
    net, batch = Words(), {"ids": IDS, "mask": MASK}
    data = (batch, CLASSES)
    graph = pn.from_module(net, ({"ids": IDS[:3], "mask": MASK[:3]},))
    engine = trained(pn.compile(graph), data)
    model = engine.snapshot().eval()
    expected = model(batch)
    torch.testing.assert_close(engine.predict(batch), expected)
    torch.testing.assert_close(pn.InferenceEngine(model).predict(batch), expected)
    torch.testing.assert_close(pn.InferenceEngine(model).predict(data), expected)
    assert engine.evaluate(data).examples == 16
    assert pn.attribute(model, batch, target=1).names == ("batch.ids", "batch.mask")
    with closing(pn.ModuleExplorer(model, data=data)) as explorer:
        assert "Target: 0" in explorer.describe()
    torch.testing.assert_close(pn.Inspector(model).run_inspection(batch).output, expected)
    wanted = (
        r"takes batch as a dict, and a file takes tensors\. .* as in forward\(self, ids, mask\), which calls this one"
    )
    for refused in (
        lambda: pn.export(engine, tmp_path / "m.onnx"),
        lambda: pn.export(graph, tmp_path / "m.onnx", data=(batch,), reuse=net),
        lambda: pn.quantize(graph, data, reuse=net),
    ):
        with pytest.raises(pn.ExportError, match=wanted):
            refused()


def test_the_worst_of_sequences_with_a_target_at_each_place() -> None:
    net = nn.Sequential(nn.Embedding(9, 8), nn.Linear(8, 9))
    engine = trained(net, (IDS, IDS))
    worst = pn.worst(engine, 2)
    scores = engine.snapshot().eval()(IDS[worst.indices])
    expected = nn.functional.cross_entropy(scores.movedim(-1, 1), IDS[worst.indices], reduction="none").mean(1)
    assert worst.losses == pytest.approx(expected.tolist(), rel=1e-5)
