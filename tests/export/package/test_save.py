from __future__ import annotations

import json
import os
import sys
import zipfile
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import pnne_nb as pn
from pnne_nb.errors import ArgumentError, CompileError, ExportError
from tests.export.package.nets import chain, noisy, pictures, shape, small, tied, trained


def read(path: Path, part: str) -> Any:
    with zipfile.ZipFile(path) as archive:
        content = archive.read(part)
    return json.loads(content) if part.endswith(".json") else content.decode()


@pytest.mark.parametrize("name", ["net.pnne", "net"])
@pytest.mark.parametrize("make", [small, pictures, tied, noisy])
def test_what_is_loaded_is_what_was_saved(tmp_path: Path, make: Any, name: str) -> None:
    graph = make()
    model = trained(graph)
    found, loaded = pn.load(pn.save(graph, model, tmp_path / name), verify=True)
    assert found == graph
    assert list(loaded.state_dict()) == list(model.state_dict())
    for key, value in model.state_dict().items():
        assert torch.equal(loaded.state_dict()[key], value), key
    example = torch.randn(5, *shape(graph))
    torch.manual_seed(1)
    wanted = model.eval()(example)
    torch.manual_seed(1)
    assert torch.equal(loaded.eval()(example), wanted)


def test_modes_ties_frozen_flags_and_element_types_come_back(tmp_path: Path) -> None:
    graph, model = pictures(), trained(pictures())
    model.fc.weight.requires_grad_(False)  # torch's own
    model.stem.norm.eval()
    model.stem.conv.to(memory_format=torch.channels_last)
    model.double()
    _, loaded = pn.load(pn.save(graph, model, tmp_path / "net.pnne", data=torch.randn(4, 1, 8, 8).double()))
    assert [one.requires_grad for one in loaded.parameters()] == [one.requires_grad for one in model.parameters()]
    assert [one.dtype for one in loaded.parameters()] == [one.dtype for one in model.parameters()]
    assert [one.stride() for one in loaded.parameters()] == [one.stride() for one in model.parameters()]
    assert {path: one.training for path, one in loaded.named_modules()} == {
        path: one.training for path, one in model.named_modules()
    }


def test_weights_that_somebody_has_tied_are_one_again(tmp_path: Path) -> None:
    graph = chain(pn.NodeGraph("two"), *TWO)
    model: Any = pn.compile(graph)
    model.b.weight = model.a.weight
    loaded: Any = pn.load(pn.save(graph, model, tmp_path / "net.pnne"))[1]
    assert loaded.b.weight is loaded.a.weight


def test_equal_packages_are_equal_files(tmp_path: Path) -> None:
    graph, model = small(), trained(small())
    one, other = (pn.save(graph, model, tmp_path / name).read_bytes() for name in ("a.pnne", "b.pnne"))
    assert one == other


def test_the_manifest_says_names_types_sizes_classes_and_versions(tmp_path: Path) -> None:
    path = pn.save(
        pictures(), trained(pictures()), tmp_path / "net.pnne", classes=["a", "b", "c"], config={"note": [1, None]}
    )
    manifest = read(path, "manifest.json")
    assert manifest["inputs"] == [{"name": "x", "dtype": "float32", "shape": ["N", 1, 8, 8]}]
    assert manifest["outputs"] == [{"name": "y", "dtype": "float32", "shape": ["N", 3]}]
    assert manifest["classes"] == ["a", "b", "c"]
    assert manifest["config"] == {"note": [1, None]}
    assert manifest["versions"]["torch"] == torch.__version__
    assert manifest["record"]["random"] is False


def test_the_card_shows_the_picture_and_what_a_reader_needs(tmp_path: Path) -> None:
    path = pn.save(pictures(), trained(pictures()), tmp_path / "net.pnne", classes=["a|b", "<b>", "c"])
    card = read(path, "README.md")
    assert "![The graph of pictures](graph.svg)" in card
    assert "| input | x | float32 | (N, 1, 8, 8) |" in card
    assert r"a\|b, \<b\>, c" in card
    assert read(path, "graph.svg").startswith("<svg")
    assert "class Pictures(nn.Module)" in read(path, "model.py")


def test_metrics_and_arguments_of_a_training_are_kept(tmp_path: Path) -> None:
    graph = small()
    data = torch.randn(16, 3), torch.arange(16) % 2
    engine = pn.TrainingEngine(graph, data, data, epochs=2, batch_size=8, device="cpu")
    engine.start().wait(timeout=60)
    path = pn.save(graph, engine.model, tmp_path / "net.pnne", data=data, training=engine)
    metrics = read(path, "metrics.json")
    assert metrics["loss"] == {"steps": [1, 2, 3, 4], "values": engine.history["loss"].tolist()}
    assert read(path, "manifest.json")["config"]["batch_size"] == 8
    assert "| val\\_loss |" in read(path, "README.md")
    path = pn.save(graph, engine.model, tmp_path / "history.pnne", training=engine.history)
    assert read(path, "metrics.json") == metrics


@pytest.mark.parametrize(
    "data",
    [
        np.ones((4, 3), np.float32),
        (torch.ones(4, 3), torch.zeros(4)),
        {"x": torch.ones(4, 3)},
        DataLoader(TensorDataset(torch.ones(4, 3), torch.zeros(4)), batch_size=2),
        TensorDataset(torch.ones(4, 3), torch.zeros(4)),
        [torch.ones(4, 3)],
    ],
    ids=["array", "tuple with target", "by name", "loader", "dataset", "list"],
)
def test_batches_are_recorded_from_data_of_every_kind(tmp_path: Path, data: Any) -> None:
    path = pn.save(small(), trained(small()), tmp_path / "net.pnne", data=data)
    with zipfile.ZipFile(path) as archive:
        assert b'"0.input.x"' in archive.read("batches.safetensors")
    pn.load(path, verify=True)


def test_batches_by_name_go_to_the_inputs_of_these_names(tmp_path: Path) -> None:
    graph = pn.NodeGraph("difference")
    graph.add("Input", "left", shape=("N", 3))
    graph.add("Input", "right", shape=("N", 3))
    graph.add("sub", "sub")
    graph.add("Output", "y")
    for source, target in (("left", "sub.input"), ("right", "sub.other"), ("sub", "y")):
        graph.connect(source, target)
    data = {"label": torch.zeros(4), "right": torch.ones(4, 3), "left": torch.full((4, 3), 5.0)}
    for place, given in enumerate((data, [data])):
        path = pn.save(graph, pn.compile(graph), tmp_path / f"{place}.pnne", data=given)
        with zipfile.ZipFile(path) as archive:
            recorded = safetensors.torch.load(archive.read("batches.safetensors"))
        assert torch.equal(recorded["0.output.0"], torch.full((4, 3), 4.0))
    with pytest.raises(ExportError, match=r"The data has no 'left'; it has 'right'\."):
        pn.save(graph, pn.compile(graph), tmp_path / "none.pnne", data={"right": torch.ones(4, 3)})


def opaque() -> tuple[pn.NodeGraph, nn.Module]:
    class Odd(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * float(np.asarray(x.detach().sum()) > 0)

    net = nn.Sequential(nn.Linear(3, 3), Odd())
    return pn.from_module(net, args=(torch.randn(2, 3),)), net


def test_an_opaque_node_is_refused_by_name(tmp_path: Path) -> None:
    graph, net = opaque()
    with pytest.raises(ExportError, match=r"opaque nodes:\n.*1: The node keeps a module") as caught:
        pn.save(graph, pn.compile(graph, reuse=net), tmp_path / "net.pnne")
    assert [each.node for each in caught.value.diagnostics] == ["1"]
    assert not list(tmp_path.iterdir())


def shared_memory() -> Any:
    model: Any = pn.compile(chain(pn.NodeGraph("two"), *TWO))
    model.b.weight.data = model.a.weight.data
    return model


TWO: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("Input", "x", {"shape": ("N", 3)}),
    ("Linear", "a", {"in_features": 3, "out_features": 3}),
    ("Linear", "b", {"in_features": 3, "out_features": 3}),
    ("Output", "y", {}),
)


def test_tensors_that_overlap_without_being_one_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ExportError, match=r"a\.weight and b\.weight share memory"):
        pn.save(chain(pn.NodeGraph("two"), *TWO), shared_memory(), tmp_path / "net.pnne")


def test_a_model_of_another_graph_is_refused(tmp_path: Path) -> None:
    other = chain(pn.NodeGraph("other"), *TWO)
    for model in (pn.compile(other), nn.Linear(7, 7)):  # the second does not take what the graph takes
        with pytest.raises(ExportError, match="Graph and model do not belong together"):
            pn.save(small(), model, tmp_path / "net.pnne")
    assert not list(tmp_path.iterdir())


class Twice(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(3, 2)

    def forward(self, x: torch.Tensor) -> Any:
        return 2 * self.fc(x)


def test_a_model_that_computes_something_else_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ExportError, match=r"The graph does not compute what the model does: in batch 1"):
        pn.save(small(), Twice(), tmp_path / "net.pnne")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"path": "missing/net.pnne"}, ExportError, "There is no directory"),
        ({"path": "taken.pnne"}, ExportError, "is there already. Pass overwrite=True"),
        ({"path": "folder", "overwrite": True}, ExportError, "is no package, and is not replaced"),
        ({"path": "pipe.pnne", "overwrite": True}, ExportError, "is a device or a pipe, and not replaced"),
        ({"path": "x" * 300}, ExportError, "cannot be written: File name too long"),
        ({"path": 3}, ArgumentError, "path must be the path of the package"),
        ({"model": "net"}, ArgumentError, "model must be the model that was compiled"),
        ({"classes": ["a"]}, ExportError, "There are 1 classes, and the model gives scores for 2"),
        ({"classes": "ab"}, ExportError, "classes must be the names"),
        ({"config": {"f": len}}, ExportError, r"config\['f'\] cannot be kept"),
        ({"config": {"f": float("nan")}}, ExportError, r"config\['f'\] cannot be kept"),
        ({"data": []}, ExportError, "data is empty"),
        ({"data": 3}, ExportError, "data must be batches of arrays"),
        ({"data": [(1, 2)]}, ExportError, r"A batch of data has 2 items \(int, int\)"),
        ({"data": torch.ones(2, 7)}, ExportError, "The model fails on batch 1 of data"),
        ({"onnx": "missing.onnx"}, ExportError, "The ONNX file .* cannot be read"),
        ({"sign": "key.pem"}, ExportError, "pip install model-signing"),
    ],
)
def test_what_cannot_be_saved_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: dict[str, Any], error: type[Exception], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "taken.pnne").write_text("mine")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe.pnne")
    given = {"model": trained(small()), "path": "net.pnne", **arguments}
    with pytest.raises(error, match=message):
        pn.save(small(), **given)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "pipe.pnne", "taken.pnne"]
    assert (tmp_path / "pipe.pnne").is_fifo()


def test_an_unfinished_graph_is_refused(tmp_path: Path) -> None:
    graph = small()
    graph.disconnect("x", "fc")
    with pytest.raises(CompileError, match="fc"):
        pn.save(graph, trained(small()), tmp_path / "net.pnne")


def test_a_failed_write_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("net.pnne", "net"):
        path = pn.save(small(), trained(small()), tmp_path / name)
        before = pn.load(path)[1].state_dict()["fc.weight"]
        with monkeypatch.context() as full:
            full.setattr(
                "pnne_nb.export.package.archive._sync", lambda _: (_ for _ in ()).throw(OSError(28, "No space left"))
            )
            with pytest.raises(ExportError, match="cannot be written: No space left"):
                pn.save(small(), trained(small()), path, overwrite=True)
        assert torch.equal(pn.load(path)[1].state_dict()["fc.weight"], before)
        model = trained(small())
        pn.save(small(), model, path, overwrite=True)
        assert torch.equal(pn.load(path)[1].state_dict()["fc.weight"], model.state_dict()["fc.weight"])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["net", "net.pnne"]


def test_a_package_is_signed_by_model_signing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    signed: list[tuple[Any, ...]] = []

    class Config:
        def use_elliptic_key_signer(self, *, private_key: Path) -> Config:
            signed.append((private_key,))
            return self

        def sign(self, model_path: Path, signature_path: Path) -> None:
            signed.append((model_path, signature_path))

    signing = ModuleType("model_signing.signing")
    signing.Config = Config  # type: ignore[attr-defined]  # it stands for the package, which is not installed
    package = ModuleType("model_signing")
    package.__spec__ = signing.__spec__ = __spec__
    monkeypatch.setitem(sys.modules, "model_signing", package)
    monkeypatch.setitem(sys.modules, "model_signing.signing", signing)
    key = tmp_path / "key.pem"
    with pytest.raises(ExportError, match="there is no file"):
        pn.save(small(), trained(small()), tmp_path / "net.pnne", sign=key)
    key.write_text("secret")
    path = pn.save(small(), trained(small()), tmp_path / "net.pnne", sign=key)
    assert signed == [(key,), (path, tmp_path / "net.pnne.sig")]


def test_without_a_name_for_each_result_outputs_are_numbered(tmp_path: Path) -> None:
    graph = pn.NodeGraph("cell")
    graph.add("Input", name="x", shape=("N", 4, 3))
    graph.add("LSTM", name="lstm", input_size=3, hidden_size=2, batch_first=True)
    graph.add("Output", name="y")
    graph.add("Output", name="state")
    graph.connect("x", "lstm")
    graph.connect("lstm.output", "y")
    graph.connect("lstm.h_n", "state")
    path = pn.save(graph, pn.compile(graph), tmp_path / "net.pnne")
    assert [one["name"] for one in read(path, "manifest.json")["outputs"]] == ["y", "state"]
    pn.load(path, verify=True)


class Noted(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(3, 2)

    def forward(self, x: torch.Tensor) -> Any:
        return self.fc(x)

    def get_extra_state(self) -> dict[str, int]:
        return {"note": 1}


def test_what_is_no_tensor_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ExportError, match="_extra_state of the model is no tensor"):
        pn.save(small(), Noted(), tmp_path / "net.pnne")


def test_weights_without_data_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ExportError, match=r"fc\.weight has no data: it is on the meta device"):
        pn.save(small(), pn.compile(small()).to("meta"), tmp_path / "net.pnne")
