"""Groups: whatever is grouped and ungrouped again computes what it did, edge by edge."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from pnne_nb.errors import CycleError
from pnne_nb.graph.document import NodeGraph
from pnne_nb.graph.edits.apply import apply_op
from pnne_nb.graph.edits.group_plans import discarding, plan_group, plan_ungroup
from pnne_nb.graph.model.content import Content
from pnne_nb.graph.model.ops import AddGraph, AddNode, Connect


def dag(count: int, pairs: list[tuple[int, int]]) -> Content:
    content = Content("net")
    for each in range(count):
        apply_op(content, AddNode(f"n{each}", "cat", {}, (250.0 * each, 0.0)))
    used = [0] * count
    for source, target in pairs:
        apply_op(content, Connect(f"n{source}.output", f"n{target}.tensors_{used[target]}"))
        used[target] += 1
    return content


@st.composite
def graphs(draw: st.DrawFn) -> tuple[Content, list[str]]:
    count = draw(st.integers(2, 6))
    pairs = list(itertools.combinations(range(count), 2))
    content = dag(count, draw(st.lists(st.sampled_from(pairs), max_size=9)))
    chosen = draw(st.lists(st.integers(0, count - 1), min_size=1, unique=True))
    return content, [f"n{each}" for each in sorted(chosen)]


@given(graphs())
def test_ungrouping_takes_a_group_back(drawn: tuple[Content, list[str]]) -> None:
    content, chosen = drawn
    root = content.graphs[""]
    edges, names = set(root.edges.values()), set(root.nodes)
    try:
        group = plan_group(content, chosen, "block")
    except CycleError:
        return  # a path leaves the group and comes back
    for op in group.ops:
        apply_op(content, op)
    assert set(root.nodes) == names - set(chosen) | {"block"}
    inner = content.graphs["block"]
    assert {name for name, node in inner.nodes.items() if node.type not in ("Input", "Output")} == set(chosen)
    # One port for each value that comes in, one for each that goes out.
    assert len(inner.interface[0]) == len({e.source for e in edges if _crosses(e.target, e.source, chosen)})
    taken = {e.source.partition(".")[0] for e in edges}
    given = {e.source for e in edges if _crosses(e.source, e.target, chosen)}
    assert len(inner.interface[1]) == len(given) + len(set(chosen) - taken), "and one for each result that is open"
    for op in plan_ungroup(content, "block").ops:
        apply_op(content, op)
    assert set(root.edges.values()) == edges
    assert set(root.nodes) == names
    assert list(content.graphs) == [""]
    assert root.nodes["n0"].position == (0.0, 0.0)


def _crosses(inside: str, outside: str, chosen: list[str]) -> bool:
    return inside.partition(".")[0] in chosen and outside.partition(".")[0] not in chosen


def test_a_definition_goes_with_what_only_it_showed() -> None:
    content = Content("net")
    for id in ("deep", "kept", "outer"):
        apply_op(content, AddGraph(id))
    apply_op(content, AddNode("d", "Subgraph", {"definition": "deep"}, graph="outer"))
    apply_op(content, AddNode("k", "Subgraph", {"definition": "kept"}, graph="outer"))
    apply_op(content, AddNode("other", "Subgraph", {"definition": "kept"}))
    for op in discarding(content, "outer"):
        apply_op(content, op)
    assert set(content.graphs) == {"", "kept"}
    assert discarding(content, "kept") == []  # in use


def test_a_fresh_group_is_in_order_inside_and_its_open_results_are_outputs() -> None:
    graph = NodeGraph()
    graph.add("Input", name="x", shape=("N", 8))
    for name in ("a", "b", "c"):
        graph.add("ReLU", name=name)
    graph.connect("x", "a", "b")
    graph.connect("a", "c")
    for place, name in enumerate(("x", "a", "b", "c")):
        graph.move(name, x=100.0 * place, y=150.0 * place)
    graph.group(["a", "b", "c"], name="block")
    inner = graph.graphs["block"].nodes
    assert [node.type for node in inner.values()] == ["Input", "ReLU", "ReLU", "ReLU", "Output", "Output"]
    ys = [node.position[1] for node in inner.values() if node.position is not None]
    assert ys == [10, 150, 300, 450, 590, 590]
    assert [edge.source for edge in graph.graphs["block"].edges if edge.target.startswith("output")] == [
        "b.output",
        "c.output",
    ]
    for name in ("x", "block"):
        graph.move(name, x=0 if name == "x" else 400, y=0)
    graph.ungroup("block")
    assert set(graph.edges) == {("x.output", "a.input"), ("a.output", "b.input"), ("a.output", "c.input")}


def test_where_edges_run_right_inputs_stand_left_and_outputs_right() -> None:
    graph = NodeGraph()
    for name in ("a", "b"):
        graph.add("ReLU", name=name)
    graph.connect("a", "b")
    graph.move("a", x=0, y=0)
    graph.move("b", x=300, y=0)
    graph.add("Input", name="x")
    graph.move("x", x=-300, y=0)
    graph.connect("x", "a")
    graph.group(["a", "b"], name="block")
    places = {node.name: node.position for node in graph.graphs["block"].nodes.values()}
    assert places == {"input": (-220, 0), "a": (0, 0), "b": (300, 0), "output": (520, 0)}


def test_inputs_and_outputs_stand_in_the_order_of_what_they_are_connected_to() -> None:
    graph = NodeGraph()
    for place, name in enumerate(("x", "x2")):
        graph.add("Input", name=name)
        graph.move(name, x=300.0 * place, y=0)
    for place, name in enumerate(("right", "left")):
        graph.add("ReLU", name=name)
        graph.move(name, x=300.0 * (1 - place), y=150)
    graph.connect("x", "left")
    graph.connect("x2", "right")
    graph.group(["right", "left"], name="block")
    inner = graph.graphs["block"]
    xs = {name: node.position[0] for name, node in inner.nodes.items() if node.position is not None}
    assert xs["input2"] < xs["input"]
    assert inner.sources("left") == {"input": "input2.output"}
    assert xs["output2"] < xs["output"]
    assert inner.sources("output2") == {"input": "left.output"}


def test_a_branch_to_the_side_does_not_turn_a_group_that_runs_down() -> None:
    graph = NodeGraph()
    graph.add("Input", name="x")
    for place, name in enumerate(("a", "b", "c", "d")):
        graph.add("ReLU", name=name)
        graph.connect("x" if place == 0 else "abc"[place - 1], name)
        graph.move(name, x=0, y=120.0 * (place + 1))
    graph.move("x", x=0, y=0)
    graph.add("ReLU", name="side")
    graph.connect("b", "side")
    graph.move("side", x=260, y=240)
    graph.group(["b", "c", "side"], name="block")
    inner = graph.graphs["block"].nodes
    ys = [node.position[1] for node in inner.values() if node.position is not None]
    assert ys[0] == min(ys) < 240
    assert inner["output"].position is not None
    assert inner["output"].position[1] > 360


def test_an_unused_output_of_a_module_becomes_an_output_of_the_block() -> None:
    graph = NodeGraph("net")
    graph.add("Module", name="opaque", inputs=("x",), outputs=("scores", "mask"))
    graph.group(["opaque"], name="block")
    assert graph.graphs["block"].edges == (("opaque.scores", "output.input"),)
