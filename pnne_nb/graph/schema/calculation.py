"""Calculates what is typed for a number: ``2*64``, ``(3 + 1)*8``, and with sizes of a graph ``4*hidden``.

Nothing is evaluated as code.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from pnne_nb.errors import near
from pnne_nb.graph.schema.values import Calculated, mapped

Sizes = Mapping[str, int]
"""Named sizes of a graph."""

NO_SIZES: Final[Sizes] = {}

_TOKEN: Final = re.compile(r"\s*(\d[\d_]*|[A-Za-z_]\w*|//|\*(?!\*)|[-+()])", re.ASCII)
_NAME: Final = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_SIMPLE: Final = (str, float, bool, type(None))
_LONGEST: Final = 200
_LARGEST: Final = 2**53 - 1
"""The largest number that a browser holds exactly, which calculates the same."""


def calculated(text: str, sizes: Sizes = NO_SIZES) -> int | None:
    """Return the result of a calculation with whole numbers, names, ``+``, ``-``, ``*``, ``//`` and brackets.

    Args:
        text: The calculation.
        sizes: What its names stand for.

    Returns:
        None if the text is no such calculation (a bare number is none), has other names, divides by zero, or gets too
        large. A `Calculated` if it has names.
    """
    reader = _Reader(_tokens(text), sizes)
    try:
        value = reader.sum()
    except (ValueError, ZeroDivisionError, LookupError):
        return None
    if reader.left or not (reader.operations or reader.names):
        return None
    return Calculated(value, "".join(text.split())) if reader.names else value


def names_in(text: str) -> list[str]:
    """Return the names in a calculation, each once."""
    return list(dict.fromkeys(_NAME.findall(text)))


def written_out(text: str, name: str, value: int) -> str:
    """Return a calculation with a number in place of a name."""
    return _NAME.sub(lambda found: (f"({value})" if value < 0 else str(value)) if found[0] == name else found[0], text)


def why_not(text: str, sizes: Sizes) -> str:
    """Return why a text that looks like a calculation gives no number; empty if it does not look like one."""
    tokens = _tokens(text)
    unknown = [name for name in names_in(text) if name not in sizes]
    if not tokens:
        return ""
    if unknown:
        name = unknown[0]
        return f'The graph has no size {name!r}; graph.sizes["{name}"] = 64 adds it.{near(name, sizes)}'
    try:
        _Reader(tokens, sizes).sum()
    except ZeroDivisionError:
        return f"{text.strip()} divides by zero."
    except (ValueError, LookupError):
        pass
    return ""


def again(value: object, sizes: Sizes) -> object:
    """Return a constant with its calculations done again; a number whose names are unknown stays, as a plain one.

    Raises:
        ValueError: If a calculation gives no number any more; the text says why.
    """

    def change(number: Calculated) -> int:
        result = calculated(number.text, sizes)
        if result is None and all(name in sizes for name in names_in(number.text)):
            raise ValueError(why_not(number.text, sizes) or f"{number.text} is too large.")
        return int(number) if result is None else result

    return mapped(value, change)


def names_used(value: object) -> list[str]:
    """Return the names in the calculations of a constant."""
    found: list[str] = []
    if not isinstance(value, _SIMPLE):

        def note(number: Calculated) -> int:
            found.extend(names_in(number.text))
            return number

        mapped(value, note)
    return found


def _tokens(text: str) -> list[str]:
    tokens = _TOKEN.findall(text) if len(text) <= _LONGEST else []
    return tokens if "".join(tokens) == "".join(text.split()) else []


class _Reader:
    def __init__(self, tokens: list[str], sizes: Sizes) -> None:
        self.left = tokens[::-1]
        self.operations = 0
        self.names = 0
        self._sizes = sizes

    def sum(self) -> int:
        value = self._product()
        while self.left and self.left[-1] in "+-":
            sign, other = self.left.pop(), self._product()
            value = self._known(value + other if sign == "+" else value - other)
        return value

    def _product(self) -> int:
        value = self._factor()
        while self.left and self.left[-1] in ("*", "//"):
            sign, other = self.left.pop(), self._factor()
            value = self._known(value * other if sign == "*" else value // other)
        return value

    def _factor(self) -> int:
        part = self.left.pop() if self.left else ""
        if part in ("+", "-"):
            value = self._factor()
            return -value if part == "-" else value
        if part == "(":
            value = self.sum()
            if not self.left or self.left.pop() != ")":
                raise ValueError(part)
            return value
        if _NAME.fullmatch(part):
            self.names += 1
            return int(self._sizes[part])
        value = int(part.replace("_", ""))
        if value > _LARGEST:
            raise ValueError(part)
        return value

    def _known(self, value: int) -> int:
        self.operations += 1
        if abs(value) > _LARGEST:
            raise ValueError(value)
        return value
