"""A cell in the main thread waits while a training obeys a button."""

import signal
import threading
from _thread import start_new_thread
from collections.abc import Iterator
from typing import Any

import pytest

from pnne_nb.runtime.thread.cells import cells, hold_cell

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


def run_cell(module: str = "__main__", **names: Any) -> None:
    """Run the cell's code as if it stood in `module`."""
    exec(CELL, {"__name__": module, **names})


def in_a_thread(until: Any) -> None:
    # No other way of starting one is a single call in C.
    start_new_thread(hold_cell, (until,))


@pytest.mark.usefixtures("open_cell")
def test_a_cell_waits_in_its_own_thread_before_its_next_instruction() -> None:
    held: list[threading.Thread] = []

    run_cell(
        hold_in_a_thread=lambda: in_a_thread(lambda seconds: held.append(threading.current_thread())),
        over=lambda: bool(held),
    )

    assert held == [threading.main_thread()]


@pytest.mark.usefixtures("open_cell")
def test_a_cell_that_may_have_a_lock_is_not_held() -> None:
    held: list[object] = []
    looked: list[object] = []

    def hold() -> None:
        hold_cell(held.append)
        looked.append(hold)

    run_cell("queue", hold_in_a_thread=lambda: start_new_thread(hold, ()), over=lambda: bool(looked))

    assert not held


@pytest.mark.usefixtures("open_cell")
def test_an_interrupt_of_a_held_cell_reaches_it() -> None:
    def interrupted(seconds: float) -> None:
        signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        run_cell(hold_in_a_thread=lambda: in_a_thread(interrupted), over=lambda: False)


def test_without_a_cell_nothing_is_held() -> None:
    held: list[object] = []
    thread = threading.Thread(target=hold_cell, args=(held.append,))
    thread.start()
    thread.join()

    run_cell(hold_in_a_thread=lambda: None, over=lambda: True)

    assert not held
