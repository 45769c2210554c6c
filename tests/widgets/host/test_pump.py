"""The pump draws the latest, one frame at a time, in one thread, and ends."""

from __future__ import annotations

import gc
import logging
import threading
import weakref
from collections.abc import Sequence
from typing import Any

import bqplot
import comm
import ipywidgets
import numpy as np
import pytest
from ipywidgets.widgets.widget import _put_buffers

from pnne_nb.telemetry.channel import Channel
from pnne_nb.telemetry.frames import Frame, StateFrame, StepFrame
from pnne_nb.widgets.host.pump import IN_FLIGHT, Pacer, Picture, Pump

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


def test_the_first_frame_goes_at_once() -> None:
    assert Pacer().delay(0.0) == 0.0


def test_ten_frames_a_second_while_the_browser_acknowledges() -> None:
    pacer = Pacer(hz=10)
    tick = pacer.send(1.0)
    pacer.acknowledge(tick, 1.02)
    assert abs(pacer.delay(1.02) - 0.08) < 1e-9
    assert pacer.delay(1.1) == 0.0


def test_unacknowledged_frames_hold_the_next_back_until_the_keep_alive() -> None:
    pacer = Pacer(hz=10, keep_alive=1.0)
    for number in range(1, IN_FLIGHT):
        now = 1.0 - 0.1 * (IN_FLIGHT - number)
        pacer.send(now)
        assert pacer.delay(now + 0.11) == 0.0
    pacer.send(1.0)
    assert pacer.delay(1.5) == 0.5
    assert pacer.delay(2.0) == 0.0


def test_a_late_acknowledgement_of_an_earlier_frame_does_not_release_the_next() -> None:
    pacer = Pacer(hz=10, keep_alive=1.0)
    first = pacer.send(0.0)
    for number in range(1, IN_FLIGHT):
        pacer.send(0.1 * number)
    pacer.send(1.0)
    pacer.acknowledge(first, 1.1)
    assert pacer.delay(1.2) == 0.8


def test_ten_frames_a_second_while_the_browser_acknowledges_as_seldom_as_it_may() -> None:
    pacer, now = Pacer(hz=10, keep_alive=1.0), 0.0
    for _ in range(10):
        tick = pacer.send(now)
        if tick % IN_FLIGHT == 0:
            pacer.acknowledge(tick, now + 0.05)
        now += 0.1
        assert pacer.delay(now) == 0.0


def test_an_acknowledgement_of_what_was_never_sent_counts_for_nothing() -> None:
    pacer = Pacer()
    for _ in range(IN_FLIGHT):
        pacer.send(0.0)
    pacer.acknowledge(IN_FLIGHT + 5, 0.1)
    assert not pacer.watched(0.1)
    assert pacer.delay(0.5) == 0.5


def test_costly_drawing_slows_down_to_its_budget() -> None:
    pacer = Pacer(hz=10, budget=0.1)
    tick = pacer.send(0.0)
    pacer.spent(0.05)
    pacer.acknowledge(tick, 0.06)
    assert abs(pacer.delay(0.06) - 0.44) < 1e-9


def test_somebody_watches_until_the_acknowledgements_cease() -> None:
    pacer = Pacer(keep_alive=1.0)
    assert not pacer.watched(0.0)
    pacer.acknowledge(pacer.send(0.0), 0.1)
    assert pacer.watched(3.0)
    assert not pacer.watched(3.2)


pytestmark = pytest.mark.usefixtures("own_widgets")

Message = tuple[str, dict[str, Any], list[Any]]


class Wire:
    """Keeps what is sent: whose it is, its data, its buffers."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.sent: list[Message] = []

        def publish(
            of: comm.base_comm.BaseComm, _kind: str, data: Any = None, *_: Any, buffers: Any = None, **__: Any
        ) -> None:
            self.sent.append((of.comm_id, data, list(buffers or ())))

        monkeypatch.setattr(comm.DummyComm, "publish_msg", publish)


@pytest.fixture
def wire(monkeypatch: pytest.MonkeyPatch) -> Wire:
    return Wire(monkeypatch)


def line() -> bqplot.Lines:
    return bqplot.Lines(x=[], y=[], scales={"x": bqplot.LinearScale(), "y": bqplot.LinearScale()})


def apart(message: Message) -> list[Message]:
    """What js/src/controls/picture.ts makes of a picture."""
    _, data, buffers = message
    found: list[Message] = []
    for update in data["content"]["updates"]:
        own, buffers = buffers[: len(update["paths"])], buffers[len(update["paths"]) :]
        told = {"method": "update", "state": update["state"], "buffer_paths": update["paths"]}
        found.append((update["model"], told, own))
    assert buffers == []
    return found


def test_a_picture_is_one_message_that_says_what_the_single_ones_would(wire: Wire) -> None:
    label, one, other = ipywidgets.HTML(), line(), line()
    bar = ipywidgets.HTML()

    def draw(step: int) -> None:
        label.value = f"<b>{step}</b>"
        for drawn in (one, other):
            with drawn.hold_sync():
                drawn.x, drawn.y = np.arange(step, dtype=np.float32), np.full((2, step), step, np.float32)
        bar.value = str(step)

    wire.sent.clear()
    draw(5)
    single = wire.sent[:]
    assert len(single) == 4
    draw(7)
    wire.sent.clear()
    picture = Picture(bar)
    picture.include([label, one, other, bar])
    picture.include([one])
    with picture.drawn():
        draw(5)
        assert wire.sent == []
    (message,) = wire.sent
    assert message[0] == bar.comm.comm_id
    assert message[1]["method"] == "custom"
    assert apart(message) == single
    model, data, buffers = apart(message)[1]
    _put_buffers(data["state"], data["buffer_paths"], buffers)
    assert model == one.comm.comm_id
    assert np.frombuffer(data["state"]["x"]["value"], np.float32).tolist() == [0, 1, 2, 3, 4]
    wire.sent.clear()
    draw(6)
    assert len(wire.sent) == 4


def test_nothing_to_draw_is_no_message(wire: Wire) -> None:
    bar = ipywidgets.HTML()
    picture = Picture(bar)
    picture.include([bar])
    wire.sent.clear()
    with picture.drawn():
        pass
    assert wire.sent == []


def test_what_was_drawn_before_an_error_arrives(wire: Wire) -> None:
    bar = ipywidgets.HTML()
    picture = Picture(bar)
    picture.include([bar])
    wire.sent.clear()

    def fail() -> None:
        bar.value = "half"
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), picture.drawn():
        fail()
    ((_, data, _),) = wire.sent
    assert data["content"]["updates"][0]["state"] == {"value": "half"}


def test_answers_and_other_threads_do_not_wait_for_the_picture(wire: Wire) -> None:
    bar, other = ipywidgets.HTML(), ipywidgets.HTML()
    picture = Picture(bar)
    picture.include([bar, other])
    wire.sent.clear()
    with picture.drawn():
        bar.send({"kind": "reply"})
        thread = threading.Thread(target=lambda: other.set_trait("value", "now"))
        thread.start()
        thread.join()
        assert [data["method"] for _, data, _ in wire.sent] == ["custom", "update"]
    assert len(wire.sent) == 2


def test_a_closed_widget_is_left_out(wire: Wire) -> None:
    bar, closed = ipywidgets.HTML(), ipywidgets.HTML()
    closed.close()
    picture = Picture(bar)
    picture.include([bar, closed])
    wire.sent.clear()
    with picture.drawn():
        closed.value = "nobody hears it"
    assert wire.sent == []
