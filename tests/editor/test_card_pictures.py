"""Small pictures of what nodes give, on their cards: where they stand, and what moves on for them."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import pytest
import torch
from playwright.sync_api import expect

import pnne_nb as pn
from pnne_nb.graph.document import NodeGraph
from pnne_nb.protocol.messages import LayerState, Training
from pnne_nb.widgets.editor.card_pictures import CardPictures
from tests import axe
from tests.editor.conftest import OpenEditor
from tests.editor.page import EditorPage


def moons() -> NodeGraph:
    layers = ("Linear", 2, 8), "ReLU", ("Linear", 8, 2)
    return pn.sequential(*layers, input=("N", 2), name="moons")


def pictures_of(graph: NodeGraph) -> dict[str, str]:
    torch.manual_seed(0)
    points = torch.randn(60, 2)
    engine = pn.TrainingEngine(graph, (points, (points[:, 0] > 0).long()), seed=0, device="cpu")
    return CardPictures(engine.paused, (points,), graph, "").draw()


def top_and_bottom(editor: EditorPage, name: str) -> tuple[float, float]:
    box = editor.node(name).bounding_box()
    assert box is not None
    return box["y"], box["y"] + box["height"]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_cards_show_what_they_give_and_make_room_for_it(open_editor: OpenEditor, theme: str) -> None:
    graph = moons()
    editor = open_editor(graph, theme=theme)
    editor.rest()
    names = list(graph.nodes)
    layers = {"linear1": LayerState(mean=0.1, std=0.5), "relu1": LayerState(mean=0.1, std=0.5, zeros=0.4)}
    drawn = pictures_of(graph)
    assert set(drawn) == {"linear1", "relu1", "linear2"}
    editor.kernel.show(Training(1, 40, layers, drawn))
    editor.deliver()
    for name in drawn:
        picture = editor.node(name).get_by_role("img", name=f"What {name} gives")
        expect(picture).to_be_visible()
        assert picture.evaluate("image => image.decode().then(() => image.naturalWidth)") > 60
    expect(editor.root.get_by_role("img", name=re.compile("What .* gives"))).to_have_count(3)
    editor.button("Fit view").click()
    editor.rest()
    for above, below in itertools.pairwise(names):
        assert top_and_bottom(editor, above)[1] < top_and_bottom(editor, below)[0], f"{above} covers {below}"
    editor.screenshot(f"card-pictures-{theme}")
    assert not axe.violations(editor.page, ".pnne-editor")


def test_pictures_stay_after_the_training_and_go_when_it_is_taken_away(open_editor: OpenEditor, tmp_path: Path) -> None:
    graph = moons()
    editor = open_editor(graph)
    height = top_and_bottom(editor, "relu1")
    drawn = pictures_of(graph)
    editor.kernel.show(Training(1, 40, {"relu1": LayerState(std=0.5)}, drawn))
    editor.kernel.show(Training(2, 0, {}, drawn))
    editor.deliver()
    expect(editor.node("relu1")).to_contain_text("ReLU")
    expect(editor.node("relu1").get_by_role("img", name="What relu1 gives")).to_be_visible()
    place = graph["relu1"].position
    editor.node("relu1").click(position={"x": 40, "y": 10})
    editor.page.keyboard.press("h")
    expect(editor.node("relu1").get_by_role("img", name="What relu1 gives")).to_have_count(0)
    editor.page.keyboard.press("h")
    with editor.page.expect_download() as saved:
        editor.button("Save as PNG").click(modifiers=["Shift"])
    saved.value.save_as(tmp_path / "moons.svg")
    assert (tmp_path / "moons.svg").read_text().count("<image ") == 3
    editor.kernel.show(Training(0))
    editor.deliver()
    expect(editor.root.get_by_role("img", name=re.compile("What .* gives"))).to_have_count(0)
    assert top_and_bottom(editor, "relu1") == pytest.approx(height, abs=1)
    assert graph["relu1"].position == place, "room is made in the view, and not in the document"
