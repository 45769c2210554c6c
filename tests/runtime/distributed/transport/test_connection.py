from __future__ import annotations

import math
import socket

import pytest

from pnne_nb.runtime.distributed.transport.connection import MessageSocket
from pnne_nb.runtime.distributed.transport.worker_messages import (
    FromEngine,
    FromWorker,
    HandedOver,
    Happened,
    Hello,
    Verdict,
)
from pnne_nb.runtime.distributed.transport.worker_server import WorkerServer
from pnne_nb.runtime.loop.loop_events import EpochEnded, Stepped
from pnne_nb.telemetry.frames import EpochFrame, StepFrame


def test_messages_arrive_whole_in_whatever_pieces_they_come() -> None:
    near, far = socket.socketpair()
    sender: MessageSocket[Verdict] = MessageSocket(near, Verdict)
    receiver: MessageSocket[FromWorker] = MessageSocket(far, FromWorker)
    step = Happened(Stepped(StepFrame(1, 1, math.inf, 0.1, 8, 0.5)), 1, 1, 1, saved=False)
    epoch = Happened(EpochEnded(EpochFrame(1, 1, {"val_loss": math.nan}), improved=True), 1, 2, 0, saved=True)
    for message in (step, epoch):
        sender.send(message)
    both = far.recv(1 << 16)
    received: list[FromWorker] = []
    for index in range(len(both)):
        near.send(both[index : index + 1])
        received += receiver.receive() or []
    assert received[0] == step
    assert isinstance(received[1], Happened)
    assert isinstance(received[1].event, EpochEnded)
    assert math.isnan(received[1].event.frame.metrics["val_loss"])
    receiver.send(Verdict.STOP)
    assert sender.receive() == [Verdict.STOP]
    sender.close()
    assert receiver.receive() is None
    receiver.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        receiver.send(Verdict.GO)


def test_a_line_that_ends_is_told_before_what_others_say_about_it() -> None:
    board = WorkerServer(b"what is handed over")
    dying, complaining = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)
    wires: list[MessageSocket[FromEngine]] = []
    for rank, connection in enumerate((complaining, dying)):
        connection.connect(board.address)
        wires.append(MessageSocket(connection, FromEngine))
        wires[rank].send(Hello(rank, 0, 0))
    told: list[FromWorker | None] = []
    while len(told) < 2:
        told += [message for _, message in board.receive(5)]
    assert sorted(line.hello.rank for line in board.lines if line.hello) == [0, 1]
    wires[0].send(Hello(0, 0, 1))
    dying.close()
    (first, word), (second, other) = board.receive(5)
    assert (first.hello, word) == (Hello(1, 0, 0), None)
    assert (second.hello, other) == (Hello(0, 0, 1), Hello(0, 0, 1))
    board.close()
    assert wires[0].receive() == [HandedOver(b"what is handed over")] * 2
    assert wires[0].receive() is None
    complaining.close()
    with pytest.raises(OSError, match="No such file"), socket.socket(socket.AF_UNIX) as late:
        late.connect(board.address)


def test_what_stops_in_the_middle_of_a_message_holds_nobody_up() -> None:
    board = WorkerServer()
    with socket.socket(socket.AF_UNIX) as stopped, socket.socket(socket.AF_UNIX) as talking:
        for connection in (stopped, talking):
            connection.connect(board.address)
        while len(board.lines) < 2:
            board.receive(5)
        stopped.sendall((1000).to_bytes(8, "big") + b"begun")
        assert board.receive(5) == []
        wire: MessageSocket[FromEngine] = MessageSocket(talking, FromEngine)
        wire.send(Hello(1, 0, 0))
        ((_, message),) = board.receive(5)
        assert message == Hello(1, 0, 0)
    board.close()
