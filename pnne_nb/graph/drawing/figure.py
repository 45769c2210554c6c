"""A picture as HTML that survives: an image and its text, without a script, a style sheet or a link."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from html import escape

from pnne_nb.graph.drawing.scene import Card, Scene
from pnne_nb.graph.drawing.svg import card_text, describe
from pnne_nb.graph.frame import Frame, held


def figure(scene: Scene, svg: str) -> str:
    """Return the picture as an ``<img>`` with the graph as a list beneath it.

    Viewers of notebooks take out inline SVG and styles that they do not trust; an image with a ``data:``
    address and plain lists they keep. The list is what a screen reader reads.
    """
    address = base64.b64encode(svg.encode()).decode("ascii")
    image = f'<img alt="{escape(f"{scene.title}: {describe(scene)}")}" src="data:image/svg+xml;base64,{address}">'
    items = "".join(f"<li>{escape(line)}</li>" for line in lines(scene))
    return (
        f"<figure>{image}<details><summary>{escape(scene.title)} as text</summary><ul>{items}</ul></details></figure>"
    )


def lines(scene: Scene) -> Iterable[str]:
    """Say each node with what feeds it: ``"conv1, Conv2d, 1→6 · 5×5, from x.output (N×1×28×28)"``."""
    feeding: dict[str, list[str]] = {}
    for wire in scene.wires:
        given = f"{wire.source} ({wire.label})" if wire.label else wire.source
        feeding.setdefault(wire.target.partition(".")[0], []).append(given)
    for card in scene.cards:
        sources = feeding.get(card.name)
        yield f"{card_text(card)}{', from ' + ', '.join(sources) if sources else ''}"
    for frame in scene.frames:
        inside = [card.name for card in scene.cards if _holds(frame, card)]
        words = " ".join(filter(None, (frame.title, frame.text)))
        yield f"Frame: {words or frame.name}{', around ' + ', '.join(inside) if inside else ''}"


def _holds(frame: Frame, card: Card) -> bool:
    centre = (card.x + card.geometry.width / 2, card.y + card.geometry.height / 2)
    return bool(held(frame, {card.name: centre}, ()).nodes)
