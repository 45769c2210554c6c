from __future__ import annotations

import pytest
import torch

import pnne_nb as pn
from pnne_nb.compiler import affording
from pnne_nb.compiler.machine import Memory
from tests.compiler.graphs import lenet, wire

MILLION = 10**6


def wide(device: str | None = None) -> pn.NodeGraph:
    """A graph whose weights no machine holds."""
    graph = pn.NodeGraph("wide")
    graph.add("Input", "x", shape=("N", MILLION))
    graph.add("Linear", "small", in_features=MILLION, out_features=8)
    graph.add("Linear", "huge", in_features=MILLION, out_features=MILLION, device=device)
    graph.add("Output", "y")
    graph.add("Output", "z")
    return wire(graph, "x small z", "x huge y")


def test_what_does_not_fit_is_refused_before_it_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(affording, "memory", lambda: Memory(3 * 2**30, 3 * 2**30))
    with pytest.raises(
        pn.CompileError,
        match=r"huge: Its weights take 3\.6 TiB, those of the whole model 3\.6 TiB, and 3\.0 GiB of memory are free"
        r"\. Make it smaller, or look at it without weights: .* with torch\.device\('meta'\)",
    ) as caught:
        pn.compile(wide())
    assert [(found.code, found.node) for found in caught.value.diagnostics] == [("too-large", "huge")]


def test_a_node_inside_is_named_by_its_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(affording, "memory", lambda: Memory(2**20, 2**20))
    graph = wide()
    graph.group(["huge"], "block")
    with pytest.raises(pn.CompileError, match=r"^block\.huge: Its weights"):
        pn.compile(graph)


def test_every_use_of_a_definition_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = pn.NodeGraph("twice")
    graph.add("Input", "x", shape=("N", 1024))
    graph.add("Linear", "fc", in_features=1024, out_features=1024, bias=False)
    graph.add("Output", "y")
    wire(graph, "x fc y")
    inner = graph.group(["fc"], "one")
    graph.add("Subgraph", "two", definition=inner.definition)
    wire(graph, "x two")
    graph.add("Output", "z")
    wire(graph, "two z")
    monkeypatch.setattr(affording, "HARMLESS", 0)
    monkeypatch.setattr(affording, "memory", lambda: Memory(9 * 2**20, 9 * 2**20))
    assert pn.compile(graph)(torch.ones(1, 1024))[1].shape == (1, 1024)
    monkeypatch.setattr(affording, "memory", lambda: Memory(7 * 2**20, 7 * 2**20))
    with pytest.raises(pn.CompileError, match=r"one\.fc: Its weights take 4\.0 MiB, those of the whole model 8\.0 MiB"):
        pn.compile(graph)


def test_what_takes_no_memory_is_let_through() -> None:
    with torch.device("meta"):
        model = pn.compile(wide())
    assert model.get_parameter("huge.weight").shape == (MILLION, MILLION)
    assert pn.compile(wide("meta")).get_parameter("huge.weight").device.type == "meta"


def test_small_models_are_not_made_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(affording, "memory", lambda: pytest.fail("nobody needs to ask"))
    pn.compile(lenet())
