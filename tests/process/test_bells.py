"""Bells wake those who wait, once; an errand is done elsewhere, and what it raises is found here."""

from __future__ import annotations

import threading

import pytest

from pnne_nb.process.bells import Bell, Bells, Errand


def test_a_bell_that_has_rung_twice_wakes_once() -> None:
    bell = Bell()
    bell.ring()
    bell.ring()
    assert bell.wait(60)
    assert not bell.wait(0)


def test_an_interrupted_ring_wakes_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    lock, ready, woken = threading.RLock(), threading.Event(), list[bool]()
    bells = Bells(lock)
    thread = threading.Thread(target=lambda: woken.append(bells.wait_until(ready.is_set)))
    thread.start()
    while not len(bells):
        threading.Event().wait(0.005)

    def interrupt(bell: Bell) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Bell, "ring", interrupt)
        ready.set()
        with lock, pytest.raises(KeyboardInterrupt):
            bells.ring()
    thread.join(60)
    assert woken == [True]
    assert not len(bells)


def test_an_errand_keeps_what_it_raises() -> None:
    done: list[int] = []
    errand = Errand(lambda: done.append(1 // len(done)))
    found = [errand.done]
    errand.run()
    assert [*found, errand.done] == [False, True]
    assert isinstance(errand.error, ZeroDivisionError)
