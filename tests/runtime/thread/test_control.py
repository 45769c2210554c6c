from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import pytest

from pnne_nb.process.bells import Bell
from pnne_nb.runtime.thread.control import Control
from pnne_nb.telemetry.frames import TrainingState


def _unexpected(error: BaseException) -> None:
    raise AssertionError(error)


class Worker:
    """A thread that makes steps when told to, under a `Control`."""

    def __init__(self) -> None:
        self.states: list[TrainingState] = []
        self.asked: list[str | None] = []
        """What was still to be obeyed, as whoever is told of each state finds it."""
        self.control = Control(self._take)
        self.steps = 0
        self.in_step = threading.Event()
        self.finish_step = threading.Event()
        self.finish_step.set()
        self.thread = threading.Thread(target=self._work)

    def _take(self, state: TrainingState) -> None:
        self.states.append(state)
        self.asked.append(self.control.asked)

    def start(self, steps: int | None = None) -> None:
        assert self.control.launch(steps)
        self.thread.start()

    def _work(self) -> None:
        self.control.enter()
        while self.control.boundary() == "go":
            self.in_step.set()
            assert self.finish_step.wait(60)
            self.steps += 1
            self.control.stepped()
        self.control.end("stopped", _unexpected)

    def until(self, condition: Callable[[], bool]) -> None:
        waiting, deadline = threading.Event(), time.monotonic() + 60
        while not condition():
            assert time.monotonic() < deadline, "The condition never came true."
            waiting.wait(0.005)


@pytest.fixture
def worker() -> Iterator[Worker]:
    made = Worker()
    yield made
    made.finish_step.set()
    made.control.stop()
    if made.thread.ident is not None:
        made.thread.join(60)


def test_states_of_a_whole_life(worker: Worker) -> None:
    assert worker.control.state == "idle"
    worker.start()
    worker.until(lambda: worker.steps > 3)
    worker.control.pause()
    assert worker.control.settled(60)
    halted_at = worker.steps
    worker.control.resume()
    worker.until(lambda: worker.steps > halted_at)
    worker.control.stop()
    assert worker.control.settled(60)
    assert worker.states == ["running", "paused", "running", "stopped"]
    assert not worker.control.alive


def test_who_hears_of_the_end_does_not_hear_that_it_is_still_to_come(worker: Worker) -> None:
    worker.start()
    worker.finish_step.clear()
    assert worker.in_step.wait(60)
    worker.control.stop()
    assert worker.control.asked == "stopping"
    worker.finish_step.set()
    assert worker.control.settled(60)
    assert worker.asked == [None, None]


def test_an_interrupted_ring_wakes_those_who_wait_all_the_same(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    worker.start(steps=0)
    assert worker.control.settled(60)

    def interrupt(bell: Bell) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Bell, "ring", interrupt)
        worker.until(lambda: bool(worker.control._bells))
        with pytest.raises(KeyboardInterrupt):
            worker.control.resume()
    worker.until(lambda: worker.steps > 0)


def test_what_a_visitor_wants_is_done_in_the_training_thread_between_two_steps(worker: Worker) -> None:
    worker.start()
    done: list[int | None] = []
    with worker.control.visit("a test"):
        worker.control.have_done(lambda: done.append(threading.current_thread().ident))
        with pytest.raises(ZeroDivisionError):
            worker.control.have_done(lambda: done.append(1 // 0))
    assert done == [worker.thread.ident]
    worker.control.stop()
    worker.thread.join(60)
    # There is nobody to do it.
    worker.control.have_done(lambda: done.append(None))
    assert len(done) == 1


def test_a_training_halts_before_it_has_made_all_the_steps_allowed(worker: Worker) -> None:
    worker.start(steps=0)
    assert worker.control.settled(60)
    worker.control.allow(10**9)
    worker.until(lambda: worker.steps > 1)
    worker.control.pause()
    assert worker.control.settled(60)
    halted_at = worker.steps
    worker.control.allow(2)
    assert worker.control.settled(60)
    assert worker.steps == halted_at + 2


def test_steps_allowed_while_running_halt_it_afterwards(worker: Worker) -> None:
    worker.start()
    worker.until(lambda: worker.steps > 0)
    worker.control.allow(1)
    assert worker.control.settled(60)
    assert worker.control.state == "paused"


def test_resuming_forgets_steps_that_were_left(worker: Worker) -> None:
    worker.finish_step.clear()
    worker.start(steps=50)
    worker.control.resume()
    worker.finish_step.set()
    worker.until(lambda: worker.steps > 60)
    assert worker.control.state == "running"


def test_a_visitor_waits_for_the_running_step_and_holds_the_next(worker: Worker) -> None:
    worker.finish_step.clear()
    worker.start()
    assert worker.in_step.wait(60)
    arrived = threading.Event()
    leave = threading.Event()

    def visit() -> None:
        with worker.control.visit("a test"):
            arrived.set()
            assert leave.wait(60)

    visitor = threading.Thread(target=visit)
    visitor.start()
    assert not arrived.is_set()
    worker.finish_step.set()
    assert arrived.wait(60)
    steps = worker.steps
    assert worker.control.waiting_for == "a test"
    assert worker.steps == steps
    leave.set()
    visitor.join(60)
    worker.until(lambda: worker.steps > steps)
    assert worker.control.waiting_for is None


def test_visits_nest(worker: Worker) -> None:
    worker.start()
    with worker.control.visit("outer"), worker.control.visit("inner"):
        steps = worker.steps
        assert worker.control.waiting_for == "outer"
    worker.until(lambda: worker.steps > steps)


def test_a_crowd_of_visitors_cannot_keep_training_from_its_steps(worker: Worker) -> None:
    worker.start()
    enough = threading.Event()

    def crowd() -> None:
        while not enough.is_set():
            with worker.control.visit("a crowd"):
                pass

    visitors = [threading.Thread(target=crowd) for _ in range(3)]
    for visitor in visitors:
        visitor.start()
    start = worker.steps
    try:
        worker.until(lambda: worker.steps > start + 20)
    finally:
        enough.set()
        for visitor in visitors:
            visitor.join(60)


def test_halting_and_ending_do_not_wait_for_a_visitor(worker: Worker) -> None:
    worker.start()
    with worker.control.visit("a long cell"):
        worker.control.pause()
        assert worker.control.settled(60)
        worker.control.stop()
        assert worker.control.settled(60)
    assert worker.states[-1] == "stopped"


def test_leaving_too_often_does_no_harm(worker: Worker) -> None:
    worker.control.leave(5)
    worker.start(steps=1)
    assert worker.control.settled(60)


def test_an_interrupt_while_arriving_leaves_no_trace(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    worker.finish_step.clear()
    worker.start()
    assert worker.in_step.wait(60)

    def interrupt(bell: Bell, seconds: float) -> bool:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Bell, "wait", interrupt)
        with pytest.raises(KeyboardInterrupt), worker.control.visit("a test"):
            raise AssertionError("The block must not be entered.")
    worker.finish_step.set()
    worker.until(lambda: worker.steps > 2)


def test_a_visit_is_forgotten_however_often_its_visitor_has_arrived(worker: Worker) -> None:
    worker.control.arrive("a cell", "a test")
    worker.control.arrive("a cell", "a test")
    worker.start()
    worker.control.forget("a cell")
    worker.until(lambda: worker.steps > 2)
    worker.control.forget("a cell")


def test_the_training_thread_never_waits_for_itself() -> None:
    control = Control(lambda _: None)
    assert control.launch()
    control.enter()
    assert control.boundary() == "go"
    assert not control.settled(None)
    with control.visit("itself"):
        pass
    control.end("finished", _unexpected)
    assert control.wait_for_end(0)


def test_a_turn_that_the_training_no_longer_wants_is_open_to_others(worker: Worker) -> None:
    control = worker.control
    control.arrive(1, "the first visit")
    worker.start(steps=1)
    worker.until(lambda: control._queued)
    with control._lock:  # before the training looks again
        control.leave(1)
        control.resume()
        control.pause()
    assert control.settled(60)
    visited = threading.Event()

    def visit() -> None:
        with control.visit("the second visit"):
            visited.set()

    visitor = threading.Thread(target=visit)
    visitor.start()
    try:
        assert visited.wait(30)
    finally:
        control.stop()
        visitor.join(60)
    assert worker.steps == 0


def test_nobody_waits_for_what_another_has_taken_back(worker: Worker) -> None:
    worker.finish_step.clear()
    worker.start()
    worker.until(lambda: worker.control._working)
    worker.control.pause()
    waiter = threading.Thread(target=worker.control.wait_for_rest)
    waiter.start()
    assert not worker.control.settled(0)
    worker.control.resume()
    waiter.join(30)
    assert not waiter.is_alive()
