"""Breaks long lines of source as a formatter does: one item a line, each with a comma behind it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import msgspec

from pnne_nb.compiler.ir.literals import emit

WIDTH = 88
"""Longer lines are broken: the default of formatters."""

INDENT = "    "


class Bracketed(msgspec.Struct, frozen=True, gc=False):
    """An expression in brackets, at which a line may be broken.

    Attributes:
        opening: Up to the bracket and with it.
        items: The expressions inside.
        closing: The bracket, and what comes behind it.
        joint: Between the items: a comma, or a space inside a comprehension.
        earlier: The same expression, to be broken in brackets further left where the opening alone is too long.
    """

    opening: str
    items: tuple[Text, ...] = ()
    closing: str = ")"
    joint: str = ", "
    earlier: Bracketed | None = None

    def __str__(self) -> str:
        items = self.items
        if len(items) == 1:  # what most calls have
            return f"{self.opening}{items[0]}{self.closing}"
        return f"{self.opening}{self.joint.join(map(str, items))}{self.closing}"


Text: TypeAlias = "str | Bracketed"
"""An expression; a plain one stays on its line."""


def before(prefix: str, text: Text) -> Text:
    """Return an expression with a prefix."""
    if isinstance(text, str):
        return prefix + text
    earlier = None if text.earlier is None else before(prefix, text.earlier)
    return msgspec.structs.replace(text, opening=prefix + text.opening, earlier=earlier)


def behind(text: Text, suffix: str) -> Text:
    """Return an expression with a suffix."""
    if isinstance(text, str):
        return text + suffix
    earlier = None if text.earlier is None else behind(text.earlier, suffix)
    return msgspec.structs.replace(text, closing=text.closing + suffix, earlier=earlier)


def display(items: Sequence[Text]) -> Bracketed:
    """Return a list display; repeated items become a comprehension."""
    return _comprehension(items) or Bracketed("[", tuple(items), "]")


def spread(items: Sequence[Text]) -> tuple[Text, ...]:
    """Return arguments of a call; repeated ones become an unpacked comprehension."""
    once = _comprehension(items)
    return tuple(items) if once is None else (before("*", once),)


def _comprehension(items: Sequence[Text]) -> Bracketed | None:
    if len(items) < 3 or any(item != items[0] for item in items) or isinstance(items[0], str):
        return None
    return Bracketed("[", (items[0], f"for _ in range({len(items)})"), "]", " ")


def literal(value: object) -> Text:
    """Return a constant; a long list or tuple may be broken into lines."""
    text = emit(value)
    if len(text) > WIDTH // 2 and isinstance(value, tuple) and len(value) > 1:
        return Bracketed("(", tuple(map(literal, value)))
    if len(text) <= WIDTH // 2 or not isinstance(value, list):
        return text
    return Bracketed("[", tuple(map(literal, value)), "]")


def laid_out(text: Text, margin: str, comment: str = "", lead: str = "") -> list[str]:
    """Return the lines of a statement or item, broken where it is too long.

    Args:
        text: What to write.
        margin: What its lines begin with.
        comment: What to say at its end, or above it where that line would be too long.
        lead: Start of its first line: ``"x = "``.
    """
    line = margin + lead + str(text)
    if not comment and len(line) <= WIDTH:
        return [line]
    text = before(lead, text)
    while isinstance(text, Bracketed) and text.earlier is not None and len(margin + text.opening) > WIDTH:
        text = text.earlier
    tail = f"  # {comment}" if comment else ""
    if len(line) <= WIDTH or isinstance(text, str) or not text.items:
        return [line + tail] if len(line + tail) <= WIDTH or not comment else [f"{margin}# {comment}", line]
    if len(margin + text.opening) > WIDTH and " = " in text.opening:  # many names on the left
        names, _, opening = text.opening.partition(" = ")
        inner = laid_out(Bracketed(opening, text.items, text.closing, text.joint), margin + INDENT)
        return [f"{margin}{names} = (", *inner, f"{margin}){tail}"]
    call = text.opening.endswith("(") and text.opening != "("
    alone = call and len(text.items) == 1 and isinstance(text.items[0], Bracketed) and text.items[0].opening[-1] == "["
    comma = "" if alone else text.joint.rstrip()
    return [
        margin + text.opening,
        *(line for item in text.items for line in laid_out(behind(item, comma), margin + INDENT)),
        margin + text.closing + tail,
    ]
