"""`FiniteCheck`: checks in one operation whether all gradients are finite."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import torch
from torch import Tensor, nn


@final
class FiniteCheck:
    """Checks all gradients, expected on `device`, with the operation of torch's `GradScaler`, which reads every number once.

    All gradients are looked at: a model may have branches, and parameters may make their own gradients infinite (a square
    root at 0), so no gradient tells of another.
    """

    def __init__(self, device: torch.device) -> None:
        self._found = torch.zeros((), device=device)
        self._one = torch.ones((), device=device)

    def of(self, gradients: list[Tensor]) -> Tensor:
        """Return, without waiting for the device, 0 if all gradients are finite, and else another number.

        Shape:
            - gradients: at least one tensor, each `[*]` of its parameter's shape.
            - Returns: `[]`; it changes with the next call.
        """
        self._found.zero_()
        try:
            torch._amp_foreach_non_finite_check_and_unscale_(gradients, self._found, self._one)
        except (RuntimeError, NotImplementedError):
            # Complex, sparse, sharded, or on several devices.
            return total_norm(gradients).isfinite().logical_not()
        return self._found


def total_norm(gradients: Sequence[Tensor]) -> Tensor:
    """Return the Euclidean norm of all gradients.

    Shape:
        - gradients: tensors `[*]`, each of its parameter's shape.
        - Returns: `[]`.
    """
    # Of a sparse gradient, such as an embedding's, only the rows that are there have a norm.
    return nn.utils.get_total_norm([grad.coalesce().values() if grad.is_sparse else grad for grad in gradients])
