"""A group takes the room of one card, and gives its nodes their room back."""

from __future__ import annotations

from pnne_nb.graph.document import NodeGraph


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


def test_what_follows_moves_up_to_what_stands_beside() -> None:
    graph = chain((0.0, 120.0))
    graph.add("ReLU", name="beside")
    graph.move("beside", x=300.0, y=300.0)
    graph.group(["b", "c"], name="block")
    assert places(graph) == {"x": (0, 0), "a": (0, 120), "block": (0, 240), "d": (0, 420), "beside": (300, 300)}
    graph.undo()
    graph.move("beside", x=300.0, y=360.0)
    graph.group(["b", "c"], name="block")
    assert graph["d"].position == (0, 480), "one beside the last of them holds the place"


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
    graph.frames.add("beside", box=(400.0, 0.0, 200.0, 300.0))
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
