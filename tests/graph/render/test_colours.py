"""Colours against values that browsers compute, and their contrast."""

from __future__ import annotations

import pytest

from pnne_nb.graph.render.colours import DARK, LIGHT, Theme, mix, oklch
from pnne_nb.graph.schema.categories import LOOKS, Category


def luminance(colour: str) -> float:
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return float(0.2126 * red + 0.7152 * green + 0.0722 * blue)


def contrast(one: str, other: str) -> float:
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def test_known_colours() -> None:
    assert oklch(1, 0, 0) == "#ffffff"
    assert oklch(0.627955, 0.257683, 29.2339) in {"#ff0000", "#fe0000", "#fd0000", "#fd1206", "#fc1508"}
    assert mix(1, "#123456", "#ffffff") == "#123456"
    assert mix(0.5, "#000000", "#ffffff") == "#636363"


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_text_can_be_read(theme: Theme) -> None:
    assert contrast(theme.text, theme.card) >= 7
    assert contrast(theme.muted, theme.card) >= 4.5
    assert contrast(theme.muted, theme.canvas) >= 4.5
    for pattern, look in LOOKS:
        category = Category(pattern, *look)
        assert contrast(theme.ink(category), theme.tint(category)) >= 3
        assert contrast(theme.text, theme.tint(category)) >= 4.5
