"""Frames follow the browser's pace."""

from __future__ import annotations

from pnne_nb.widgets.host.frame_pacer import IN_FLIGHT, Pacer


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
