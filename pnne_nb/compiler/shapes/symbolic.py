"""Computes with symbolic sizes: linear expressions in names such as ``N`` and ``H``, their products, and quotients.

A `SymbolicSize` is what a person reads on an edge: ``"N"``, ``"H//2"``, ``"(H + 1)//2"``, ``"3*H*W"``, ``"T + 1"``. Each
symbol gets several trial values (`probe_values`), so that a node is run a few times; `fit` finds the expression that
explains the sizes of its results. Torch's own symbolic shapes (sympy) are exact, but take longer than an edit may.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import combinations
from math import gcd
from typing import TypeAlias, final

import msgspec

Trials = tuple[int, ...]
"""The value of one size in each trial."""

_DIVISORS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 16, 18, 20, 24, 28, 32, 48, 64)

_LARGEST_FACTOR = 64

Refine = Callable[[Trials, int], int | None]
"""Runs the node again with an input size (given by its trials) enlarged by some amount over its first trial;
returns the size in question, or None if the node refuses."""


@final
class Quotient(msgspec.Struct, frozen=True):
    """``numerator // divisor``, rounded down."""

    numerator: SymbolicSize
    divisor: int

    def __str__(self) -> str:
        return f"{_factor(self.numerator)}//{self.divisor}"


@final
class Product(msgspec.Struct, frozen=True):
    """Several sizes multiplied."""

    factors: tuple[SymbolicSize, ...]

    def __str__(self) -> str:
        return "*".join(_factor(factor) for factor in self.factors)


Atom: TypeAlias = str | Quotient | Product


@final
class SymbolicSize(msgspec.Struct, frozen=True):
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


def symbol(name: str) -> SymbolicSize:
    """Return the size with that name."""
    return SymbolicSize(((name, 1),))


def number(value: int) -> SymbolicSize:
    """Return a fixed size."""
    return SymbolicSize((), value)


def add(sizes: Iterable[SymbolicSize]) -> SymbolicSize:
    """Return the sum of sizes."""
    terms: dict[Atom, int] = {}
    constant = 0
    for size in sizes:
        constant += size.constant
        for atom, factor in size.terms:
            terms[atom] = terms.get(atom, 0) + factor
    return SymbolicSize(tuple((atom, factor) for atom, factor in terms.items() if factor), constant)


def affine(size: SymbolicSize, slope: int, offset: int) -> SymbolicSize:
    """Return ``slope * size + offset``."""
    terms = tuple((atom, factor * slope) for atom, factor in size.terms) if slope else ()
    constant = size.constant * slope + offset
    if constant and len(terms) == 1 and terms[0][1] == 1 and isinstance(quotient := terms[0][0], Quotient):
        # n//d + k == (n + k*d)//d
        return divide(affine(quotient.numerator, 1, constant * quotient.divisor), quotient.divisor)
    return SymbolicSize(terms, constant)


def multiply(sizes: Iterable[SymbolicSize]) -> SymbolicSize:
    """Return the product of sizes."""
    factor = 1
    factors: list[SymbolicSize] = []
    for size in sizes:
        if not size.terms:
            factor *= size.constant
        elif len(size.terms) == 1 and not size.constant:
            ((atom, own),) = size.terms
            factor *= own
            factors.extend(atom.factors if isinstance(atom, Product) else [SymbolicSize(((atom, 1),))])
        else:
            factors.append(size)
    if not factors:
        return number(factor)
    if len(factors) == 1:
        return affine(factors[0], factor, 0)
    return SymbolicSize(((Product(tuple(factors)), factor),)) if factor else number(0)


def divide(size: SymbolicSize, divisor: int) -> SymbolicSize:
    """Return ``size // divisor``, as simple as it can be written."""
    if divisor == 1:
        return size
    if all(factor % divisor == 0 for _, factor in size.terms):
        return SymbolicSize(tuple((atom, factor // divisor) for atom, factor in size.terms), size.constant // divisor)
    if len(size.terms) == 1:
        ((atom, factor),) = size.terms
        if factor == 1 and isinstance(atom, Quotient):
            # (n//c + k)//d == (n + k*c)//(c*d)
            return divide(affine(atom.numerator, 1, size.constant * atom.divisor), atom.divisor * divisor)
        common = gcd(factor, divisor)
        if common > 1 and size.constant % common == 0:
            return divide(SymbolicSize(((atom, factor // common),), size.constant // common), divisor // common)
    return SymbolicSize(((Quotient(size, divisor), 1),))


def _factor(size: SymbolicSize) -> str:
    simple = len(size.terms) == 1 and not size.constant and isinstance(size.terms[0][0], str) and size.terms[0][1] == 1
    return str(size) if simple else f"({size})"


def fit(
    seen: Trials,
    inputs: Sequence[tuple[SymbolicSize, Trials]],
    same_axis: Sequence[tuple[SymbolicSize, Trials]],
    refine: Refine,
) -> SymbolicSize | None:
    """Return the expression that explains what was seen, or None.

    Args:
        seen: The size in question.
        inputs: Every size of the inputs that differs between trials, first those at the same place.
        same_axis: The sizes, fixed ones included, of all inputs at the same place.
        refine: For rounding that the trials leave open.
    """
    if len(set(seen)) == 1:
        return number(seen[0])
    for size, trials in inputs:
        if trials == seen:
            return size
    if len(same_axis) > 1 and all(
        sum(values) == seen[k] for k, values in enumerate(zip(*(t for _, t in same_axis), strict=True))
    ):
        return add(size for size, _ in same_axis)
    for size, trials in inputs:
        found = _affine(seen, size, trials, refine)
        if found is not None:
            return found
    return _product(seen, inputs) or _sum(seen, inputs)


def _affine(seen: Trials, size: SymbolicSize, trials: Trials, refine: Refine) -> SymbolicSize | None:
    if len(set(trials)) < len(trials):
        return None
    for divisor in _DIVISORS:
        slope = (seen[-1] - seen[0]) / (trials[-1] - trials[0]) * divisor
        for factor in sorted({math.floor(slope), math.ceil(slope)}, key=lambda f: abs(f - slope)):
            if factor <= 0 or factor > _LARGEST_FACTOR or math.gcd(factor, divisor) > 1:
                continue
            # divisor*seen <= factor*size + offset < divisor*(seen + 1), in every trial
            low = max(divisor * s - factor * t for s, t in zip(seen, trials, strict=True))
            high = min(divisor * s - factor * t + divisor - 1 for s, t in zip(seen, trials, strict=True))
            if low > high:
                continue
            for step in range(1, divisor):
                if low == high:
                    break
                more = refine(trials, step)
                if more is None:
                    break
                low = max(low, divisor * more - factor * (trials[0] + step))
                high = min(high, divisor * more - factor * (trials[0] + step) + divisor - 1)
            if low > high:
                continue
            offset = min(range(low, high + 1), key=abs)
            return divide(affine(size, factor, offset), divisor)
    return None


def _product(seen: Trials, inputs: Sequence[tuple[SymbolicSize, Trials]]) -> SymbolicSize | None:
    """Return a multiple or a fraction of a product of input sizes: what ``flatten`` and ``view`` give."""
    distinct = list({trials: (size, trials) for size, trials in inputs}.values())[:6]
    for count in range(2, len(distinct) + 1):
        for chosen in combinations(distinct, count):
            products = [math.prod(values) for values in zip(*(trials for _, trials in chosen), strict=True)]
            if any(s * products[0] != seen[0] * p for s, p in zip(seen, products, strict=True)):
                continue
            common = math.gcd(seen[0], products[0])
            whole = multiply(size for size, _ in chosen)
            return divide(affine(whole, seen[0] // common, 0), products[0] // common)
    return None


def _sum(seen: Trials, inputs: Sequence[tuple[SymbolicSize, Trials]]) -> SymbolicSize | None:
    for (one, ones), (other, others) in combinations(inputs, 2):
        rest = {s - a - b for s, a, b in zip(seen, ones, others, strict=True)}
        if len(rest) == 1:
            return affine(add((one, other)), 1, rest.pop())
    return None


def probe_values(axis: int, rank: int, index: int) -> tuple[int, int, int]:
    """Return three trial values for a symbolic size.

    Recurrent layers are unrolled in a trial, so that what may be a sequence is short; what may be an image or
    a signal is long enough for deep strided networks, and divisible.

    Args:
        axis: Its axis in the Input.
        rank: How many axes that Input has.
        index: How many symbols have been given values before.
    """
    if (rank >= 4 and axis >= 2) or (rank == 3 and axis == 2):
        return 256 + 64 * index, 320 + 128 * index, 448 + 192 * index
    return 6 + 2 * index, 7 + 3 * index, 9 + 5 * index
