"""A node that is placed where this machine has nothing: a warning while it is drawn, an error when it is compiled."""

from __future__ import annotations

import pytest

import pnne_nb as pn
from pnne_nb.compiler import IncrementalAnalysis
from pnne_nb.compiler.shapes import scope
from pnne_nb.errors import Fix

WARNING = (
    "It is placed on cuda:1, which this machine does not have; there is cpu. Choose one of these, or None for where its "
    "input is; or compile it on a machine that has it."
)


def chain() -> pn.NodeGraph:
    graph = pn.NodeGraph("net")
    graph.add("Input", name="x", shape=("N", 4))
    graph.add("Linear", name="one", in_features=4, out_features=4)
    graph.add("Linear", name="two", in_features=4, out_features=2)
    graph.add("Output", name="y")
    for source, target in [("x", "one"), ("one", "two"), ("two", "y")]:
        graph.connect(source, target)
    return graph


@pytest.mark.parametrize(("group", "node"), [([], "two"), (["two"], "block.two"), (["two"], "block")])
def test_a_device_that_is_not_here_is_said_at_the_node_until_it_is_another(group: list[str], node: str) -> None:
    graph = chain()
    if group:
        graph.group(group, name="block")
    with IncrementalAnalysis(graph) as analysis:
        assert analysis.refresh().diagnostics == {}
        graph.set(node, device="cuda:1")
        delta = analysis.refresh()
        ((path, (found,)),) = delta.diagnostics.items()
        assert (path, str(found)) == (node, f"{node}: {WARNING}")
        assert found.severity == "warning", "it may be made for another machine"
        assert isinstance(found.fix, Fix)
        assert (found.fix.property, found.fix.value, found.fix.label) == ("device", None, "Set device to None")
        assert analysis.refresh().diagnostics == {}, "it is told once"
        with pytest.raises(pn.CompileError, match="It is placed on cuda:1, which this machine does not have") as error:
            pn.compile(graph)
        assert [(each.code, each.node) for each in error.value.diagnostics] == [("device-missing", node)]
        assert 'to("cuda:1")' in pn.to_source(graph), "which another machine can run"
        graph.set(node, device=None)
        assert analysis.refresh().diagnostics == {node: ()}
        pn.compile(graph)


def test_a_function_that_makes_a_tensor_there_is_told_of_as_well() -> None:
    graph = pn.NodeGraph("net")
    graph.add("zeros", name="made", size=(2, 3), device="cuda:1")
    graph.add("Output", name="y")
    graph.connect("made", "y")
    with IncrementalAnalysis(graph) as analysis:
        assert [str(found) for found in analysis.refresh().diagnostics["made"]] == [f"made: {WARNING}"]


def test_every_node_is_named_and_what_is_there_is_offered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scope, "available_devices", lambda: ["cpu", "cuda:0"])
    for here in ("cpu", "meta", "cuda", "cuda:0"):
        assert scope.missing_device(here) is None
    found = scope.missing_device("cuda:1")
    assert found is not None
    assert "there is cpu, cuda:0." in found.message
    assert found.value == "cuda:0"
    graph = chain()
    graph.set("one", device="cuda:2")
    graph.set("two", device="mps")
    with pytest.raises(pn.CompileError, match=r"has 2 problems:\n  - one: .*cuda:2.*\n  - two: .*mps"):
        pn.compile(graph)
