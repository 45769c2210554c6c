"""Examples → batches of what a drawn training takes: the model's inputs, and what is compared."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, final

from pnne_nb.runtime.batches import TARGET_KEYS
from pnne_nb.runtime.datasets import Batched
from pnne_nb.runtime.parting import LOADED
from pnne_nb.runtime.sources import collated


@final
class Collate:
    """Makes batches of (what the model takes …, what the objective takes) out of examples.

    Args:
        inputs: Ports of the loader that the model takes, in its order.
        compared: Ports of the loader that the objective takes.
    """

    def __init__(self, inputs: tuple[str, ...], compared: tuple[str, ...]) -> None:
        self._inputs = inputs
        self._compared = compared

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Collate) and (self._inputs, self._compared) == (other._inputs, other._compared)

    def __hash__(self) -> int:
        return hash((self._inputs, self._compared))

    def __call__(self, examples: Any) -> tuple[Any, ...]:
        """Return one batch.

        Raises:
            TrainingError: An example has no target, or examples do not fit together.
        """
        batch = examples if isinstance(examples, Batched) else collated(examples)
        parts = dict(zip(LOADED, _input_and_target(batch), strict=True))
        return (*(parts[port] for port in self._inputs), tuple(parts[port] for port in self._compared))


def _input_and_target(batch: Any) -> tuple[Any, Any]:
    match batch:
        case Mapping():
            rest = dict(batch)
            key = next((key for key in TARGET_KEYS if key in rest), None)
            target = rest.pop(key) if key is not None else None
            return next(iter(rest.values())) if len(rest) == 1 else rest, target
        case list() | tuple() if len(batch) > 1:
            *inputs, target = batch
            return inputs[0] if len(inputs) == 1 else tuple(inputs), target
        case _:
            return batch[0] if isinstance(batch, (list, tuple)) else batch, None
