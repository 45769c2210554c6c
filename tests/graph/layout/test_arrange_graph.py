"""Arranging a document: one undoable change, straight paths, nested graphs, unregistered types."""

from __future__ import annotations

import pytest

from pnne_nb.errors import GraphError
from pnne_nb.graph.document import NodeGraph
from pnne_nb.graph.layout.arrange_graph import GAP_RIGHT, View
from pnne_nb.graph.layout.geometry import HEADER_HEIGHT, SUMMARY_HEIGHT, WIDTH
from pnne_nb.graph.layout.layered import RANK_GAP
from pnne_nb.graph.model.ops import MoveNode
from pnne_nb.graph.schema.registry import Registry
from pnne_nb.graph.schema.spec import NodeSpec, Port
from pnne_nb.graph.schema.structural import STRUCTURAL


def small_registry() -> Registry:
    types = Registry()
    types.provide(lambda: STRUCTURAL)
    out = (Port("output"),)
    types.register(NodeSpec("ReLU", "Activation", "module", inputs=(Port("input"),), outputs=out))
    types.register(NodeSpec("add", "Math", "function", inputs=(Port("input"), Port("other")), outputs=out))
    return types


@pytest.fixture
def graph() -> NodeGraph:
    graph = NodeGraph("residual", types=small_registry())
    graph.add("Input", name="x", shape=("N", 4))
    graph.add("ReLU", name="relu")
    graph.add("add", name="sum")
    graph.add("Output", name="y")
    graph.connect("x", "relu")
    graph.connect("relu", "sum.input")
    graph.connect("x", "sum.other")
    graph.connect("sum", "y")
    return graph


def test_arranging_is_one_undoable_change(graph: NodeGraph) -> None:
    before, version = graph.to_json(), graph.version
    transaction = graph.arrange()
    assert graph.version == version + 1
    assert transaction.label == "Arrange"
    assert all(isinstance(op, MoveNode) for op in transaction.ops)
    graph.undo()
    assert graph.to_json() == before


def test_edges_run_down_and_the_main_path_is_straight(graph: NodeGraph) -> None:
    graph.arrange()
    places = {name: graph[name].position for name in graph}
    ys = [place[1] for place in places.values() if place is not None]
    assert ys == sorted(ys)
    assert ys[1] - ys[0] == HEADER_HEIGHT + SUMMARY_HEIGHT / 2 + RANK_GAP
    assert places["x"] is not None
    assert places["relu"] is not None
    assert places["x"][0] == places["relu"][0]


def test_what_stands_well_is_not_changed(graph: NodeGraph) -> None:
    graph.arrange()
    version = graph.version
    assert graph.arrange().ops == ()
    assert graph.version == version


def test_a_nested_graph_is_arranged_by_itself(graph: NodeGraph) -> None:
    graph.group(["relu"], name="block")
    definition = graph["block"].definition
    assert definition is not None
    transaction = graph.arrange(definition, direction="right")
    assert {op.graph for op in transaction.ops if isinstance(op, MoveNode)} == {definition}
    assert graph["block.relu"].position is not None
    assert graph["y"].position is None


def test_from_left_to_right_edges_have_room_for_their_shapes(graph: NodeGraph) -> None:
    graph.arrange(direction="right")
    places = {name: node.position or (0.0, 0.0) for name, node in graph.nodes.items()}
    for edge in graph.edges:
        source, target = (places[port.partition(".")[0]] for port in (edge.source, edge.target))
        assert target[0] - source[0] >= WIDTH + GAP_RIGHT
    assert places["x"][1] == places["relu"][1], "the port of the one is as high as that of the other"


def test_an_unknown_graph_is_refused(graph: NodeGraph) -> None:
    with pytest.raises(GraphError, match="no definition 'blok'"):
        graph.arrange("blok")


def test_a_node_of_an_unregistered_type_has_the_ports_that_its_edges_say(graph: NodeGraph) -> None:
    text = graph.to_json().replace('"ReLU"', '"Swish"')
    stranger = NodeGraph.from_json(text, types=small_registry())
    stranger.arrange()
    assert stranger["relu"].position is not None


def test_an_arrangement_that_nobody_asked_for_is_no_step_of_undo(graph: NodeGraph) -> None:
    graph.arrange(undoable=False)
    before = len(graph.edges)
    graph.undo()
    undone = len(graph.edges)
    graph.redo()
    assert (before, undone, len(graph.edges)) == (4, 3, 4), "what the person did last is taken back"
    assert graph["x"].position is not None


def tower(count: int) -> NodeGraph:
    graph = NodeGraph("tower", types=small_registry())
    graph.add("Input", name="x", shape=("N", 4))
    last = "x"
    for number in range(count):
        graph.add("ReLU", name=f"r{number}")
        graph.connect(last, f"r{number}")
        last = f"r{number}"
    return graph


def extent(graph: NodeGraph) -> tuple[float, float]:
    places = [node.position for node in graph.nodes.values() if node.position is not None]
    xs, ys = [x for x, _ in places], [y for _, y in places]
    return max(xs) - min(xs) + WIDTH, max(ys) - min(ys) + HEADER_HEIGHT + SUMMARY_HEIGHT


def test_a_graph_is_arranged_by_the_shape_of_the_cell() -> None:
    wide = View((1600.0, 200.0))
    short = tower(4)
    short.arrange(direction="auto")
    assert extent(short)[0] == WIDTH, "down, for it can be read so"
    short.arrange(direction="auto", view=wide)
    assert extent(short)[0] > extent(short)[1]
    long = tower(40)
    for view in (wide, View((700.0, 500.0))):
        long.arrange(direction="auto", view=view)
        width, height = extent(long)
        scale = min(view.cell[0] / width, view.cell[1] / height)
        assert min(1.0, width * scale / view.cell[0]) * min(1.0, height * scale / view.cell[1]) > 0.7, (
            "the cell is used"
        )


def test_rows_that_are_seen_folded_do_not_turn_a_graph() -> None:
    graph = tower(12)
    run = tuple(f"r{number}" for number in range(12))
    graph.arrange(direction="auto", view=View((700.0, 500.0), (run, ("gone", "too"))))
    assert extent(graph)[0] == WIDTH


def test_some_nodes_are_arranged_where_they_stand(graph: NodeGraph) -> None:
    graph.arrange()
    for name, place in (("relu", (500.0, 300.0)), ("sum", (900.0, 100.0))):
        graph.move(name, *place)
    before = {name: graph[name].position for name in ("x", "y")}
    graph.arrange(direction="down", nodes=["relu", "sum"])
    assert {name: graph[name].position for name in ("x", "y")} == before
    relu, total = graph["relu"].position, graph["sum"].position
    assert relu is not None
    assert total is not None
    assert relu[1] < total[1]
    assert (relu[1] + total[1]) / 2 == pytest.approx(200, abs=1), "around where they stood"
    with pytest.raises(GraphError):
        graph.arrange(nodes=["nobody"])


def test_a_point_of_an_edge_is_as_small_as_a_dot(graph: NodeGraph) -> None:
    graph.disconnect("sum.output", "y.input")
    graph.add("Reroute", name="point")
    graph.connect("sum", "point", "y")
    graph.arrange()
    places = {name: node.position or (0.0, 0.0) for name, node in graph.nodes.items()}
    assert places["point"][1] - places["sum"][1] < RANK_GAP + HEADER_HEIGHT + SUMMARY_HEIGHT
    assert '<circle class="card"' in graph.to_svg()
