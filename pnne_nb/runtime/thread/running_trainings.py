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
from contextlib import ExitStack, contextmanager, nullcontext
from typing import Any, Protocol, final

import torch

from pnne_nb.process.fork import renewed_after_fork
from pnne_nb.process.random_state import turn
from pnne_nb.runtime.thread.cells import cells
from pnne_nb.runtime.thread.control import Control
from pnne_nb.runtime.thread.step_lock import in_some_step

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
        self._trainings: dict[int, RunningTraining] = {}
        renewed_after_fork(self)

    def renew_after_fork(self) -> None:
        """Forget the trainings in a forked child, which has none."""
        self._trainings.clear()
        self._rename()

    @property
    def trainings(self) -> tuple[RunningTraining, ...]:
        return tuple(self._trainings.values())

    def _rename(self) -> None:
        # No lock: who ends must not wait for a cell that draws. Whoever writes last has seen all others.
        seen = None
        while seen != (now := self.trainings):
            _random.default_generator = _waiting if now else _default
            seen = now

    def add(self, training: RunningTraining) -> None:
        self._trainings[id(training)] = training
        self._rename()

    def remove(self, training: RunningTraining) -> None:
        self._trainings.pop(id(training), None)
        self._rename()


def running() -> tuple[RunningTraining, ...]:
    """Return the trainings that make steps in threads of this process."""
    return _running.trainings


@contextmanager
def between_steps() -> Iterator[None]:
    """Keep all trainings between two steps in this block, so that the global generators are everybody's.

    What a step calls does not wait. Everybody else waits for the end of the step alone, not of functions that are told of it:
    they may want a lock that the caller holds.
    """
    with ExitStack() as visits:
        for training in () if in_some_step() else _running.trainings:
            visits.enter_context(training.control.visit(_REASON, linger=_LINGER, draws=True))
        yield


@contextmanager
def alone() -> Iterator[None]:
    """Have the global generators to oneself in this block: no step, and no other such block, meets it."""
    if cells.open_here():
        cells.at_interrupt(_release_turn)
    with between_steps(), nullcontext() if in_some_step() else turn:
        yield


def _release_turn() -> None:
    """Release what an interrupt has kept the calling thread, whose cell it has ended, from releasing."""
    while turn._is_owned():
        turn.release()


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
