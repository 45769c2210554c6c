"""Fixed tables of an import that are too large for a document keep their values in a file beside the graph file."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import pnne_nb as pn


class Places(nn.Module):
    """A sine table of positions and a frozen mixture, each of more values than a document keeps, and a layer."""

    mix: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(128, 4)
        steps = torch.arange(128.0)[:, None] / torch.arange(1.0, 129.0)
        self.pos = nn.Parameter(steps.sin(), requires_grad=False)
        self.register_buffer("mix", (steps * 3).cos(), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.fc((x + self.pos) @ self.mix)
        return result


X = torch.randn(2, 128, 128)


def saved(folder: Path) -> tuple[Path, Places]:
    """Save the graph of a net; what made it is gone, and the net is a copy of it."""
    torch.manual_seed(0)
    net = Places()
    path = folder / "net.pnne.json"
    pn.from_module(net, args=(X,)).save(path)
    copy = Places()
    copy.load_state_dict(net.state_dict())
    del net
    gc.collect()
    return path, copy


def test_a_file_beside_the_graph_holds_them_and_no_weights(tmp_path: Path) -> None:
    _, net = saved(tmp_path)
    beside = tmp_path / "net.pnne.values.safetensors"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["net.pnne.json", beside.name]
    assert beside.stat().st_size < net.pos.nbytes + net.mix.nbytes + 1024


@pytest.mark.filterwarnings("ignore:.*the weights of fc are not there")
def test_a_loaded_graph_has_them_whatever_became_of_the_nodes(tmp_path: Path) -> None:
    path, net = saved(tmp_path)
    graph = pn.NodeGraph.load(path)
    graph.rename("pos", "table")
    graph.rename("mix", "mixture")
    model = pn.compile(graph)
    assert torch.equal(model.get_parameter("table"), net.pos)
    assert torch.equal(model.get_buffer("mixture"), net.mix)
    assert not model.get_parameter("table").requires_grad
    assert torch.equal(pn.compile(graph, reuse=None).get_parameter("table"), net.pos)
    engine = pn.TrainingEngine(graph, (X, torch.randn(2, 128, 4)), loss="MSELoss", epochs=1)
    assert torch.equal(engine.model.get_parameter("table"), net.pos)


def test_a_state_dict_gives_the_rest(tmp_path: Path) -> None:
    path, net = saved(tmp_path)
    model = pn.compile(pn.NodeGraph.load(path), reuse=net.state_dict())
    assert torch.equal(model(X), net(X))


@pytest.mark.filterwarnings("ignore:.*the weights of fc are not there")
def test_a_second_save_keeps_them(tmp_path: Path) -> None:
    path, net = saved(tmp_path)
    (tmp_path / "other").mkdir()
    pn.NodeGraph.load(path).save(tmp_path / "other" / "again.json")
    assert torch.equal(pn.compile(pn.NodeGraph.load(tmp_path / "other" / "again.json")).get_parameter("pos"), net.pos)


def damage(path: Path) -> None:
    content = bytearray(path.read_bytes())
    for last in (-1, -1 - X[0].nbytes):  # of each table
        content[last] ^= 1
    path.write_bytes(bytes(content))


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:100])


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (Path.unlink, "which is not beside the graph file"),
        (damage, "is damaged: its values have another digest than the graph says"),
        (cut, "is damaged: "),
    ],
)
def test_a_missing_or_damaged_file_is_told_at_the_node(spoil: object, said: str, tmp_path: Path) -> None:
    path, _ = saved(tmp_path)
    spoil(tmp_path / "net.pnne.values.safetensors")  # type: ignore[operator]  # a function of a path
    with pytest.raises(
        pn.CompileError, match=rf"(?s)mix.*net\.pnne\.values\.safetensors.*{said}.*reuse=model"
    ) as caught:
        pn.compile(pn.NodeGraph.load(path), reuse=None)
    assert "mix" in [each.node for each in caught.value.diagnostics]


def test_values_that_the_user_has_written_are_his(tmp_path: Path) -> None:
    path, _ = saved(tmp_path)
    graph = pn.NodeGraph.load(path)
    graph.set("mix", init="ones")
    assert bool((pn.compile(graph, reuse=None).get_buffer("mix") == 1).all())


def test_a_graph_without_such_tables_is_one_file(tmp_path: Path) -> None:
    pn.from_module(nn.Linear(3, 4), args=(torch.randn(2, 3),)).save(tmp_path / "net.json")
    assert [each.name for each in tmp_path.iterdir()] == ["net.json"]
