"""`Goal`: the number by which early stopping, the best checkpoint and plateau schedulers judge a training."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Literal, TypeAlias

import msgspec

from pnne_nb.errors import TrainingError, near, shown

MonitorChoice: TypeAlias = "str | tuple[str, Literal['min', 'max']] | None"


class Goal(msgspec.Struct, frozen=True):
    """A number of each epoch that a training minimises or maximises.

    Attributes:
        name: In the history; None is the validation loss, without validation data the training loss.
        more: Whether more is better.
        min_delta: How much better is an improvement.
    """

    name: str | None = None
    more: bool = False
    min_delta: float = 0.0

    def called(self, *, validates: bool) -> str:
        """Return the name of the goal's number; for `validates`, see `cost`."""
        return self.name or ("val_loss" if validates else "train_loss")

    def cost(self, metrics: Mapping[str, float], *, validates: bool) -> float | None:
        """Return the number to minimise from the numbers of an epoch, or of a validation within it; None if it may still come.

        `validates` says whether there is validation data.

        Raises:
            TrainingError: There is no such number.
        """
        name = self.called(validates=validates)
        if name in metrics:
            return -metrics[name] if self.more else metrics[name]
        ended = "train_loss" in metrics and ("val_loss" in metrics or not validates)
        if ended or ("val_loss" in metrics and name.startswith("val_")):
            raise self._unmeasured(name, metrics)
        return None

    def require_measured(self, names: Collection[str] | None, *, validates: bool) -> None:
        """Raise an error if no epoch can have a number of that name.

        Args:
            names: What is measured beside the loss, without ``train_`` and ``val_``; None where that is not known yet.
            validates: Whether there is validation data.

        Raises:
            TrainingError: An epoch has no such number.
        """
        name = self.called(validates=validates)
        prefixes = ("train_", "val_") if validates else ("train_",)
        if names is None and name.startswith(prefixes):
            return
        known = [f"{prefix}{measured}" for prefix in prefixes for measured in ("loss", *(names or ()))]
        if name not in known:
            also = "" if validates else " There is no validation data."
            if names is None:
                also += f" The names of other metrics begin with {' or '.join(prefixes)}."
            raise self._unmeasured(name, known, also)

    @staticmethod
    def _unmeasured(name: str, known: Collection[str], also: str = "") -> TrainingError:
        return TrainingError(
            f"monitor is {shown(name)}, which is not measured: an epoch has {', '.join(known)}.{near(name, known)}{also}"
        )


def as_goal(monitor: Any, min_delta: Any) -> Goal:
    """Return the goal that ``"val_loss"``, ``("val_accuracy", "max")`` or None means.

    Raises:
        TrainingError: It is something else, or does not say whether more is better.
    """
    if isinstance(min_delta, bool) or not isinstance(min_delta, (int, float)) or not 0 <= min_delta < float("inf"):
        raise TrainingError(f"min_delta must be a number, at least 0, not {shown(min_delta)}.")
    match monitor:
        case None:
            return Goal(min_delta=min_delta)
        case (str() as name, "min" | "max" as better):
            return Goal(name, better == "max", min_delta)
        case str() as name if "loss" in name:
            return Goal(name, min_delta=min_delta)
        case str() as name:
            raise TrainingError(
                f'Say whether more of {shown(name)} is better: monitor=({shown(name)}, "max"), or less: "min".'
            )
        case _:
            raise TrainingError(f'monitor must be a name such as ("val_accuracy", "max"), not {shown(monitor)}.')
