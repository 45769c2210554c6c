"""Moves the coordinates of interpolation by one rounding error, because runtimes compute them in another order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

SMOOTH = frozenset({"linear", "bilinear", "bicubic", "trilinear"})
"""Modes of interpolation between pixels; the others take a pixel as it is."""


class MovedCoordinates(TorchFunctionMode):
    """Within it, what ``interpolate`` and ``grid_sample`` read lies one rounding error further, to a side drawn by chance.

    Neither inputs nor weights say how far rounding moves a coordinate: torch computes it inside, from sizes.

    Args:
        generator: Draws the sides.
    """

    def __init__(self, generator: torch.Generator) -> None:
        super().__init__()
        self._generator = generator

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        named = dict(kwargs or {})
        if func is F.grid_sample:
            image, grid, *rest = [*args, *(named.pop(name) for name in ("input", "grid")[len(args) :])]
            return func(image, grid + self._sides(grid) * torch.finfo(grid.dtype).eps, *rest, **named)
        result = func(*args, **named)
        mode = named.get("mode", args[3] if len(args) > 3 else "nearest")
        if func is not F.interpolate or mode not in SMOOTH or not result.is_floating_point():
            return result
        image, *rest = [*args, *(named.pop(name) for name in ("input",)[len(args) :])]
        for axis in range(2, image.dim()):
            beside = func(image.roll(1, axis), *rest, **named)
            # A coordinate is as large as the axis is long, and so is its rounding error.
            result = (
                result + (beside - result) * self._sides(result) * image.shape[axis] * torch.finfo(result.dtype).eps
            )
        return result

    def _sides(self, like: Tensor) -> Tensor:
        return (torch.randint(0, 2, like.shape, generator=self._generator) * 2 - 1).to(like.dtype)
