"""The trainings that make steps in threads of this process, and blocks between two steps of all of them.

In a step, the global generators have the training's own state. ``torch.manual_seed``, ``get_rng_state``, ``fork_rng`` and so
on reach torch's by one name in `torch.random`. While a training runs, that name leads to the same generator, whose methods
wait for the end of the step: it is the only name of another module that this package ever replaces. Without it, a seed that a
cell sets in the middle of a step would be lost when the step ends, and the cell would draw other numbers than it asked for.

The compiler saves that state as well before it begins. All threads of a process see that it compiles, so that an optimizer
would compute in another way: a cell that compiles keeps the training waiting until it ends.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Protocol, final

import torch

from pnne_nb.process.fork import renewed_after_fork
from pnne_nb.runtime.thread.cells import cells
from pnne_nb.runtime.thread.control import Control
from pnne_nb.runtime.thread.step_lock import in_some_step, turn

_random: Any = torch.random
_default = torch.default_generator
_REASON = "random numbers in a cell"
_LINGER = 0.005
"""Seconds for which the training waits for another draw: building a model draws hundreds of times."""


class RunningTraining(Protocol):
    """A training that makes its steps in a thread of this process; see `boundary.Boundary`."""

    control: Control

    def park(self) -> None:
        """Keep it waiting until the running cell ends."""


@final
class _Running:
    def __init__(self) -> None:
        self.trainings: tuple[RunningTraining, ...] = ()
        renewed_after_fork(self)

    def renew_after_fork(self) -> None:
        """Forget the trainings in a forked child, which has none."""
        self._become(())

    def _become(self, trainings: tuple[RunningTraining, ...]) -> None:
        self.trainings = trainings
        _random.default_generator = _waiting if trainings else _default

    def add(self, training: RunningTraining) -> None:
        with turn:
            self._become((*self.trainings, training))

    def remove(self, training: RunningTraining) -> None:
        with turn:
            self._become(tuple(other for other in self.trainings if other is not training))


def running() -> tuple[RunningTraining, ...]:
    """Return the trainings that make steps in threads of this process."""
    return _running.trainings


@contextmanager
def between_steps() -> Iterator[None]:
    """Keep all trainings between two steps in this block, so that the global generators are everybody's."""
    controls = [training.control for training in _running.trainings]
    if not controls or in_some_step():
        yield
        return
    if any(control.in_training_thread() for control in controls):
        with turn:  # such as before its first step, when it looks at an example
            yield
        return
    with ExitStack() as visits:
        for control in controls:
            visits.enter_context(control.visit(_REASON, linger=_LINGER))
        yield


@final
class _WaitingGenerator:
    """Torch's default generator, whose methods are called between two steps."""

    def __getattr__(self, name: str) -> Any:
        found = getattr(_default, name)
        if not callable(found):
            return found

        def call(*args: Any, **kwargs: Any) -> Any:
            if cells.open and not in_some_step() and _is_asked_by_compiler():
                for training in _running.trainings:
                    training.park()
            with between_steps():
                return found(*args, **kwargs)

        return call


def _is_asked_by_compiler() -> bool:
    asks = sys._getframe(3)  # of a function in `torch.random`, which has called the method
    return str(asks.f_globals.get("__name__", "")).startswith("torch._dynamo")


_waiting = _WaitingGenerator()
_running = _Running()
add_running, remove_running = _running.add, _running.remove
