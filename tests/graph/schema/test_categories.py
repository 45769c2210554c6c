"""Every category has a look, from one table."""

from __future__ import annotations

import re

import hypothesis.strategies as st
import pytest
from hypothesis import given

from pnne_nb.graph.schema.categories import BLOCK, MY_BLOCKS, UNKNOWN, category_named

PICTOGRAM = re.compile(r"[MLHVCSQTAZmlhvcsqtaz0-9., -]+")


@given(st.text())
def test_every_name_has_a_look(name: str) -> None:
    category = category_named(name)
    assert category.name == name
    assert 0 <= category.hue < 360
    assert 0 <= category.chroma < 0.4
    assert PICTOGRAM.fullmatch(category.icon)
    assert category_named(name) == category


@pytest.mark.parametrize(
    ("name", "hue"), [("Convolution", 255), ("my convolutions", 255), ("Loss", 27), ("Structure", 255)]
)
def test_a_pattern_gives_the_look(name: str, hue: float) -> None:
    assert category_named(name).hue == hue


def test_a_category_that_no_pattern_matches_has_a_hue_of_its_own() -> None:
    assert category_named("Mine").hue != category_named("Yours").hue
    assert category_named("Mine").icon == UNKNOWN.icon


def test_blocks_look_alike_whoever_made_them() -> None:
    assert (BLOCK.hue, BLOCK.icon) == (MY_BLOCKS.hue, MY_BLOCKS.icon)
