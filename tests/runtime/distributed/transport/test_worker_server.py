"""What the processes of a group say about a failure, and what becomes of it in the notebook."""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import Iterator

import pytest

from pnne_nb.errors import CompileError, Diagnostic, TrainingError
from pnne_nb.runtime.distributed.transport.worker_messages import Broke, Dismissed, FromWorker
from pnne_nb.runtime.distributed.transport.worker_server import (
    WorkerLine,
    WorkerServer,
    as_error,
    cause,
    hear,
    is_cut_off,
)
from pnne_nb.runtime.faults.error_messages import in_brief
from pnne_nb.runtime.loop.fault_replay import NotFiniteError


def broke(
    rank: int,
    kind: str = "NotFiniteError",
    message: str = "The loss became inf.",
    node: str | None = None,
    *,
    found: bool = False,
) -> Broke:
    diagnostics = [Diagnostic("nan-loss", message, node)]
    trace = f'Traceback (most recent call last):\n  File "worker.py", line 1, in step\n{kind}: {message}\n'
    return Broke(rank, kind, message, diagnostics, "training on batch 2 of epoch 1", False, trace, True, found)


@pytest.fixture
def board() -> Iterator[WorkerServer]:
    board = WorkerServer()
    yield board
    board.close()


@pytest.fixture
def lines() -> Iterator[list[WorkerLine]]:
    lines = [WorkerLine(socket.socket()) for _ in range(3)]
    yield lines
    for line in lines:
        line.wire.close()


def test_the_complaint_that_names_a_node_is_the_cause(board: WorkerServer, lines: list[WorkerLine]) -> None:
    first, named, other = broke(0), broke(1, node="fc"), broke(2, "RuntimeError", "Connection closed", "conv")
    inbox: deque[tuple[WorkerLine, FromWorker | None]] = deque([
        (lines[0], Dismissed()), (lines[1], named), (lines[2], other), (lines[2], None)
    ])  # fmt: skip
    said = hear(board, inbox, set(lines), first)
    assert said == [first, named, other]
    assert not inbox
    assert cause(said) is named
    assert cause([first, other]) is first


def test_the_complaint_of_who_has_found_the_cause_in_its_part_is_the_cause() -> None:
    assert cause([broke(0), broke(1, found=True), broke(2)]).rank == 1
    assert cause([broke(0, "ValueError"), broke(1, found=True)]).rank == 0


def test_who_has_died_without_a_word_is_the_cause(board: WorkerServer, lines: list[WorkerLine]) -> None:
    other, dead, _ = lines
    inbox: deque[tuple[WorkerLine, FromWorker | None]] = deque([(other, None), (dead, None)])
    assert hear(board, inbox, {dead}, broke(0, "RuntimeError", "Connection closed")) is dead


def test_what_a_process_raises_is_raised_in_the_notebook() -> None:
    error = as_error(broke(1, node="fc"))
    assert isinstance(error, NotFiniteError)
    assert error.diagnostics[0].node == "fc"
    assert error.__notes__[0].startswith(
        "In process 1 of the group, while training on batch 2 of epoch 1. Original Trace"
    )
    assert isinstance(as_error(broke(0, "CompileError", "An input is free.")), CompileError)
    strange = as_error(broke(1, "KeyError", "KeyError: 'item 50'. While reading example 50."))
    with pytest.raises(
        TrainingError,
        match=r"Process 1 of the group failed while training on batch 2 of epoch 1: KeyError: 'item 50'\. Wh",
    ):
        raise strange
    assert in_brief(strange) == "KeyError: KeyError: 'item 50'. While reading example 50."
    with pytest.raises(TrainingError, match="the others cannot be told to take smaller pieces: give a smaller batch"):
        raise as_error(broke(0, "OutOfMemoryError", "OutOfMemoryError: of a GPU"))
    assert is_cut_off(broke(0, "DistBackendError"))
    assert not is_cut_off(broke(0))
