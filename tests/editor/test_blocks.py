"""Blocks in the browser: looked into, counted, made their own, copied with what they show, published in the palette."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

import pytest
from playwright.sync_api import expect

from pnne_nb.graph.block_library import blocks
from pnne_nb.graph.document import NodeGraph
from pnne_nb.graph.model.ops import AddGraph, AddNode, Connect
from pnne_nb.graph.model.origin import Origin
from tests.editor.conftest import OpenEditor
from tests.editor.page import EditorPage


@pytest.fixture(autouse=True)
def no_blocks() -> Iterator[None]:
    """The process's library is empty before and after."""
    yield
    for name in list(blocks):
        blocks.remove(name)


@pytest.fixture
def graph() -> NodeGraph:
    """``x -> first -> second -> y``: two nodes that show one definition, ``first``."""
    graph = NodeGraph("net")
    inside = ("Linear", {"name": "fc", "out_features": 8}), ("ReLU", {"name": "relu"})
    graph.chain(("Input", {"name": "x", "shape": ("N", 8)}), *inside, ("Output", {"name": "y"}))
    graph.group(["fc", "relu"], name="first")
    graph.add("Subgraph", name="second", definition="first")
    graph.disconnect("first", "y")
    graph.connect("first", "second", "y")
    graph.arrange()
    graph.arrange("first")
    return graph


def test_a_block_says_how_many_show_it(editor: EditorPage) -> None:
    expect(editor.node("first").locator(".pnne-times")).to_have_text("×2")
    expect(editor.node("first")).to_have_attribute("aria-label", "first, Subgraph, Linear · ReLU, 1.2 k, shown 2 times")
    expect(editor.node("x").locator(".pnne-times")).to_have_count(0)


def test_a_node_inside_a_block_is_found_by_its_path(editor: EditorPage) -> None:
    editor.root.get_by_role("region", name="Graph").focus()
    editor.page.keyboard.press("Control+f")
    found = editor.root.get_by_role("dialog", name="Find a node or frame").get_by_role("option")
    expect(found).to_have_count(4)
    expect(found.filter(has_text="second")).to_have_text("secondfirst")
    editor.page.keyboard.type("second.relu")
    expect(found).to_have_text(["second.reluReLU"])
    editor.page.keyboard.press("Enter")
    expect(editor.node("second.relu")).to_be_focused()
    expect(editor.root.get_by_role("textbox", name="Name")).to_have_value("relu")


def test_marks_leave_the_name_of_a_block_its_room(graph: NodeGraph, open_editor: OpenEditor) -> None:
    graph.rename("first", "decoder12")
    editor = open_editor(graph)
    name = editor.node("decoder12").locator(".pnne-card-name")
    assert name.evaluate("name => name.scrollWidth <= name.clientWidth")
    expect(editor.node("decoder12").locator(".pnne-times")).to_be_visible()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_look_inside_a_block_without_leaving_the_graph(graph: NodeGraph, open_editor: OpenEditor, theme: str) -> None:
    editor = open_editor(graph, theme=theme)
    editor.node("first").hover()
    editor.root.get_by_role("button", name="Look inside first").click()
    peek = editor.root.get_by_role("dialog", name="Inside of first")
    picture = peek.get_by_role("img")
    assert "fc, Linear" in (picture.get_attribute("alt") or "")
    assert picture.evaluate("image => image.decode().then(() => image.naturalWidth)") > 100
    editor.screenshot(f"editor-peek-{theme}")
    expect(editor.node("second")).to_be_visible()
    editor.root.get_by_role("region", name="Graph").focus()
    editor.page.keyboard.press("Escape")
    expect(peek).to_have_count(0)
    editor.node("second").click()
    editor.page.keyboard.press("p")
    editor.root.get_by_role("dialog", name="Inside of second").get_by_role("button", name="Enter").click()
    expect(editor.node("second.fc")).to_be_visible()


def test_inside_a_shared_definition_the_editor_says_so_and_makes_a_use_its_own(
    editor: EditorPage, graph: NodeGraph
) -> None:
    editor.node("second").dblclick()
    note = editor.root.get_by_role("note")
    expect(note).to_contain_text("A change here changes all 2 uses.")
    note.get_by_role("button", name="Make its own").click()
    expect(note).to_have_count(0)
    editor.settle()
    assert graph["second"].properties["definition"] == "first2"
    assert [node.type for node in graph.graphs["first2"].nodes.values()] == ["Input", "Linear", "ReLU", "Output"]
    assert len(graph.graphs["first2"].edges) == 3
    assert ("first.output", "second.input") in graph.edges, "what is around it stays connected"
    assert graph.undo_label == "Make second its own"
    editor.node("second.relu").click()
    editor.page.keyboard.press("Delete")
    editor.settle()
    assert "relu" in graph.graphs["first"].nodes
    graph.undo()
    graph.undo()
    editor.deliver()
    expect(editor.root.get_by_role("note")).to_be_visible()


def test_a_block_is_made_to_show_another_definition(graph: NodeGraph, open_editor: OpenEditor) -> None:
    graph.add("GELU", name="gelu")
    graph.group(["gelu"], name="other")
    editor = open_editor(graph)
    editor.node("second").click()
    choice = editor.field("second", "definition")
    assert choice.locator("option").all_inner_texts() == ["first", "other"]
    choice.select_option("other")
    editor.settle()
    assert graph["second.gelu"].type == "GELU"
    assert graph.undo_label == "Set second.definition"


def test_a_pasted_block_is_one_more_use_of_its_definition(editor: EditorPage, graph: NodeGraph) -> None:
    editor.node("first").click()
    editor.page.keyboard.press("Control+c")
    editor.page.keyboard.press("Control+v")
    expect(editor.node("first2")).to_be_visible()
    expect(editor.node("first").locator(".pnne-times")).to_have_text("×3")
    editor.settle()
    assert set(graph.graphs) == {"", "first"}


def test_a_block_is_copied_to_another_notebook_with_all_that_it_shows(
    graph: NodeGraph, open_editor: OpenEditor
) -> None:
    graph.group(["first"], name="outer")
    editor = open_editor(graph)
    editor.node("outer").click()
    editor.page.keyboard.press("Control+c")
    other = NodeGraph("other")
    other.add("ReLU", name="own")
    other.group(["own"], name="first")
    there = open_editor(other)
    expect(there.node("first")).to_be_visible()
    there.root.get_by_role("region", name="Graph").focus()
    there.page.keyboard.press("Control+v")
    expect(there.node("outer")).to_be_visible()
    there.settle()
    assert set(other.graphs) == {"", "first", "outer", "first2"}
    assert other["outer.first"].definition == "first2"
    assert other["outer.first.fc"].type == "Linear"
    assert "own" in other.graphs["first"].nodes, "what was there under the same name is as it was"
    there.node("outer").click()
    there.page.keyboard.press("Delete")
    expect(there.node("outer")).to_have_count(0)
    there.settle()
    assert set(other.graphs) == {"", "first"}, "what nothing shows any more goes too"
    there.button("Undo").click()
    there.settle()
    assert set(other.graphs) == {"", "first", "outer", "first2"}


def test_what_only_says_that_it_is_a_part_of_a_graph_is_refused(editor: EditorPage, graph: NodeGraph) -> None:
    before = graph.version
    block = {"name": "a", "type": "Subgraph", "properties": {"definition": "d"}}
    for parts in (
        {"nodes": [1], "edges": []},
        {"nodes": [block], "edges": [], "definitions": {"d": {"nodes": 3}}},
        {"nodes": [{"name": "a", "type": "ReLU"}], "edges": [{"source": 1}]},
    ):
        text = json.dumps({"format": "pnne-fragment", **parts})
        editor.page.evaluate("text => navigator.clipboard.writeText(text)", text)
        editor.root.get_by_role("region", name="Graph").focus()
        editor.page.keyboard.press("Control+v")
        expect(editor.toast).to_contain_text("cannot be pasted: it is no part of a graph")
        editor.toast.get_by_role("button", name="Dismiss").click()
    assert graph.version == before


def test_a_copy_goes_into_its_own_definition_as_a_definition_of_its_own(editor: EditorPage, graph: NodeGraph) -> None:
    editor.node("second").click()
    editor.page.keyboard.press("Control+c")
    editor.node("first").dblclick()
    expect(editor.node("first.fc")).to_be_visible()
    editor.page.keyboard.press("Control+v")
    expect(editor.node("first.second")).to_be_visible()
    editor.settle()
    assert graph["first.second"].definition == "first2"


def test_a_published_block_is_in_the_palette_and_can_be_used(editor: EditorPage, graph: NodeGraph) -> None:
    editor.node("first").click()
    name = editor.root.get_by_role("textbox", name="Name of the block")
    name.fill("Dense")
    editor.root.get_by_role("button", name="Publish").click()
    option = editor.root.locator('[role="option"][data-type="block:Dense"]')
    expect(option).to_have_text("Dense")
    expect(editor.root.get_by_role("listbox", name="My blocks")).to_be_visible()
    assert list(blocks) == ["Dense"]
    option.click()
    expect(editor.node("dense1")).to_be_visible()
    expect(editor.port("dense1.input")).to_be_attached()
    editor.settle()
    assert graph["dense1.fc"].type == "Linear"
    assert graph.undo_label == "Add dense1"
    option.click()
    editor.settle()
    assert graph["dense2"].definition == graph["dense1"].definition == "Dense"
    editor.screenshot("editor-my-blocks")
    expect(editor.node("dense1").locator(".pnne-times")).to_have_text("×2")
    editor.root.get_by_role("button", name="Withdraw").click()
    expect(option).to_have_count(0)
    assert "dense1" in graph, "what uses it keeps it"


def test_a_published_block_goes_into_an_edge_and_is_found_by_name(graph: NodeGraph, open_editor: OpenEditor) -> None:
    blocks.publish(graph, "first", "Dense")
    editor = open_editor(graph)
    box = editor.edge("x.output", "first.input").locator("path").first.bounding_box()
    assert box is not None
    editor.page.mouse.dblclick(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    dialog = editor.root.get_by_role("dialog")
    dialog.get_by_role("searchbox").fill("dense")
    expect(dialog.get_by_role("option").first).to_contain_text("Dense")
    editor.page.keyboard.press("Enter")
    expect(editor.edge("dense1.output", "first.input")).to_be_attached()
    editor.settle()
    assert ("x.output", "dense1.input") in graph.edges


def test_the_group_of_blocks_stays_open_when_its_first_one_arrives(
    graph: NodeGraph, open_editor: OpenEditor, tmp_path: Path
) -> None:
    blocks.publish(graph, "first", "Dense")
    path = tmp_path / "blocks.pnne.json"
    blocks.save(path)
    blocks.remove("Dense")
    editor = open_editor(graph)
    group = editor.root.get_by_role("button", name="My blocks")
    group.click()
    with editor.page.expect_file_chooser() as chooser:
        editor.root.get_by_role("button", name="Load blocks").click()
    chooser.value.set_files(path)
    expect(editor.root.locator('[role="option"][data-type="block:Dense"]')).to_be_visible()
    group.click()
    expect(group).to_have_attribute("aria-expanded", "false")


def test_blocks_are_saved_to_a_file_and_loaded_from_one(
    graph: NodeGraph, open_editor: OpenEditor, tmp_path: Path
) -> None:
    blocks.publish(graph, "first", "Dense")
    editor = open_editor(graph)
    with editor.page.expect_download() as download:
        editor.root.get_by_role("button", name="Save blocks").click()
    assert download.value.suggested_filename == "blocks.pnne.json"
    path = tmp_path / "blocks.pnne.json"
    download.value.save_as(path)
    blocks.remove("Dense")
    assert blocks.load(path) == ("Dense",)
    blocks.remove("Dense")
    # Under a name that the page does not show yet: what it shows is then what it was told.
    path.write_text(path.read_text(encoding="utf-8").replace("Dense", "Wide"), encoding="utf-8")
    with editor.page.expect_file_chooser() as chooser:
        editor.root.get_by_role("button", name="Load blocks").click()
    chooser.value.set_files(path)
    expect(editor.root.locator('[role="option"][data-type="block:Wide"]')).to_be_visible()
    assert list(blocks) == ["Wide"]
    broken = tmp_path / "broken.json"
    broken.write_text("{")
    with editor.page.expect_file_chooser() as chooser:
        editor.root.get_by_role("button", name="Load blocks").click()
    chooser.value.set_files(broken)
    expect(editor.toast).to_contain_text("this is not JSON")


def test_a_module_that_runs_its_own_code_is_entered_and_says_so(open_editor: OpenEditor) -> None:
    graph = NodeGraph("net")
    reason = "its forward depends on the values of its inputs"
    graph.apply(
        [
            AddGraph("Mixture"),
            AddNode("gate", "Linear", {"in_features": 8, "out_features": 3}, (0, 0), "Mixture"),
            AddNode("x", "Input", {}, (0, 0)),
            AddNode(
                "moe",
                "Module",
                {"target": "models.Mixture", "inputs": ("x",), "definition": "Mixture"},
                (0, 120),
                origin=Origin("opaque", reason),
            ),
            AddNode("y", "Output", {}, (0, 240)),
            Connect("x.output", "moe.x"),
            Connect("moe.output", "y.input"),
        ]
    )
    editor = open_editor(graph)
    card = editor.node("moe")
    said = f"Imported as a module that runs its own code on what is inside: {reason}"
    expect(card.get_by_role("img", name=said)).to_be_visible()
    expect(card).to_contain_text("Mixture")
    card.click()
    form = editor.root.get_by_role("region", name="Inside")
    expect(form).to_contain_text("can be edited")
    form.get_by_role("button", name="Enter").click()
    note = editor.root.get_by_role("note")
    expect(note).to_contain_text("Mixture runs its own code, which calls these by name")
    editor.node("moe.gate").click()
    editor.field("moe.gate", "out_features").fill("5")
    editor.field("moe.gate", "out_features").press("Enter")
    editor.settle()
    assert graph["moe.gate"].properties["out_features"] == 5


def test_a_group_of_blocks_takes_their_room_and_is_selected_and_its_end_gives_the_room_back(
    open_editor: OpenEditor,
) -> None:
    graph = NodeGraph("net")
    graph.add("Input", name="x", shape=("N", 8))
    before = "x"
    for number in range(14):
        graph.add("ReLU", name=f"relu{number}")
        graph.connect(before, f"relu{number}")
        before = f"relu{number}"
        if number in (6, 7):
            graph.group([before], name=f"block{number}")
            before = f"block{number}"
    graph.arrange(direction="columns")
    places = {name: node.position for name, node in graph.nodes.items()}
    assert len({place[0] for place in places.values() if place}) > 1
    editor = open_editor(graph)
    editor.node("block6").click()
    editor.node("block7").click(modifiers=["Shift"])
    editor.page.keyboard.press("Control+g")
    expect(editor.root.get_by_role("textbox", name="Name", exact=True)).to_have_value("subgraph1")
    cards = [card for card in editor.root.first.locator(".pnne-card").all() if card.is_visible()]
    boxes = [box for card in cards if (box := card.bounding_box()) is not None]
    assert len(boxes) == 14
    for one, other in combinations(boxes, 2):
        beside = one["x"] + one["width"] <= other["x"] or other["x"] + other["width"] <= one["x"]
        below = one["y"] + one["height"] <= other["y"] or other["y"] + other["height"] <= one["y"]
        assert beside or below, (one, other)
    column = graph["subgraph1"].position
    assert column is not None
    stayed = [name for name, place in places.items() if name in graph and place and abs(place[0] - column[0]) > 100]
    assert stayed
    assert all(graph[name].position == places[name] for name in stayed), "the other columns are where they were"
    editor.page.keyboard.press("Control+Shift+g")
    editor.settle()
    assert {name: node.position for name, node in graph.nodes.items()} == places
