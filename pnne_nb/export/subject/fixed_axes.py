"""Finds the axes of a model's inputs at which a file takes one size only, and whether the model itself takes others."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace

from pnne_nb.errors import Diagnostic
from pnne_nb.export.formats.base import FixedAxis, TensorInfo, batch_size_of, numbered_axes
from pnne_nb.export.subject.example_batches import BatchMaker
from pnne_nb.export.subject.subject import Sizes, Subject

TRIED = 8
"""At most so many axes are tried with other sizes; the rest are told as they are."""

_OTHER = "?"
"""Stands for the size of a tried axis; no size of a document is called so."""


def fixed_axes(subject: Subject, sizes: Sizes | None, example: Mapping[str, int]) -> tuple[FixedAxis, ...]:
    """Return the axes of the inputs that have a number instead of a name.

    Each is tried with another size, alone and together with the axes of the same size, such as the two of a mask. Where the
    caller chose the number himself, it is not tried.
    """
    said = sizes or {}
    found = numbered_axes(subject.inputs)
    tried = [each for each in found if each.input not in said and each.value not in said.values()][:TRIED]
    free: dict[FixedAxis, tuple[FixedAxis, ...]] = {}
    for axis in tried:
        alike = tuple(other for other in found if other.value == axis.value)
        for together in dict.fromkeys([(axis,), alike]):
            if axis not in free and _takes_others(subject, together, example):
                free[axis] = together
    letters = _names(subject, free)
    return tuple(replace(axis, name=letters.get(axis, "")) for axis in found)


def _takes_others(subject: Subject, axes: Sequence[FixedAxis], example: Mapping[str, int]) -> bool:
    places = {(axis.input, axis.axis) for axis in axes}
    inputs = tuple(
        replace(info, shape=tuple(_OTHER if (info.name, n) in places else size for n, size in enumerate(info.shape)))
        for info in subject.inputs
    )
    value = axes[0].value
    maker = BatchMaker(subject.model, inputs, subject.limits, subject.seen)
    # One larger alone proves nothing: 9 pixels pool to as many as 8 do.
    beside = (value + 1, value - 1 if value > 1 else value + 2)
    return maker.accepts({**example, _OTHER: 2 * value}) or all(
        maker.accepts({**example, _OTHER: other}) for other in beside
    )


def _names(subject: Subject, free: Mapping[FixedAxis, Sequence[FixedAxis]]) -> dict[FixedAxis, str]:
    """Return a new name for each axis at which the model takes other sizes; axes that change together share one."""
    taken = {size for info in subject.inputs for size in info.shape}
    fresh = (name for number in itertools.count(1) if (name := f"S{number if number > 1 else ''}") not in taken)
    first = "N" not in taken and batch_size_of(subject.inputs) is None
    names: dict[FixedAxis, str] = {}
    for axis, together in free.items():
        if axis not in names:
            name = "N" if first and axis.axis == 0 and "N" not in names.values() else next(fresh)
            names |= dict.fromkeys(together, name)
    return names


def freed(inputs: Sequence[TensorInfo], fixed: Sequence[FixedAxis]) -> str:
    """Return the argument that leaves axes free at which the model takes other sizes; empty if there are none."""
    names = {(axis.input, axis.axis): axis.name for axis in fixed if axis.name}
    shapes = {
        info.name: tuple(names.get((info.name, place), size) for place, size in enumerate(info.shape))
        for info in inputs
        if any(name == info.name for name, _ in names)
    }
    return f"sizes={shapes}" if shapes else ""


def axis_findings(fixed: Sequence[FixedAxis], free: str, unchecked: str = "") -> list[Diagnostic]:
    """Return one finding for each input with fixed axes: a warning where the model takes other sizes.

    Args:
        fixed: The axes.
        free: The argument of `pn.export` that leaves them free.
        unchecked: What the format's own runtime does at other sizes, if it does not refuse them.
    """
    found = []
    for name, group in itertools.groupby(fixed, lambda axis: axis.input):
        axes = list(group)
        narrower = [axis for axis in axes if axis.name]
        message = f"The file takes {', '.join(map(str, axes))} only."
        if narrower:
            message += (
                f" The model takes other sizes at {', '.join(f'{each.input}.shape[{each.axis}]' for each in narrower)}."
            )
        hint = f"Name a size to leave it free: {free}." if narrower else None
        said = f"{message} {unchecked}".strip()
        found.append(Diagnostic("axis-fixed", said, name, hint=hint, severity="warning" if narrower else "info"))
    return found
