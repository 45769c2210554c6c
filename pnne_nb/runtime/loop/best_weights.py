"""`Standing`: the best value of a training's goal, its epoch, and the weights at that time."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from typing import Any, Final, final

from torch import Tensor, nn

from pnne_nb.runtime.objective.goal import Goal

_NUMBERS: Final = ("best", "best_epoch", "best_step", "judged_epoch", "epochs_since_best")


@final
class Standing:
    """The best value of the goal so far, for early stopping, ``best.ckpt`` and the best weights.

    Attributes:
        best: The least cost so far, see `Goal`.
        best_epoch: When that was, from 1; 0 before anything was judged.
        best_step: The step after which the model had the best weights, also those put back; -1 before.
        judged_epoch: The last epoch that had the number that counts.
        epochs_since_best: Epochs since then that had it.
    """

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Start again, because the model has changed."""
        self.best = math.inf
        self.best_epoch, self.best_step = 0, -1
        self.judged_epoch = 0
        self.epochs_since_best = 0
        self._weights: dict[str, Any] | None = None

    def judge(self, cost: float | None, goal: Goal, epoch: int, step: int, model: nn.Module | None) -> bool:
        """Record the goal's value; return whether it is an improvement.

        Args:
            cost: None where it was not measured.
            goal: Says how much better is an improvement.
            epoch: Under way, from 1.
            step: The last one that was made.
            model: Whose weights are kept if they are the best; None keeps none.
        """
        if cost is None:
            return False
        self.judged_epoch = epoch
        if not cost < self.best - goal.min_delta:
            return False
        self.best, self.best_epoch, self.best_step = cost, epoch, step
        if model is not None:
            self._weights = {name: _copied(value) for name, value in model.state_dict().items()}
        return True

    def end_epoch(self, epoch: int) -> None:
        """Count the epochs without an improvement."""
        if self.best_epoch == epoch:
            self.epochs_since_best = 0
        elif self.judged_epoch == epoch:
            self.epochs_since_best += 1

    def renamed(self, former: Mapping[str, str]) -> None:
        """Rename the kept tensors of a model that computes the same."""
        if self._weights is not None:
            self._weights = {now: self._weights[before] for now, before in former.items() if before in self._weights}

    def restore(self, model: nn.Module, step: int) -> bool:
        """Restore the best weights in `model` after the last step; return False if none were kept."""
        self.best_step = step
        if self._weights is None:
            return False
        model.load_state_dict(self._weights)
        return True

    def state_dict(self) -> dict[str, Any]:
        return {"weights": self._weights, **{name: getattr(self, name) for name in _NUMBERS}}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        for name in _NUMBERS:
            setattr(self, name, state[name])
        self._weights = state["weights"]


def _copied(value: Any) -> Any:
    return value.detach().clone() if isinstance(value, Tensor) else copy.deepcopy(value)
