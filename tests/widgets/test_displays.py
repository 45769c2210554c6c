"""What no cell shows any more is closed, and nothing else."""

from __future__ import annotations

import pytest

from pnne_nb.widgets.displays import Closable, Displays


class Widget:
    def __init__(self) -> None:
        self.closed = False
        self.views = 0

    def close(self) -> None:
        self.closed = True

    @staticmethod
    def is_in_view(widget: Closable) -> bool:
        assert isinstance(widget, Widget)
        return widget.views > 0


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


class Cell:
    """The shell, as a front end without cell ids has it run some code."""

    def __init__(self) -> None:
        self.execution_count = 0
        self.code = ""

    def run(self, code: str) -> None:
        self.execution_count += 1
        self.code = code

    def get_parent(self) -> dict[str, object]:
        return {"metadata": {}, "content": {"code": self.code}}


@pytest.fixture
def cell(monkeypatch: pytest.MonkeyPatch) -> Cell:
    cell = Cell()
    monkeypatch.setattr("pnne_nb.widgets.displays.get_ipython", lambda: cell)
    return cell


def test_without_cell_ids_what_the_page_has_let_go_of_is_closed(cell: Cell) -> None:
    displays, old, new = Displays(), Widget(), Widget()
    cell.run("show()")
    displays.shown(old, Widget.is_in_view)
    cell.run("show()")
    displays.shown(new, Widget.is_in_view)
    assert (old.closed, new.closed) == (True, False)


def test_without_cell_ids_what_another_cell_of_the_same_code_shows_stays_as_long_as_it_is_seen(cell: Cell) -> None:
    displays, first, second = Displays(), Widget(), Widget()
    cell.run("show()")
    displays.shown(first, Widget.is_in_view)
    first.views = 1
    cell.run("show()")
    displays.shown(second, Widget.is_in_view)
    assert not first.closed
    first.views = 0
    displays.left(first)
    displays.left(second)
    assert (first.closed, second.closed) == (True, False)


def test_without_cell_ids_nothing_is_closed_that_cannot_be_asked(cell: Cell) -> None:
    displays, old = Displays(), Widget()
    for widget in (old, Widget()):
        cell.run("show()")
        displays.shown(widget)
    assert not old.closed
