"""`Every`: an interval in epochs or optimizer steps."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

from pnne_nb.errors import TrainingError
from pnne_nb.runtime.data.open_data import require_count

Unit: TypeAlias = Literal["epochs", "steps"]
EveryChoice: TypeAlias = "int | tuple[int, Unit] | None"


class Every(msgspec.Struct, frozen=True):
    """Every `count` epochs or steps; never if `count` is 0."""

    count: int
    unit: Unit

    def after_step(self, step: int) -> bool:
        return self.unit == "steps" and self.count > 0 and step % self.count == 0

    def after_epoch(self, epoch: int) -> bool:
        return self.unit == "epochs" and self.count > 0 and epoch % self.count == 0


def as_every(name: str, choice: Any) -> Every:
    """Return the interval that ``3``, ``(3, "epochs")``, ``(500, "steps")`` or None (never) means.

    Raises:
        TrainingError: It is something else; the message calls it `name`.
    """
    match choice:
        case None:
            return Every(0, "epochs")
        case (count, "epochs" | "steps" as unit):
            require_count(name, count)
            return Every(count, unit)
        case tuple() | list():
            raise TrainingError(f'{name} must be a number of epochs, or a pair such as (500, "steps"), not {choice!r}.')
        case count:
            require_count(name, count)
            return Every(count, "epochs")
