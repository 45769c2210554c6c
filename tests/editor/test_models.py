"""Models of today as an editor shows them at Fit: letters that can be read, nothing behind a card, a cell that is used."""

from __future__ import annotations

import re

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


@pytest.mark.parametrize(("model", "seen"), [("unet", True), ("whisper", False)])
def test_shapes_are_seen_at_fit_where_there_is_room_between_the_cards(
    open_editor: OpenEditor, model: str, seen: bool
) -> None:
    editor = at_fit(open_editor, MODELS[model](), "light")
    labels = editor.root.locator(".pnne-wire-label:not(.pnne-again)")
    assert labels.count() > 20
    assert [label.is_visible() for label in labels.all()] == [seen] * labels.count()


def test_every_name_of_sixty_cards_is_seen_at_fit(open_editor: OpenEditor) -> None:
    graph = pn.NodeGraph("sixty")
    graph.add("Input", name="x", shape=("N", 8))
    last = "x"
    for number in range(59):
        graph.add("Linear", name=f"layer{number}", out_features=number + 1)
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


# The name of each card as it is seen at Fit: its lines without what is left out, an ellipsis where that is marked.
SEEN_NAMES = """() => Object.fromEntries([...document.querySelectorAll('[data-node]')].map((card) => {
  const name = card.querySelector('.pnne-card-name');
  const lines = [...name.querySelectorAll('.pnne-name-line')].map((line) => [...line.childNodes].map((piece) =>
    piece.nodeType === Node.TEXT_NODE ? piece.data : piece.classList.contains('pnne-marked') ? '…' : '').join(''));
  const box = name.getBoundingClientRect();
  const isInside = [...name.querySelectorAll('.pnne-name-line')].every((line) => {
    const range = document.createRange();
    range.selectNodeContents(line);
    const { left, right, top, bottom } = range.getBoundingClientRect();
    return left >= box.left - 1 && right <= box.right + 1 && top >= box.top - 1 && bottom <= box.bottom + 1;
  });
  return [card.dataset.node, [lines, isInside, name.textContent]];
}))"""


@pytest.mark.parametrize("model", ["whisper", "resnet18", "gpt2"])
def test_names_are_broken_between_words_at_fit_and_their_ends_are_seen(open_editor: OpenEditor, model: str) -> None:
    editor = at_fit(open_editor, MODELS[model](), "light")
    seen = editor.page.evaluate(SEEN_NAMES)
    assert len(seen) >= LARGE
    for name, (lines, is_inside, text) in seen.items():
        assert text == name, "the browser's search finds all of it"
        assert is_inside, f"{name}: {lines}"
        shown = "".join(lines)
        whole = name.replace("_", "")
        end = shown.rpartition("…")[2].replace("_", "")
        assert whole.endswith(end), f"{name}: {lines}"
        words = [word for line in lines for word in line.strip("…").split("_") if word]
        if "…" in shown[1:]:  # within a word that is too long for the card
            continue
        assert all(word in _parts(name) for word in words), f"{name} is broken within a word: {lines}"


def _parts(name: str) -> set[str]:
    """The words of a name, and those without their numbers."""
    words = name.split("_")
    return {*words, *(part for word in words for part in re.findall(r"[A-Za-z]+|\d+", word))}
