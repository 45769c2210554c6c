"""Frames: what they hold, what moves with them, what cannot be, and what arranging and grouping do with them."""

from __future__ import annotations

import pytest

import pnne_nb as pn
from pnne_nb.errors import BadValueError, GraphError, NameTakenError
from pnne_nb.graph.layout.layered import Direction
from pnne_nb.graph.model.annotation import Frame, Held


@pytest.fixture
def graph() -> pn.NodeGraph:
    """``x -> fc -> relu -> y``, arranged, with a frame around the two in the middle."""
    graph = pn.NodeGraph("net")
    graph.add("Input", name="x", shape=("N", 8))
    graph.add("Linear", name="fc", out_features=4)
    graph.add("ReLU", name="relu")
    graph.add("Output", name="y")
    for start, end in (("x", "fc"), ("fc", "relu"), ("relu", "y")):
        graph.connect(start, end)
    graph.arrange()
    graph.frames.add("Encoder", around=["fc", "relu"], colour="blue")
    return graph


def place(graph: pn.NodeGraph, name: str) -> tuple[float, float]:
    position = graph[name].position
    assert position is not None
    return position


def test_a_frame_holds_what_stands_in_it(graph: pn.NodeGraph) -> None:
    assert list(graph.frames) == ["frame1"]
    assert graph.frames["frame1"].title == "Encoder"
    assert graph.frames.held("frame1") == Held(("fc", "relu"), ())
    assert graph.undo_label == "Frame Encoder"
    graph.move("relu", 900, 900)
    assert graph.frames.held("frame1").nodes == ("fc",)


def test_a_frame_takes_along_what_stands_in_it(graph: pn.NodeGraph) -> None:
    left, top, width, height = graph.frames["frame1"].box
    graph.frames.add("Inner", box=(left + 5, top + 5, 40, 20), name="inner")
    before, rest = place(graph, "fc"), place(graph, "y")
    graph.frames.move("frame1", 30, -10)
    assert graph.frames["frame1"].box == (left + 30.0, top - 10.0, width, height)
    assert graph.frames["inner"].box == (left + 35.0, top - 5.0, 40.0, 20.0)
    assert place(graph, "fc") == (before[0] + 30, before[1] - 10)
    assert place(graph, "y") == rest
    assert graph.undo_label == "Move frame frame1"
    graph.undo()
    assert place(graph, "fc") == before
    assert graph.frames["inner"].box == (left + 5.0, top + 5.0, 40.0, 20.0)


def test_nodes_without_a_place_are_arranged_first_in_the_same_change() -> None:
    graph = pn.NodeGraph("net")
    graph.add("Input", name="x", shape=("N", 8))
    graph.add("ReLU", name="relu")
    graph.connect("x", "relu")
    version = graph.version
    graph.frames.add("Head", around=["relu"])
    assert graph.version == version + 1
    assert graph.frames.held("frame1").nodes == ("relu",)
    assert graph["x"].position is not None
    graph.undo()
    assert graph["x"].position is None


def test_two_changes_of_one_frame_both_count(graph: pn.NodeGraph) -> None:
    graph.frames.change("frame1", title="Decoder")
    graph.frames.change("frame1", colour="red", text="two\nlines")
    frame = graph.frames["frame1"]
    assert (frame.title, frame.colour, frame.text) == ("Decoder", "red", "two\nlines")
    assert pn.NodeGraph.from_json(graph.to_json()).frames["frame1"] == frame
    graph.frames.remove("frame1")
    assert len(graph.frames) == 0
    assert "fc" in graph


def test_nothing_is_computed_from_looks(graph: pn.NodeGraph) -> None:
    source = pn.to_source(graph)
    graph.frames.remove("frame1")
    graph.collapse("fc", "relu")
    assert graph["fc"].collapsed
    assert pn.to_source(graph) == source
    assert [finding for finding in graph.diagnostics() if finding.severity == "error"] == []


def test_arranging_keeps_what_stands_in_a_frame_in_it(graph: pn.NodeGraph) -> None:
    graph.add("ReLU", name="beside")
    graph.connect("x", "beside")
    graph.move("fc", *(value + 7 for value in place(graph, "fc")))
    graph.arrange()
    assert graph.frames.held("frame1").nodes == ("fc", "relu")
    left, top, width, height = graph.frames["frame1"].box
    x, y = place(graph, "beside")
    assert not (left <= x <= left + width and top <= y <= top + height)
    assert place(graph, "fc")[0] == place(graph, "relu")[0]
    before = graph.to_json()
    graph.arrange()
    assert graph.to_json() == before, "arranging twice moves nothing"


@pytest.mark.parametrize("direction", ["down", "right"])
def test_frames_in_frames_are_arranged_from_the_inside_out(graph: pn.NodeGraph, direction: Direction) -> None:
    left, top, width, height = graph.frames["frame1"].box
    graph.frames.add("Around", box=(left - 10, top - 10, width + 20, height + 20), name="outer")
    graph.arrange(direction=direction)
    assert graph.frames.held("outer") == Held(("fc", "relu"), ("frame1",))
    assert graph.frames.held("frame1") == Held(("fc", "relu"), ())
    version = graph.version
    graph.arrange(direction=direction)
    assert graph.version == version, "arranging twice moves nothing"


def test_a_frame_whose_path_leaves_and_comes_back_is_fitted_to_its_nodes(graph: pn.NodeGraph) -> None:
    graph.frames.remove("frame1")
    graph.frames.add("Ends", around=["x", "y"])
    graph.move("fc", 2000, 0)
    graph.move("relu", 2000, 100)
    graph.arrange()
    assert {"x", "y"} <= set(graph.frames.held("frame1").nodes)


def test_a_frame_goes_into_a_block_with_all_that_stands_in_it_and_comes_back(graph: pn.NodeGraph) -> None:
    box = graph.frames["frame1"].box
    graph.group(["fc", "relu"], name="block")
    assert list(graph.frames) == []
    assert graph.frames["block.frame1"] == Frame("frame1", box, "Encoder", "", "blue")
    graph.frames.change("block.frame1", title="Inside")
    graph.ungroup("block")
    assert graph.frames["frame1"].title == "Inside"
    assert graph.frames.held("frame1").nodes == ("fc", "relu")
    graph.group(["fc", "relu"], name="block")
    graph.remove("block")
    assert list(graph.graphs) == [""]
    graph.undo()
    assert graph.frames["block.frame1"].title == "Inside"


def test_what_cannot_be_is_said(graph: pn.NodeGraph) -> None:
    before = graph.to_json(), graph.version
    with pytest.raises(GraphError, match="A frame needs a place"):
        graph.frames.add("Nowhere")
    with pytest.raises(BadValueError, match="Frame 'frame2' cannot be 'plaid': it is one of grey, blue"):
        graph.frames.add("x", around=["fc"], colour="plaid")
    with pytest.raises(BadValueError, match="a title is a text of at most 200 characters"):
        graph.frames.change("frame1", title="two\nlines")
    with pytest.raises(BadValueError, match="numbers up to 1,000,000,000, the last two above 0"):
        graph.frames.change("frame1", box=(0, 0, -1, 5))
    for far in (1e300, 10**400, float("nan")):
        with pytest.raises(BadValueError, match="cannot stand at"):
            graph.frames.change("frame1", box=(far, 0, 5, 5))
    with pytest.raises(NameTakenError, match="There is a frame 'frame1' already"):
        graph.frames.add("x", box=(0, 0, 9, 9), name="frame1")
    with pytest.raises(GraphError, match=r"There is no frame 'frame2'\. Did you mean 'frame1'\?"):
        graph.frames.remove("frame2")
    with pytest.raises(KeyError, match="frame2"):
        graph.frames["frame2"]
    with pytest.raises(BadValueError, match="collapsed cannot be 'yes': it is True or False"):
        graph.collapse("fc", collapsed="yes")  # type: ignore[arg-type]  # wrong on purpose
    assert (graph.to_json(), graph.version) == before


def test_the_picture_shows_frames_and_collapsed_nodes(graph: pn.NodeGraph) -> None:
    graph.collapse("relu")
    graph.frames.add("", box=(300, 0, 200, 90), text="a note\n& more", name="note")
    picture = graph.to_svg("light")
    assert 'data-frame="frame1"' in picture
    assert "Encoder" in picture
    assert "&amp; more" in picture
    assert picture.index("data-frame") < picture.index("data-node"), "frames stand behind"
    assert "Frame: Encoder, around fc, relu" in graph.to_html()
    assert "Frame: a note\n&amp; more" in graph.to_html()
