from __future__ import annotations

import pytest

from pnne_nb.process import idle
from pnne_nb.process.idle import OutOfDateError, breathe, idle_work


@pytest.fixture(autouse=True)
def short_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(idle, "PIECE", 0.0)
    monkeypatch.setattr(idle, "_BREAK", 0.0)


def test_work_that_is_out_of_date_is_given_up() -> None:
    done: list[int] = []

    def work() -> None:
        while True:
            breathe()
            done.append(len(done))

    with pytest.raises(OutOfDateError), idle_work(lambda: len(done) == 3):
        work()
    assert done == [0, 1, 2]


def test_what_is_no_idle_work_is_never_given_up() -> None:
    with idle_work(lambda: True):
        pass
    breathe()
