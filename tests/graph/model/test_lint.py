"""What lint finds, where, and what it says to do."""

from __future__ import annotations

import json

import pytest

from pnne_nb.graph.document import NodeGraph
from pnne_nb.graph.model import lint
from tests.graph.types import TYPES


def codes(graph: NodeGraph) -> set[tuple[str, str | None, str | None]]:
    return {(finding.code, finding.node, finding.port) for finding in graph.diagnostics()}


def read(nodes: list[dict[str, object]], edges: list[tuple[str, str]] = []) -> NodeGraph:  # noqa: B006  # not written to
    root = {"nodes": nodes, "edges": [{"source": source, "target": target} for source, target in edges]}
    data = {"format": "pnne-graph", "formatVersion": 1, "name": "net", "graphs": {"": root}}
    return NodeGraph.from_json(json.dumps(data), types=TYPES)


def test_an_empty_graph_lacks_input_and_output() -> None:
    findings = NodeGraph(types=TYPES).diagnostics()
    assert [finding.code for finding in findings] == ["no-input", "no-output"]
    assert str(findings[0]) == (
        "The graph has no input, so nothing can be fed to it. Add an Input node and connect it to the first layer."
    )


def test_a_training_graph_needs_neither() -> None:
    graph = NodeGraph(types=TYPES)
    graph.add("Digits", name="data")
    graph.add("Loader", name="loader")
    assert codes(graph) == {("unconnected-input", "loader", "dataset")}
    graph.connect("data", "loader")
    assert codes(graph) == set()


def test_what_is_missing_is_named_at_its_place() -> None:
    graph = NodeGraph(types=TYPES)
    for type, name in (("Input", "x"), ("Conv2d", "conv1"), ("cat", "all"), ("Subgraph", "block"), ("Output", "y")):
        graph.add(type, name=name)
    assert codes(graph) == {
        ("missing-property", "conv1", None),
        ("unconnected-input", "conv1", "input"),
        ("unconnected-input", "all", "tensors"),
        ("missing-property", "block", None),
        ("unconnected-input", "y", "input"),
    }
    messages = [str(finding) for finding in graph.diagnostics() if finding.node == "conv1"]
    assert messages[0] == "conv1: in_channels is not set, and has no default. Set in_channels."
    assert messages[-1] == "conv1.input: Input is not connected. Connect an output to it."


def test_findings_inside_definitions_are_shown_at_every_use() -> None:
    graph = NodeGraph(types=TYPES)
    graph.add("Input", name="x")
    graph.add("ReLU", name="relu1")
    graph.group(["relu1"], "one")
    graph.remove("one.output")
    graph.add("Subgraph", name="two", definition="one")
    nested = {(code, node) for code, node, _ in codes(graph) if node}
    assert nested == {
        ("no-output", "one"), ("no-output", "two"),
        ("unconnected-input", "one.relu1"), ("unconnected-input", "two.relu1"),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("node", "code", "message"),
    [
        ({"type": "Relu"}, "unknown-type", "There is no node type 'Relu'. Did you mean 'ReLU'?"),
        ({"type": "ReLU", "properties": {"inplace": True}}, "unknown-property", "ReLU has no property 'inplace'."),
        (
            {"type": "Linear", "properties": {"in_features": 0}},
            "bad-value",
            "in_features cannot be 0: it must be a whole",
        ),
        (
            {"type": "ReLU", "properties": {"shares": "gone"}},
            "bad-sharing",
            "shares cannot be 'gone': there is no such node",
        ),
        ({"type": "ReLU", "properties": {"shares": "x"}}, "bad-sharing", "that is a Input, and only another ReLU"),
    ],
)
def test_what_a_file_may_bring(node: dict[str, object], code: str, message: str) -> None:
    graph = read([{"name": "x", "type": "Input"}, {"name": "n", **node}])
    found = [finding for finding in graph.diagnostics() if finding.node == "n" and finding.code == code]
    assert len(found) == 1
    assert found[0].message.startswith(message) or message in found[0].message
    assert found[0].hint


def test_edges_that_do_not_fit() -> None:
    nodes: list[dict[str, object]] = [
        {"name": "d", "type": "Digits"},
        {"name": "r", "type": "ReLU"},
        {"name": "s", "type": "ReLU"},
    ]
    graph = read(nodes, [("d.output", "r.input"), ("r.out", "s.input"), ("r.output", "s.other")])
    messages = [finding.message for finding in graph.diagnostics() if finding.code == "bad-edge"]
    assert messages == [
        "input takes a tensor, and d.output gives a dataset.",
        "r (ReLU) has no output 'out', which input is connected to.",
        "ReLU has no input 'other', which r.output is connected to.",
    ]


def test_a_shared_module_needs_no_properties_of_its_own() -> None:
    graph = NodeGraph(types=TYPES)
    graph.add("Linear", name="a", in_features=1, out_features=1)
    graph.add("Linear", name="b", shares="a")
    assert "missing-property" not in {code for code, _, _ in codes(graph)}


def test_findings_about_endless_names_are_short() -> None:
    endless = "x" * 1_000_000
    nodes: list[dict[str, object]] = [
        {"name": "a", "type": endless},
        {"name": "b", "type": "ReLU", "properties": {endless: 1}},
        {"name": "c", "type": "ReLU"},
    ]
    graph = read(nodes, [("b." + endless, "c.input")])
    assert {"unknown-type", "unknown-property", "bad-edge"} <= {finding.code for finding in graph.diagnostics()}
    assert all(len(str(finding)) < 500 for finding in graph.diagnostics())


def test_too_many_uses_of_definitions(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = NodeGraph(types=TYPES)
    graph.add("ReLU", name="relu1")
    graph.group(["relu1"], "block")
    monkeypatch.setattr(lint, "MAX_NODES", 1)
    assert [finding.code for finding in graph.diagnostics()] == ["too-large"]
