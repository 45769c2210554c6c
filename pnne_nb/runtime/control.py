"""Where the training thread and everybody else meet: requests, states, and turns at the live model."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Literal, TypeAlias, final

from pnne_nb.frames import TrainingState
from pnne_nb.runtime.turn import has_turn

Verdict: TypeAlias = Literal["go", "stop"]

ENDED: frozenset[TrainingState] = frozenset({"finished", "stopped", "failed"})
"""The states of a training that has run and no longer does."""

_SLICE = 0.2
"""Seconds between two looks for an interrupt while waiting: a wait without end cannot be interrupted everywhere."""

_GLANCE = 0.02
"""Seconds between two looks whether the training has ended."""

_LONGEST_LOAN = 0.05
"""Seconds after which visitors who linger have kept the training waiting for long enough."""


@final
class Control:
    """One lock for commands, states and turns at the model.

    The training thread calls `boundary` between steps: only there does it halt, end, or let others have
    the model. Turns are fair: a visitor waits for the end of the running step, and a crowd of visitors
    cannot keep the training from its next step, because it is its turn once they have all left.

    Args:
        changed: Called after each change of state without the lock held: in the training thread, or in
            the commanding one for the first state of a launch.
    """

    def __init__(self, changed: Callable[[TrainingState], None]) -> None:
        self._changed = changed
        self._lock = threading.RLock()
        self._turn = threading.Condition(self._lock)
        self._state: TrainingState = "idle"
        self._alive = False
        self._pause = False
        self._stop = False
        self._steps = 0
        self._working = False
        self._queued = False
        self._reserved = False
        self._lent_since: float | None = None
        self._lent_until = 0.0
        self._trainer: int | None = None
        self._visits: dict[int, int] = {}
        self._reasons: dict[int, str] = {}

    @property
    def state(self) -> TrainingState:
        """The state as last announced."""
        return self._state

    @property
    def alive(self) -> bool:
        """Whether a training thread is at work, halted or not."""
        return self._alive

    @property
    def waiting_for(self) -> str | None:
        """What the running training waits for between two steps, in words, or None."""
        with self._turn:
            return next(iter(self._reasons.values()), None) if self._state == "running" else None

    @property
    def stopping(self) -> bool:
        """Whether the end was asked for, and has not come yet."""
        return self._alive and self._stop

    def in_training_thread(self) -> bool:
        """Whether the caller is the training thread."""
        return self._trainer == threading.get_ident()

    def in_a_step(self) -> bool:
        """Whether the caller is the training thread, or in a step of another training, which holds this one up."""
        return self.in_training_thread() or has_turn()

    def launch(self, steps: int | None = None) -> bool:
        """Claim the right to start a training thread.

        Args:
            steps: Halt after so many optimizer steps; None runs on.

        Returns:
            False if a thread is at work already; then nothing has changed.

        Raises:
            Exception: Whoever was told of the new state has failed; then nothing has changed.
        """
        with self._turn:
            if self._alive:
                return False
            before = self._state
            self._alive = True
            self._pause = steps is not None
            self._steps = steps or 0
            self._stop = False
            state: TrainingState = "running" if steps is None else "paused"
            self._state = state
        try:
            self._changed(state)
        except BaseException:
            # No thread will ever end this.
            self._leave(before)
            raise
        return True

    def pause(self) -> None:
        """Ask for a halt at the next boundary."""
        self._request(pause=True)

    def resume(self) -> None:
        """Take a request to halt back."""
        self._request(pause=False)

    def allow(self, steps: int) -> None:
        """Ask for a halt after so many optimizer steps more."""
        self._request(pause=True, steps=steps)

    def stop(self) -> None:
        """Ask for the end at the next boundary."""
        self._request(stop=True)

    def _request(self, *, pause: bool | None = None, steps: int = 0, stop: bool = False) -> None:
        with self._turn:
            if self._alive:
                self._pause = self._pause if pause is None else pause
                self._steps = self._steps + steps if self._pause else 0
                self._stop = self._stop or stop
                self._turn.notify_all()

    def settled(self, timeout: float | None = None) -> bool:
        """Wait until the training has obeyed: it has halted with no step left to make, or has ended.

        What somebody else has taken back meanwhile, by `resume` or a new `launch`, is not waited for any longer.

        Args:
            timeout: Seconds at most.

        Returns:
            Whether it has; False at once in the training thread, which would wait for itself.
        """
        if self.in_training_thread():
            return False
        with self._turn:
            return self._turn.wait_for(self._has_obeyed, timeout)

    def _has_obeyed(self) -> bool:
        if not (self._alive and (self._pause or self._stop)):
            return True
        return self._state == "paused" and not (self._steps or self._working or self._stop)

    def wait_for_rest(self, *, wait: bool = True) -> None:
        """Wait until the training has obeyed, see `settled`; returns at once where that would be for ever."""
        while wait and not self.in_a_step() and not self.settled(_SLICE):
            pass

    def wait_for_end(self, timeout: float | None) -> bool:
        """Wait until no training thread is at work or `timeout` seconds have passed; whether none is."""
        until = float("inf") if timeout is None else time.monotonic() + min(timeout, threading.TIMEOUT_MAX)
        # Not on the condition: an interrupt that comes just when the condition's lock was taken (its `__enter__` is
        # Python) would leave it taken for ever, and the training would never make another step.
        while self._alive and (left := until - time.monotonic()) > 0:
            time.sleep(min(_GLANCE, left))
        return not self._alive

    # The training thread's side

    def enter(self) -> None:
        """The calling thread becomes the training thread."""
        self._trainer = threading.get_ident()

    def boundary(self) -> Verdict:
        """Between two steps: let others have the model, halt, end, or take the model and go on."""
        with self._lock:
            # At most boundaries nobody wants anything, and a small model's step is short.
            wanted = self._pause or self._stop or self._visits or self._lent_since is not None
            if not wanted and self._working and self._state == "running":
                return "go"
        while True:
            with self._turn:
                self._working = False
                self._turn.notify_all()
                while not self._may_leave_boundary():
                    # Nobody notifies when a loan runs out.
                    self._turn.wait(self._loan_left())
                self._queued = False
                self._lent_since = None
                if self._reserved:
                    self._reserved = False
                    self._turn.notify_all()
                if self._stop:
                    return "stop"
                news = self._news()
                if news is None:
                    self._working = True
                    return "go"
                self._state = news
            self._changed(news)

    def _may_leave_boundary(self) -> bool:
        if self._stop or self._news() is not None:
            return True
        wants_to_work = not self._pause or self._steps > 0
        # From here on a visitor who leaves last hands the turn to the training, not to a newcomer.
        self._queued = wants_to_work
        if self._reserved and not wants_to_work:
            # Meanwhile it was told to halt: nobody need wait for a turn that it does not take.
            self._reserved = False
            self._turn.notify_all()
        return wants_to_work and not self._visits and self._loan_left() is None

    def _loan_left(self) -> float | None:
        """Seconds for which visitors who have left may come back before the next step, or None."""
        if self._lent_since is None:
            return None
        left = self._lent_until - time.monotonic()
        return left if left > 0 else None

    def stepped(self) -> None:
        """One optimizer step was made."""
        # Of most trainings, which run on, no step is counted.
        if self._steps:
            with self._turn:
                self._steps = max(0, self._steps - 1)

    def end(self, state: TrainingState, failed: Callable[[BaseException], object]) -> None:
        """The training thread is about to leave for the reason that `state` tells.

        Args:
            state: Tells it.
            failed: Takes what is raised by whoever is told; the training has failed then.
        """
        with self._turn:
            self._working = False
            self._state = state
        try:
            self._changed(state)
        except BaseException as error:  # noqa: BLE001  nobody is above this thread; wait() raises it
            failed(error)
            self._leave("failed")
        else:
            self._leave(state)

    def _leave(self, state: TrainingState) -> None:
        """No thread is at work any more; tells `state`, where it is another one, to whoever still listens."""
        other, self._state = state != self._state, state
        # It is known already that somebody fails who is told.
        with suppress(Exception):
            if other:
                self._changed(state)
        with self._turn:
            self._alive = False
            self._trainer = None
            self._turn.notify_all()

    def _news(self) -> TrainingState | None:
        if self._stop:
            return None
        wanted: TrainingState = "paused" if self._pause else "running"
        return wanted if wanted != self._state else None

    # Turns at the model

    @contextmanager
    def visit(self, reason: str, linger: float = 0.0) -> Iterator[None]:
        """Have the model to oneself: waits for the end of the running step and keeps the next from starting.

        Visits nest; in the training thread, which has the model anyway, this does nothing.

        Args:
            reason: What the training then waits for, in words.
            linger: Seconds for which the next step waits in case the visitor comes back; at most 0.05
                seconds of this between two steps.
        """
        key = threading.get_ident()
        if self.in_training_thread():
            yield
            return
        self.arrive(key, reason)
        try:
            yield
        finally:
            self.leave(key, linger)

    def arrive(self, key: int, reason: str) -> None:
        """Begin a visit; blocks until the running step has ended.

        Args:
            key: Who visits; one who arrives several times leaves as often.
            reason: What the training then waits for, in words.
        """
        with self._turn:
            if key not in self._visits:
                self._turn.wait_for(lambda: not self._reserved)
                self._reasons[key] = reason
            self._visits[key] = self._visits.get(key, 0) + 1
            try:
                # A step of another training keeps this one's from beginning.
                self._turn.wait_for(lambda: has_turn() or not self._working)
            except BaseException:
                self.leave(key)
                raise

    def leave(self, key: int, linger: float = 0.0) -> None:
        """End one visit; leaving more often than arriving does nothing. For `linger`, see `visit`."""
        with self._turn:
            if linger:
                now = time.monotonic()
                self._lent_since = now if self._lent_since is None else self._lent_since
                self._lent_until = min(now + linger, self._lent_since + _LONGEST_LOAN)
            left = self._visits.pop(key, 0) - 1
            if left > 0:
                self._visits[key] = left
            else:
                self._reasons.pop(key, None)
            self._reserved = self._queued and not self._visits and self._loan_left() is None
            self._turn.notify_all()
