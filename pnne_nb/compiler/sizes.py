"""Symbolic sizes: linear expressions in names such as ``N`` and ``H``, in their products, and in whole quotients.

A `Size` is what a person reads on an edge: ``"N"``, ``"H//2"``, ``"(H + 1)//2"``, ``"3*H*W"``, ``"T + 1"``.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import gcd
from typing import TypeAlias, final

import msgspec


@final
class Quotient(msgspec.Struct, frozen=True):
    """``numerator // divisor``, rounded down."""

    numerator: Size
    divisor: int

    def __str__(self) -> str:
        return f"{_factor(self.numerator)}//{self.divisor}"


@final
class Product(msgspec.Struct, frozen=True):
    """Several sizes multiplied."""

    factors: tuple[Size, ...]

    def __str__(self) -> str:
        return "*".join(_factor(factor) for factor in self.factors)


Atom: TypeAlias = str | Quotient | Product


@final
class Size(msgspec.Struct, frozen=True):
    """A sum of multiples of atoms, and a constant.

    Attributes:
        terms: Pairs (atom, factor); a factor is never 0.
        constant: What is added.
    """

    terms: tuple[tuple[Atom, int], ...] = ()
    constant: int = 0

    def plain(self) -> int | str:
        """Return the number, if it is one, or else the expression as text."""
        return str(self) if self.terms else self.constant

    def __str__(self) -> str:
        texts = []
        for atom, factor in self.terms:
            inner = str(atom) if isinstance(atom, (str, Product)) else (str(atom) if factor == 1 else f"({atom})")
            text = inner if abs(factor) == 1 else f"{abs(factor)}*{inner}"
            texts.append(f"{'-' if factor < 0 else '+'} {text}")
        if self.constant or not texts:
            texts.append(f"{'-' if self.constant < 0 else '+'} {abs(self.constant)}")
        text = " ".join(texts)
        return text[2:] if text.startswith("+ ") else f"-{text[2:]}"


def symbol(name: str) -> Size:
    """Return the size that a name stands for."""
    return Size(((name, 1),))


def number(value: int) -> Size:
    """Return a fixed size."""
    return Size((), value)


def add(sizes: Iterable[Size]) -> Size:
    """Return the sum of sizes."""
    terms: dict[Atom, int] = {}
    constant = 0
    for size in sizes:
        constant += size.constant
        for atom, factor in size.terms:
            terms[atom] = terms.get(atom, 0) + factor
    return Size(tuple((atom, factor) for atom, factor in terms.items() if factor), constant)


def affine(size: Size, slope: int, offset: int) -> Size:
    """Return ``slope * size + offset``."""
    terms = tuple((atom, factor * slope) for atom, factor in size.terms) if slope else ()
    constant = size.constant * slope + offset
    if constant and len(terms) == 1 and terms[0][1] == 1 and isinstance(quotient := terms[0][0], Quotient):
        # n//d + k == (n + k*d)//d
        return divide(affine(quotient.numerator, 1, constant * quotient.divisor), quotient.divisor)
    return Size(terms, constant)


def multiply(sizes: Iterable[Size]) -> Size:
    """Return the product of sizes."""
    factor = 1
    factors: list[Size] = []
    for size in sizes:
        if not size.terms:
            factor *= size.constant
        elif len(size.terms) == 1 and not size.constant:
            ((atom, own),) = size.terms
            factor *= own
            factors.extend(atom.factors if isinstance(atom, Product) else [Size(((atom, 1),))])
        else:
            factors.append(size)
    if not factors:
        return number(factor)
    if len(factors) == 1:
        return affine(factors[0], factor, 0)
    return Size(((Product(tuple(factors)), factor),)) if factor else number(0)


def divide(size: Size, divisor: int) -> Size:
    """Return ``size // divisor``, as simple as it can be written."""
    if divisor == 1:
        return size
    if all(factor % divisor == 0 for _, factor in size.terms):
        return Size(tuple((atom, factor // divisor) for atom, factor in size.terms), size.constant // divisor)
    if len(size.terms) == 1:
        ((atom, factor),) = size.terms
        if factor == 1 and isinstance(atom, Quotient):
            # (n//c + k)//d == (n + k*c)//(c*d)
            return divide(affine(atom.numerator, 1, size.constant * atom.divisor), atom.divisor * divisor)
        common = gcd(factor, divisor)
        if common > 1 and size.constant % common == 0:
            return divide(Size(((atom, factor // common),), size.constant // common), divisor // common)
    return Size(((Quotient(size, divisor), 1),))


def _factor(size: Size) -> str:
    simple = len(size.terms) == 1 and not size.constant and isinstance(size.terms[0][0], str) and size.terms[0][1] == 1
    return str(size) if simple else f"({size})"
