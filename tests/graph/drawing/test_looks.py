"""Categories look in the picture as they do in the browser."""

from __future__ import annotations

import re
from pathlib import Path

from pnne_nb.graph.drawing.looks import LOOKS, look_of

TABLE = Path(__file__).parents[3] / "js/src/editor/canvas/categories.ts"


def test_the_table_is_the_browsers() -> None:
    source = TABLE.read_text(encoding="utf-8")
    icons = dict(re.findall(r'const ([A-Z]+) = "([^"]+)"', source))
    row = re.compile(r'\[\s*/([^/]+)/i,\s*\{ hue: (\d+), chroma: ([\d.]+), icon: (?:"([^"]+)"|([A-Z]+)) \},?\s*\]')
    rows = [
        (pattern, float(hue), float(chroma), text or icons[name])
        for pattern, hue, chroma, text, name in row.findall(source)
    ]
    assert rows == [(pattern, *look) for pattern, look in LOOKS]


def test_an_unknown_category_has_a_hue_of_its_own() -> None:
    assert look_of("Mine").hue == look_of("Mine").hue
    assert look_of("Mine").hue != look_of("Yours").hue
    assert look_of("Convolution").hue == 255
