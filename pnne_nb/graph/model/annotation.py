"""Frames: titled rectangles behind the nodes of a graph. They are for the reader; nothing is computed from them.

A frame contains the nodes at places inside it. Nodes do not name their frame, so the two cannot contradict each other.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeAlias, TypeGuard

import msgspec

from pnne_nb.errors import BadValueError, shown
from pnne_nb.graph.schema.names import check_identifier
from pnne_nb.graph.schema.property_types import is_number

COLOURS = ("grey", "blue", "green", "yellow", "red", "purple")
MAX_TITLE = 200
MAX_TEXT = 5_000
"""Characters."""

FARTHEST = 1_000_000_000
"""Pixels: beyond this, a page cannot draw."""

PADDING = 14.0
TITLE_HEIGHT = 26.0
"""Pixels between the edge of a frame and its contents, and for the title above them: together less than between two ranks of
an arranged graph."""

Box: TypeAlias = tuple[float, float, float, float]
"""Left, top, width and height in the editor's pixels."""


class Frame(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True):
    """A frame at the time of reading; a frame without nodes is a note.

    Attributes:
        name: Its name among the frames of its graph.
        box: Left, top, width and height in the editor's pixels.
        title: A line at its top.
        text: The text under the title.
        colour: One of ``"grey"``, ``"blue"``, ``"green"``, ``"yellow"``, ``"red"``, ``"purple"``.
    """

    name: str
    box: Box
    title: str = ""
    text: str = ""
    colour: str = "grey"


class Held(NamedTuple):
    """The nodes and frames inside a frame."""

    nodes: tuple[str, ...]
    frames: tuple[str, ...]


def checked_frame(frame: Frame) -> Frame:
    """Return `frame` if it is legal.

    Raises:
        IllegalNameError: If its name is not 1 to 100 letters, digits and underscores.
        BadValueError: If its box, its texts or its colour are not legal.
    """
    name = check_identifier(frame.name)
    place = _checked_box(name, frame.box)
    given: tuple[tuple[str, object, int], ...] = (("title", frame.title, MAX_TITLE), ("text", frame.text, MAX_TEXT))
    for what, words, most in given:
        allowed = "\n\t" if what == "text" else ""
        if not isinstance(words, str) or len(words) > most or any(_is_control(c) and c not in allowed for c in words):
            raise BadValueError(
                f"Frame {name!r}: a {what} is a text of at most {most} characters, none of them control."
            )
    if frame.colour not in COLOURS:
        raise BadValueError(f"Frame {name!r} cannot be {shown(frame.colour)}: it is one of {', '.join(COLOURS)}.")
    return msgspec.structs.replace(frame, box=place)


def _checked_box(name: str, box: object) -> Box:
    match box:
        case (left, top, width, height) if _is_place(left) and _is_place(top) and _is_size(width) and _is_size(height):
            return float(left), float(top), float(width), float(height)
    raise BadValueError(
        f"Frame {name!r} cannot stand at {shown(box)}: give left, top, width and height, "
        f"numbers up to {FARTHEST:,}, the last two above 0."
    )


def _is_place(part: object) -> TypeGuard[float]:
    return is_number(part) and abs(part) <= FARTHEST


def _is_size(part: object) -> TypeGuard[float]:
    return _is_place(part) and part > 0


def _is_control(letter: str) -> bool:
    return unicodedata.category(letter) in ("Cc", "Cs")


def held(frame: Frame, centres: Mapping[str, tuple[float, float]], frames: Iterable[Frame]) -> Held:
    """Return the contents of a frame: nodes whose centre is inside, and frames that are inside as a whole."""
    left, top, width, height = frame.box

    def inside(x: float, y: float) -> bool:
        return left <= x <= left + width and top <= y <= top + height

    within = [
        other.name
        for other in frames
        if other.name != frame.name
        and other.box != frame.box
        and inside(*other.box[:2])
        and inside(other.box[0] + other.box[2], other.box[1] + other.box[3])
    ]
    return Held(tuple(name for name, place in centres.items() if inside(*place)), tuple(within))


def around(boxes: Iterable[Box]) -> Box:
    """Return the box of a frame around other boxes, at least one; in whole pixels."""
    boxes = tuple(boxes)
    left = math.floor(min(x for x, _, _, _ in boxes) - PADDING)
    top = math.floor(min(y for _, y, _, _ in boxes) - PADDING - TITLE_HEIGHT)
    right = math.ceil(max(x + width for x, _, width, _ in boxes) + PADDING)
    bottom = math.ceil(max(y + height for _, y, _, height in boxes) + PADDING)
    return float(left), float(top), float(right - left), float(bottom - top)
