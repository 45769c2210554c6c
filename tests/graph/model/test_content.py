"""The index of a graph: whatever is added, renamed and removed, it says what a list of edges says."""

from __future__ import annotations

from typing import Any

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


@given(pairs, st.integers(0, 6))
def test_edges_follow_a_renamed_node_and_its_place_stays(wanted: Pairs, which: int) -> None:
    graph = built(wanted)
    names = {f"n{which}": "new"}

    def renamed(port: str) -> str:
        name, _, end = port.partition(".")
        return f"{names.get(name, name)}.{end}"

    expected = [Edge(renamed(edge.source), renamed(edge.target)) for edge in graph.edges.values()]
    graph.rename_node(f"n{which}", Node("new", "cat"))
    assert list(graph.edges.values()) == expected
    assert graph.index_of("new") == which
    assert graph.edges_at("new") == [edge for edge in expected if "new" in (edge.source[:3], edge.target[:3])]


def test_the_ports_of_a_graph_follow_its_inputs_and_outputs() -> None:
    graph: Any = GraphIndex("inner")  # its interface is a tuple of another length each time
    assert not any(graph.interface)
    graph.insert_node(Node("x", "Input"))
    graph.insert_node(Node("y", "Output"))
    graph.insert_node(Node("first", "Input"), 0)
    assert graph.interface == (("first", "x"), ("y",))
    graph.rename_node("x", Node("image", "Input"))
    graph.drop_node("first")
    assert graph.interface == (("image",), ("y",))


def test_who_shares_a_module_is_known_until_it_does_not() -> None:
    graph = GraphIndex("")
    graph.insert_node(Node("a", "ReLU"))
    graph.insert_node(Node("b", "ReLU", {"shares": "a"}))
    assert list(graph.sharers) == ["a"]
    graph.replace_node(Node("b", "ReLU"))
    assert not graph.sharers


def test_a_definition_knows_its_users_and_what_it_contains() -> None:
    content = Content("net")
    for id in ("outer", "inner"):
        content.graphs[id] = GraphIndex(id)
    blocks = [
        ("", Node("one", "Subgraph", {"definition": "outer"})),
        ("outer", Node("two", "Subgraph", {"definition": "inner"})),
    ]
    for graph, block in blocks:
        content.graphs[graph].insert_node(block)
        content.use(graph, block)
    assert content.contains("outer", "inner")
    assert content.contains("outer", "outer")
    assert not content.contains("inner", "outer")
    assert [name for _, name in content.users_of("inner")] == ["two"]
    content.unuse("outer", blocks[1][1])
    assert not content.contains("outer", "inner")
    assert content.users_of("inner") == []


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


def test_an_output_that_hangs_on_a_property_is_there_with_it() -> None:
    content = Content("net")
    pool, both = Node("p", "MaxPool2d"), Node("p", "MaxPool2d", {"return_indices": True})
    assert find_output(content, pool, "indices", TYPES) is None
    assert find_output(content, both, "indices", TYPES) is not None


def test_places_of_a_variadic_input_are_addressed_by_number() -> None:
    content, node = Content("net"), Node("all", "cat")
    assert find_input(content, node, "tensors_12", TYPES) is not None
    assert find_input(content, node, "other_12", TYPES) is None


def test_an_unregistered_type_has_whatever_ports_its_edges_say() -> None:
    content, node = Content("net"), Node("odd", "Gone")
    assert input_ports(content, node, TYPES) is None
    assert output_ports(content, node, TYPES) is None
    assert find_input(content, node, "anything", TYPES) is not None
    assert find_output(content, node, "anything", TYPES) is not None
