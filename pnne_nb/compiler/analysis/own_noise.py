"""Compares a model with a module that differs from itself: kernels of a GPU add numbers in another order at each call."""

from __future__ import annotations

import os
import statistics
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, final

import torch
from torch import nn

from pnne_nb.compiler.analysis.nested_values import tensors_in

FACTOR = 10.0
"""How often the largest difference of a few calls from each other may be exceeded."""

MOST = 1e-2
"""The usual difference, relative to a result's largest number, beyond which it is no rounding: nothing is allowed for it."""

_CUBLAS = "CUBLAS_WORKSPACE_CONFIG"


@final
class OwnNoise:
    """How far a module's results differ from those of the same call, by their names.

    Attributes:
        largest: The largest difference, absolute.
    """

    def __init__(self) -> None:
        self.largest = 0.0
        self._gaps: dict[str, float] = {}
        self._relative: list[float] = []

    def __bool__(self) -> bool:
        return bool(self._gaps) and self._usual <= MOST

    @property
    def _usual(self) -> float:
        return statistics.median(self._relative) if self._relative else 0.0

    def note(self, place: str, one: torch.Tensor, other: torch.Tensor) -> bool:
        """Note the difference of two results of the module itself; it is none of the model's."""
        gap, scale = _gap(one, other)
        self._gaps[place] = max(gap, self._gaps.get(place, 0.0))
        self.largest = max(gap, self.largest)
        self._relative += [gap / scale] if scale else []
        return True

    def allows(self, place: str, mine: torch.Tensor, theirs: torch.Tensor) -> bool:
        """Return whether a result of the model is as near to the module's as that is to its own.

        The same calls have not shown each result's noise: what is usual for the others is allowed for each.
        """
        if not self:
            return False
        gap, scale = _gap(mine, theirs)
        if not mine.is_floating_point() and not mine.is_complex():
            return place in self._gaps  # what is chosen by a number that varies, such as the largest
        return gap <= FACTOR * max(self._gaps.get(place, 0.0), self._usual * scale)

    def said(self, module: nn.Module) -> str:
        """Return in words what was compared with what; empty if the module does not differ from itself."""
        if not self:
            return ""
        return (
            f"{type(module).__name__} differs from itself by up to {self.largest:.1e} from call to call, as some kernels of "
            "its device do; what is drawn differs from it by no more than that allows"
        )


def _gap(one: torch.Tensor, other: torch.Tensor) -> tuple[float, float]:
    """Return the largest difference of two tensors and the largest number in them, absolute. Shape: `[*]`, both the same."""
    kind = torch.complex128 if one.is_complex() else torch.float64
    mine, theirs = (
        each.detach().to_dense() if each.layout != torch.strided else each.detach() for each in (one, other)
    )
    mine, theirs = mine.to(kind), theirs.to(kind)
    if not mine.numel():
        return 0.0, 0.0
    return (mine - theirs).abs().max().item(), torch.maximum(mine.abs(), theirs.abs()).max().item()


@contextmanager
def deterministic(*values: Any) -> Iterator[None]:
    """Have torch choose kernels in this block that give the same bits at each call, where it has such.

    This is a switch of the whole process, so it is set only where it matters, and restored after.

    Args:
        values: A module, and what it is called with; nothing changes if all of their tensors are on the CPU.
    """
    parts = [value for value in values if isinstance(value, nn.Module)]
    tensors = [*tensors_in(values), *(each for part in parts for each in (*part.parameters(), *part.buffers()))]
    if all(tensor.device.type == "cpu" for tensor in tensors):
        yield
        return
    before, warn_only = (
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
    )
    benchmark, filled = torch.backends.cudnn.benchmark, torch.utils.deterministic.fill_uninitialized_memory  # type: ignore[attr-defined]  # a property of a module
    configured = os.environ.get(_CUBLAS)
    os.environ.setdefault(_CUBLAS, ":4096:8")
    try:
        with warnings.catch_warnings():
            # What has no such kernel says so; the comparison then measures how much that matters.
            warnings.filterwarnings("ignore", message=".*deterministic", category=UserWarning)
            torch.use_deterministic_algorithms(True, warn_only=True)
            torch.backends.cudnn.benchmark = False
            torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]  # as above
            yield
    finally:
        torch.use_deterministic_algorithms(before, warn_only=warn_only)
        torch.backends.cudnn.benchmark = benchmark
        torch.utils.deterministic.fill_uninitialized_memory = filled  # type: ignore[attr-defined]  # as above
        if configured is None:
            os.environ.pop(_CUBLAS, None)
