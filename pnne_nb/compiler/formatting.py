"""Lines of source as a formatter would leave them: one where it fits, else one item per line with a comma behind it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from pnne_nb.compiler.constants import emit

WIDTH = 88
"""Longer lines are broken: what formatters take where nobody has set anything else."""

INDENT = "    "


class Group(NamedTuple):
    """An expression with brackets, which may be broken inside them.

    Attributes:
        opening: Up to the bracket and with it.
        items: What stands inside.
        closing: The bracket, and what comes behind it.
        joint: Between the items: a comma, or a space inside a comprehension.
    """

    opening: str
    items: tuple[Text, ...] = ()
    closing: str = ")"
    joint: str = ", "

    def __str__(self) -> str:
        opening, items, closing, joint = self
        return opening + joint.join(map(str, items)) + closing


Text: TypeAlias = "str | Group"
"""An expression; a plain one stays on its line."""


def before(prefix: str, text: Text) -> Text:
    """Return an expression with something in front of it."""
    return prefix + text if isinstance(text, str) else Group(prefix + text.opening, *text[1:])


def behind(text: Text, suffix: str) -> Text:
    """Return an expression with something behind it."""
    return text + suffix if isinstance(text, str) else text._replace(closing=text.closing + suffix)


def display(items: Sequence[Text]) -> Group:
    """Return a list; what it holds several times is written once."""
    return _comprehension(items) or Group("[", tuple(items), "]")


def spread(items: Sequence[Text]) -> tuple[Text, ...]:
    """Return the arguments of a call; what stands among them several times in a row is written once."""
    once = _comprehension(items)
    return tuple(items) if once is None else (before("*", once),)


def _comprehension(items: Sequence[Text]) -> Group | None:
    if len(items) < 3 or any(item != items[0] for item in items) or isinstance(items[0], str):
        return None
    return Group("[", (items[0], f"for _ in range({len(items)})"), "]", " ")


def literal(value: object) -> Text:
    """Return a constant; the items of a long list may stand one per line."""
    text = emit(value)
    if len(text) <= WIDTH // 2 or not isinstance(value, list):
        return text
    return Group("[", tuple(map(literal, value)), "]")


def laid_out(text: Text, margin: str, comment: str = "", lead: str = "") -> list[str]:
    """Return the lines of a statement or of an item.

    Args:
        text: What to write.
        margin: What its lines begin with.
        comment: What to say at its end, or above it where that line would be too long.
        lead: What stands in front of it in its first line: ``"x = "``.
    """
    line = margin + lead + str(text)
    if not comment and len(line) <= WIDTH:
        return [line]
    text = before(lead, text)
    tail = f"  # {comment}" if comment else ""
    if len(line) <= WIDTH or isinstance(text, str) or not text.items:
        return [line + tail] if len(line + tail) <= WIDTH or not comment else [f"{margin}# {comment}", line]
    if len(margin + text.opening) > WIDTH and " = " in text.opening:  # many names on the left
        names, _, opening = text.opening.partition(" = ")
        inner = laid_out(text._replace(opening=opening), margin + INDENT)
        return [f"{margin}{names} = (", *inner, f"{margin}){tail}"]
    call = text.opening.endswith("(") and text.opening != "("
    alone = call and len(text.items) == 1 and isinstance(text.items[0], Group) and text.items[0].opening[-1] == "["
    comma = "" if alone else text.joint.rstrip()
    return [
        margin + text.opening,
        *(line for item in text.items for line in laid_out(behind(item, comma), margin + INDENT)),
        margin + text.closing + tail,
    ]
