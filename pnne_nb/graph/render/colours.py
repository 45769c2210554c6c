"""Computes the colours of the two themes, as the browser does with the editor's style sheet."""

from __future__ import annotations

import math
from typing import NamedTuple

from pnne_nb.graph.schema.categories import Category

_TO_LMS = (
    (0.4122214708, 0.5363325363, 0.0514459929),
    (0.2119034982, 0.6806995451, 0.1073969566),
    (0.0883024619, 0.2817188376, 0.6299787005),
)
_TO_LAB = (
    (0.2104542553, 0.7936177850, -0.0040720468),
    (1.9779984951, -2.4285922050, 0.4505937099),
    (0.0259040371, 0.7827717662, -0.8086757660),
)
_FROM_LAB = (
    (1.0, 0.3963377774, 0.2158037573),
    (1.0, -0.1055613458, -0.0638541728),
    (1.0, -0.0894841775, -1.2914855480),
)
_FROM_LMS = (
    (4.0767416621, -3.3077115913, 0.2309699292),
    (-1.2684380046, 2.6097574011, -0.3413193965),
    (-0.0041960863, -0.7034186147, 1.7076147010),
)

FRAME_HUES = {
    "grey": (255.0, 0.015),
    "blue": (255.0, 0.13),
    "green": (150.0, 0.11),
    "yellow": (85.0, 0.11),
    "red": (22.0, 0.14),
    "purple": (310.0, 0.13),
}
"""Hue and chroma of the colours of frames; the browser's are in ``js/src/editor/styles/tokens.css``."""

_Triple = tuple[float, float, float]


class Theme(NamedTuple):
    """The colours of the picture as ``"#rrggbb"``, and numbers of oklch."""

    canvas: str
    card: str
    text: str
    muted: str
    faint: str
    wire: str
    line: str
    edge: str
    ink_lightness: float
    tint_lightness: float
    tint_chroma: float

    def ink(self, category: Category) -> str:
        """Return the colour of a category's pictogram."""
        return oklch(self.ink_lightness, category.chroma, category.hue)

    def frame(self, colour: str) -> str:
        """Return the colour of a frame's edge and title; the inside is much lighter."""
        hue, chroma = FRAME_HUES[colour]
        return oklch(self.ink_lightness + (0.1 if self.ink_lightness < 0.5 else -0.1), chroma, hue)

    def tint(self, category: Category) -> str:
        """Return the colour behind a category's pictogram."""
        return oklch(self.tint_lightness, category.chroma * self.tint_chroma, category.hue)


def mix(share: float, colour: str, other: str) -> str:
    """Return a mixture of `share` of a colour with another, in oklab, like ``color-mix``."""
    pairs = zip(_lab(colour), _lab(other), strict=True)
    first, second, third = (share * one + (1 - share) * two for one, two in pairs)
    return _hex((first, second, third))


def oklch(lightness: float, chroma: float, hue: float) -> str:
    """Return an oklch colour, `hue` in degrees, with less chroma if a screen cannot show it."""
    turn = math.radians(hue)
    while chroma > 0 and not _shows(_rgb((lightness, chroma * math.cos(turn), chroma * math.sin(turn)))):
        chroma = max(0.0, chroma - 0.005)
    return _hex((lightness, chroma * math.cos(turn), chroma * math.sin(turn)))


def _lab(colour: str) -> _Triple:
    red, green, blue = (_linear(int(colour[place : place + 2], 16) / 255) for place in (1, 3, 5))
    long, medium, short = (math.cbrt(part) for part in _times(_TO_LMS, (red, green, blue)))
    return _times(_TO_LAB, (long, medium, short))


def _rgb(lab: _Triple) -> _Triple:
    long, medium, short = (part**3 for part in _times(_FROM_LAB, lab))
    return _times(_FROM_LMS, (long, medium, short))


def _shows(rgb: _Triple) -> bool:
    return all(-0.0005 <= part <= 1.0005 for part in rgb)


def _hex(lab: _Triple) -> str:
    return "#" + "".join(f"{round(255 * _gamma(min(1.0, max(0.0, part)))):02x}" for part in _rgb(lab))


def _linear(part: float) -> float:
    return part / 12.92 if part <= 0.04045 else float(((part + 0.055) / 1.055) ** 2.4)


def _gamma(part: float) -> float:
    return part * 12.92 if part <= 0.0031308 else float(1.055 * part ** (1 / 2.4) - 0.055)


def _times(matrix: tuple[_Triple, _Triple, _Triple], vector: _Triple) -> _Triple:
    first, second, third = (sum(a * b for a, b in zip(row, vector, strict=True)) for row in matrix)
    return first, second, third


def _theme(back: str, text: str, card: str, canvas: str, ink: float, tint: float, tint_chroma: float) -> Theme:
    muted, faint, wire, line, edge = (mix(share, text, back) for share in (0.62, 0.40, 0.48, 0.14, 0.28))
    return Theme(canvas, card, text, muted, faint, wire, line, edge, ink, tint, tint_chroma)


LIGHT = _theme("#ffffff", "#1f2328", "#ffffff", mix(0.045, "#1f2328", "#ffffff"), 0.45, 0.955, 0.25)
DARK = _theme("#1b1d21", "#e6e8eb", mix(0.08, "#e6e8eb", "#1b1d21"), mix(0.22, "#000000", "#1b1d21"), 0.82, 0.36, 0.45)
