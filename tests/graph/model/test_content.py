"""The index of a graph: whatever is added, renamed and removed, it says what a list of edges says."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pnne_nb.graph.edits.apply import apply_op
from pnne_nb.graph.model.content import (
    KEYWORDS,
    Content,
    GraphIndex,
    find_input,
    find_output,
    input_ports,
    output_ports,
    topological_order,
)
from pnne_nb.graph.model.node import Edge, Node, split_port
from pnne_nb.graph.model.ops import AddGraph, AddNode
from tests.graph.types import TYPES

Pairs = list[tuple[int, int]]
pairs = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=14, unique=True)


def built(wanted: Pairs) -> GraphIndex:
    graph = GraphIndex("")
    for each in range(7):
        graph.insert_node(Node(f"n{each}", "cat"))
    for place, (source, target) in enumerate(wanted):
        graph.insert_edge(Edge(f"n{source}.output", f"n{target}.tensors_{place}"))
    return graph


@given(pairs)
def test_paths_are_those_of_the_edges(wanted: Pairs) -> None:
    graph = built(wanted)
    closed = {(each, each) for each in range(7)} | set(wanted)
    for middle in range(7):
        closed |= {(a, d) for a, b in closed if b == middle for c, d in closed if c == middle}
    for start in range(7):
        for goal in range(7):
            assert graph.reaches(f"n{start}", f"n{goal}") == ((start, goal) in closed)


@given(pairs)
def test_nodes_on_or_after_a_loop_have_no_place_in_the_order(wanted: Pairs) -> None:
    graph = built(wanted)
    order, stuck = topological_order(graph)
    assert sorted([*order, *stuck]) == sorted(graph.order)
    place = {name: at for at, name in enumerate(order)}
    for edge in graph.edges.values():
        source, target = split_port(edge.source)[0], split_port(edge.target)[0]
        assert target in stuck or place[source] < place[target]
    if all(source < target for source, target in wanted):
        assert not stuck


def test_a_block_has_the_ports_of_its_definition_in_their_order() -> None:
    content = Content("net")
    apply_op(content, AddGraph("inner"))
    for name, type in (("b", "Input"), ("y", "Output"), ("a", "Input")):
        apply_op(content, AddNode(name, type, graph="inner"))
    block = Node("block", "Subgraph", {"definition": "inner"})
    inputs, outputs = input_ports(content, block, TYPES), output_ports(content, block, TYPES)
    assert inputs is not None
    assert outputs is not None
    assert [port.name for port in inputs] == ["b", "a"]
    assert [port.name for port in outputs] == ["y"]
    assert find_input(content, block, "a", TYPES) is not None
    assert find_input(content, block, "y", TYPES) is None
    assert find_output(content, block, "y", TYPES) is not None
    assert input_ports(content, Node("empty", "Subgraph"), TYPES) == ()


def test_a_module_lists_its_ports_and_a_damaged_list_has_what_can_be_read() -> None:
    content = Content("net")
    module = Node("m", "Module", {"inputs": ("x", KEYWORDS, "mask", 3), "outputs": "damaged"})
    inputs = input_ports(content, module, TYPES)
    assert inputs is not None
    assert [port.name for port in inputs] == ["x", "mask"]
    assert output_ports(content, module, TYPES) == ()
    assert find_input(content, module, KEYWORDS, TYPES) is None
    plain = input_ports(content, Node("m", "Module"), TYPES)
    assert plain is not None
    assert [port.name for port in plain] == ["input"]


def test_an_unregistered_type_has_whatever_ports_its_edges_say() -> None:
    content, node = Content("net"), Node("odd", "Gone")
    assert input_ports(content, node, TYPES) is None
    assert output_ports(content, node, TYPES) is None
    assert find_input(content, node, "anything", TYPES) is not None
    assert find_output(content, node, "anything", TYPES) is not None
