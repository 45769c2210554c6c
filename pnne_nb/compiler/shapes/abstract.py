"""Defines abstract values of shape inference: what each trial returned, and the symbolic sizes behind it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias, final

import torch

from pnne_nb.compiler.shapes.symbolic import SymbolicSize, Trials, fit, number
from pnne_nb.errors import shown
from pnne_nb.graph.schema.values import TorchConstant


class Meta(NamedTuple):
    """Shape and element type of a tensor in one trial."""

    shape: tuple[int, ...]
    dtype: torch.dtype

    def tensor(self) -> torch.Tensor:
        """Return a meta tensor of that shape."""
        return torch.empty(self.shape, dtype=self.dtype, device="meta")


Seen: TypeAlias = object
"""What one trial gave at a port: a `Meta`, a constant, or a tuple or list of these."""

Rerun: TypeAlias = Callable[[Trials, int], object]
"""Runs a node with an input size, given by its trials, enlarged by some amount over its first trial."""


@final
class Abstract:
    """The value at a port, as far as it is known.

    Attributes:
        trials: What each trial gave.
        sizes: For a tensor, its symbolic sizes, None where no expression was found; for a whole number, the
            one symbolic size; else empty.
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
        return tuple("?" if size is None else size.plain() for size in self.sizes)

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

    def __str__(self) -> str:
        if self.shape is None:
            return shown(self.trials[0])
        return f"({', '.join(map(str, self.shape))}{',' if len(self.shape) == 1 else ''})"


def materialize(seen: Seen) -> object:
    """Return the value of a trial with meta tensors."""
    if isinstance(seen, Meta):
        return seen.tensor()
    if isinstance(seen, TorchConstant):
        return getattr(torch, seen.name)
    if type(seen) in (tuple, list):
        assert isinstance(seen, (tuple, list))
        return type(seen)(materialize(item) for item in seen)
    return seen


def describe(value: object) -> Seen:
    """Return the result of a trial with a `Meta` for each tensor."""
    if isinstance(value, torch.Tensor):
        return Meta(tuple(value.shape), value.dtype)
    if isinstance(value, list):
        return [describe(item) for item in value]
    if isinstance(value, tuple):
        return tuple(describe(item) for item in value)
    return value


def explain(trials: tuple[Seen, ...], inputs: Mapping[str, Abstract], rerun: Rerun) -> Abstract:
    """Return a result with symbolic sizes.

    Args:
        trials: What each trial gave.
        inputs: What the node was given.
        rerun: For rounding that the trials leave open.
    """
    first = trials[0]
    if isinstance(first, Meta):
        if not all(isinstance(seen, Meta) and len(seen.shape) == len(first.shape) for seen in trials):
            return Abstract(trials, (None,) * len(first.shape))
        shapes = [seen.shape for seen in trials if isinstance(seen, Meta)]
        return Abstract(
            trials,
            tuple(
                _explain_axis(tuple(shape[axis] for shape in shapes), axis, len(first.shape), inputs, rerun)
                for axis in range(len(first.shape))
            ),
        )
    if type(first) is int and all(type(seen) is int for seen in trials):
        values = tuple(seen for seen in trials if isinstance(seen, int))
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
            (same if place == axis and len(value.sizes) == rank else others).append((size, trials))
    varying = [pair for pair in (*same, *others) if len(set(pair[1])) > 1]

    def refine(trials: Trials, step: int) -> int | None:
        again = rerun(trials, step)
        if isinstance(again, Meta):
            return again.shape[axis] if len(again.shape) > axis else None
        return again if isinstance(again, int) else None

    return fit(seen, varying, same, refine)


def _sizes(value: Abstract) -> Iterator[tuple[SymbolicSize, Trials]]:
    """Yield the known sizes of a tensor, the number itself, or the numbers in a tuple of them."""
    first = value.trials[0]
    if isinstance(first, Meta):
        shapes = [seen.shape for seen in value.trials if isinstance(seen, Meta)]
        for axis, size in enumerate(value.sizes):
            yield size or number(0), tuple(shape[axis] for shape in shapes)
    elif value.sizes and value.sizes[0] is not None:
        yield value.sizes[0], tuple(seen for seen in value.trials if isinstance(seen, int))


def known_shapes(values: Sequence[Abstract | None], trial: int = 0) -> list[tuple[int, ...] | None]:
    """Return the shapes of tensors in one trial; None for what is unknown or no tensor."""
    shapes: list[tuple[int, ...] | None] = []
    for value in values:
        seen = value.trials[trial] if value is not None else None
        shapes.append(seen.shape if isinstance(seen, Meta) else None)
    return shapes
