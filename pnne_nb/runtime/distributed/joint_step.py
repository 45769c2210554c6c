"""A step function in a group: the whole of it runs inside what makes one training of several processes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

import torch
from torch import nn

from pnne_nb.runtime.logged import StepFunction


@final
class JointStep(nn.Module):
    """A step function as a module.

    It may call the model as often as it likes, or parts of it. DistributedDataParallel averages what follows from one
    call of the module that it wraps, and FSDP2 begins and ends with one: so that call is the whole step.

    Args:
        model: What the function is given.
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        self._function: StepFunction | None = None

    def made_by_all(self, function: StepFunction, trained: Callable[..., Any] | None) -> StepFunction:
        """The step function, as the processes make it together.

        Args:
            function: May know parameters, which exist only when the model is prepared.
            trained: What runs in the place of this module, if it is not itself; see `Strategy.prepare`.
        """
        self._function = function
        differentiated = self if trained is None else trained

        def step(model: nn.Module, raw: Any) -> Any:
            assert model is self.model
            return differentiated(raw) if torch.is_grad_enabled() else self(raw)

        return step

    def forward(self, raw: Any) -> Any:
        """What the function returns for one raw batch."""
        assert self._function is not None
        return self._function(self.model, raw)
