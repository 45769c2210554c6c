"""A group takes the room of one card, and gives its nodes their room back."""

from __future__ import annotations

from contextlib import suppress
from itertools import combinations
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from pnne_nb.errors import CycleError
from pnne_nb.graph.document import NodeGraph
from pnne_nb.graph.edits.gaps import areas
from pnne_nb.graph.layout.arrange_graph import View
from pnne_nb.graph.layout.inlining import inlining
from pnne_nb.graph.layout.layered import Direction


def chain(step: tuple[float, float]) -> NodeGraph:
    graph = NodeGraph("chain")
    graph.add("Input", name="x", shape=("N", 8))
    last = "x"
    for place, name in enumerate(("a", "b", "c", "d"), 1):
        graph.add("ReLU", name=name)
        graph.connect(last, name)
        graph.move(name, x=step[0] * place, y=step[1] * place)
        last = name
    graph.move("x", x=0.0, y=0.0)
    return graph


def places(graph: NodeGraph) -> dict[str, tuple[float, float] | None]:
    return {name: node.position for name, node in graph.nodes.items()}


def overlapping(graph: NodeGraph, *, across: bool = False) -> set[tuple[str, str]]:
    """Return the pairs of cards of the root that overlap."""
    with graph.reading():
        cards = areas(graph._content, graph._content.graphs[""], across=across)
    shown = {name: card for name, card in cards.items() if name not in inlining(graph._content.graphs[""]).hidden}
    return {(one, other) for one, other in combinations(shown, 2) if shown[one].covers(shown[other])}


def test_grouping_closes_the_gap_and_ungrouping_opens_it_again() -> None:
    for step in ((0.0, 120.0), (250.0, 0.0)):
        graph = chain(step)
        before = places(graph)
        graph.group(["b", "c"], name="block")
        assert graph["block"].position == before["b"]
        assert graph["d"].position == before["c"], "what follows has moved up"
        assert graph["a"].position == before["a"]
        graph.ungroup("block")
        assert places(graph) == before
        graph.undo()
        graph.undo()
        assert places(graph) == before, "each is one step"


def test_what_follows_moves_up_to_what_stands_beside_in_its_column() -> None:
    graph = chain((0.0, 120.0))
    graph.add("ReLU", name="wide")  # overlaps the nodes across, and stands beside none of them
    graph.move("wide", x=150.0, y=300.0)
    graph.add("ReLU", name="beside")
    graph.move("beside", x=400.0, y=300.0)
    before = places(graph)
    graph.group(["b", "c"], name="block")
    assert graph["block"].position == before["b"]
    assert graph["d"].position == (0.0, 420.0), "it keeps its distance from what ends last"
    assert graph["wide"].position == before["wide"]
    assert graph["beside"].position == before["beside"]


def test_a_hole_in_one_column_moves_no_other() -> None:
    graph = chain((0.0, 120.0))
    for name, x, y in (("e", 300.0, 0.0), ("f", 300.0, 500.0)):
        graph.add("ReLU", name=name)
        graph.move(name, x=x, y=y)
    before = places(graph)
    graph.group(["b", "c"], name="block")
    assert graph["d"].position == before["c"]
    assert {name: graph[name].position for name in "ef"} == {name: before[name] for name in "ef"}
    graph.ungroup("block")
    assert places(graph) == before
    graph.group(["d", "e"], name="both")
    assert graph["f"].position == (300.0, 0.0), "each column that the nodes leave closes its hole"
    assert graph["c"].position == before["c"]


@given(
    seed=st.integers(0, 10_000),
    direction=st.sampled_from(("down", "right", "columns", "auto")),
    cell=st.sampled_from(((680.0, 480.0), (1200.0, 400.0))),
)
@settings(deadline=None, max_examples=40)
def test_no_card_is_over_another_after_any_group_and_ungroup(
    seed: int, direction: Direction, cell: tuple[float, float]
) -> None:
    random = Random(seed)
    graph = tangle(random)
    graph.arrange(direction=direction, view=View(cell))
    for _ in range(6):
        blocks = [name for name, node in graph.nodes.items() if node.type == "Subgraph"]
        if blocks and random.random() < 0.4:
            graph.ungroup(random.choice(blocks))
        else:
            inner = [name for name, node in graph.nodes.items() if node.type != "Input"]
            start = random.randrange(len(inner))
            chosen = inner[start : start + random.randint(1, 5)]
            with suppress(CycleError):
                graph.group(chosen if random.random() < 0.7 else random.sample(inner, min(3, len(inner))))
        assert not overlapping(graph, across=direction == "right")


def tangle(random: Random) -> NodeGraph:
    """Return a graph of layers, sums and concatenations of what came shortly before."""
    graph = NodeGraph("tangle")
    graph.add("Input", name="n0", shape=("N", 8))
    for number in range(1, random.randint(4, 30)):
        name = f"n{number}"
        near = [f"n{random.randint(max(0, number - 4), number - 1)}" for _ in range(6)]
        match random.choice(("Linear", "ReLU", "add", "cat")):
            case "Linear":
                graph.add("Linear", name=name, in_features=8, out_features=8, bias=random.random() < 0.5)
                graph.connect(near[0], name)
            case "ReLU":
                graph.add("ReLU", name=name)
                graph.connect(near[0], name)
            case "add":
                graph.add("add", name=name)
                graph.connect(f"{near[0]}.output", f"{name}.input")
                graph.connect(f"{near[1]}.output", f"{name}.other")
            case "cat":
                graph.add("cat", name=name)
                for port, source in enumerate(near[: random.randint(1, 6)]):
                    graph.connect(f"{source}.output", f"{name}.tensors_{port}")
    return graph


def test_frames_beyond_the_gap_move_and_those_around_it_shrink() -> None:
    for step, along in (((0.0, 120.0), 1), ((250.0, 0.0), 0)):
        graph = chain(step)
        graph.frames.add("both", around=["b", "c"], name="inside")
        graph.frames.add("three", around=["a", "b", "c"], name="around")
        graph.frames.add("last", around=["d"], name="beyond")
        before = places(graph)
        boxes = {name: frame.box for name, frame in graph.frames.items()}
        moved = step[along]
        graph.group(["b", "c"], name="block")
        assert graph["d"].position == before["c"]
        assert "inside" not in graph.frames, "it has gone into the block"
        for name, part in (("around", 2 + along), ("beyond", along)):
            expected = [*boxes[name]]
            expected[part] -= moved
            assert graph.frames[name].box == tuple(expected)
        graph.ungroup("block")
        assert places(graph) == before
        assert {name: graph.frames[name].box for name in ("around", "beyond")} == {
            name: boxes[name] for name in ("around", "beyond")
        }


def test_a_frame_that_begins_or_ends_in_the_gap_keeps_it() -> None:
    graph = chain((0.0, 120.0))
    graph.frames.add("beside", box=(60.0, 0.0, 200.0, 300.0))
    before = places(graph)
    graph.group(["b", "c"], name="block")
    assert graph["d"].position == before["d"]


def test_nodes_without_a_place_leave_no_gap() -> None:
    graph = NodeGraph("new")
    graph.add("Input", name="x", shape=("N", 8))
    graph.add("ReLU", name="a")
    graph.connect("x", "a")
    graph.group("a", name="block")
    assert graph["block"].position is None
    assert [node.name for node in graph.ungroup("block")] == ["a"]
