"""The line that tells whoever waits how far something is."""

from __future__ import annotations

import io
import sys
import time
from types import SimpleNamespace

import pytest

from pnne_nb.process.progress_line import ProgressLine, bar, is_watched, runs_unattended


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("stream", "watched"), [(Terminal(), True), (io.StringIO(), False), (None, False)])
def test_only_a_person_is_told(stream: object, watched: bool) -> None:
    assert is_watched(stream) is watched


@pytest.mark.parametrize(
    ("kernel", "unattended"), [({"_allow_stdin": False}, True), ({"_allow_stdin": True}, False), ({}, False)]
)
def test_a_notebook_that_a_program_runs_is_told_from_one_that_a_person_does(
    monkeypatch: pytest.MonkeyPatch, kernel: dict[str, bool], unattended: bool
) -> None:
    assert not runs_unattended()
    shell = SimpleNamespace(kernel=SimpleNamespace(**kernel))
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    assert runs_unattended() is unattended


def test_a_bar_fills_and_never_overflows() -> None:
    assert bar(0.25) == "[######                  ] 25%"
    assert bar(2.0) == f"[{'#' * 24}] 100%"


def test_a_shorter_line_covers_a_longer_one() -> None:
    stream = io.StringIO()
    line = ProgressLine(stream)
    line.clear()
    line.keep()
    assert stream.getvalue() == ""
    line.write("drawing")
    line.write("all")
    assert stream.getvalue() == "\rdrawing\rall    "
    line.clear()
    assert stream.getvalue().endswith(f"\r{' ' * 7}\r")


class Publisher:
    """A notebook's outputs, by their identities."""

    def __init__(self) -> None:
        self.outputs: dict[str, dict[str, str]] = {}

    def publish(self, data: dict[str, str], transient: dict[str, str], update: bool) -> None:
        assert update is (transient["display_id"] in self.outputs)
        self.outputs[transient["display_id"]] = data


@pytest.mark.parametrize("end", ["clear", "keep"])
def test_a_notebook_keeps_no_line(monkeypatch: pytest.MonkeyPatch, end: str) -> None:
    publisher = Publisher()
    shell = SimpleNamespace(display_pub=publisher)
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    stream = type("OutStream", (io.StringIO,), {"__module__": "ipykernel.iostream"})()
    line = ProgressLine(stream)
    line.write("drawing")
    line.write("all")
    assert [*publisher.outputs.values()] == [{"text/plain": "all"}]
    getattr(line, end)()
    getattr(line, end)()
    assert [*publisher.outputs.values()] == [{}]
    assert stream.getvalue() == ""


def test_it_appears_after_a_second_and_then_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    line = ProgressLine(io.StringIO())
    due = []
    for now[0] in (100.5, 101.0, 101.2, 101.5):
        due.append(line.is_due())
    assert due == [False, True, False, True]
