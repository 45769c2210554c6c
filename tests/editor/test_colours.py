"""Colours that everybody can tell apart, in both themes: contrasts, differences, and a sign beside each colour."""

from __future__ import annotations

from itertools import product

import pytest
from playwright.sync_api import expect

from pnne_nb.errors import Diagnostic
from pnne_nb.graph.document import NodeGraph
from pnne_nb.graph.model.annotation import COLOURS
from pnne_nb.graph.schema.categories import LOOKS
from tests.editor.colours import VISIONS, closest, contrast, painted, seen
from tests.editor.conftest import OpenEditor
from tests.editor.page import EditorPage

TEXT = 4.5
"""What WCAG asks of small text; 3 of pictograms and edges of things."""

APART = 0.06
"""Difference in oklab of two states: three times what is just noticeable."""

SURFACES = ("bg", "card", "panel")
STATES = ("error", "warning", "ok", "accent")


@pytest.fixture(params=["light", "dark"])
def editor(request: pytest.FixtureRequest, open_editor: OpenEditor) -> EditorPage:
    graph = NodeGraph("net")
    graph.add("Linear", name="fc", out_features=8)
    graph.add("ReLU", name="relu")
    graph.arrange()
    return open_editor(graph, theme=request.param)


def test_texts_and_pictograms_stand_out(editor: EditorPage) -> None:
    root = editor.root.first
    back = painted(root, {name: f"var(--pn-{name})" for name in SURFACES})
    words = painted(root, {name: f"var(--pn-{name})" for name in ("fg", "muted", "link", "error", "warning")})
    for vision, (name, colour), surface in product(VISIONS, words.items(), back.values()):
        ratio = contrast(seen(colour, vision), seen(surface, vision))
        # The rule of 4.5 is for eyes that see all colours; with others, what is left must still be readable.
        assert ratio >= (TEXT if vision == "full" else 4), f"{name}, {vision}: {ratio:.2f}"
    for pattern, (hue, chroma, _) in LOOKS:
        pair = painted(
            root,
            {
                "ink": f"oklch(var(--pn-ink-lightness) {chroma} {hue})",
                "tint": f"oklch(var(--pn-tint-lightness) calc({chroma} * var(--pn-tint-chroma)) {hue})",
            },
        )
        for vision in VISIONS:
            assert contrast(seen(pair["ink"], vision), seen(pair["tint"], vision)) >= TEXT, (pattern, vision)


def test_states_are_told_apart(editor: EditorPage) -> None:
    states = painted(editor.root.first, {name: f"var(--pn-{name})" for name in STATES})
    for vision in VISIONS:
        difference, pair = closest(states, vision)
        assert difference >= APART, f"{pair}, {vision}: {difference:.3f}"


def test_titles_of_frames_can_be_read(editor: EditorPage) -> None:
    root = editor.root.first
    for name in COLOURS:
        pair = painted(
            root,
            {
                "title": f"color-mix(in oklab, var(--pn-frame-{name}) 78%, var(--pn-fg))",
                "inside": f"color-mix(in oklab, var(--pn-frame-{name}) 7%, var(--pn-canvas))",
            },
        )
        for vision in VISIONS:
            assert contrast(seen(pair["title"], vision), seen(pair["inside"], vision)) >= TEXT, (name, vision)


def test_no_category_is_known_by_its_colour_alone() -> None:
    icons = [icon for _, (_, _, icon) in LOOKS]
    assert len(set(icons)) == len(icons)


def test_severities_differ_in_shape_and_words(open_editor: OpenEditor) -> None:
    graph = NodeGraph("net")
    graph.add("Input", name="x", shape=("N", 8))
    graph.add("ReLU", name="odd")
    graph.add("ReLU", name="wrong")
    graph.add("Output", name="y")
    graph.connect("x", "odd", "wrong", "y")
    graph.arrange()
    editor = open_editor(graph)
    editor.kernel.extra.append(Diagnostic("odd", "This is odd.", node="odd", severity="warning"))
    editor.kernel.extra.append(Diagnostic("wrong", "This is wrong.", node="wrong"))
    graph.move("wrong", 300, 0)
    editor.deliver()
    warning = editor.node("odd").locator(".pnne-badge")
    error = editor.node("wrong").locator(".pnne-badge")
    expect(warning).to_have_attribute("aria-label", "This is odd.")
    expect(error).to_be_visible()
    shape = "badge => getComputedStyle(badge).clipPath"
    assert "polygon" in warning.evaluate(shape)
    assert error.evaluate(shape) == "none"
    editor.screenshot("editor-severities")
