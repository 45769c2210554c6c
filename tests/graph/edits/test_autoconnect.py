"""Which ports bare nodes stand for, where a chain goes on, and which edges are between two ends."""

from __future__ import annotations

import pytest

from pnne_nb.errors import GraphError, PortTakenError, UnknownPortError
from pnne_nb.graph.edits.apply import apply_op
from pnne_nb.graph.edits.autoconnect import connection, edges_between, loose_end
from pnne_nb.graph.model.content import Content
from pnne_nb.graph.model.node import Edge
from pnne_nb.graph.model.ops import AddGraph, AddNode, Connect
from tests.graph.types import TYPES


def content(*nodes: tuple[str, str], edges: tuple[tuple[str, str], ...] = ()) -> Content:
    made = Content("net")
    for name, type in nodes:
        apply_op(made, AddNode(name, type))
    for source, target in edges:
        apply_op(made, Connect(source, target))
    return made


def test_the_first_free_input_is_taken_and_a_full_node_says_by_what() -> None:
    made = content(("x", "Input"), ("sum", "add"))
    assert connection(made, "x", "sum", TYPES) == Connect("x.output", "sum.input")
    apply_op(made, Connect("x.output", "sum.input"))
    assert connection(made, "x", "sum", TYPES) == Connect("x.output", "sum.other")
    apply_op(made, Connect("x.output", "sum.other"))
    with pytest.raises(
        PortTakenError, match=r"Every input of sum is fed already: sum\.input by x\.output, sum\.other by"
    ):
        connection(made, "x", "sum", TYPES)


def test_a_variadic_input_is_never_full_and_ports_that_fit_are_preferred() -> None:
    made = content(("x", "Input"), ("all", "cat"), ("data", "Digits"), ("load", "Loader"))
    for place in range(3):
        assert connection(made, "x", "all", TYPES) == Connect("x.output", "all.tensors")
        apply_op(made, Connect("x.output", f"all.tensors_{place}"))
    assert connection(made, "data", "load", TYPES) == Connect("data.output", "load.dataset")
    assert connection(made, "x.output", "load.sampler", TYPES) == Connect("x.output", "load.sampler")


def test_nodes_without_ports_and_of_different_graphs_say_so() -> None:
    made = content(("x", "Input"), ("y", "Output"))
    with pytest.raises(UnknownPortError, match=r"y \(Output\) has no outputs\."):
        connection(made, "y", "x", TYPES)
    apply_op(made, AddGraph("inner"))
    apply_op(made, AddNode("act", "ReLU", graph="inner"))
    apply_op(made, AddNode("block", "Subgraph", {"definition": "inner"}))
    with pytest.raises(GraphError, match=r"x and block\.act are in different graphs"):
        connection(made, "x", "block.act", TYPES)


def test_a_chain_goes_on_at_the_one_loose_end() -> None:
    assert loose_end(content(("y", "Output")), TYPES) is None
    made = content(("x", "Input"), ("a", "ReLU"), edges=(("x.output", "a.input"),))
    found = loose_end(made, TYPES)
    assert found is not None
    assert found.name == "a"
    apply_op(made, AddNode("b", "ReLU"))
    with pytest.raises(GraphError, match=r'the outputs of a, b lead nowhere: name the node, .*after="b"'):
        loose_end(made, TYPES)


def test_edges_between_nodes_are_all_of_them_and_between_ports_one() -> None:
    edges = (("x.output", "sum.input"), ("x.output", "sum.other"))
    made = content(("x", "Input"), ("sum", "add"), edges=edges)
    assert edges_between(made, "x", "sum")[1] == [Edge(*edge) for edge in edges]
    assert edges_between(made, "x", "sum.other")[1] == [Edge(*edges[1])]
    with pytest.raises(UnknownPortError, match=r"There is no edge from sum to x\."):
        edges_between(made, "sum", "x")
