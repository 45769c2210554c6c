"""Numbered modules are indexed, sliced and gone through, in the compiled model and in its source."""

from __future__ import annotations

import copy
import pickle
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import pnne_nb as pn
from pnne_nb.process.random_state import preserved_random_state
from tests.compiler.graphs import wire


class Odd(nn.Module):
    """Stays as it is."""

    def forward(self, x: Tensor) -> Tensor:
        return x if x.sum() < 1e9 else -x


class Skipping(nn.ModuleList):
    """A list that calls what it holds."""

    def forward(self, x: Tensor) -> Tensor:
        for layer in self:
            x = x + layer(x)
        return x


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Sequential(nn.Linear(4, 4), nn.Sequential(nn.ReLU(), nn.Linear(4, 4)), nn.Tanh())
        self.odd = nn.Sequential(nn.Linear(4, 4), Odd(), nn.Sigmoid())
        self.skipping = Skipping([nn.Linear(4, 4) for _ in range(3)])
        self.heads = nn.ModuleList([nn.Linear(4, 2), nn.Linear(4, 2)])

    def forward(self, x: Tensor) -> Tensor:
        x = self.skipping(self.odd(self.layer(x)))
        out: Tensor = self.heads[0](x) + self.heads[1](x)
        return out


def inputs() -> Tensor:
    return torch.randn(3, 4, generator=torch.Generator().manual_seed(1))


def compiled() -> tuple[Any, Any]:
    torch.manual_seed(0)
    net = Net().eval()
    return net, pn.compile(pn.from_module(net, inputs()), reuse=net)


def written(tmp_path: Path) -> tuple[Any, Any]:
    torch.manual_seed(0)
    net = Net().eval()
    space: dict[str, Any] = {}
    text = pn.to_source(pn.from_module(net, inputs()))
    exec(compile(text, str(tmp_path / "net.py"), "exec"), space)  # our own text
    made = space["Net"](Odd()).eval()
    made.load_state_dict(net.state_dict())
    return net, made


@pytest.mark.parametrize("source", [False, True])
def test_containers_are_read_as_in_the_original(source: bool, tmp_path: Path) -> None:
    net, made = written(tmp_path) if source else compiled()
    x = inputs()
    for name in ("layer", "odd", "skipping", "heads"):
        mine, theirs = getattr(net, name), getattr(made, name)
        assert len(theirs) == len(mine)
        assert list(theirs) == list(theirs.children())
        for index in (0, 1, -1):
            assert theirs[index] is list(theirs)[index]
            assert torch.equal(theirs[index](x), mine[index](x))
        with pytest.raises(IndexError):
            theirs[len(mine)]
    assert torch.equal(made.layer[1][1](x), net.layer[1][1](x))
    assert torch.equal(made(x), net(x))
    made.layer[2] = nn.Identity()
    net.layer[2] = nn.Identity()
    assert torch.equal(made(x), net(x))


def test_slices_are_what_those_of_the_original_are() -> None:
    net, made = compiled()
    x = inputs()
    for part in (slice(1, None), slice(-1), slice(None, None, 2), slice(0)):
        chain = made.layer[part]
        assert type(chain) is nn.Sequential
        assert torch.equal(chain(x), net.layer[part](x))
        assert list(made.skipping[part]) == list(made.skipping)[part]
        assert type(made.skipping[part]) is nn.ModuleList
    made.layer[1:][0][1].weight.data.zero_()  # it is the same layer
    assert not made.layer[1][1].weight.any()


def test_the_whole_model_can_be_indexed_too(tmp_path: Path) -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 4), nn.Sequential(nn.ReLU(), nn.Linear(4, 4)))
    graph = pn.from_module(net, inputs())
    made: Any = pn.compile(graph, reuse=net)
    for model in (made, copy.deepcopy(made), pickle.loads(pickle.dumps(made))):
        assert len(model) == 2
        assert torch.equal(model[0](inputs()), net[0](inputs()))
        assert torch.equal(model[1:](inputs()), net[1:](inputs()))
    text = pn.to_source(graph)
    assert "class Sequential(nn.Sequential):" in text
    space: dict[str, Any] = {}
    exec(compile(text, str(tmp_path / "net.py"), "exec"), space)  # our own text
    assert list(space["Sequential"]()[1].state_dict()) == list(net[1].state_dict())


def test_source_keeps_the_name_of_the_argument_and_what_is_tied(tmp_path: Path) -> None:
    graph = pn.NodeGraph("Two")
    graph.add("Input", "x", shape=("N", 4))
    graph.add("Linear", "0", in_features=4, out_features=4)
    graph.add("Linear", "1", in_features=4, out_features=4)
    graph.add("Output", "y")
    wire(graph, "x 0 1 y")
    assert "def forward(self, x: torch.Tensor)" in pn.to_source(graph)
    net = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    net[1].weight = net[0].weight
    space: dict[str, Any] = {}
    text = pn.to_source(pn.from_module(net, inputs()))
    exec(compile(text, str(tmp_path / "net.py"), "exec"), space)  # our own text
    made = space["Sequential"]()
    assert made.get_parameter("1.weight") is made.get_parameter("0.weight")


def test_other_modules_are_no_containers() -> None:
    _, made = compiled()
    with pytest.raises(TypeError, match="not subscriptable"):
        made[0]
    with pytest.raises(AttributeError):
        made.layer.append(nn.ReLU())  # it would never be called


class Slicing(nn.Module):
    """Keeps its own code, which slices a list of layers in the document in a branch that the example does not take."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4)])

    def forward(self, x: Tensor) -> Tensor:
        if x.sum() > 1e9:
            for layer in self.layers[:-1]:
                x = layer(x)
        return x


def test_code_that_stays_slices_a_list_of_the_document() -> None:
    net, x = Slicing(), torch.full((3, 4), 1e9)
    model = pn.compile(pn.from_module(net, torch.randn(3, 4)), reuse=net)
    assert torch.equal(model(x), net(x))


def drawn() -> tuple[float, float, float]:
    return torch.rand(()).item(), random.random(), float(np.random.rand())  # noqa: NPY002  what constructors draw with


class Features(nn.Module):
    """Draws a buffer, with three generators."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.scale: Tensor
        self.register_buffer("scale", torch.randn(4) * random.random() + float(np.random.rand()))  # noqa: NPY002

    def forward(self, x: Tensor) -> Tensor:
        scaled: Tensor = self.linear(x) * self.scale
        return scaled


def recurrent() -> tuple[pn.NodeGraph, nn.Module]:
    graph = pn.sequential(nn.Linear(4, 8), nn.LSTM(8, 5, batch_first=True), input=("N", 3, 4))
    return graph, pn.compile(graph)


def imported() -> tuple[pn.NodeGraph, nn.Module]:
    net = nn.Sequential(Features(), nn.BatchNorm1d(4), nn.Sequential(Odd(), nn.Linear(4, 4)))
    return pn.from_module(net, inputs()), net


def grouped_and_renamed() -> tuple[pn.NodeGraph, nn.Module]:
    graph = pn.sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.Linear(4, 4), input=("N", 4))
    graph.group(["linear1", "dropout1"], name="block")
    model = pn.compile(graph)
    graph.rename("block", "first")
    return graph, model


@pytest.mark.parametrize("case", [recurrent, imported, grouped_and_renamed])
def test_weights_that_all_come_from_another_model_are_not_drawn(
    case: Callable[[], tuple[pn.NodeGraph, nn.Module]],
) -> None:
    graph, model = case()
    with preserved_random_state():
        expected = drawn()
    with preserved_random_state():
        pn.compile(graph, reuse=model)
        assert drawn() == expected


@pytest.mark.parametrize("edit", ["a new layer", "a wider layer"])
def test_a_layer_that_is_fresh_draws_and_no_two_draw_the_same(edit: str) -> None:
    graph = pn.sequential(nn.Linear(4, 8), input=("N", 4))
    model = pn.compile(graph)
    if edit == "a new layer":
        graph.add("Linear", "fresh", in_features=8, out_features=8)
        graph.disconnect("linear1", "y")
        graph.connect("linear1", "fresh", "y")
    else:
        graph.set("linear1", out_features=16)
    one, other = (pn.compile(graph, reuse=model).state_dict() for _ in range(2))
    name = "fresh.weight" if edit == "a new layer" else "linear1.weight"
    assert torch.equal(one["linear1.weight"][:8], other["linear1.weight"][:8])
    assert not torch.equal(one[name], other[name])
    first, second = (seeded(graph, model)[name] for _ in range(2))
    assert torch.equal(first, second)


def seeded(graph: pn.NodeGraph, model: nn.Module) -> dict[str, Tensor]:
    torch.manual_seed(3)
    return pn.compile(graph, reuse=model).state_dict()
