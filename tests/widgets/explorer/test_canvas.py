"""A layer has the colours that its type has in the editor, in both themes."""

from __future__ import annotations

import pytest

import pnne_nb as pn
from pnne_nb.graph.render.colours import DARK, LIGHT, Theme
from pnne_nb.graph.schema.categories import category_named
from pnne_nb.inspector.tools.dataflow import FlowLayer
from pnne_nb.protocol.control_messages import PageTheme
from pnne_nb.widgets.explorer.canvas import class_of, style
from pnne_nb.widgets.explorer.view import category_of


@pytest.mark.parametrize("kind", ["Conv2d", "BatchNorm2d", "ReLU", "GELU", "MultiheadAttention", "LSTM", "Flatten"])
def test_a_layer_is_of_the_category_of_its_type(kind: str) -> None:
    assert category_of(FlowLayer("a", kind)) == category_named(pn.catalog[kind].category)


def test_a_class_that_is_no_type_is_of_the_category_that_its_name_suggests() -> None:
    assert category_of(FlowLayer("a", "MyConvBlock")).hue == category_named("Convolution").hue
    assert category_of(FlowLayer("a", "Mine")) == category_of(FlowLayer("b", "Mine"))


@pytest.mark.parametrize(("theme", "colours"), [("light", LIGHT), ("dark", DARK)])
def test_the_sheet_has_the_colours_of_the_editor(theme: PageTheme, colours: Theme) -> None:
    categories = [category_named(name) for name in ("Convolution", "Special functions", "In-place", "Größe")]
    rules = {rule["selector"]: rule["css"] for rule in style(theme, categories)}
    for category in categories:
        css = rules[f"node.{class_of(category)}"]
        assert css == {"background-color": colours.tint(category), "border-color": colours.ink(category)}
    assert len(set(map(class_of, categories))) == len(categories)


def test_a_selector_needs_no_quotes() -> None:
    for name in ("In-place", "Größe", "a.b", "", "1"):
        assert class_of(category_named(name)).replace("-", "").isalnum()
