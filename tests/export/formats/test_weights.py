"""Files of weights: readable by name anywhere, and a model again with the graph that they carry."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from torch import Tensor, nn

import pnne_nb as pn
from pnne_nb.errors import ExportError
from pnne_nb.export import formats
from pnne_nb.export.attempt import prepare, request_of
from pnne_nb.export.subject.example_batches import BatchMaker
from tests.export.package.nets import chain, pictures, shape, small, tied, trained

KINDS = ("safetensors", "pt")


def write(model: nn.Module, path: Path, data: Any = None) -> Path:
    """Write a file as `pn.export` does, without its proof, which takes processes of its own."""
    subject, _, example = prepare(model, data, None)
    tensors = BatchMaker(subject.model, subject.inputs, subject.limits).tensors(example)
    formats.find_format("auto", path).write(request_of(subject, tensors), path)
    return path


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("make", [small, pictures, tied])
def test_the_model_is_made_again(tmp_path: Path, make: Any, kind: str) -> None:
    model = trained(make())
    path = write(model, tmp_path / f"net.{kind}")
    example = torch.randn(5, *shape(make()))
    opened = formats.open(path)
    assert [info.name for info in opened.inputs] == ["x"]
    assert torch.equal(torch.from_numpy(opened.run({"x": example.numpy()})["y"]), model.eval()(example))
    assert opened.metadata["pnne_nb.torch"] == torch.__version__
    opened.close()
    assert torch.equal(pn.InferenceEngine.load(path).predict(example), model(example))


def test_the_weights_are_read_by_name_without_this_package(tmp_path: Path) -> None:
    model = trained(pictures())
    held = torch.load(write(model, tmp_path / "net.pt"), weights_only=True)["state_dict"]
    read = safetensors.torch.load_file(write(model, tmp_path / "net.safetensors"))
    assert list(held) == list(model.state_dict())
    for name, value in model.state_dict().items():
        assert torch.equal(held[name], value)
        assert torch.equal(read[name], value)


@pytest.mark.parametrize("kind", KINDS)
def test_a_foreign_file_is_refused(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"net.{kind}"
    path.write_bytes(b"something else")
    with pytest.raises(ExportError, match=rf"net\.{kind} is no "):
        formats.open(path)
    if kind == "pt":
        torch.save({"state_dict": {}, "transient": {}, "metadata": {}}, path)
    else:
        safetensors.torch.save_file({"weight": torch.ones(1)}, path)
    with pytest.raises(ExportError, match="holds weights without their graph"):
        formats.open(path)


@pytest.mark.parametrize(
    ("held", "message"),
    [
        (nn.Linear(2, 2).state_dict(), r"^net\.pt holds weights without their graph: load it"),
        (nn.Linear(2, 2), r"^net\.pt is no file of .*: it is damaged, or holds objects other than tensors\.$"),
        ([1, 2], r"^net\.pt is no file of .*: it has no 'state_dict' with a graph\.$"),
    ],
)
def test_a_file_that_something_else_wrote_is_told(tmp_path: Path, held: Any, message: str) -> None:
    torch.save(held, tmp_path / "net.pt")
    with pytest.raises(ExportError, match=message):
        formats.open(tmp_path / "net.pt")


class Evil:
    def __reduce__(self) -> Any:
        return exec, ("raise AssertionError('code was run')",)


def test_code_in_a_file_is_not_run(tmp_path: Path) -> None:
    torch.save({"state_dict": {}, "transient": {}, "metadata": Evil()}, tmp_path / "net.pt")
    with pytest.raises(ExportError, match=r"net\.pt is no file of weights that pnne_nb wrote"):
        formats.open(tmp_path / "net.pt")


def test_other_weights_than_the_graph_has_are_refused(tmp_path: Path) -> None:
    path = write(trained(small()), tmp_path / "net.pt")
    held = torch.load(path, weights_only=True)
    del held["state_dict"]["fc.bias"]
    torch.save(held, path)
    with pytest.raises(ExportError, match=r"net\.pt cannot be made a model again: .*lacks the weight 'fc\.bias'"):
        formats.open(path)


def test_a_model_without_a_graph_and_custom_types_are_refused(tmp_path: Path) -> None:
    @pn.register_node
    class Own(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return -x

    graph = chain(pn.NodeGraph("own"), ("Input", "x", {"shape": ("N", 3)}), ("Own", "own", {}), ("Output", "y", {}))
    with pytest.raises(ExportError, match=r"own: The type 'Own' is code of yours") as caught:
        write(pn.compile(graph), tmp_path / "net.pt")
    assert [each.node for each in caught.value.diagnostics] == ["own"]
    graph.group(["own"], "block")
    with pytest.raises(ExportError, match=r"block\.own: The type 'Own' is code of yours"):
        write(pn.compile(graph), tmp_path / "net.pt")
    assert not list(tmp_path.iterdir())
