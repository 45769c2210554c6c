from __future__ import annotations

import threading

import pytest

from pnne_nb.telemetry.channel import Channel
from pnne_nb.telemetry.frames import Frame, StateFrame, StepFrame


def step(number: int) -> StepFrame:
    return StepFrame(step=number, epoch=1, loss=0.5, learning_rate=0.1, examples=8, seconds=0.0)


def test_frames_come_out_in_order_and_only_once() -> None:
    channel = Channel()
    channel.put(step(1), step(2))
    channel.put(StateFrame("paused"))
    assert channel.drain() == [step(1), step(2), StateFrame("paused")]
    assert channel.drain() == []


def test_a_full_channel_drops_the_oldest_and_counts_them() -> None:
    channel = Channel(capacity=3)
    for number in range(1, 6):
        channel.put(step(number))
    assert [frame.step for frame in channel.drain() if isinstance(frame, StepFrame)] == [3, 4, 5]
    assert channel.dropped == 2


def test_more_frames_at_once_than_there_is_room_for() -> None:
    channel = Channel(capacity=2)
    channel.put(*map(step, range(5)))
    assert channel.drain() == [step(3), step(4)]
    assert channel.dropped == 3


def test_waiting_ends_when_a_frame_comes() -> None:
    channel = Channel()
    received: list[Frame] = []

    def receive() -> None:
        assert channel.wait()
        received.extend(channel.drain())

    thread = threading.Thread(target=receive)
    thread.start()
    channel.put(step(1))
    thread.join()
    assert received == [step(1)]


def test_waiting_has_a_time_limit() -> None:
    assert not Channel().wait(0.0)


def test_closing_wakes_who_waits_and_keeps_what_is_there() -> None:
    channel = Channel()
    answers: list[bool] = []
    thread = threading.Thread(target=lambda: answers.append(channel.wait()))
    thread.start()
    channel.close()
    thread.join()
    assert answers == [False]
    full = Channel()
    full.put(step(1))
    full.close()
    full.put(step(2))
    assert full.closed
    assert full.wait()
    assert full.drain() == [step(1)]


def test_a_channel_without_room_is_refused() -> None:
    with pytest.raises(ValueError, match="capacity must be at least 1 frame, not 0"):
        Channel(0)
