from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import pnne_nb as pn


def drawn() -> pn.NodeGraph:
    graph = pn.NodeGraph("net")
    graph.add("Input", name="x", shape=("N", 1, 8, 8))
    graph.add("Conv2d", name="conv", in_channels=1, out_channels=4, kernel_size=3)
    graph.add("ReLU", name="relu")
    graph.add("Flatten", name="flat")
    graph.add("Linear", name="fc", in_features=144, out_features=3)
    graph.add("Output", name="y")
    graph.connect("x", "conv", "relu", "flat", "fc", "y")
    graph.group(["conv", "relu"], name="block")
    return graph


KEPT: dict[str, tuple[str, Any]] = {
    "channels": ("block.conv", pn.zero(channels=[1, 3])),
    "units": ("block.relu", pn.scale(0.5, units=[(0, 1, 2), (3, 0, 0)])),
    "features": ("fc", pn.scale(-2, channels=0)),
    "everything": ("fc", pn.scale(3)),
    "two": ("block.conv", [pn.zero(channels=0), pn.scale(2, channels=1)]),
    "a pattern": ("block.c*", pn.zero(channels=2)),
}


@pytest.mark.parametrize("name", KEPT)
def test_what_is_kept_does_what_the_intervention_did(name: str) -> None:
    path, change = KEPT[name]
    graph, x = drawn(), torch.randn(2, 1, 8, 8)
    net = pn.compile(graph)
    with pn.intervene(net, {path: change}):
        expected = net(x)
    before = graph.to_json()
    version = graph.version
    pn.keep(graph, {path: change})
    again = pn.compile(graph, reuse=net)
    torch.testing.assert_close(again(x), expected)
    assert not torch.equal(again(x), net(x))
    assert list(again.state_dict()) == list(net.state_dict())
    graph.undo()
    assert graph.to_json() == before
    assert graph.version > version


def test_the_rows_of_an_intervention_that_are_on_are_kept() -> None:
    graph, x = drawn(), torch.randn(2, 1, 8, 8)
    net = pn.compile(graph)
    with pn.intervene(
        net, {"block.conv": [pn.zero(channels=0), pn.scale(2, channels=1)], "fc": pn.scale(3)}
    ) as what_if:
        what_if.rows[2].on = False
        expected = net(x)
    pn.keep(graph, what_if)
    torch.testing.assert_close(pn.compile(graph, reuse=net)(x), expected)


def test_what_is_kept_trains_exports_and_stands_in_the_source(tmp_path: Path) -> None:
    graph, x = drawn(), torch.randn(4, 1, 8, 8)
    [node] = pn.keep(graph, {"block.conv": pn.zero(channels=[1])})
    assert node.path == "block.mul1"
    assert "self.conv(input) * self.mul1_mask" in pn.to_source(graph)
    net = pn.compile(graph)
    net(x).sum().backward()
    conv = net.get_submodule("block.conv")
    assert isinstance(conv, nn.Conv2d)
    assert conv.weight.grad is not None
    assert conv.weight.grad[1].abs().max() == 0
    assert pn.export(graph, tmp_path / "net.pt2", data=x).ok
    copy = pn.NodeGraph.from_json(graph.to_json())
    torch.testing.assert_close(pn.compile(copy, reuse=net)(x), net(x))


BAD: dict[str, tuple[Callable[[], object], str]] = {
    "another change": (lambda: pn.keep(drawn(), {"fc": pn.mean()}), "mean cannot be kept in a graph: what can is pn.zero"),
    "heads": (lambda: pn.keep(drawn(), {"fc": pn.zero(heads=0, of=2)}), "zero head 0 cannot be kept"),
    "no such channel": (
        lambda: pn.keep(drawn(), {"block.conv": pn.zero(channels=4)}), "'block.conv' has no channel 4: its channels are 0 to 3"
    ),
    "no such node": (lambda: pn.keep(drawn(), {"block.covn": pn.zero()}), "Did you mean 'conv"),
    "no graph": (lambda: pn.keep(nn.Linear(1, 1), {"fc": pn.zero()}), "graph must be a NodeGraph"),  # type: ignore[arg-type]
    "no mapping": (lambda: pn.keep(drawn(), pn.zero()), "changes must be a mapping of nodes"),  # type: ignore[arg-type]
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_what_does_not_work_is_explained(name: str) -> None:
    call, message = BAD[name]
    with pytest.raises(pn.PnneError, match=message):
        call()


def test_a_refused_change_leaves_the_graph_as_it_was() -> None:
    graph = drawn()
    before = graph.to_json()
    with pytest.raises(pn.InspectionError):
        pn.keep(graph, {"fc": pn.zero(channels=1), "block.conv": pn.zero(channels=9)})
    assert graph.to_json() == before
