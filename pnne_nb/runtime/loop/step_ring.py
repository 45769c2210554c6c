"""`StepRing`: keeps the last steps of a training, so that it can go back to each of them.

A step is a function of the state before it, the batch and the random numbers, and all of these are in a snapshot of the
state. So only now and then a snapshot is kept, and of each step only its loss: going back loads the snapshot before, makes
the steps after it again, and proves by their losses that they are the same ones.
"""

from __future__ import annotations

import copy
import time
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, NamedTuple, final

import torch
from torch import Tensor

STEPS: Final = 100
"""Steps that can be taken back."""
SHARE: Final = 0.004
"""Of the training's time that keeping snapshots may take."""
MEMORY: Final = 512 * 2**20
"""Bytes that all snapshots together may take, unless told otherwise."""
_KNOWN: Final = 1000
"""Steps before those whose losses are known too: of small models, snapshots are further apart."""
_LEAST: Final = 20
"""The same at least; fewer where a snapshot was asked for."""


class StepSnapshot(NamedTuple):
    """The state of a training after so many steps, copied to the CPU, and the memory of its tensors in bytes."""

    step: int
    state: dict[str, Any]
    nbytes: int


class KeptSteps(NamedTuple):
    """The contents of a ring, for the ring of another process: snapshots, losses of consecutive steps, bytes that are `needed`."""

    snapshots: list[StepSnapshot]
    losses: list[tuple[int, float]]
    needed: int


@final
class StepRing:
    """Keeps the losses of steps, and enough snapshots to go back `STEPS` steps.

    Attributes:
        memory: Bytes that snapshots may take; 0 keeps none.
        snapshots: Oldest first.
        needed: Bytes of a snapshot for which `memory` was too small, or 0.
        cleared: How often everything was forgotten.
    """

    def __init__(self, memory: int = 0) -> None:
        self.memory = memory
        self.snapshots: list[StepSnapshot] = []
        self.needed = 0
        self.cleared = 0
        self._resting = False
        self._losses = deque[tuple[int, float]](maxlen=_KNOWN + STEPS)
        self._next_step = 0
        self._next_time = 0.0

    @property
    def losses(self) -> list[float]:
        """The losses of the last `STEPS` steps, oldest first."""
        return [loss for _, loss in self._losses][-STEPS:]

    def loss_of(self, step: int) -> float | None:
        """Return the loss of a step, or None if it is no longer known."""
        if not self._losses:
            return None
        index = step - self._losses[0][0]
        return self._losses[index][1] if 0 <= index < len(self._losses) else None

    @property
    def end(self) -> int | None:
        """Number of the last recorded step, or None if there is none."""
        if self._losses:
            return self._losses[-1][0]
        return self.snapshots[-1].step if self.snapshots else None

    def note(self, step: int, loss: float) -> None:
        """Record a step."""
        if not self._resting:
            self._losses.append((step, loss))

    @contextmanager
    def rest(self) -> Iterator[None]:
        """Do not record the steps in this block, which repeat recorded ones."""
        self._resting = True
        try:
            yield
        finally:
            self._resting = False

    def offer(self, step: int, take: Callable[[], Mapping[str, Any]]) -> None:
        """Take a snapshot after `step` steps if one is due; `take` returns the state of the training, which will change."""
        if self._resting:
            return
        self.forget_unless_at(step)
        if step < self._next_step or not self.memory or (began := time.monotonic()) < self._next_time:
            return
        try:
            state = take()
            nbytes = _size(state)
            copied: dict[str, Any] = _copied(state) if nbytes <= self.memory else {}
        except Exception:  # noqa: BLE001  # a state that cannot be read or copied is the checkpoint's to tell
            self.clear()
            self._next_step = step + _KNOWN
            return
        if nbytes > self.memory:
            self.snapshots.clear()
            # What does not fit now is not asked for at every step.
            self.needed, self._next_step = nbytes, step + _KNOWN
            return
        self.needed = 0
        self._append(StepSnapshot(step, copied, nbytes))
        room = max(1, self.memory // max(1, nbytes) - 1)
        self._next_step = step + max(_LEAST, -(-STEPS // room))
        now = time.monotonic()
        self._next_time = now + (now - began) / SHARE

    def _append(self, snapshot: StepSnapshot) -> None:
        """Add a snapshot; drop those that are no longer needed, and those that exceed the memory."""
        while self.snapshots and self.snapshots[-1].step >= snapshot.step:
            self.snapshots.pop()
        self.snapshots.append(snapshot)
        while len(self.snapshots) > 1 and self.snapshots[1].step <= snapshot.step - STEPS:
            del self.snapshots[0]
        while sum(each.nbytes for each in self.snapshots) > self.memory:
            del self.snapshots[0]

    def touch(self) -> None:
        """Take a snapshot before the next step, because the training may have been changed between two steps."""
        self._next_step, self._next_time = 0, 0.0

    def clear(self) -> None:
        """Forget everything, because the training was replaced."""
        self.cleared += 1
        self.snapshots.clear()
        self._losses.clear()
        self.touch()

    def forget_unless_at(self, step: int) -> None:
        """Forget all steps unless the last one is `step`; otherwise, other processes made the steps between."""
        end = self.end
        if end is not None and end != step:
            self.clear()

    def kept(self) -> KeptSteps:
        """Return the contents, for `follow`."""
        return KeptSteps(list(self.snapshots), list(self._losses), self.needed)

    def follow(self, steps: KeptSteps) -> None:
        """Append the contents of another ring, of later steps."""
        if steps.losses:
            self.forget_unless_at(steps.losses[0][0] - 1)
        for snapshot in steps.snapshots:
            self._append(snapshot)
        self._losses.extend(steps.losses)
        self.needed = steps.needed
        self.touch()

    def before(self, step: int) -> StepSnapshot | None:
        """Return the newest snapshot that is not after `step` steps, or None."""
        index = bisect_right([each.step for each in self.snapshots], step)
        return self.snapshots[index - 1] if index else None

    def cut(self, step: int) -> None:
        """Forget what came after `step` steps, to which the training has returned."""
        while self.snapshots and self.snapshots[-1].step > step:
            self.snapshots.pop()
        while self._losses and self._losses[-1][0] > step:
            self._losses.pop()
        self.touch()


def _copied(value: Any) -> Any:
    match value:
        case Tensor():
            # A tensor without data has nothing to go back to.
            return value if value.is_meta else value.detach().to("cpu", copy=True)
        case None | bool() | int() | float() | str():
            return value
        case dict():
            made = type(value)((key, _copied(item)) for key, item in value.items())
            if hasattr(value, "_metadata"):
                # A module's versions of its own format, which torch hangs on its state.
                made._metadata = value._metadata  # type: ignore[attr-defined]  # torch's own way
            return made
        case list() if value and isinstance(value[0], int | float):
            return list(value)
        case list():
            return [_copied(item) for item in value]
        case tuple() if type(value) is tuple:
            return tuple(map(_copied, value))
        case _:
            return copy.deepcopy(value)


def _size(value: Any) -> int:
    match value:
        case Tensor():
            return value.numel() * value.element_size()
        case dict():
            return sum(map(_size, value.values()))
        case list() | tuple():
            return sum(map(_size, value)) if value and not isinstance(value[0], int | float) else 0
        case _:
            return 0


def copied(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return an independent copy of a training's state on the CPU."""
    with torch.no_grad():
        made: dict[str, Any] = _copied(dict(state))
    return made
