"""IPython's cells reach the runtime, also those that fail, and also the one that was running already."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell

from pnne_nb.runtime.thread.cells import Cells
from pnne_nb.widgets.host import cell_events as widget_cells
from pnne_nb.widgets.host.cell_events import forget_cells, watch_cells


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Cells:
    own = Cells()
    monkeypatch.setattr(widget_cells, "cells", own)
    return own


@pytest.fixture
def shell(spans: Cells) -> Iterator[Any]:
    make: Any = InteractiveShell  # IPython is typed in part only
    shell = make()
    shell.history_manager.enabled = False
    shell.user_ns["spans"] = spans
    assert watch_cells(shell)
    yield shell
    forget_cells(shell)
    shell.history_manager.end_session()
    InteractiveShell.clear_instance()


def test_a_cell_is_open_while_it_runs(shell: Any, spans: Cells) -> None:
    assert not spans.open_here()
    shell.run_cell("inside = spans.open_here()")
    assert shell.user_ns["inside"] is True
    assert not spans.open_here()


def test_a_cell_that_fails_ends_too(shell: Any, spans: Cells, capsys: pytest.CaptureFixture[str]) -> None:
    assert not shell.run_cell("1 / 0").success
    assert "ZeroDivisionError" in capsys.readouterr().out
    assert not spans.open_here()


def test_watching_twice_tells_once(shell: Any, spans: Cells) -> None:
    began: list[str] = []
    spans.at_begin(lambda: began.append("cell"))
    watch_cells(shell)
    shell.run_cell("pass")
    assert began == ["cell"]


def test_a_cell_whose_end_an_interrupt_has_cut_short_ends_before_the_next(
    shell: Any, spans: Cells, monkeypatch: pytest.MonkeyPatch
) -> None:
    request, ended = {"header": {"msg_id": "one"}}, list[str]()
    shell.get_parent = lambda: request
    monkeypatch.setattr(widget_cells, "get_ipython", lambda: shell)

    def interrupt(*, interrupted: bool) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(spans, "ended", interrupt)
        shell.user_ns["ended"] = ended
        shell.run_cell("spans.at_end(lambda: ended.append('one')); get_ipython().run_cell('spans.open_here()')")
    assert spans.open_here()
    request["header"]["msg_id"] = "two"
    shell.run_cell("inside = spans.open_here(), list(ended)")
    assert shell.user_ns["inside"] == (True, ["one"])
    assert not spans.open_here()


@pytest.mark.timeout(30)  # a wait in C is cut short, too
def test_an_interrupt_while_a_cell_is_told_of_ends_the_cell(
    shell: Any, spans: Cells, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    forget = spans.at_begin(interrupted)
    shell.user_ns["forget"] = forget
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        result = shell.run_cell("import threading\nforget()\nthreading.Event().wait(60)")
    finally:
        signal.signal(signal.SIGINT, before)
    assert isinstance(result.error_in_exec, KeyboardInterrupt)
    assert "Error in callback" not in capsys.readouterr().out


def test_an_interrupt_ends_what_is_to_end_by_it_and_nothing_else_does(shell: Any, spans: Cells) -> None:
    ended: list[str] = []
    shell.user_ns["work"] = work = lambda: ended.append("interrupted")
    shell.run_cell("spans.at_interrupt(work); spans.at_interrupt(work)")
    assert ended == []
    assert work not in spans._at_interrupt
    shell.run_cell("spans.at_interrupt(work); spans.at_interrupt(work); raise KeyboardInterrupt")
    assert ended == ["interrupted"]


class FakeEvents:
    def register(self, _event: str, _function: Any) -> None:
        """Takes anything."""

    unregister = register


class FakeKernelShell:
    """A kernel's shell while it handles a request."""

    def __init__(self, kind: str, *, silent: bool) -> None:
        self.events = FakeEvents()
        self._parent = {"msg_type": kind, "content": {"silent": silent}}

    def get_parent(self) -> dict[str, Any]:
        return self._parent


@pytest.mark.parametrize(
    ("kind", "silent", "is_open"),
    [("execute_request", False, True), ("execute_request", True, False), ("comm_msg", False, False)],
)
def test_the_cell_that_imports_us_is_open_already(spans: Cells, kind: str, silent: bool, is_open: bool) -> None:
    shell = FakeKernelShell(kind, silent=silent)
    watch_cells(shell)
    assert spans.open_here() is is_open
    forget_cells(shell)


def test_without_ipython_there_is_nobody_to_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(widget_cells, "get_ipython", lambda: None)
    assert watch_cells() is False
