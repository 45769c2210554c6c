"""Lets trainings of one process take turns for their steps, because they share random generators and torch's switches.

A fork takes the turn as well. In the middle of a step, the child's copy of the model would be torn, and torch's generator
might be locked for ever: torch draws without the interpreter's lock, but under one of the generator, which no child can
free. The wait has a limit, because the training may itself wait for the thread that forks.
"""

from __future__ import annotations

import os
import threading
from contextlib import AbstractContextManager
from itertools import starmap
from typing import Any, final

from pnne_nb.process.fork import fork_safe

turn: Any = fork_safe(threading.RLock())
"""Held by a thread while something of one training stands where everybody else's would be; a thread may nest it.

Whoever has it knows that no other training is in a step: each of those is between two steps, or waits here with nothing
begun. It is entered by ``with`` itself: written in C, it is left in any case, also when an interrupt comes just then.
"""

_SECONDS_FOR_FORK = 1.0
"""The longest that a fork waits for the end of a step."""
_GLANCE = 0.2
"""Seconds between two looks of a training that waits for its turn: whether it is still wanted, or the turn was renewed."""


def has_turn() -> bool:
    """Return whether the calling thread has the turn."""
    return bool(turn._is_owned())


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


def renew_turn() -> None:
    """Take the turn away from an abandoned thread; its later release has no effect."""
    turn._at_fork_reinit()


class StopWantedError(BaseException):
    """Raised in a training thread that must end, instead of waiting between two steps or for its data."""


@final
class TrainingTurn:
    """The turn for a training thread, which no interrupt reaches: its wait ends when the training must end.

    Attributes:
        given_up_by: The number of the thread that is to wait no longer, or None.
    """

    # Of C, as above.
    __exit__ = turn.__exit__

    def __init__(self) -> None:
        self.given_up_by: int | None = None

    def __enter__(self) -> None:
        while not turn.acquire(timeout=_GLANCE):
            if self.given_up_by == threading.get_ident():
                raise StopWantedError

    def here(self) -> AbstractContextManager[Any]:
        """Return the turn for the calling thread: the plain one if an interrupt can reach it."""
        own: Any = turn if threading.current_thread() is threading.main_thread() else self
        found: AbstractContextManager[Any] = own
        return found
