"""The same predictions over a live model, a package, and the files of `pn.export`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset

import pnne_nb as pn
from pnne_nb.errors import ArgumentError, ExportError, GraphFileNotFoundError, TrainingError
from pnne_nb.export.attempt import prepare, request_of
from pnne_nb.export.formats import find_format
from pnne_nb.export.subject.example_batches import BatchMaker

EXAMPLES = torch.randn(10, 3, generator=torch.Generator().manual_seed(0))


def net() -> pn.NodeGraph:
    graph = pn.NodeGraph("net")
    graph.add("Input", name="x", shape=("N", 3))
    graph.add("Linear", name="fc", in_features=3, out_features=4)
    graph.add("BatchNorm1d", name="norm", num_features=4)
    graph.add("Output", name="y")
    graph.connect("x", "fc", "norm", "y")
    return graph


def pair() -> pn.NodeGraph:
    graph = pn.NodeGraph("pair")
    graph.add("Input", name="a", shape=("N", 3))
    graph.add("Input", name="b", shape=("N", 3))
    graph.add("add", name="sum")
    graph.add("sub", name="gap")
    for node in ("sum", "gap"):
        graph.connect("a.output", f"{node}.input")
        graph.connect("b.output", f"{node}.other")
        graph.add("Output", name=f"{node}_out")
        graph.connect(f"{node}.output", f"{node}_out.input")
    return graph


def export(model: torch.nn.Module, path: Path, sizes: dict[str, int] | None = None) -> None:
    """Write a file as `pn.export` does, without its proof, which takes processes of its own."""
    subject, _, example = prepare(model, None, sizes)
    tensors = BatchMaker(subject.model, subject.inputs, subject.limits).tensors(example)
    find_format("auto", path).write(request_of(subject, tensors), path)


Saved = tuple[torch.nn.Module, dict[str, Path]]


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Saved:
    folder = tmp_path_factory.mktemp("files")
    torch.manual_seed(0)
    model = pn.compile(net())
    model(EXAMPLES)
    paths = {name: folder / f"net{end}" for name, end in ENDS.items()}
    pn.save(net(), model, paths["package"], classes=["a", "b", "c", "d"])
    export(model, paths["onnx"])
    export(model, paths["pt2"])
    return model, paths


ENDS = {"package": ".pnne", "onnx": ".onnx", "pt2": ".pt2"}


@pytest.mark.parametrize("kind", ENDS)
def test_every_kind_predicts_what_the_live_model_does(saved: Saved, kind: str) -> None:
    model, paths = saved
    live = pn.InferenceEngine(model, device="cpu", batch_size=4)
    loaded = pn.InferenceEngine.load(paths[kind], device="cpu", batch_size=4, trust=True)
    loaded.warm_up(EXAMPLES[:2])
    wanted = live.predict(EXAMPLES)
    torch.testing.assert_close(loaded.predict(EXAMPLES), wanted)
    torch.testing.assert_close(loaded.predict(EXAMPLES.numpy()), wanted)
    torch.testing.assert_close(loaded.predict({"x": EXAMPLES}), wanted)
    torch.testing.assert_close(loaded.predict(DataLoader(TensorDataset(EXAMPLES, torch.zeros(10)), 3)), wanted)
    assert [len(output) for output in loaded.stream(EXAMPLES)] == [4, 4, 2]
    assert torch.equal(loaded.top_k(EXAMPLES, k=2).classes, live.top_k(EXAMPLES, k=2).classes)
    assert f"net{ENDS[kind]}" in repr(loaded)
    loaded.close()


@pytest.mark.parametrize("kind", ENDS)
@pytest.mark.parametrize(
    ("data", "message"),
    [
        (EXAMPLES.double(), r"The input x of net\.\w+ takes float32, and the data is float64: convert it"),
        (torch.ones(2, 5), r"The input x of net\.\w+ has the shape \(\w+, 3\), and the data \(2, 5\)"),
        ({"z": EXAMPLES}, r"net\.\w+ has no input 'z'.* It takes x"),
        ((EXAMPLES, EXAMPLES, EXAMPLES), r"net\.\w+ takes 1 inputs \(x\), and the batch has 3"),
    ],
    ids=["dtype", "size", "name", "count"],
)
def test_what_does_not_fit_is_said_in_words(saved: Saved, kind: str, data: Any, message: str) -> None:
    loaded = pn.InferenceEngine.load(saved[1][kind], trust=True)
    with pytest.raises(TrainingError, match=message):
        loaded.predict(data)


def test_several_inputs_and_outputs_keep_their_order(tmp_path: Path) -> None:
    model = pn.compile(pair())
    export(model, tmp_path / "pair.onnx")
    a, b = EXAMPLES, EXAMPLES.flip(0)
    loaded = pn.InferenceEngine.load(tmp_path / "pair.onnx")
    for data in ((a, b), {"b": b, "a": a}):
        total, gap = loaded.predict(data)
        torch.testing.assert_close(total, a + b)
        torch.testing.assert_close(gap, a - b)


def test_a_fixed_batch_decides_itself(tmp_path: Path) -> None:
    export(pn.compile(net()), tmp_path / "net.onnx", {"N": 5})
    loaded = pn.InferenceEngine.load(tmp_path / "net.onnx")
    assert loaded.batch_size == 5
    assert loaded.predict(EXAMPLES).shape == (10, 4)
    with pytest.raises(TrainingError, match=r"has the shape \(5, 3\), and the data \(3, 3\)"):
        loaded.predict(EXAMPLES[:8])


def test_classes_are_those_of_the_file(saved: Saved) -> None:
    path = saved[1]["package"]
    assert pn.InferenceEngine.load(path, classes=list("abcd")).classes == tuple("abcd")
    with pytest.raises(ExportError, match=r"net\.pnne has 4 classes, and classes has 2"):
        pn.InferenceEngine.load(path, classes=["a", "b"])
    with pytest.raises(ExportError, match=r"Class 1 is 'z' in classes, and 'b' in net\.pnne"):
        pn.InferenceEngine.load(path, classes=list("azcd"))
    engine = pn.InferenceEngine.load(saved[1]["onnx"], classes=["a", "b"])
    with pytest.raises(TrainingError, match=r"There are 2 classes \(a, b …\), and the model gives scores for 4"):
        engine.top_k(EXAMPLES)


def test_a_file_that_can_run_code_needs_trust(saved: Saved) -> None:
    with pytest.raises(
        ExportError, match=r"Opening net\.pt2 can run code that is in the file \(pt2\)\. Pass trust=True"
    ):
        pn.InferenceEngine.load(saved[1]["pt2"])


def test_what_cannot_be_loaded_is_said(saved: Saved, tmp_path: Path) -> None:
    with pytest.raises(ExportError, match="There is no file"):
        pn.InferenceEngine.load(tmp_path / "net.onnx")
    with pytest.raises(GraphFileNotFoundError, match="There is no package"):
        pn.InferenceEngine.load(tmp_path / "net.pnne")
    with pytest.raises(ArgumentError, match="path must be"):
        pn.InferenceEngine.load(3)  # type: ignore[arg-type]  # on purpose
    with pytest.raises(TrainingError, match=r"net\.onnx runs on the CPU"):
        pn.InferenceEngine.load(saved[1]["onnx"], precision="bf16")
    closed = pn.InferenceEngine.load(saved[1]["onnx"])
    closed.close()
    closed.close()
    with pytest.raises(TrainingError, match=r"net\.onnx is closed"):
        closed.predict(EXAMPLES)


def test_changed_inputs_of_a_file_are_refused(saved: Saved, tmp_path: Path) -> None:
    import onnx  # noqa: PLC0415  # an extra

    model = onnx.load(saved[1]["onnx"])
    for node in model.graph.node:
        node.input[:] = ["z" if name == "x" else name for name in node.input]
    model.graph.input[0].name = "z"
    onnx.save(model, tmp_path / "net.onnx")
    with pytest.raises(ExportError, match=r"net\.onnx takes the inputs z, and its metadata says x"):
        pn.InferenceEngine.load(tmp_path / "net.onnx")


def test_a_package_with_an_onnx_file_is_proved_by_its_own_script(saved: Saved, tmp_path: Path) -> None:
    from pnne_nb.export.package import integrity  # noqa: PLC0415  # beside what it is compared with

    model, paths = saved
    path = pn.save(net(), model, tmp_path / "net.pnne", data=EXAMPLES, onnx=paths["onnx"])
    assert "the ONNX file differs from the recorded outputs by" in integrity.checked(path)[1]
    export(pn.compile(net()), tmp_path / "other.onnx")
    with pytest.raises(ExportError, match="The ONNX file is not of this model: the ONNX file differs"):
        pn.save(net(), model, tmp_path / "other.pnne", data=EXAMPLES, onnx=tmp_path / "other.onnx")


def test_arrays_are_taken_as_they_come(saved: Saved) -> None:
    engine = pn.InferenceEngine.load(saved[1]["onnx"])
    wanted: Tensor = engine.predict(EXAMPLES)
    assert torch.equal(engine.predict(np.asarray(EXAMPLES, np.float64)), wanted)
    assert torch.equal(engine.predict([np.asarray(row, np.float32) for row in EXAMPLES]), wanted)
