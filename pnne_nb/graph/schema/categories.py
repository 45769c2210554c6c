"""Categories of node types: headings of the palette, each with a colour and a pictogram, for the browser too."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, final

import msgspec


@final
class Category(msgspec.Struct, frozen=True, rename="camel"):
    """A category of node types, and the look of its nodes.

    Attributes:
        name: Heading in the palette.
        hue: In degrees of oklch.
        chroma: Of oklch; 0 is grey.
        icon: Path of a 16 × 16 pictogram, drawn with strokes.
    """

    name: str
    hue: float
    chroma: float
    icon: str


_GRID = "M2.5 2.5h11v11h-11zM6.2 2.5v11M9.8 2.5v11M2.5 6.2h11M2.5 9.8h11"
_DOT = "M8 4.5a3.5 3.5 0 1 0 0 7a3.5 3.5 0 1 0 0-7"
_DROPS = "M4 4h.01M8 4h.01M12 4h.01M4 8h.01M12 8h.01M8 12h.01M4 12h.01M8 8l4 4"
_DRUM = "M3 4c0-2 10-2 10 0v8c0 2-10 2-10 0zM3 4c0 2 10 2 10 0M3 8c0 2 10 2 10 0"

LOOKS = (
    ("conv", (255, 0.15, _GRID)),
    ("pool|upsampl|vision", (195, 0.11, "M2.5 3h11L10 8v5H6V8z")),
    ("activ|non-?linear", (55, 0.14, "M2 12h5l6.5-8.5M2 12")),
    ("norm", (300, 0.14, "M1.5 12.5c4 0 4-9 6.5-9s2.5 9 6.5 9")),
    ("drop|regular", (10, 0.08, _DROPS)),
    ("recurrent|rnn|sequence", (150, 0.13, "M13 8a5 5 0 1 1-2-4M11 1.5V4H8.5")),
    ("attention|transformer", (335, 0.15, "M8 3.5L3 12.5M8 3.5l5 9M8 3.5v9M3 12.5h10")),
    ("linear|dense", (275, 0.14, "M2.5 2.5v11h11M4.5 11.5l8-8")),
    ("embed", (225, 0.1, "M2.5 4h11M2.5 8h11M2.5 12h11M6 2.5v11")),
    ("loss", (27, 0.17, "M2 3c2 7 5 9.5 12 9.5M2.5 13.5V2")),
    ("optim|schedul|train", (85, 0.13, "M2.5 13L6 8l3 2.5L13.5 3M10 3h3.5v3.5")),
    ("data|metric", (170, 0.1, _DRUM)),
    ("math|arith|operat|compar|reduc", (120, 0.1, "M8 3.5v9M3.5 8h9")),
    ("shape|reshap|tensor|index|join|split", (210, 0.08, "M2.5 5.5h7v8h-7zM5.5 5V2.5h8v8H10")),
    ("block", (240, 0.07, "M8 2l5.5 3v6L8 14l-5.5-3V5zM2.5 5L8 8l5.5-3M8 8v6")),
    ("struct|input|output|graph|general", (255, 0.03, "M2.5 8h8M7.5 4.5L11 8l-3.5 3.5M13.5 3v10")),
)
"""Patterns of category names with hue, chroma and icon; the first match counts."""


@lru_cache(maxsize=256)
def category_named(name: str) -> Category:
    """Return the category of a name; without a matching pattern, its hue is computed from the name."""
    for pattern, look in LOOKS:
        if re.search(pattern, name, re.IGNORECASE):
            return Category(name, *look)
    number = 0
    for letter in name:
        number = (number * 31 + ord(letter)) % 3600
    return Category(name, number / 10, 0.1, _DOT)


SNOWFLAKE: Final = "M8 2v12M2.8 5l10.4 6M2.8 11l10.4-6M6.5 3.4L8 4.9l1.5-1.5M6.5 12.6L8 11.1l1.5 1.5"
"""The pictogram of what training leaves as it is."""

STRUCTURE = category_named("Structure")
BLOCK = category_named("Block")
"""The category of every Subgraph node."""

TEMPLATES = category_named("Templates")
"""The category of networks to begin with."""
MY_BLOCKS = category_named("My blocks")
UNKNOWN = category_named("Unknown")
"""The category of nodes whose type is not registered."""
