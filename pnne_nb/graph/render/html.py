"""Converts a picture to PNG, and to HTML that viewers of notebooks keep."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from html import escape
from importlib import import_module
from itertools import islice
from typing import Final

from pnne_nb.errors import PnneError
from pnne_nb.graph.model.annotation import held
from pnne_nb.graph.render.scene import Scene
from pnne_nb.graph.render.svg import card_text, describe

_FONTS = "'DejaVu Sans','Liberation Sans','Noto Sans',sans-serif"
"""Replacement of ``sans-serif``: the renderer knows only names of fonts."""


LISTED: Final = 2000
"""Most nodes in the list: a saved notebook should not hold megabytes that nobody reads."""


def figure(scene: Scene, svg: str) -> str:
    """Return the picture of a graph as `image_with_text`, with its nodes as the list."""
    rows = list(islice(lines(scene), LISTED))
    if (left := len(scene.cards) - LISTED) > 0:
        rows.append(f"… and {left} more nodes")
    return image_with_text(scene.title, f"{scene.title}: {describe(scene)}", rows, svg)


def image_with_text(title: str, alternative: str, items: Iterable[str], svg: str) -> str:
    """Return a picture as an ``<img>`` with its contents as a list beneath it.

    Viewers of notebooks remove inline SVG and styles that they do not trust. They keep an image with a ``data:`` address and
    plain lists. A screen reader reads the list.

    Args:
        title: The title of the picture.
        alternative: The picture in a sentence.
        items: The picture in full: a line for each item.
        svg: The picture.
    """
    address = base64.b64encode(svg.encode()).decode("ascii")
    image = f'<img alt="{escape(alternative)}" src="data:image/svg+xml;base64,{address}">'
    rows = "".join(f"<li>{escape(item)}</li>" for item in items)
    text = f"<details><summary>{escape(title)} as text</summary><ul>{rows}</ul></details>" if rows else ""
    return f"<figure>{image}{text}</figure>"


def png(svg: str, scale: float = 2.0) -> bytes:
    """Return a picture as a PNG file.

    Args:
        svg: The picture; its theme must be ``"light"`` or ``"dark"``.
        scale: Pixels of the result for each pixel of the picture.

    Raises:
        PnneError: If the package resvg_py is not installed.
    """
    try:
        resvg = import_module("resvg_py")
    except ImportError as error:
        raise PnneError(
            "PNG files are painted by resvg_py, which is not installed: pip install 'pnne_nb[png]'"
        ) from error
    return bytes(resvg.svg_to_bytes(svg_string=svg.replace("sans-serif", _FONTS), zoom=scale))


def lines(scene: Scene) -> Iterable[str]:
    """Yield a line for each node with its sources: ``"conv1, Conv2d, 1→6 · 5×5, from x.output (N×1×28×28)"``."""
    feeding: dict[str, list[str]] = {}
    for wire in scene.wires:
        given = f"{wire.source} ({wire.label})" if wire.label else wire.source
        feeding.setdefault(wire.target.partition(".")[0], []).append(given)
    for card in scene.cards:
        sources = feeding.get(card.name)
        yield f"{card_text(card)}{', from ' + ', '.join(sources) if sources else ''}"
    centres = {card.name: (card.x + card.geometry.width / 2, card.y + card.geometry.height / 2) for card in scene.cards}
    for frame in scene.frames:
        inside = held(frame, centres, ()).nodes
        words = " ".join(filter(None, (frame.title, frame.text)))
        yield f"Frame: {words or frame.name}{', around ' + ', '.join(inside) if inside else ''}"
