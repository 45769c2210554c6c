"""What no cell shows any more is closed, and nothing else."""

from __future__ import annotations

from pnne_nb.widgets.displays import Displays


class Widget:
    def __init__(self) -> None:
        self.closed = False

    def close(self) -> None:
        self.closed = True


def test_a_cell_that_runs_again_closes_what_it_showed() -> None:
    displays, old, new = Displays(), Widget(), Widget()
    displays.record("a", 1, old)
    displays.record("a", 2, new)
    assert (old.closed, new.closed) == (True, False)


def test_what_the_cell_shows_again_stays() -> None:
    displays, widget = Displays(), Widget()
    displays.record("a", 1, widget)
    displays.record("a", 2, widget)
    assert not widget.closed


def test_what_another_cell_shows_stays_until_that_one_runs_again() -> None:
    displays, old, new = Displays(), Widget(), Widget()
    displays.record("a", 1, old)
    displays.record("b", 2, old)
    displays.record("a", 3, new)
    assert [old.closed, new.closed] == [False, False]
    displays.record("b", 4, new)
    assert [old.closed, new.closed] == [True, False]


def test_a_cell_may_show_several() -> None:
    displays, first, second = Displays(), Widget(), Widget()
    displays.record("a", 1, first)
    displays.record("a", 1, second)
    assert [first.closed, second.closed] == [False, False]
    displays.record("a", 2, Widget())
    assert [first.closed, second.closed] == [True, True]


def test_outside_a_notebook_nothing_is_recorded() -> None:
    displays = Displays()
    displays.shown(Widget())
    assert displays._cells == {}
    assert Displays.here() is Displays.here()
