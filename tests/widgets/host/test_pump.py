"""The pump draws the latest, one frame at a time, in one thread, and ends."""

from __future__ import annotations

import gc
import logging
import threading
import weakref
from collections.abc import Sequence

import pytest

from pnne_nb.telemetry.channel import Channel
from pnne_nb.telemetry.frames import Frame, StateFrame, StepFrame
from pnne_nb.widgets.host.frame_pacer import IN_FLIGHT, Pacer
from pnne_nb.widgets.host.pump import Pump

PATIENCE = 60.0


def step(number: int) -> StepFrame:
    return StepFrame(number, 1, 1.0, 0.1, 1, 0.0)


class RecordingScreen:
    """Remembers what it was told; tells when it has drawn."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.taken: list[Frame] = []
        self.drawn: list[tuple[int, int]] = []
        self.threads: set[str] = set()
        self.waits_for_a_cell = False

    def take(self, frames: Sequence[Frame]) -> bool:
        with self.changed:
            self.taken.extend(frames)
            self.changed.notify_all()
        return isinstance(frames[-1], StateFrame) and frames[-1].state == "finished"

    def stale(self) -> bool:
        stale, self.waits_for_a_cell = self.waits_for_a_cell, False
        return stale

    def draw(self, tick: int, *, watched: bool) -> None:
        with self.changed:
            self.threads.add(threading.current_thread().name)
            self.drawn.append((tick, len(self.taken)))
            self.changed.notify_all()

    def wait_for(self, taken: int = 0, drawn: int = 0) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.taken) >= taken and len(self.drawn) >= drawn, PATIENCE)


class Clock:
    """Seconds that pass only when told."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_frames_between_two_drawings_are_taken_but_not_drawn() -> None:
    channel, screen, clock = Channel(), RecordingScreen(), Clock()
    pump = Pump(channel, screen, Pacer(hz=10, keep_alive=100), clock)
    pump.start()
    for number in range(1, IN_FLIGHT + 1):
        clock.now += 0.1
        channel.put(step(number))
        screen.wait_for(drawn=number)
    for number in range(IN_FLIGHT + 1, 500):
        channel.put(step(number))
    screen.wait_for(taken=499)
    clock.now += 0.2
    assert len(screen.drawn) == IN_FLIGHT
    pump.acknowledge(IN_FLIGHT)
    screen.wait_for(drawn=IN_FLIGHT + 1)
    assert screen.drawn[-1] == (IN_FLIGHT + 1, 499)
    assert screen.threads == {"pnne-pump"}
    pump.close()
    assert pump.join(PATIENCE)


def test_without_acknowledgements_a_slow_pulse_remains() -> None:
    channel, screen, clock = Channel(), RecordingScreen(), Clock()
    pump = Pump(channel, screen, Pacer(hz=10, keep_alive=1.0), clock)
    pump.start()
    for number in (1, 2, 3):
        clock.now += 1.0
        channel.put(step(number))
        screen.wait_for(drawn=number)
    pump.close()
    assert pump.join(PATIENCE)


def test_what_drawing_takes_slows_it_down_but_not_what_taking_in_many_steps_does() -> None:
    processor = Clock()

    class Working(RecordingScreen):
        def take(self, frames: Sequence[Frame]) -> bool:
            processor.now += 100.0
            return super().take(frames)

        def draw(self, tick: int, *, watched: bool) -> None:
            processor.now += 0.05
            super().draw(tick, watched=watched)

    channel, screen, clock = Channel(), Working(), Clock()
    pump = Pump(channel, screen, pacer := Pacer(hz=10, keep_alive=0.0, budget=0.1), clock, processor)
    pump.start()
    channel.put(step(1))
    screen.wait_for(drawn=1)
    clock.now = 0.6
    channel.put(step(2))
    screen.wait_for(drawn=2)
    pump.close()
    assert pump.join(PATIENCE)
    assert pacer.delay(clock.now) == pytest.approx(0.5)


def test_the_end_is_drawn_at_once_and_ends_the_thread() -> None:
    channel, screen = Channel(), RecordingScreen()
    pump = Pump(channel, screen, Pacer(keep_alive=1000), Clock())
    pump.start()
    channel.put(step(1))
    screen.wait_for(drawn=1)
    channel.put(step(2), StateFrame("finished"))
    assert pump.join(PATIENCE)
    assert screen.drawn[-1][1] == 3
    assert not pump.running


def test_it_starts_again_with_the_next_training() -> None:
    channel, screen = Channel(), RecordingScreen()
    pump = Pump(channel, screen, Pacer(keep_alive=0.0))
    for trainings in (1, 2, 3):
        channel.put(StateFrame("running"))
        pump.start()
        pump.start()
        screen.wait_for(taken=2 * trainings - 1)
        channel.put(StateFrame("finished"))
        assert pump.join(PATIENCE)


def test_a_start_whose_frame_was_taken_by_the_pump_before_ends_at_once() -> None:
    channel, screen = Channel(), RecordingScreen()
    pump = Pump(channel, screen)
    channel.put(StateFrame("finished"))
    for _ in range(2):
        pump.start()
        assert pump.join(PATIENCE)
    assert len(screen.drawn) == 1


def test_it_draws_what_no_frame_tells() -> None:
    channel, screen = Channel(), RecordingScreen()
    pump = Pump(channel, screen)
    pump.start()
    screen.waits_for_a_cell = True
    screen.wait_for(drawn=1)
    pump.close()
    assert pump.join(PATIENCE)


def test_a_closed_pump_does_not_start() -> None:
    pump = Pump(Channel(), screen := RecordingScreen())
    pump.close()
    pump.start()
    assert not pump.running
    assert not screen.drawn


def test_dropping_the_screen_ends_the_thread() -> None:
    screen = RecordingScreen()
    pump = Pump(Channel(), screen)
    pump.start()
    gone = weakref.ref(screen)
    del screen
    gc.collect()
    assert gone() is None
    assert pump.join(PATIENCE)


def test_a_failure_to_draw_is_logged_and_ends_only_the_drawing(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(RecordingScreen):
        def draw(self, tick: int, *, watched: bool) -> None:
            raise OSError("the comm is gone")

    channel, screen = Channel(), Broken()
    pump = Pump(channel, screen)
    with caplog.at_level(logging.ERROR):
        pump.start()
        channel.put(step(1))
        assert pump.join(PATIENCE)
    assert "The dashboard stopped drawing" in caplog.text
    assert "the comm is gone" in caplog.text


def test_a_million_frames_leave_nothing_behind() -> None:
    class Counting(RecordingScreen):
        count = 0

        def take(self, frames: Sequence[Frame]) -> bool:
            self.count += len(frames)
            return isinstance(frames[-1], StateFrame)

    channel, screen = Channel(capacity=1000), Counting()
    pump = Pump(channel, screen, Pacer(hz=1000, keep_alive=0.001))
    pump.start()
    frame = step(1)
    for _ in range(1000):
        channel.put(*[frame] * 1000)
    channel.put(StateFrame("finished"))
    assert pump.join(PATIENCE)
    assert screen.count + channel.dropped == 1_000_001
    assert len(channel.drain()) == 0
