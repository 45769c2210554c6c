"""Calls of user code (data, functions) that may never return: another thread can end or abandon them.

A call that runs Python is ended by an exception that is raised in its thread. One that is stuck in C (a socket, a lock)
is left behind: whoever does that gives the global random generators back in its place, and the thread, should it ever
return, finds that it is no longer part of the training and touches nothing.
"""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from types import TracebackType
from typing import Any, final

from pnne_nb.process.fork import fork_safe
from pnne_nb.runtime.thread.step_lock import StopWantedError, has_turn, renew_turn, turn

_left: set[int] = set()
"""Threads that were left behind."""
_here = threading.local()
"""What a thread calls for a training, as `calls`."""
_OURS = "pnne_nb."


class LeftBehindError(BaseException):
    """Raised in an abandoned thread when it returns."""


def is_left_behind() -> bool:
    """Return whether the calling thread was abandoned and must not touch its training."""
    return bool(_left) and threading.get_ident() in _left


def require_not_left() -> None:
    """Raise an error in an abandoned thread.

    Raises:
        LeftBehindError: The calling thread was left behind.
    """
    if is_left_behind():
        raise LeftBehindError


def thread_ended() -> None:
    """Forget the calling thread at its end, because the next thread may get its number."""
    _left.discard(threading.get_ident())


def _raise_in(thread: int, error: type[BaseException]) -> None:
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(error))


def _meet_one() -> None:
    """Let a pending exception be raised in the calling thread, and swallow it.

    For as long as one is raised that nobody has met, in a thread that is stuck in C say, Python looks for it in every
    thread at every call. That thread still meets its own when it comes back.
    """
    with suppress(StopWantedError):
        _raise_in(threading.get_ident(), StopWantedError)
        for _ in range(_LOOKS):
            pass


_LOOKS = 1000
"""Python looks for such an exception at the end of a loop's body, among other places."""


def kept(context: AbstractContextManager[Any]) -> AbstractContextManager[Any]:
    """Return the same block; in a foreign call, whoever leaves that behind leaves the block too."""
    calls: ForeignCalls | None = getattr(_here, "calls", None)
    return context if calls is None else calls.around(context)


@final
class ForeignCalls:
    """The calls of user code in one training thread; as a context manager, one call into the data.

    Attributes:
        count: How many calls there were.
        function: The name of the function that is called, or an empty string for data.
    """

    def __init__(self) -> None:
        self.count = 0
        self.function = ""
        self._thread: int | None = None
        self._has_turn = False
        self._lock = fork_safe(threading.Lock())
        self._entered: list[_Kept] = []

    def __enter__(self) -> None:
        self.count += 1
        self._has_turn = has_turn()
        _here.calls = self
        self._thread = threading.get_ident()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _here.calls = None
        with self._lock:
            require_not_left()
            self._thread = None

    @contextmanager
    def of(self, function: str) -> Iterator[None]:
        """A block that calls such a function."""
        self.function = function
        try:
            with self:
                yield
        finally:
            if not is_left_behind():
                self.function = ""

    def within(self, thread: int | None) -> bool:
        """Return whether `thread` is in a call of user code."""
        return thread is not None and self._thread == thread

    def around(
        self,
        context: AbstractContextManager[Any],
        undo: Callable[[], None] | None = None,
        after: Callable[[], None] | None = None,
    ) -> _Kept:
        """Return a block that whoever leaves a call behind leaves as well; it may be entered again and again.

        Args:
            context: What is entered.
            undo: Called before it is left because of a stop, and `after` behind it.
            after: See there.
        """
        return _Kept(self, context, undo, after)

    def interrupt(self, thread: int) -> None:
        """Raise `StopWantedError` in `thread` when it next runs Python, unless the call has returned."""
        with self._lock:
            top = sys._current_frames().get(thread)
            # In the middle of our own code, it would be ended with something half done.
            if self._thread == thread and top is not None and not top.f_globals.get("__name__", "").startswith(_OURS):
                _raise_in(thread, StopWantedError)

    def leave_behind(self, thread: int) -> bool:
        """Abandon `thread`: leave the blocks that it has entered, and exclude it from the training; False if it has come back."""
        with self._lock:
            if self._thread != thread:
                return False
            _left.add(thread)
            _meet_one()
            self._thread = None
            if self._has_turn:
                renew_turn()
            # Whoever waits for it looks a moment later.
            with turn:
                self._leave_all()
        return True

    def cut_short(self) -> None:
        """Leave the blocks that `StopWantedError` has kept from being left, in the thread that it has ended."""
        with self._lock:
            _meet_one()
            self._thread = None
            self._leave_all()

    def _leave_all(self) -> None:
        while self._entered:
            self._entered.pop().leave(stopped=True)


@final
class _Kept:
    """See `ForeignCalls.around`."""

    def __init__(
        self,
        calls: ForeignCalls,
        context: AbstractContextManager[Any],
        undo: Callable[[], None] | None,
        after: Callable[[], None] | None,
    ) -> None:
        self._calls = calls
        self._context = context
        self._undo = undo
        self._after = after

    def __enter__(self) -> None:
        self._context.__enter__()
        entered = self._calls._entered
        # An interrupt may have kept it from being left.
        if self in entered:
            entered.remove(self)
        entered.append(self)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        calls = self._calls
        with calls._lock:
            if is_left_behind():
                return
            if self in calls._entered:
                calls._entered.remove(self)
            self.leave(stopped=kind is StopWantedError)

    def leave(self, *, stopped: bool) -> None:
        if stopped and self._undo is not None:
            self._undo()
        self._context.__exit__(None, None, None)
        if stopped and self._after is not None:
            self._after()
