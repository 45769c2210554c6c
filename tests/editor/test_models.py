"""Models of today as an editor shows them at Fit: letters that can be read, nothing behind a card, a cell that is used."""

from __future__ import annotations

import pytest

import pnne_nb as pn
from tests.editor.conftest import OpenEditor
from tests.editor.page import ARTIFACTS, EditorPage
from tests.graph.render.test_model_pictures import MODELS

LETTERS = 9.0
"""Pixels of the screen that the smallest text has."""

EMPTY = 0.15
"""Part of the canvas that may be empty on each side of a large drawing, taken together."""

LARGE = 30
"""Cards."""

FAR = 100
"""Cards: beyond this, Fit shows colours on one canvas."""

# The sizes of all letters that are seen on the canvas, in pixels of the screen.
SEEN_LETTERS = """() => {
  const view = document.querySelector('.react-flow__viewport');
  const zoom = new DOMMatrix(getComputedStyle(view).transform).a;
  const found = [];
  const walker = document.createTreeWalker(view, NodeFilter.SHOW_TEXT);
  for (let text = walker.nextNode(); text; text = walker.nextNode()) {
    const element = text.parentElement;
    const range = document.createRange();
    range.selectNodeContents(text);
    const { width } = range.getBoundingClientRect();
    if (!text.data.trim() || width === 0 || !element.checkVisibility({ visibilityProperty: true, opacityProperty: true })) continue;
    const size = zoom * parseFloat(getComputedStyle(element).fontSize);
    if (size > 0) found.push([text.data, size]);
  }
  return found;
}"""

# How much of the canvas the drawing takes, across and down.
TAKEN = """() => {
  const canvas = document.querySelector('.react-flow').getBoundingClientRect();
  const cards = [...document.querySelectorAll('[data-node]')].map((card) => card.getBoundingClientRect());
  const [left, right] = [Math.min(...cards.map((card) => card.left)), Math.max(...cards.map((card) => card.right))];
  const [top, bottom] = [Math.min(...cards.map((card) => card.top)), Math.max(...cards.map((card) => card.bottom))];
  return [(right - left) / canvas.width, (bottom - top) / canvas.height];
}"""

# The edges and labels that are drawn where a card is, whose middle they are not at.
HIDDEN = """() => {
  const cards = [...document.querySelectorAll('.pnne-card')].map((card) => [card.dataset.node, card.getBoundingClientRect()]);
  const within = (x, y, box, by) => x > box.left + by && x < box.right - by && y > box.top + by && y < box.bottom - by;
  const found = [];
  for (const edge of document.querySelectorAll('[data-edge]')) {
    const path = edge.querySelector('path');
    const places = path.getScreenCTM();
    const length = path.getTotalLength();
    for (let at = 0; at <= length; at += 4) {
      const { x, y } = path.getPointAtLength(at).matrixTransform(places);
      const behind = cards.find(([, box]) => within(x, y, box, 2));
      if (behind) { found.push(`${edge.dataset.edge} behind ${behind[0]}`); break; }
    }
    const label = edge.querySelector('.pnne-wire-label');
    if (!label || !label.checkVisibility({ opacityProperty: true })) continue;
    const { left, top, width, height } = label.getBoundingClientRect();
    const behind = cards.find(([, box]) => within(left + width / 2, top + height / 2, box, 0));
    if (behind) found.push(`the label of ${edge.dataset.edge} behind ${behind[0]}`);
  }
  return found;
}"""


def at_fit(open_editor: OpenEditor, graph: pn.NodeGraph, theme: str) -> EditorPage:
    editor = open_editor(graph, theme=theme)
    for _ in range(600):
        if all(node.position is not None for node in graph.nodes.values()):
            break
        editor.page.wait_for_timeout(50)
    editor.settle()
    editor.button("Fit view").click()
    editor.page.wait_for_function(
        """() => new Promise((done) => {
          const place = () => document.querySelector('.react-flow__viewport').style.transform;
          const before = place();
          setTimeout(() => done(place() === before), 120);
        })"""
    )
    return editor


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("model", MODELS)
def test_a_model_fills_the_cell_and_can_be_read(open_editor: OpenEditor, model: str, theme: str) -> None:
    graph = MODELS[model]()
    editor = at_fit(open_editor, graph, theme)
    ARTIFACTS.mkdir(exist_ok=True)
    editor.root.screenshot(path=ARTIFACTS / f"editor-{model}-{theme}.png")
    small = [(text, size) for text, size in editor.page.evaluate(SEEN_LETTERS) if size < LETTERS]
    assert small == [], "no letters that nobody can read"
    if len(graph) > FAR:
        return
    seen = editor.page.evaluate(SEEN_LETTERS)
    assert len({text for text, _ in seen}) >= 10, "and there are some"
    assert editor.page.evaluate(HIDDEN) == []
    if len(graph) >= LARGE:
        across, down = editor.page.evaluate(TAKEN)
        assert across >= 1 - EMPTY
        assert down >= 1 - EMPTY


def test_every_name_of_sixty_cards_is_seen_at_fit(open_editor: OpenEditor) -> None:
    graph = pn.NodeGraph("sixty")
    graph.add("Input", name="x", shape=("N", 8))
    last = "x"
    for number in range(59):
        graph.add("Linear" if number % 2 else "ReLU", name=f"layer{number}")
        graph.connect(last, f"layer{number}")
        last = f"layer{number}"
    editor = at_fit(open_editor, graph, "light")
    shown = editor.page.evaluate(
        """() => [...document.querySelectorAll('.pnne-card-name')].filter((name) => name.checkVisibility())
          .map((name) => [name.textContent, name.scrollWidth <= name.clientWidth + 1])"""
    )
    assert sorted(name for name, _ in shown) == sorted(graph.nodes)
    assert all(whole for _, whole in shown)
    assert all(size >= LETTERS for _, size in editor.page.evaluate(SEEN_LETTERS))


def test_of_a_long_name_the_end_is_seen_at_fit(open_editor: OpenEditor) -> None:
    editor = at_fit(open_editor, MODELS["whisper"](), "light")
    for name in ("decoder0_a_q", "decoder0_a_v", "encoder0_f_gelu"):
        shown = editor.node(name).locator(".pnne-card-name")
        below, above = shown.evaluate(
            """shown => {
              const [box, text] = [shown.getBoundingClientRect(), shown.firstElementChild.getBoundingClientRect()];
              return [text.bottom - box.bottom, box.top - text.top];
            }"""
        )
        assert below <= 1, f"the end of {name} is cut off"
        assert above > 1, "and the beginning is: there is no room for all of it"
