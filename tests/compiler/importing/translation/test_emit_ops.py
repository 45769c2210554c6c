"""Members whose names no node can have: the nodes have others, and every key stays that of the original."""

from __future__ import annotations

from collections import OrderedDict

import pytest
import torch
from torch import Tensor, nn

import pnne_nb as pn

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
