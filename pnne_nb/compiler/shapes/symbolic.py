"""Finds symbolic sizes: linear expressions in names such as ``N`` and ``H``, their products, and quotients.

A `SymbolicSize` is what a person reads on an edge: ``"N"``, ``"H//2"``, ``"(H + 1)//2"``, ``"3*H*W"``, ``"T + 1"``. Each
symbol gets several trial values, so that a node runs a few times. An `Abstract` holds what the trials gave at a port, and
`explain` finds the expressions for its sizes. Torch's own symbolic shapes (sympy) are exact, but take longer than an edit may.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import NamedTuple, TypeAlias, final

import msgspec
import torch

from pnne_nb.errors import shown

Trials = tuple[int, ...]
"""The value of one size in each trial."""

_DIVISORS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 16, 18, 20, 24, 28, 32, 48, 64)

_LARGEST_FACTOR = 64

_MANY = 16
"""Items of a tuple of which no sizes are looked for where it has more."""

Seen: TypeAlias = object
"""What one trial gave at a port: a `Meta`, a constant, or a tuple or list of these."""

Rerun: TypeAlias = Callable[[Trials, int], Seen]
"""Runs a node again with an input size, given by its trials, enlarged by some amount over its first trial; returns None
if the node refuses."""


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
            inner = f"({atom})" if isinstance(atom, Quotient) and factor != 1 else str(atom)
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
        common = math.gcd(factor, divisor)
        if common > 1 and size.constant % common == 0:
            return divide(SymbolicSize(((atom, factor // common),), size.constant // common), divisor // common)
    return SymbolicSize(((Quotient(size, divisor), 1),))


def _factor(size: SymbolicSize) -> str:
    simple = len(size.terms) == 1 and not size.constant and isinstance(size.terms[0][0], str) and size.terms[0][1] == 1
    return str(size) if simple else f"({size})"


class Meta(NamedTuple):
    """Shape and element type of a tensor in one trial."""

    shape: tuple[int, ...]
    dtype: torch.dtype

    def tensor(self) -> torch.Tensor:
        """Return a meta tensor of that shape."""
        return torch.empty(self.shape, dtype=self.dtype, device="meta")


@final
class Abstract:
    """The value at a port, as far as it is known.

    Attributes:
        trials: What each trial gave.
        sizes: For a tensor or a tuple of tensors and whole numbers, its symbolic sizes, None where no expression was
            found; for a whole number, the one symbolic size; else empty.
    """

    __slots__ = ("_hash", "sizes", "trials")

    def __init__(self, trials: tuple[Seen, ...], sizes: tuple[SymbolicSize | None, ...] = ()) -> None:
        self.trials = trials
        self.sizes = sizes
        self._hash = hash((repr(trials), sizes))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, Abstract)
            and self._hash == other._hash
            and self.sizes == other.sizes
            and repr(self.trials) == repr(other.trials)
        )

    @property
    def shape(self) -> tuple[int | str, ...] | None:
        """Numbers and expressions, ``"?"`` where none was found; None if it is not a tensor."""
        if not isinstance(self.trials[0], Meta):
            return None
        return tuple(["?" if size is None else size.plain() for size in self.sizes])

    @property
    def dtype(self) -> str | None:
        """Name of the element type; None if it is not a tensor."""
        first = self.trials[0]
        return str(first.dtype).removeprefix("torch.") if isinstance(first, Meta) else None

    @property
    def items(self) -> int | None:
        """Number of items of a tuple or list, if it is the same in every trial; None for others."""
        counts = {len(seen) if type(seen) in (tuple, list) else None for seen in self.trials}  # type: ignore[arg-type]  # no tensor stands where there is none
        return counts.pop() if len(counts) == 1 else None

    def at(self, trial: int) -> Seen:
        """Return what one trial gave; what depends on no symbol has only one."""
        return self.trials[min(trial, len(self.trials) - 1)]

    def __str__(self) -> str:
        if self.shape is None:
            return shown(self.trials[0])
        return f"({', '.join(map(str, self.shape))}{',' if len(self.shape) == 1 else ''})"


def explain(trials: tuple[Seen, ...], inputs: Mapping[str, Abstract], rerun: Rerun) -> Abstract:
    """Return a result with symbolic sizes.

    Args:
        trials: What each trial gave.
        inputs: What the node was given.
        rerun: For rounding that the trials leave open.
    """
    first = _numbers(trials[0])
    if first is not None:
        rank = len(first)
        shapes = [shape for shape in map(_numbers, trials) if shape is not None and len(shape) == rank]
        if len(shapes) < len(trials):
            return Abstract(trials, (None,) * rank)
        axes = enumerate(zip(*shapes, strict=True))
        return Abstract(trials, tuple([_explain_axis(sizes, axis, rank, inputs, rerun) for axis, sizes in axes]))
    values = tuple([seen for seen in trials if type(seen) is int])
    if len(values) == len(trials):
        return Abstract(trials, (_explain_axis(values, 0, 0, inputs, rerun),))
    return Abstract(trials)


def _explain_axis(
    seen: Trials, axis: int, rank: int, inputs: Mapping[str, Abstract], rerun: Rerun
) -> SymbolicSize | None:
    if len(set(seen)) == 1:
        return number(seen[0])
    same: list[tuple[SymbolicSize, Trials]] = []
    others: list[tuple[SymbolicSize, Trials]] = []
    for value in inputs.values():
        for place, (size, trials) in enumerate(_sizes(value)):
            if size is None:
                continue
            known = trials if len(trials) == len(seen) else trials * len(seen)  # a weight has one trial
            (same if place == axis and len(value.sizes) == rank else others).append((size, known))
    varying = [pair for pair in (*same, *others) if len(set(pair[1])) > 1]

    def refine(trials: Trials, step: int) -> int | None:
        again = rerun(trials, step)
        if (sizes := _numbers(again)) is not None:
            return sizes[axis] if len(sizes) > axis else None
        return again if isinstance(again, int) else None

    return fit(seen, varying, same, refine)


def _numbers(seen: Seen) -> tuple[int, ...] | None:
    """Return the sizes of a tensor, or the numbers in a tuple, one after the other where it holds tensors."""
    if isinstance(seen, Meta):
        return seen.shape
    if type(seen) is not tuple or not 0 < len(seen) <= _MANY:
        return None
    found = [(each,) if type(each) is int else _numbers(each) for each in seen]
    return tuple([size for sizes in found for size in sizes or ()]) if None not in found else None


def _sizes(value: Abstract) -> Iterator[tuple[SymbolicSize | None, Trials]]:
    """Yield the sizes of a tensor, the number itself, or the numbers in a tuple of them; None for an unknown one."""
    if _numbers(value.trials[0]) is not None:
        shapes = [shape for shape in map(_numbers, value.trials) if shape is not None]
        yield from ((size, tuple([shape[axis] for shape in shapes])) for axis, size in enumerate(value.sizes))
    elif value.sizes and value.sizes[0] is not None:
        yield value.sizes[0], tuple(seen for seen in value.trials if isinstance(seen, int))


def fit(
    seen: Trials,
    inputs: Sequence[tuple[SymbolicSize, Trials]],
    same_axis: Sequence[tuple[SymbolicSize, Trials]],
    refine: Callable[[Trials, int], int | None],
) -> SymbolicSize | None:
    """Return the expression that explains what was seen, or None.

    Args:
        seen: The size in question, which differs between trials.
        inputs: Every size of the inputs that differs between trials, first those at the same place.
        same_axis: The sizes, fixed ones included, of all inputs at the same place.
        refine: For rounding that the trials leave open: as `Rerun`, but returns the size in question.
    """
    for size, trials in inputs:
        if trials == seen:
            return size
    if len(same_axis) > 1 and tuple(map(sum, zip(*(trials for _, trials in same_axis), strict=True))) == seen:
        return add(size for size, _ in same_axis)
    for size, trials in inputs:
        found = _affine(seen, size, trials, refine)
        if found is not None:
            return found
    return _product(seen, inputs) or _sum(seen, inputs)


def _affine(
    seen: Trials, size: SymbolicSize, trials: Trials, refine: Callable[[Trials, int], int | None]
) -> SymbolicSize | None:
    known = dict(zip(trials, seen, strict=True))
    if len(known) < 2 or any(known[trial] != size for trial, size in zip(trials, seen, strict=True)):
        return None
    first, last = min(known), max(known)
    for divisor in _DIVISORS:
        slope = (known[last] - known[first]) / (last - first) * divisor
        for factor in sorted({math.floor(slope), math.ceil(slope)}, key=lambda f: abs(f - slope)):
            if factor <= 0 or factor > _LARGEST_FACTOR or math.gcd(factor, divisor) > 1:
                continue
            # divisor*seen <= factor*size + offset < divisor*(seen + 1), in every trial
            bounds = [divisor * s - factor * t for s, t in zip(seen, trials, strict=True)]
            low, high = max(bounds), min(bounds) + divisor - 1
            for step in range(1, divisor):
                if low >= high or (more := refine(trials, step)) is None:
                    break
                bound = divisor * more - factor * (trials[0] + step)
                low, high = max(low, bound), min(high, bound + divisor - 1)
            if low <= high:
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
