"""Writes a scene as SVG with selectable text and without scripts.

ElementTree escapes all texts of the document; characters that are not legal in XML are replaced.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import Literal, get_args
from xml.etree.ElementTree import Element, SubElement, tostring  # nothing is parsed

from pnne_nb.errors import ArgumentError, choose, shown
from pnne_nb.graph.layout.geometry import COLLAPSED_HEIGHT, HEADER_HEIGHT, LINE_HEIGHT, PORT_LETTERS, needs_labels
from pnne_nb.graph.layout.texts import fitted
from pnne_nb.graph.model.annotation import TITLE_HEIGHT, Frame
from pnne_nb.graph.render.colours import DARK, LIGHT, Theme
from pnne_nb.graph.render.edge_routing import curve, middle, number
from pnne_nb.graph.render.scene import Card, Scene, SceneEdge
from pnne_nb.graph.schema.categories import SNOWFLAKE, Category, category_named
from pnne_nb.graph.schema.structural import REROUTE
from pnne_nb.process.idle import breathe

ThemeName = Literal["auto", "light", "dark"]
_WRITTEN = {
    "svg": "write_text(graph.to_svg())",
    "html": "write_text(graph.to_html())",
    "png": "write_bytes(editor.to_png())",
}
"""The call that writes a picture to a file, by the ending of its name."""

MARGIN = 28.0
NAMED = 2000
"""Above this number of nodes, not even their names are drawn."""

LETTER = 6.4
"""Width of a letter of an edge's label."""

_SANS = "system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',Arial,sans-serif"
_CODE = "ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace"
_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def require_theme(theme: object) -> None:
    """Refuse anything but the name of a theme.

    Raises:
        ArgumentError: If it is none; for the name of a file, the message says how to write a picture to a file.
    """
    ending = theme.rpartition(".")[2] if isinstance(theme, str) else ""
    if isinstance(theme, str) and ending in _WRITTEN:
        raise ArgumentError(f"A theme cannot be {shown(theme)}. Write Path({shown(theme)}).{_WRITTEN[ending]}.")
    choose(theme, get_args(ThemeName), "theme")


def svg(scene: Scene, theme: ThemeName) -> str:
    """Return the picture of a scene: the same text for the same scene.

    Args:
        scene: The scene.
        theme: The colours; ``"auto"`` follows the reader's system, and is light if that is unknown.

    Raises:
        ArgumentError: If `theme` is none of them.
    """
    require_theme(theme)
    left, top, width, height = _frame(scene)
    looks = {card.category: category_named(card.category) for card in scene.cards}
    names = {category: f"k{place}" for place, category in enumerate(sorted(looks))}
    root = Element("svg", {"xmlns": "http://www.w3.org/2000/svg", "role": "img"})
    title, description = SubElement(root, "title"), SubElement(root, "desc")
    title.text, description.text = _legal(scene.title), _legal(describe(scene))
    style = SubElement(root, "style")
    SubElement(root, "rect", {"class": "canvas", **_box(left, top, width, height), "rx": "10"})
    for frame in scene.frames:
        _frame_of(root, frame)
    if not scene.cards and not scene.frames:
        _text(root, "port-name", left + width / 2, top + height / 2 + 3.5, "empty graph")
    if not scene.detailed:
        _overview(root, scene, names)
    else:
        _wires(root, scene.wires)
        for card in scene.cards:
            breathe()
            _card(root, card, names[card.category])
        _labels(root, scene.wires)
    # Named by its content: different pictures on one page have different ids, and equal ones are equal texts.
    key = hashlib.blake2s(tostring(root) + theme.encode(), digest_size=5).hexdigest()
    me = f"pnne-{key}"
    root.attrib.update(
        {
            "id": me,
            "viewBox": " ".join(map(number, (left, top, width, height))),
            "width": number(width),
            "height": number(height),
            "style": "max-width:100%;height:auto",
            "aria-labelledby": f"{me}-title {me}-desc",
        }
    )
    title.set("id", f"{me}-title")
    description.set("id", f"{me}-desc")
    framed = tuple(sorted({frame.colour for frame in scene.frames}))
    style.text = _style(f"#{me}", theme, looks, names, framed)
    if any(card.geometry.across for card in scene.cards):
        style.text += f"#{me} .start{{text-anchor:start}}#{me} .end{{text-anchor:end}}"
    return tostring(root, encoding="unicode")


def describe(scene: Scene) -> str:
    """Return a description of the picture."""
    nodes, edges = len(scene.cards), len(scene.wires)
    return (
        f"A graph of {nodes} node{'' if nodes == 1 else 's'} and {edges} edge{'' if edges == 1 else 's'}. "
        f"Inputs: {_named(scene, 'Input')}. Outputs: {_named(scene, 'Output')}."
    )


def card_text(card: Card) -> str:
    """Return a card as text: ``"conv1, Conv2d, 1→6 · 5×5"``."""
    name = card.name
    if card.run:
        each, count = len(card.run[0]), len(card.run)
        how = f"{count} equal nodes" if each == 1 else f"{count} times the same {each} nodes"
        name += f" to {card.run[-1][-1]}, {how} in a row"
    uses = f"shown {card.uses} times" if card.uses > 1 else ""
    return ", ".join(filter(None, (name, card.type, card.summary, uses, "frozen" if card.frozen else "")))


def _named(scene: Scene, type: str) -> str:
    return ", ".join(card.name for card in scene.cards if card.type == type) or "none"


def _frame(scene: Scene) -> tuple[float, float, float, float]:
    """Return the rectangle around everything, edge labels included: left, top, width, height."""
    if not scene.cards and not scene.frames:
        return 0.0, 0.0, 240.0, 80.0
    corners = [(card.x, card.y) for card in scene.cards] or [scene.frames[0].box[:2]]
    left, top = min(x for x, _ in corners), min(y for _, y in corners)
    right = max((card.x + card.geometry.width for card in scene.cards), default=left)
    for wire in scene.wires:
        left = min(left, *(x for x, _ in wire.points))
        right = max(right, *(x for x, _ in wire.points), middle(wire.points)[0] + 7 + LETTER * len(wire.label))
    bottom = max((card.y + card.geometry.height for card in scene.cards), default=top)
    for x, y, width, height in (frame.box for frame in scene.frames):
        left, top = min(left, x), min(top, y)
        right, bottom = max(right, x + width), max(bottom, y + height)
    return left - MARGIN, top - MARGIN, right - left + 2 * MARGIN, bottom - top + 2 * MARGIN


def _wires(root: Element, wires: Sequence[SceneEdge]) -> None:
    group = SubElement(root, "g", {"class": "wires"})
    for wire in wires:
        path = SubElement(
            group,
            "path",
            {"d": curve(wire.points, across=wire.across), "data-edge": _legal(f"{wire.source}->{wire.target}")},
        )
        SubElement(path, "title").text = _legal(f"{wire.source} → {wire.target} {wire.label}".rstrip())


def _labels(root: Element, wires: Sequence[SceneEdge]) -> None:
    group = SubElement(root, "g", {"class": "shapes"})
    for wire in wires:
        if wire.label and wire.labelled:
            x, y = middle(wire.points)
            # Beside an edge that runs down, above one that runs right.
            x, y = (x - LETTER * len(wire.label) / 2, y - 6) if wire.across else (x + 7, y + 3.5)
            SubElement(group, "text", {"x": number(x), "y": number(y)}).text = _legal(wire.label)


def _frame_of(root: Element, frame: Frame) -> None:
    left, top, width, height = frame.box
    group = SubElement(root, "g", {"class": f"frame f-{frame.colour}", "data-frame": _legal(frame.name)})
    SubElement(group, "title").text = _legal(frame.title or frame.name)
    SubElement(group, "rect", {**_box(left, top, width, height), "rx": "12"})
    _text(group, "frame-title", left + 14, top + 19, fitted(frame.title, width - 28, 13))
    for row, line in enumerate(frame.text.splitlines()):
        y = top + TITLE_HEIGHT + 13 + 16 * row
        if y > top + height - 6:
            break
        _text(group, "frame-text", left + 14, y, fitted(line, width - 28, 12))


def _card(root: Element, card: Card, look: str) -> None:
    width, height = card.geometry.width, card.geometry.height
    group = SubElement(
        root,
        "g",
        {
            "class": look,
            "transform": f"translate({number(card.x)},{number(card.y)})",
            "data-node": _legal(card.name),
            "data-type": _legal(card.type),
        },
    )
    SubElement(group, "title").text = _legal(card_text(card))
    if card.type == REROUTE:
        at = {"cx": number(width / 2), "cy": number(height / 2), "r": number(width / 2)}
        SubElement(group, "circle", {"class": "card", **at})
    else:
        if card.uses or card.run:
            SubElement(group, "rect", {"class": "card", **_box(4, 4, width, height), "rx": "9"})
        SubElement(group, "rect", {"class": "shade", **_box(0, 1.5, width, height), "rx": "9"})
        look = "card" if card.known else "card odd"
        SubElement(group, "rect", {"class": look, **_box(0, 0, width, height), "rx": "9"})
        _face(group, card)
    _ports(group, card)


def _face(group: Element, card: Card) -> None:
    """Draw the pictogram and the words of a card: if it is collapsed, the name alone, in one line."""
    width, head, times = card.geometry.width, card.geometry.above, card.times
    if card.collapsed:
        middle = COLLAPSED_HEIGHT / 2
        place, start = f"translate(9,{number(middle - 7)}) scale(0.875)", 29
        name_at = times_at = middle + 4.5
    else:
        SubElement(group, "rect", {"class": "tint", **_box(10, head + 9, 28, 28), "rx": "7"})
        place, start = f"translate(16,{number(head + 15)})", 47
        name_at, times_at = head + (20.5 if card.kind else 27.5), head + 27
    icon = category_named(card.category).icon
    SubElement(group, "path", {"class": "ink", "transform": place, "d": icon})
    room = width - start - 10 - 8 * len(times) - 18 * card.frozen
    if card.frozen:
        corner = width - 24 - 8 * len(times), times_at - 11
        _snowflake(group, corner, 0.875)
    _text(group, "name", start, name_at, fitted(card.title, room, 13))
    if card.kind and not card.collapsed:
        _text(group, "type", 47, head + 34.5, fitted(card.kind, room, 11))
    if times:
        _text(group, "times", width - 10, times_at, times)
    if card.collapsed:
        return
    line = head + HEADER_HEIGHT
    if card.lines:
        SubElement(group, "path", {"class": "rule", "d": f"M10,{number(line + 0.5)}H{number(width - 10)}"})
    for row, text in enumerate(card.lines):
        _text(group, "code", 10, line + 16.5 + row * LINE_HEIGHT, fitted(text, width - 20, 11, code=True))


def _snowflake(group: Element, corner: tuple[float, float], scale: float) -> None:
    place = f"translate({number(corner[0])},{number(corner[1])}) scale({scale})"
    SubElement(group, "path", {"class": "ink", "transform": place, "d": SNOWFLAKE})


def _ports(group: Element, card: Card) -> None:
    shape = card.geometry
    for places, at, plain in ((shape.inputs, shape.input_at, "input"), (shape.outputs, shape.output_at, "output")):
        labelled = not card.collapsed and needs_labels(places, plain)
        for name in places:
            x, y = at(name)
            spare = plain == "input" and name in card.optional
            circle = {"class": "port spare" if spare else "port", "cx": number(x), "cy": number(y), "r": "4"}
            SubElement(group, "circle", circle)
            if not labelled:
                continue
            word = name if len(name) <= PORT_LETTERS else f"{name[: PORT_LETTERS - 1]}…"
            if shape.across:
                place = (x + 11, y + 3.5, "port-name start") if plain == "input" else (x - 11, y + 3.5, "port-name end")
            else:
                place = (x, 16.5 if plain == "input" else shape.height - 9.5, "port-name")
            _text(group, place[2], place[0], place[1], word)


def _overview(root: Element, scene: Scene, names: dict[str, str]) -> None:
    SubElement(
        root, "path", {"class": "wire", "d": "".join(curve(wire.points, across=wire.across) for wire in scene.wires)}
    )
    if len(scene.cards) > NAMED:
        _blocks(root, scene, names)
        return
    for card in scene.cards:
        breathe()
        group = SubElement(root, "g", {"class": names[card.category], "data-node": _legal(card.name)})
        box = _box(card.x, card.y, card.geometry.width, card.geometry.height)
        SubElement(group, "rect", {"class": "block", **box, "rx": "9"})
        middle = card.x + card.geometry.width / 2, card.y + card.geometry.height / 2
        _text(group, "big", middle[0], middle[1] + 8, fitted(card.title, card.geometry.width - 12, 23))
        if card.frozen:
            _snowflake(group, (card.x + card.geometry.width - 20, card.y + 4), 1)


def _blocks(root: Element, scene: Scene, names: dict[str, str]) -> None:
    """Draw only boxes, those of one category as one shape, so that a saved notebook stays small."""
    boxes: dict[str, list[str]] = {}
    for card in scene.cards:
        width, height = number(card.geometry.width), number(card.geometry.height)
        boxes.setdefault(card.category, []).append(f"M{number(card.x)},{number(card.y)}h{width}v{height}h-{width}z")
    for category, found in boxes.items():
        group = SubElement(root, "g", {"class": names[category]})
        SubElement(group, "path", {"class": "block", "d": "".join(found)})


def _text(parent: Element, style: str, x: float, y: float, text: str) -> None:
    SubElement(parent, "text", {"class": style, "x": number(x), "y": number(y)}).text = _legal(text)


def _box(x: float, y: float, width: float, height: float) -> dict[str, str]:
    return {"x": number(x), "y": number(y), "width": number(width), "height": number(height)}


def _legal(text: str) -> str:
    """Replace what no XML text may hold: control characters, halves of surrogate pairs."""
    return _FORBIDDEN.sub("\ufffd", text)


def _style(me: str, theme: ThemeName, looks: dict[str, Category], names: dict[str, str], framed: Sequence[str]) -> str:
    rules = [
        f"{me} text{{font-family:{_SANS};font-size:11px}}",
        f"{me} .name{{font-size:13px;font-weight:600}}",
        f"{me} .times{{font-size:12px;font-weight:600;text-anchor:end}}",
        f"{me} .code{{font-family:{_CODE};font-size:11px}}",
        f"{me} .port-name{{font-size:10.5px;text-anchor:middle}}",
        f"{me} .big{{font-size:23px;font-weight:600;text-anchor:middle}}",
        f"{me} .shapes text{{font-family:{_CODE};font-size:10.5px;stroke-width:4;stroke-linejoin:round;paint-order:stroke}}",
        f"{me} .wires path,{me} .wire{{fill:none;stroke-width:1.6}}",
        f"{me} .ink{{fill:none;stroke-width:1.4;stroke-linecap:round;stroke-linejoin:round}}",
        f"{me} .card{{stroke-width:1}}{me} .port{{stroke-width:1.6}}",
        f"{me} .odd{{stroke-dasharray:5 4}}{me} .spare{{stroke-dasharray:2.2 2}}",
        *_colours(me, LIGHT if theme != "dark" else DARK, looks, names, framed),
    ]
    if framed:
        rules += [
            f"{me} .frame rect{{stroke-width:1.2;fill-opacity:.07;stroke-opacity:.55}}",
            f"{me} .frame-title{{font-size:13px;font-weight:600}}{me} .frame-text{{font-size:12px}}",
        ]
    if theme == "auto":
        rules += ["@media (prefers-color-scheme:dark){", *_colours(me, DARK, looks, names, framed), "}"]
    return "".join(rules)


def _colours(
    me: str, theme: Theme, looks: dict[str, Category], names: dict[str, str], framed: Sequence[str]
) -> list[str]:
    shade = "0.07" if theme is LIGHT else "0.4"
    return [
        f"{me} .canvas{{fill:{theme.canvas}}}",
        f"{me} .card{{fill:{theme.card};stroke:{theme.edge}}}{me} .shade{{fill:#000;opacity:{shade}}}",
        f"{me} .port{{fill:{theme.card};stroke:{theme.faint}}}",
        f"{me} .name{{fill:{theme.text}}}{me} .rule{{stroke:{theme.line}}}",
        f"{me} .type,{me} .code,{me} .times,{me} .port-name,{me} .shapes text{{fill:{theme.muted}}}",
        f"{me} .shapes text{{stroke:{theme.canvas}}}{me} .wires path,{me} .wire{{stroke:{theme.wire}}}",
        f"{me} .big{{fill:{theme.text}}}",
        *(
            f"{me} .f-{colour} rect{{fill:{theme.frame(colour)};stroke:{theme.frame(colour)}}}"
            f"{me} .frame-text{{fill:{theme.muted}}}"
            f"{me} .f-{colour} .frame-title{{fill:{theme.frame(colour)}}}"
            for colour in framed
        ),
        *(
            f"{me} .{names[category]} .ink{{stroke:{theme.ink(look)}}}"
            f"{me} .{names[category]} .tint,{me} .{names[category]} .block{{fill:{theme.tint(look)}}}"
            for category, look in sorted(looks.items())
        ),
    ]
