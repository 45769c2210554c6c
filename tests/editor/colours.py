"""Colours as the page shows them, and as people see them who lack one kind of cone."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from math import dist
from types import MappingProxyType

import numpy as np
from playwright.sync_api import Locator

Colour = tuple[float, float, float]
"""Red, green and blue of linear light, from 0 to 1."""

# Machado, Oliveira and Fernandes (2009), at full severity; on linear light.
VISIONS: Mapping[str, np.ndarray] = MappingProxyType(
    {
        "full": np.eye(3),
        "protanopia": np.array(
            [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
        ),
        "deuteranopia": np.array(
            [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
        ),
        "tritanopia": np.array(
            [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]
        ),
    }
)

_PAINT = """(root, colours) => {
  const probe = document.createElement("i");
  root.append(probe);
  const context = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const shown = Object.fromEntries(Object.entries(colours).map(([name, colour]) => {
    probe.style.color = colour;
    context.fillStyle = getComputedStyle(probe).color;
    context.fillRect(0, 0, 1, 1);
    return [name, [...context.getImageData(0, 0, 1, 1).data.slice(0, 3)]];
  }));
  probe.remove();
  return shown;
}"""


def painted(root: Locator, colours: Mapping[str, str]) -> dict[str, Colour]:
    """Return what colours of the style sheet look like in an element, by the names given."""
    shown: dict[str, list[int]] = root.evaluate(_PAINT, dict(colours))
    return {name: (_linear(r), _linear(g), _linear(b)) for name, (r, g, b) in shown.items()}


def seen(colour: Colour, vision: str) -> Colour:
    """Return a colour as somebody sees it."""
    red, green, blue = np.clip(VISIONS[vision] @ np.array(colour), 0, 1)
    return float(red), float(green), float(blue)


def contrast(one: Colour, other: Colour) -> float:
    """Return the contrast ratio of WCAG, from 1 to 21."""
    light, dark = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def difference(one: Colour, other: Colour) -> float:
    """Return the distance of two colours in oklab; about 0.02 is just noticeable."""
    return dist(_oklab(one), _oklab(other))


def closest(colours: Mapping[str, Colour], vision: str) -> tuple[float, str]:
    """Return the smallest difference between two of the colours, and which two."""
    pairs = combinations(sorted(colours), 2)
    return min((difference(seen(colours[a], vision), seen(colours[b], vision)), f"{a} and {b}") for a, b in pairs)


def _linear(part: int) -> float:
    value = part / 255
    return value / 12.92 if value <= 0.04045 else float(((value + 0.055) / 1.055) ** 2.4)


def _luminance(colour: Colour) -> float:
    red, green, blue = colour
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _oklab(colour: Colour) -> tuple[float, ...]:
    to_lms = np.array(
        [[0.4122214708, 0.5363325363, 0.0514459929], [0.2119034982, 0.6806995451, 0.1073969566],
         [0.0883024619, 0.2817188376, 0.6299787005]]
    )  # fmt: skip
    to_lab = np.array(
        [[0.2104542553, 0.7936177850, -0.0040720468], [1.9779984951, -2.4285922050, 0.4505937099],
         [0.0259040371, 0.7827717662, -0.8086757660]]
    )  # fmt: skip
    return tuple(float(part) for part in to_lab @ np.cbrt(to_lms @ np.array(colour)))
