"""Draws filters, feature maps and attention maps in a grid, as PNG inside HTML."""

from __future__ import annotations

import base64
import html
import math
import struct
import zlib
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from torch import Tensor

MAX_TILES: Final = 64
"""Most pictures in one grid."""

GAP: Final = 3
"""Pixels between two pictures."""

_LARGEST: Final = 14
"""Largest width of one element in pixels."""

Pixels = npt.NDArray[np.uint8]
Array = npt.NDArray[np.floating[Any]]


def png(pixels: Pixels) -> bytes:
    """Encode `[h, w, 4]` RGBA pixels as PNG."""
    height, width, _ = pixels.shape
    rows = np.zeros((height, 1 + 4 * width), np.uint8)  # each row begins with its filter: none
    rows[:, 1:] = pixels.reshape(height, -1)

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = struct.pack(">IIBBBBB", width, height, 8, 6, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(rows.tobytes()))
        + chunk(b"IEND", b"")
    )


def grid(tiles: Array, *, signed: bool, width: int = 400, columns: int | None = None) -> Pixels:
    """Lay `[n, h, w]` tiles side by side, with a gap that shows the page, as `[H, W, 4]` pixels.

    Args:
        tiles: At most `MAX_TILES`; NaN and infinities become magenta.
        signed: Blue below 0, the page itself at 0, red above it, on one scale for all tiles; otherwise dark to bright,
            each tile on a scale of its own.
        columns: Tiles in a row; None makes the grid about as high as wide.
        width: Approximate width of the grid in pixels; elements are enlarged by a whole number, so that they are squares.
    """
    count, high, wide = tiles.shape
    columns = columns or max(1, math.ceil(math.sqrt(count * high / wide)))
    rows = math.ceil(count / columns)
    scale = max(1, min(_LARGEST, (width - GAP * (columns - 1)) // (columns * wide)))
    high, wide = scale * high, scale * wide
    canvas = np.zeros((rows * (high + GAP) - GAP, columns * (wide + GAP) - GAP, 4), np.uint8)
    largest = float(np.nanmax(np.abs(np.where(np.isfinite(tiles), tiles, 0)), initial=0)) or 1.0
    for index, tile in enumerate(tiles):
        y, x = index // columns * (high + GAP), index % columns * (wide + GAP)
        coloured = _colours(tile, largest if signed else None)
        canvas[y : y + high, x : x + wide] = coloured.repeat(scale, 0).repeat(scale, 1)
    return canvas


def tiles_of(maps: Tensor, *, count: int = MAX_TILES, largest: int = 128) -> Array:
    """Return `[n, …]` as at most `count` pictures `[n, h, w]`: the middle of a volume, a row for a sequence.

    Dimensions above twice `largest` are subsampled.
    """
    maps = maps[:count].detach()
    maps = maps.abs().float() if maps.is_complex() else maps.float()
    if maps.dim() == 4:
        maps = maps[:, maps.shape[1] // 2]
    if maps.dim() == 2:
        maps = maps.unsqueeze(1)
    step = max(1, max(maps.shape[1:]) // largest)
    return np.asarray(maps[:, ::step, ::step].cpu())


def coloured(tiles: Array) -> Pixels:
    """Red, green and blue `[3, h, w]` as `[h, w, 4]` pixels, from the smallest value to the largest."""
    finite = np.where(np.isfinite(tiles), tiles, 0).astype(np.float64)
    low, high = finite.min(), finite.max()
    pixels = np.full((*tiles.shape[1:], 4), 255, np.uint8)
    pixels[..., :3] = (255 * (finite - low) / ((high - low) or 1.0)).round().transpose(1, 2, 0)
    return pixels


def data_url(pixels: Pixels) -> str:
    """Return `[h, w, 4]` pixels as a data URL."""
    return f"data:image/png;base64,{base64.b64encode(png(pixels)).decode()}"


def inline_svg(drawn: str, width: int, height: int, words: str) -> str:
    """Return a small drawing as an image in HTML, which notebooks keep."""
    svg = f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}">{drawn}</svg>'
    address = base64.b64encode(svg.encode()).decode()
    return f'<img class="pnne-bars" alt="{html.escape(words)}" src="data:image/svg+xml;base64,{address}">'


def picture(tiles: Array, caption: str, *, signed: bool, width: int = 400) -> str:
    """Return `tiles` as a figure in HTML, about `width` pixels wide, each element a sharp square."""
    if tiles.size == 0:
        return ""
    pixels = grid(tiles[:MAX_TILES], signed=signed, width=width)
    return (
        f'<figure class="pnne-picture"><figcaption>{html.escape(caption)}</figcaption>'
        f'<img alt="{html.escape(caption)}" src="{data_url(pixels)}" width="{pixels.shape[1]}"></figure>'
    )


def _colours(tile: Array, largest: float | None) -> Pixels:
    finite = np.isfinite(tile)
    values = np.where(finite, tile, 0).astype(np.float64)
    if largest is not None:
        share = np.clip(values / largest, -1, 1)[..., None]
        red, blue = np.array([178, 24, 43]), np.array([33, 102, 172])
        shaded = np.concatenate([np.where(share > 0, red, blue), 255 * np.abs(share)], -1)
    else:
        low, high = float(values.min()), float(values.max())
        share = ((values - low) / ((high - low) or 1.0))[..., None]
        # From dark violet over teal to yellow.
        stops = np.array([[68, 1, 84], [33, 145, 140], [253, 231, 37]], np.float64)
        shaded = np.where(
            share < 0.5,
            stops[0] + 2 * share * (stops[1] - stops[0]),
            stops[1] + (2 * share - 1) * (stops[2] - stops[1]),
        )
        shaded = np.concatenate([shaded, np.full_like(share, 255)], -1)
    shaded[~finite] = (255, 0, 255, 255)
    pixels: Pixels = shaded.astype(np.uint8)
    return pixels
