"""Connects the training thread with all others: requests, states, and turns at the live model."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager, suppress
from typing import Literal, TypeAlias, final

from pnne_nb.process.bells import SLICE, Bells, Errand
from pnne_nb.process.fork import fork_safe, renewed_after_fork
from pnne_nb.runtime.thread.cells import cells
from pnne_nb.runtime.thread.step_lock import is_of_a_step
from pnne_nb.telemetry.frames import ALIVE, TrainingState

Verdict: TypeAlias = Literal["go", "stop"]

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

    Attributes:
        asked_at: When somebody has last asked for something, in seconds since 1970.
        woken: Called, in whatever thread, when somebody wants something of the training.
        stop_asked: Set when somebody asks for the end.
    """

    def __init__(self, changed: Callable[[TrainingState], None]) -> None:
        self.asked_at = 0.0
        self.woken: Callable[[], None] = lambda: None
        self._changed = changed
        self._lock = fork_safe(threading.RLock())
        self._bells = Bells(self._lock)
        self._state: TrainingState = "idle"
        self._alive = False
        self._pause = False
        self._stop = False
        self.stop_asked = threading.Event()
        self._steps = 0
        self._working = False
        self._stepping = False
        self._queued = False
        self._reserved = False
        self._lent_since: float | None = None
        self._lent_until = 0.0
        self._trainer: int | None = None
        self._visits: dict[Hashable, int] = {}
        self._reasons: dict[Hashable, str] = {}
        self._errands: deque[Errand] = deque()
        self._awaited = 0
        self._forked = False
        renewed_after_fork(self)

    def renew_after_fork(self) -> None:
        """Forget the training thread, which a forked child lacks: a training under way belongs to the parent."""
        if self._alive:
            self._forked = True
            self._state = "stopped"
        self._alive = self._working = self._stepping = self._queued = self._reserved = False
        self._trainer = self._lent_since = None
        self._visits.clear()
        self._reasons.clear()
        self._bells.clear()
        self._errands.clear()

    @property
    def forked(self) -> bool:
        """Whether this process was forked while the training was under way: the training is its parent's."""
        return self._forked

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
        with self._lock:
            # An interrupt may have kept a reason from going with its visit.
            reasons = [reason for key, reason in self._reasons.items() if key in self._visits]
            return reasons[0] if reasons and self._state == "running" else None

    @property
    def asked(self) -> str | None:
        """What somebody has asked for and the training has not obeyed yet, in words, or None."""
        # The end is announced before the thread is gone, and whoever hears of it may ask at once.
        if self.stopping and self._state in ALIVE:
            return "stopping"
        halts = self._alive and self._pause and not self._steps and self._state == "running"
        return "pausing" if halts else None

    @property
    def trainer(self) -> int | None:
        """The number of the training thread, or None while there is none."""
        return self._trainer

    @property
    def stopping(self) -> bool:
        """Whether the end was asked for, and has not come yet."""
        return self._alive and self._stop

    @property
    def steps_left(self) -> int | None:
        """Steps that are to be made before the training halts, or None if it runs on."""
        return self._steps if self._pause else None

    @property
    def awaited(self) -> bool:
        """Whether a cell waits for steps of the training, for which the training must not wait."""
        return bool(self._awaited) or (self._pause and self._steps > 0)

    @contextmanager
    def awaiting(self) -> Iterator[None]:
        """Note that the calling cell waits for the training in this block."""
        if not cells.open_here():
            yield
            return
        self._awaited += 1
        try:
            yield
        finally:
            self._awaited -= 1

    @property
    def visited(self) -> bool:
        """Whether somebody has, or waits for, a turn at the model."""
        return bool(self._visits)

    @property
    def rests(self) -> bool:
        """Whether the training has halted, with no step left to make."""
        return self._state == "paused" and not (self._steps or self._working or self._stop)

    def is_visited_by(self, key: Hashable) -> bool:
        """Return whether that visitor has its turn."""
        return key in self._visits and not self._working

    def in_training_thread(self) -> bool:
        return self._trainer == threading.get_ident()

    def in_a_step(self) -> bool:
        """Return whether the caller is the training thread, or in a step of another training, which delays this one."""
        return self.in_training_thread() or is_of_a_step()

    def launch(self, steps: int | None = None) -> bool:
        """Claim the right to start a training thread, which halts after so many steps, or runs on with None.

        Returns:
            False if a thread is at work already; then nothing has changed.

        Raises:
            Exception: Whoever was told of the new state has failed; then nothing has changed.
        """
        with self._lock:
            if self._alive:
                return False
            before = self._state
            self._alive = True
            self._pause = steps is not None
            self._steps = steps or 0
            self._stop = False
            self.stop_asked.clear()
            self._state = "running" if steps is None else "paused"
        try:
            self._changed(self._state)
        except BaseException:
            # No thread will ever end this.
            self._leave(before)
            raise
        return True

    def abandon(self, state: TrainingState) -> bool:
        """Return to `state`, the one before the launch of a thread that has not begun, and may never: an interrupt came between.

        Returns:
            Whether there was such a launch; otherwise nothing has changed.
        """
        with self._lock:
            found = self._alive and self._trainer is None
            if found:
                self._leave(state)
            return found

    def pause(self) -> None:
        """Ask for a halt at the next boundary, whatever number of steps was allowed before."""
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
        with self._lock:
            if self._alive:
                if pause is not None:
                    # More steps come on top of those that are left; who halts or goes on counts none.
                    self._pause, self._steps = pause, self._steps + steps if steps else 0
                if stop:
                    self._stop = True
                    self.stop_asked.set()
                self.asked_at = time.time()
                self._bells.ring()
                self.woken()

    def settled(self, timeout: float | None = None) -> bool:
        """Wait, for `timeout` seconds at most, until the training has halted with no step left to make, or has ended.

        What somebody else has taken back meanwhile, by `resume` or a new `launch`, is not waited for any longer.

        Returns:
            Whether it has obeyed; False at once in the training thread, which would wait for itself.
        """
        if self.in_training_thread():
            return False
        return self._bells.wait_until(self._has_obeyed, timeout)

    def _has_obeyed(self) -> bool:
        if not (self._alive and (self._pause or self._stop)):
            return True
        return self.rests

    def wait_for_rest(self, *, wait: bool = True) -> None:
        """Wait until the training has obeyed, see `settled`; returns at once where that would be for ever."""
        while wait and not self.in_a_step() and not self.settled(SLICE):
            pass

    def wait_for_end(self, timeout: float | None) -> bool:
        """Wait until no training thread is at work or `timeout` seconds have passed; whether none is."""
        until = float("inf") if timeout is None else time.monotonic() + min(timeout, threading.TIMEOUT_MAX)
        while self._alive and (left := until - time.monotonic()) > 0:
            time.sleep(min(_GLANCE, left))
        return not self._alive

    # The training thread's side

    def claim(self) -> bool:
        """Become the training thread; whether the caller is wanted as such, see `abandon`."""
        with self._lock:
            wanted = self._alive and self._trainer is None
            if wanted:
                self._trainer = threading.get_ident()
            return wanted

    def enter(self) -> None:
        """Make the calling thread the training thread, in the place of the previous one."""
        self._trainer = threading.get_ident()

    def boundary(self) -> Verdict:
        """Let others have the model between two steps, halt, end, or take the model and go on."""
        with self._lock:
            # At most boundaries nobody wants anything, and a small model's step is short.
            wanted = self._pause or self._stop or self._visits or self._errands or self._lent_since is not None
            if not wanted and self._working and self._state == "running":
                self._stepping = True
                return "go"
        while True:
            with self._lock:
                self._working = self._stepping = False
                self._bells.ring()
            while not self._bells.wait_until(
                lambda: self._errands or self._may_leave_boundary(), glance=self._loan_left
            ):
                pass
            if self._errands:
                self._run_errand()
                continue
            with self._lock:
                # Somebody may have come, or taken a request back, since the bell has rung.
                if not self._may_leave_boundary():
                    continue
                self._queued = False
                self._lent_since = None
                if self._reserved:
                    self._reserved = False
                    self._bells.ring()
                if self._stop:
                    return "stop"
                news = self._news()
                if news is None:
                    self._working = self._stepping = True
                    return "go"
                self._state = news
            self._changed(news)

    def _run_errand(self) -> None:
        with self._lock:
            # Nobody else has the model meanwhile.
            self._working = self._stepping = True
            errand = self._errands.popleft()
        errand.run()

    def _may_leave_boundary(self) -> bool:
        if self._stop or self._news() is not None:
            return True
        wants_to_work = not self._pause or self._steps > 0
        # From here on a visitor who leaves last hands the turn to the training, not to a newcomer.
        self._queued = wants_to_work
        if self._reserved and not wants_to_work:
            # Meanwhile it was told to halt: nobody need wait for a turn that it does not take.
            self._reserved = False
            self._bells.ring()
        return wants_to_work and not self._visits and self._loan_left() is None

    def _loan_left(self) -> float | None:
        """Return the seconds for which visitors who have left may come back before the next step, or None."""
        if self._lent_since is None:
            return None
        left = self._lent_until - time.monotonic()
        return left if left > 0 else None

    def made(self) -> None:
        """Note that what the last `boundary` has allowed is made, and is told of from now on."""
        self._stepping = False
        if self._visits:
            with self._lock:
                self._bells.ring()

    def stepped(self) -> None:
        """Note that one optimizer step was made."""
        # Of most trainings, which run on, no step is counted.
        if self._steps:
            with self._lock:
                self._steps = max(0, self._steps - 1)

    def end(self, state: TrainingState, failed: Callable[[BaseException], object]) -> None:
        """Note that the training thread is about to leave, in `state`.

        If somebody who is told of it raises an exception, `failed` takes that, and the training has failed.
        """
        with self._lock:
            self._working = self._stepping = False
            self._state = state
        try:
            self._changed(state)
        except BaseException as error:  # noqa: BLE001  nobody is above this thread; wait() raises it
            failed(error)
            self._leave("failed")
        else:
            self._leave(state)

    def _leave(self, state: TrainingState) -> None:
        """Note that no thread trains any more; tell listeners of `state` if it is another one."""
        other, self._state = state != self._state, state
        # It is known already that somebody fails who is told.
        with suppress(Exception):
            if other:
                self._changed(state)
        with self._lock:
            self._alive = False
            self._trainer = None
            self._errands.clear()
            self._bells.ring()

    def _news(self) -> TrainingState | None:
        if self._stop:
            return None
        wanted: TrainingState = "paused" if self._pause else "running"
        return wanted if wanted != self._state else None

    # Turns at the model

    @contextmanager
    def visit(self, reason: str, linger: float = 0.0, *, draws: bool = False) -> Iterator[None]:
        """Have the model to oneself: waits for the end of the running step and keeps the next from starting.

        Visits nest; in the training thread, which has the model anyway, this does nothing.

        Args:
            reason: What the training then waits for, in words.
            linger: Seconds for which the next step waits in case the visitor comes back, at most 0.05 between two steps.
            draws: Whether only the global generators are wanted, which are free as soon as the running step has been made,
                before it is told of.
        """
        key = threading.get_ident()
        if self.in_training_thread():
            yield
            return
        if cells.open_here():
            cells.at_interrupt(self._end_visit)
        self.arrive(key, reason, draws=draws)
        try:
            yield
        finally:
            self.leave(key, linger)

    def _end_visit(self) -> None:
        """End a visit of the calling thread whose end an interrupt of the cell may have cut short."""
        self.forget(threading.get_ident())

    def arrive(self, key: Hashable, reason: str, *, draws: bool = False) -> None:
        """Begin a visit; blocks until the running step has ended. For `reason` and `draws`, see `visit`.

        Whoever arrives several times, by the same `key`, leaves as often.
        """
        before = self._visits.get(key, 0)

        def enter() -> bool:
            if self._reserved and key not in self._visits:
                return False
            self._visits[key] = before + 1
            self._reasons.setdefault(key, reason)
            return True

        try:
            self._bells.wait_until(enter)
            self.woken()
            # A step of another training keeps this one's from beginning.
            self._bells.wait_until(lambda: is_of_a_step() or not (self._stepping if draws else self._working))
        except BaseException:
            if self._visits.get(key, 0) > before:
                self.leave(key)
            raise

    def expect(self, key: Hashable, reason: str) -> None:
        """Begin a visit for `key` between two steps, in the training thread, which waits for its end at the next boundary."""
        with self._lock:
            self._visits[key] = self._visits.get(key, 0) + 1
            self._reasons.setdefault(key, reason)

    def leave(self, key: Hashable, linger: float = 0.0) -> None:
        """End one visit; leaving more often than arriving does nothing. For `linger`, see `visit`."""
        with self._lock:
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
            self._bells.ring()

    def have_done(self, work: Callable[[], None]) -> None:
        """Have the training thread do something between two steps, for a visitor: no interrupt cuts it short there.

        An interrupt ends the waiting for it. Of a training that ends, it is not done.

        Raises:
            BaseException: What the work raises.
        """
        if self.in_training_thread():
            work()
            return
        errand = Errand(work)
        with self._lock:
            if self._alive:
                self._errands.append(errand)
                self._bells.ring()
        self._bells.wait_until(lambda: errand.done or not self._alive)
        if errand.error is not None:
            raise errand.error

    def forget(self, key: Hashable) -> None:
        """End every visit of `key`."""
        with self._lock:
            # Never 0: after an interrupt before the next line, the training would wait for nobody.
            if key in self._visits:
                self._visits[key] = 1
            self.leave(key)
