"""A cell in the main thread waits while a training obeys a button."""

import signal
import threading
from _thread import start_new_thread
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from pnne_nb.runtime.thread.cells import HOLD, cells, hold_cell

pytestmark = pytest.mark.skipif(HOLD is None, reason="Windows has no such signal")

CELL = """
def cell():
    hold_in_a_thread()
    rounds = 0
    while not over():
        rounds += 1

cell()
"""


@pytest.fixture
def open_cell() -> Iterator[None]:
    """A cell that runs in this thread."""
    cells.began()
    yield
    cells.ended()


@pytest.fixture
def looks() -> Iterator[list[float]]:
    """The seconds for which a cell was asked to wait for a training, which has halted already."""
    found: list[float] = []

    def until(seconds: float) -> bool:
        found.append(seconds)
        return True

    with held_by(until):
        yield found


@contextmanager
def held_by(until: Callable[[float], bool]) -> Iterator[None]:
    """A training that a cell waits for so."""
    let_go = cells.held_by.add(until)
    try:
        yield
    finally:
        let_go()


def run_cell(module: str = "__main__", **names: Any) -> None:
    """Run the cell's code as if it stood in `module`."""
    exec(CELL, {"__name__": module, **names})


def in_a_thread() -> None:
    # No other way of starting one is a single call in C.
    start_new_thread(lambda *_: hold_cell(), ())


@pytest.mark.usefixtures("open_cell")
@pytest.mark.parametrize(("has_halted", "times"), [(True, 1), (False, 2)])
def test_a_cell_waits_in_its_own_thread_before_its_next_instruction(has_halted: bool, times: int) -> None:
    held: list[tuple[threading.Thread, bool]] = []

    def until(seconds: float) -> bool:
        held.append((threading.current_thread(), seconds > 0))
        return has_halted

    with held_by(until):
        run_cell(hold_in_a_thread=in_a_thread, over=lambda: bool(held))

    # It looks first, and waits only for what is not there yet.
    assert held == [(threading.main_thread(), False), (threading.main_thread(), True)][:times]


@pytest.mark.usefixtures("open_cell")
def test_a_cell_that_may_have_a_lock_is_not_held(looks: list[float]) -> None:
    looked: list[object] = []

    def hold() -> None:
        hold_cell()
        looked.append(hold)

    run_cell("queue", hold_in_a_thread=lambda: start_new_thread(hold, ()), over=lambda: bool(looked))

    assert not looks


@pytest.mark.usefixtures("open_cell")
def test_an_interrupt_of_a_held_cell_reaches_it() -> None:
    def interrupted(seconds: float) -> bool:
        signal.raise_signal(signal.SIGINT)
        return False

    with held_by(interrupted), pytest.raises(KeyboardInterrupt):
        run_cell(hold_in_a_thread=in_a_thread, over=lambda: False)


def test_without_a_cell_nothing_is_held(looks: list[float]) -> None:
    thread = threading.Thread(target=hold_cell)
    thread.start()
    thread.join()
    signal.raise_signal(signal.SIGURG)
    run_cell(hold_in_a_thread=lambda: None, over=lambda: True)

    assert not looks


def test_somebody_elses_handler_stays() -> None:
    seen: list[int] = []
    before = signal.signal(signal.SIGURG, lambda number, _: seen.append(number))
    try:
        cells.began()
        cells.ended()
        signal.raise_signal(signal.SIGURG)
    finally:
        signal.signal(signal.SIGURG, before)
    assert seen == [signal.SIGURG]
