"""Lets trainings of one process take turns for their steps, because they share random generators and torch's switches.

A fork takes the turn as well. In the middle of a step, the child's copy of the model would be torn, and torch's generator
might be locked for ever: torch draws without the interpreter's lock, but under one of the generator, which no child can
free. The wait has a limit, because the training may itself wait for the thread that forks.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from itertools import starmap
from typing import Any, Final, final

import torch

from pnne_nb.process.random_state import turn

_SECONDS_FOR_FORK = 1.0
"""The longest that a fork waits for the end of a step."""
_GLANCE = 0.2
"""Seconds between two looks of a training that waits for its turn: whether it is still wanted."""


class _Inherited(int):
    pass


OF_A_STEP: Final[Any] = _Inherited(True)
"""The ``daemon`` of a training thread: true, and inherited by each thread that is made in it without a ``daemon`` of its own."""


def in_some_step() -> bool:
    """Return whether the calling thread makes a step or a part of one, as far as its own waiting is concerned.

    So do threads of autograd's own, which run the backward pass on an accelerator. A backward pass in any other thread has
    waited before it began, or is stopped at its parameters (see `boundary`).
    """
    return _backward_pass() != -1 or is_of_a_step()


def is_of_a_step() -> bool:
    """Return whether the calling thread has the turn, or was started in a step."""
    own: Any = threading.current_thread().daemon
    return bool(turn._is_owned()) or own is OF_A_STEP


def adopt_backward_thread(device: torch.device) -> None:
    """Count the threads that autograd's own thread for an accelerator starts among those of a step; on the CPU it has none."""
    if device.type not in {"cpu", "meta"}:
        probe = torch.zeros((), device=device, requires_grad=True)
        probe.register_hook(adopt_thread)  # type: ignore[no-untyped-call]  # torch leaves it untyped
        (probe * 1).backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped


def adopt_thread(_: object) -> None:
    """Count the threads that the calling one starts from now on among those of a step."""
    own: Any = threading.current_thread()
    own._daemonic = OF_A_STEP


_backward_pass: Callable[[], int] = torch._C._current_graph_task_id
"""The number of the backward pass that the calling thread is in, or -1."""


class _Taken(threading.local):
    """The turns that a fork of the calling thread has taken: one, or none if the step took too long."""

    def __init__(self) -> None:
        self.turns: list[bool] = []


_taken = _Taken()


# What is taken and noted, or released and forgotten, is one operation in C: an interrupt comes before it or after it.


def _take_for_fork() -> None:
    _taken.turns.extend(filter(None, map(turn.acquire, (True,), (_SECONDS_FOR_FORK,))))


def _release_after_fork() -> None:
    _taken.turns[:] = filter(None, starmap(turn.release, [()] * len(_taken.turns)))


os.register_at_fork(before=_take_for_fork, after_in_parent=_release_after_fork, after_in_child=_release_after_fork)
# An interrupt that came during the fork ends the first of them before it has begun.
os.register_at_fork(after_in_parent=_release_after_fork)


class StopWantedError(BaseException):
    """Raised in a training thread that must end, instead of waiting between two steps."""


@final
class StepLock:
    """The turn for a training thread, which no interrupt reaches: its wait ends when the training must end.

    Attributes:
        is_over: Says whether it must.
    """

    # Of C, as above.
    __exit__ = turn.__exit__

    def __init__(self) -> None:
        self.is_over: Callable[[], bool] = lambda: False

    def __enter__(self) -> None:
        while not turn.acquire(timeout=_GLANCE):
            if self.is_over():
                raise StopWantedError

    def here(self) -> AbstractContextManager[Any]:
        """Return the turn for the calling thread: the plain one if an interrupt can reach it."""
        own: Any = turn if threading.current_thread() is threading.main_thread() else self
        found: AbstractContextManager[Any] = own
        return found
