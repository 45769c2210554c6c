"""Calculates what is typed for a number: ``2*64``, ``64//4``, ``(3 + 1)*8``. Nothing is evaluated as code."""

from __future__ import annotations

import re
from typing import Final

_TOKEN: Final = re.compile(r"\s*(\d[\d_]*|//|\*(?!\*)|[-+()])", re.ASCII)
_LONGEST: Final = 200
_LARGEST: Final = 2**53 - 1
"""The largest number that a browser holds exactly, which calculates the same."""


def calculated(text: str) -> int | None:
    """Return the result of a calculation with whole numbers, ``+``, ``-``, ``*``, ``//`` and brackets.

    Returns:
        None if the text is no such calculation (a bare number is none), divides by zero, or gets too large.
    """
    tokens = _TOKEN.findall(text) if len(text) <= _LONGEST else []
    if "".join(tokens) != "".join(text.split()):
        return None
    reader = _Reader(tokens)
    try:
        value = reader.sum()
    except (ValueError, ZeroDivisionError):
        return None
    return value if not reader.left and reader.operations else None


class _Reader:
    def __init__(self, tokens: list[str]) -> None:
        self.left = tokens[::-1]
        self.operations = 0

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
        value = int(part.replace("_", ""))
        if value > _LARGEST:
            raise ValueError(part)
        return value

    def _known(self, value: int) -> int:
        self.operations += 1
        if abs(value) > _LARGEST:
            raise ValueError(value)
        return value
