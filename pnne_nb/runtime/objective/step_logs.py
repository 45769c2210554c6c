"""Numbers that a step returns besides the loss, averaged over steps and processes (`Peers`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias, final

import msgspec
from torch import Tensor, nn

from pnne_nb.errors import TrainingError


class Peers(Protocol):
    """All processes of one training, including this one.

    Every process makes the same calls in the same order, or nobody's call returns.

    Attributes:
        rank: Number of this process, from 0.
        count: How many there are.
        present: Whether this process has examples of its own in the present batch; see `StandIn`.
    """

    rank: int
    count: int
    present: bool

    def sum(self, values: Sequence[float]) -> list[float]:
        """Return, for each value, the sum over all processes: the same numbers in each of them."""

    def total(self, value: float) -> float:
        """Return the sum of `value` over all processes."""

    def any(self, fact: bool) -> bool:
        """Return whether `fact` is true in at least one process."""


@final
class Alone:
    """A training in one process."""

    rank = 0
    count = 1
    present = True

    def sum(self, values: Sequence[float]) -> list[float]:
        return list(values)

    def total(self, value: float) -> float:
        return value

    def any(self, fact: bool) -> bool:
        return fact


ALONE = Alone()


StepFunction: TypeAlias = Callable[[nn.Module, Any], "Tensor | Mapping[str, Any]"]
"""Of model and raw batch; returns the loss, or a mapping with it, see `read`."""

_OURS = frozenset({"learning_rate", "gradient_norm", "loss_scale", "memory", "process_memory"})
"""Names that the history has over steps already."""
_OVER_EPOCHS = ("train_", "val_")


class Logged(msgspec.Struct, frozen=True):
    """The numbers and the output that a step returned for one batch.

    Attributes:
        numbers: By name: tensors of one element without a graph, or floats.
        output: What the metrics compare with `target`, `[N, ...]`, or None.
        target: Likewise.
    """

    numbers: dict[str, Tensor | float]
    output: Any = None
    target: Any = None

    def told(self) -> dict[str, float]:
        """Return the numbers as floats; waits for the device."""
        return {name: float(value) for name, value in self.numbers.items()}


def read(returned: Any, who: str) -> tuple[Logged | None, Tensor]:
    """Read what a step function or a model (`who`) has returned for a batch: the loss, or a mapping with it under ``"loss"``.

    Of a mapping, ``"output"`` and ``"target"`` are what the metrics compare, and every other entry that is one number
    is recorded under its name. The rest is left alone: some models return a good deal more.

    Raises:
        TrainingError: There is no loss, it is not one number, or a name is one that the history has already.
    """
    if not isinstance(returned, (Mapping, Tensor)):
        raise TrainingError(
            f"{who} returned a {type(returned).__name__}, not a tensor with the loss: return that alone, or a mapping such "
            'as {"loss": loss, "output": scores}.'
        )
    if not isinstance(returned, Mapping):
        return None, scalar(returned, who)
    if "loss" not in returned:
        has = ", ".join(repr(name) for name in returned) or "nothing"
        raise TrainingError(f'{who} returned a mapping with {has}, and no "loss" in it.')
    rest = {name: value for name, value in returned.items() if name not in {"loss", "output", "target"}}
    numbers = {name: value for name, value in rest.items() if isinstance(name, str) and is_number(value)}
    require_free(numbers, who)
    kept = {name: value.detach() if isinstance(value, Tensor) else float(value) for name, value in numbers.items()}
    output = returned.get("output")
    return Logged(kept, output.detach() if isinstance(output, Tensor) else output, returned.get("target")), scalar(
        returned["loss"], who
    )


def require_free(names: Iterable[str], who: str) -> None:
    """Raise an error if numbers over the steps cannot have such names, because the history needs them for others.

    Raises:
        TrainingError: One is taken.
    """
    for name in names:
        if name in _OURS or name.startswith(_OVER_EPOCHS):
            raise TrainingError(
                f"{who} cannot record a number as {name!r}: the history has that name for something of its own, or "
                "puts train_ and val_ before the name itself. Choose another name."
            )


def recorded(names: Iterable[str]) -> list[str]:
    """Return those of a history's `names` that a step function has recorded over the steps."""
    return [name for name in names if name not in {"loss", *_OURS} and not name.startswith(_OVER_EPOCHS)]


def scalar(loss: Any, who: str) -> Tensor:
    """Return the loss as a tensor without dimensions.

    Shape:
        - loss: any shape of one element.
        - Returns: `[]`.

    Raises:
        TrainingError: It is something else than one number; the message begins with `who`.
    """
    if not isinstance(loss, Tensor):
        hint = " Leave out item()." if isinstance(loss, float) else ""
        raise TrainingError(f"{who} returned a {type(loss).__name__}, not a tensor with the loss.{hint}")
    if loss.dim() == 0:
        return loss
    if loss.numel() != 1:
        raise TrainingError(f'{who} returned shape {tuple(loss.shape)}, not one number: use reduction="mean".')
    return loss.reshape(())


def is_number(value: Any) -> bool:
    """Return whether `value` is one number, also in a tensor."""
    return value.numel() == 1 if isinstance(value, Tensor) else isinstance(value, (bool, int, float))


def averaged(told: Sequence[tuple[Any, int]], peers: Peers) -> dict[str, float] | None:
    """Return the means over all examples of all processes, by name; None if no process has returned numbers.

    Args:
        told: What came with each batch, a `Logged` or not, and how many examples it counts for.
        peers: All of them call this, with the same names.
    """
    means = Means()
    for each, examples in told:
        if isinstance(each, Logged):
            means.add(each.told(), examples)
    return means.compute(peers) or None


@final
class Means:
    """Means over examples by name; batches without a name do not count for it."""

    def __init__(self) -> None:
        self.sums: dict[str, list[float]] = {}

    def add(self, numbers: Mapping[str, float], examples: int) -> None:
        """Add the means over a number of examples."""
        for name, value in numbers.items():
            total, seen = self.sums.get(name, (0.0, 0))
            self.sums[name] = [total + value * examples, seen + examples]

    def compute(self, peers: Peers, prefix: str = "") -> dict[str, float]:
        """Return the means over all processes by `prefix` and name; all processes call this with the same names."""
        names = sorted(self.sums)
        if not names:
            return {}
        joined = peers.sum([number for name in names for number in self.sums[name]])
        pairs = zip(joined[::2], joined[1::2], strict=True)
        return {f"{prefix}{name}": total / seen for name, (total, seen) in zip(names, pairs, strict=True) if seen}
