"""Members whose names no node can have: the nodes have others, and every key stays that of the original."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import pnne_nb as pn
from pnne_nb.compiler.importing.translation.emit_ops import is_table, without_repeats

X = torch.linspace(-1, 1, 8).reshape(2, 4)


def stage() -> nn.Sequential:
    return nn.Sequential(OrderedDict([("conv-1", nn.Linear(4, 4)), ("lambda", nn.BatchNorm1d(4))]))


class Dashed(nn.Module):
    """Names with a dash or a space, and words of Python, as those of RegNet's blocks and of configurations."""

    def __init__(self) -> None:
        super().__init__()
        for index in range(2):
            self.add_module(f"block1-{index}", stage())
        self.register_buffer("in", torch.full((4,), 2.0))
        self.register_parameter("pos x", nn.Parameter(torch.ones(4)))
        self.heads = nn.ModuleDict({"part-of-speech": nn.Linear(4, 4), "class": nn.Linear(4, 4)})

    def forward(self, x: Tensor) -> Tensor:
        for name, child in self.named_children():
            x = child(x) if name != "heads" else x
        for head in self.heads.values():
            x = head(x) * self.get_buffer("in")
        return x + self._parameters["pos x"]  # type: ignore[operator]  # there is one


class Uncalled(nn.Module):
    """Holds what the graph keeps without a call."""

    def __init__(self) -> None:
        super().__init__()
        self.add_module("not-called", nn.Linear(4, 4))
        self.register_buffer("a-buffer", torch.ones(2))
        self.fc = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.fc(x)
        return found


class ByData(Dashed):
    """Stays opaque, with the blocks that its code calls inside."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) if x.sum() > -100 else x


@pytest.mark.parametrize("kind", [Dashed, Uncalled])
def test_every_key_is_the_originals(kind: type[nn.Module]) -> None:
    net = nn.Sequential(OrderedDict([("trunk-0", kind()), ("trunk-1", kind())]))
    graph = pn.NodeGraph.from_json(pn.from_module(net, X).to_json())
    report = pn.verify(graph, net, X)
    assert report, str(report)
    assert report.opaque == {}
    space: dict[str, type[nn.Module]] = {}
    exec(pn.to_source(graph), space)  # our own
    shown = space["Sequential"]()
    assert list(shown.state_dict()) == list(net.state_dict())
    shown.load_state_dict(net.state_dict())
    assert torch.equal(shown.eval()(X), net.eval()(X))


def test_opaque_modules_hold_such_blocks_open() -> None:
    net = ByData()
    graph = pn.from_module(net, X)
    report = pn.verify(graph, net, X)
    assert report, str(report)
    assert list(report.opaque) == ["module"]
    assert any(node.type == "Linear" for inner in graph.graphs.values() for node in inner.nodes.values())


class Tables(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.positions = nn.Parameter((torch.arange(6.0).view(1, 6, 1) * torch.ones(4)).sin(), requires_grad=False)
        self.mix = nn.Parameter(torch.eye(4))
        self.decay = nn.Parameter(torch.arange(1.0, 5.0).log())
        self.rows = nn.Parameter(torch.arange(1.0, 5.0).log().repeat(5000, 1))
        self.token = nn.Parameter(torch.randn(1, 1, 4))

    def forward(self, x: Tensor) -> Tensor:
        x = self.fc(x + self.positions) @ self.mix
        out: Tensor = x * self.decay.exp() + self.rows[0] + self.token
        return out


FIXED = ("positions", "mix", "decay", "rows")


def imported(net: nn.Module) -> pn.NodeGraph:
    return pn.from_module(net, args=(torch.randn(2, 6, 4),))


def test_tables_are_in_the_source_and_in_a_fresh_model() -> None:
    net = Tables()
    graph = imported(net)
    scope: dict[str, Any] = {}
    source = pn.to_source(graph)
    exec(source, scope)
    read = pn.NodeGraph.from_json(graph.to_json())
    with pytest.warns(UserWarning, match=r"token: The document does not contain the values of this parameter"):
        fresh = pn.compile(read, reuse=None)
    engine = pn.TrainingEngine(graph, (torch.randn(8, 6, 4), torch.randn(8, 6, 4)), loss="MSELoss", device="cpu")
    for model in (scope["Tables"](), fresh, engine.model):
        for name in FIXED:
            assert torch.equal(model.get_parameter(name), net.get_parameter(name)), name
            assert model.get_parameter(name).requires_grad is net.get_parameter(name).requires_grad
            assert model.get_parameter(name).is_contiguous()
    assert "self.mix = nn.Parameter(torch.eye(4))" in source
    assert ".expand((5000, 4)).clone()" in source, "what repeats is written once"
    assert not torch.equal(fresh.get_parameter("token"), net.token), "what was drawn is drawn again"


def test_a_table_that_is_too_large_is_named_and_is_no_noise() -> None:
    class Large(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            angles = torch.arange(200.0).view(200, 1) * torch.linspace(0.01, 1, 100)
            self.table = nn.Parameter(angles.sin(), requires_grad=False)

        def forward(self, x: Tensor) -> Tensor:
            return x @ self.table

    net = Large()
    graph = pn.from_module(net, args=(torch.randn(2, 200),))
    assert torch.equal(pn.compile(graph).get_parameter("table"), net.table)
    graph = pn.NodeGraph.from_json(graph.to_json())
    assert "# shape only: the values are those of the imported module" in pn.to_source(graph)
    with pytest.warns(UserWarning, match=r"the weights of table are not there, because a graph file holds none"):
        model = pn.compile(graph)
    assert not model.get_parameter("table").any()
    assert not model.get_parameter("table").requires_grad
    with pytest.raises(pn.CompileError, match="the weights of table are not there"):
        pn.InferenceEngine(graph, "cpu")


def test_a_graph_whose_values_are_all_in_its_file_lacks_nothing() -> None:
    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.eye(3))

        def forward(self, x: Tensor) -> Tensor:
            return x @ self.scale

    graph = pn.NodeGraph.from_json(pn.from_module(Scaled(), args=(torch.ones(2, 3),)).to_json())
    assert torch.equal(pn.compile(graph)(torch.ones(2, 3)), torch.ones(2, 3))


@pytest.mark.parametrize("seed", range(40))
def test_what_is_drawn_is_no_table(seed: int) -> None:
    torch.manual_seed(seed)
    for shape in ((8,), (1, 1, 16), (4, 4), (3, 5, 7), (64, 64)):
        for tensor in (
            torch.randn(shape),
            torch.rand(shape) * 0.1,
            nn.init.trunc_normal_(torch.empty(shape), std=0.02),
        ):
            assert not is_table(nn.Parameter(tensor)), (shape, tensor)


@pytest.mark.parametrize(
    "values",
    [
        torch.eye(5),
        torch.arange(1.0, 17.0).log(),
        torch.linspace(1, 0, 9),
        torch.hann_window(32),
        torch.ones(4, 4).tril(),
        torch.outer(torch.arange(32.0), torch.logspace(0, -4, 16)).sin(),
        torch.arange(1.0, 9.0).repeat(6, 1),
    ],
)
def test_structure_is_a_table(values: Tensor) -> None:
    assert is_table(nn.Parameter(values))


def test_what_repeats_is_kept_once() -> None:
    rows = torch.arange(3.0).repeat(4, 1)
    assert without_repeats(rows).shape == (1, 3)
    assert torch.equal(without_repeats(rows).expand_as(rows), rows)
    assert without_repeats(torch.eye(3)).shape == (3, 3)
