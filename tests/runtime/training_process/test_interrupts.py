"""A cell is interrupted at any moment beside a training: nothing is half sent, every word comes once and in order."""

from __future__ import annotations

import dis
import itertools
import random
import signal
import socket
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, Self, final

import pytest
import torch

from pnne_nb.runtime.distributed.transport.connection import MessageSocket
from pnne_nb.runtime.engine import TrainingEngine
from pnne_nb.runtime.thread.cells import cells
from pnne_nb.runtime.thread.control import Control
from pnne_nb.runtime.training_process import process_server
from pnne_nb.runtime.training_process.process_messages import FromKernel, FromProcess, Go, Told
from pnne_nb.runtime.training_process.training_process import TrainingProcess
from tests.runtime import tasks
from tests.runtime.distributed import groups
from tests.runtime.distributed.groups import state_of
from tests.runtime.training_process.same import assert_same

pytestmark = pytest.mark.timeout(300)

EPOCHS = 60
PIECE = 1 << 10
"""Bytes that go through a line at once."""


@final
class Interrupts:
    """SIGINT to this thread, which raises an exception where somebody expects one, and nowhere else."""

    def __init__(self) -> None:
        self.expected = False
        self.raised = 0
        self._thread = threading.get_ident()

    def send(self) -> None:
        """From any thread."""
        signal.pthread_kill(self._thread, signal.SIGINT)

    def take(self, _signal: int, _frame: FrameType | None) -> None:
        """What the signal does."""
        if self.expected:
            self.expected = False
            self.raised += 1
            raise KeyboardInterrupt


@pytest.fixture
def interrupts() -> Iterator[Interrupts]:
    """Interrupts of the test's thread."""
    made = Interrupts()
    before = signal.signal(signal.SIGINT, made.take)
    yield made
    signal.signal(signal.SIGINT, before)


@final
class InterruptingLine:
    """A socket that passes a few bytes at once, and interrupts the test when so many have passed, either way."""

    def __init__(self, connection: socket.socket, interrupt: Callable[[], None]) -> None:
        self.left = sys.maxsize
        self.fileno, self.close, self.shutdown = connection.fileno, connection.close, connection.shutdown
        self._connection = connection
        self._interrupt = interrupt

    def sendall(self, content: bytearray) -> None:
        """As a socket's, in pieces."""
        for start in range(0, len(content), PIECE):
            piece = content[start : start + PIECE]
            self._connection.sendall(piece)
            self._count(len(piece))

    def recv(self, size: int) -> bytes:
        """As a socket's, a piece."""
        received = self._connection.recv(min(size, PIECE))
        self._count(len(received))
        return received

    def _count(self, passed: int) -> None:
        before, self.left = self.left, self.left - passed
        if self.left <= 0 < before:
            self._interrupt()


@contextmanager
def cell() -> Iterator[None]:
    """A cell that runs in this thread and may be interrupted."""
    cells.began()
    try:
        yield
    except KeyboardInterrupt:
        cells.ended(interrupted=True)
    else:
        cells.ended()


def run(**options: Any) -> TrainingEngine:
    """The task, trained in a thread by nobody else's leave."""
    engine = tasks.engine(**options)
    assert engine.start().wait(groups.SECONDS)
    return engine


def look(engine: TrainingEngine) -> None:
    """Read the model between two steps."""
    with engine.paused() as model:
        assert all(bool(weights.isfinite().all()) for weights in model.parameters())


def edit(engine: TrainingEngine) -> None:
    """Write the model between two steps, without changing it: it goes to the process and back."""
    with engine.paused() as model, torch.no_grad():
        for weights in model.parameters():
            weights.mul_(1.0)


def run_on(engine: TrainingEngine) -> None:
    """Let it run for a moment."""
    engine.resume()
    engine.pause()


USES: dict[str, Callable[[TrainingEngine], object]] = {
    "paused": look,
    "edit": edit,
    "model": lambda engine: engine.model,
    "step": lambda engine: engine.step(2),
    "run on": run_on,
    "state": lambda engine: engine._session.state_dict(),
}


# One that comes while Python collects garbage is told, not raised.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_interrupts_at_any_byte_of_the_line_leave_it_usable(interrupts: Interrupts) -> None:
    draw, thread, engine = random.Random(14), run(epochs=EPOCHS), tasks.engine(epochs=EPOCHS)
    engine._execution.choose(process=True)
    engine.step(1)
    process = engine._execution.executor
    assert isinstance(process, TrainingProcess)
    assert process._link is not None
    wire: Any = process._link._wire
    line = wire.connection = InterruptingLine(wire.connection, interrupts.send)
    while interrupts.raised < 30 and engine.progress.step < 300:
        name, line.left = draw.choice(list(USES)), int(10 ** draw.uniform(0, 5))
        with cell():
            try:
                interrupts.expected = True
                USES[name](engine)
            finally:  # behind the cell, one would end the tests
                interrupts.expected = False
        line.left = sys.maxsize
        engine.pause()
        before = engine.progress.step
        engine.step()
        assert engine.progress.step == before + 1, name
        with engine.paused():
            assert engine._loop.steps == before + 1, name
    assert interrupts.raised > 10
    engine.resume()
    assert engine.wait(groups.SECONDS)
    assert_same(thread, engine)


def test_whoever_is_interrupted_while_waiting_for_the_model_gets_no_earlier_one_later(
    interrupts: Interrupts, monkeypatch: pytest.MonkeyPatch
) -> None:
    thread, engine = run(), tasks.engine()
    engine._execution.choose(process=True)
    engine.step(3)
    process = engine._execution.executor
    assert isinstance(process, TrainingProcess)
    find = process._find

    def interrupted(*kinds: Any, silence: float | None = None) -> None:
        if Told in kinds:
            interrupts.send()
        find(*kinds, silence=silence)

    with monkeypatch.context() as patch:
        patch.setattr(process, "_find", interrupted)
        interrupts.expected = True
        with pytest.raises(KeyboardInterrupt):
            look(engine)
    for steps in (3, 1):
        engine.step(steps)
        with engine.paused():
            assert engine._loop.steps == engine.progress.step
    engine.resume()
    assert engine.wait(groups.SECONDS)
    assert_same(thread, engine)


@final
class Tracer:
    """Interrupts this thread where Python looks for signals, in code of the package, when it does so for the nth time."""

    def __init__(self, number: int) -> None:
        self._left = number
        self._before: dict[FrameType, str] = {}
        self._outer: Any = None

    def __call__(self, frame: FrameType, event: str, _argument: object) -> Any:
        """What `sys.settrace` calls."""
        code = frame.f_code
        if code is threading.Thread.start.__code__:
            # Before anything of it is done: what it leaves half done is Python's.
            self._looked()
        if not ("pnne_nb/runtime" in code.co_filename or code.co_filename.endswith("contextlib.py")):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        if event == "call":
            self._looked()
        elif event == "opcode":
            before = self._before.get(frame, "")
            self._before[frame] = dis.opname[code.co_code[frame.f_lasti]]
            if before.startswith(("CALL", "JUMP_BACKWARD")):
                self._looked()
        return self

    def _looked(self) -> None:
        self._left -= 1
        if self._left == 0:
            raise KeyboardInterrupt

    @property
    def has_raised(self) -> bool:
        """Whether the nth time has come."""
        return self._left <= 0

    def __enter__(self) -> Self:
        self._outer = sys.gettrace()
        sys.settrace(self)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(self._outer)


@pytest.fixture
def _untold(monkeypatch: pytest.MonkeyPatch) -> None:
    """An interrupt that comes while a generator is thrown away is told, not raised: pytest would render it, traced."""
    monkeypatch.setattr(sys, "unraisablehook", lambda _: None)


@pytest.mark.usefixtures("_untold")
@pytest.mark.parametrize("process", [False, True])
@pytest.mark.parametrize("use", ["edit", "model", "run on"])
def test_interrupts_anywhere_in_a_use_leave_the_training_as_it_was(use: str, *, process: bool) -> None:
    thread, engine = run(epochs=EPOCHS), tasks.engine(epochs=EPOCHS)
    engine._execution.choose(process=process)
    engine.step(1)
    number = 0
    while engine.progress.step < 300 and number < 400:
        number += 1 if use != "run on" else 3
        ended = False
        with cell(), Tracer(number):
            USES[use](engine)
            ended = True
        if ended:
            break
        with suppress(TimeoutError):
            engine.pause()
        before = engine.progress.step
        engine.step()
        assert engine.progress.step == before + 1, number
        assert state_of(engine) == "paused"
    engine.resume()
    assert engine.wait(groups.SECONDS)
    assert_same(thread, engine)


@pytest.mark.usefixtures("_untold")
def test_interrupts_anywhere_where_a_thread_sends_leave_every_message_whole_and_in_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(process_server, "_SHORT", 0)
    ours, theirs = socket.socketpair()
    sent: Any = process_server.ProcessLink.__new__(process_server.ProcessLink)
    sent._wire = MessageSocket(ours, FromProcess)
    sent.speaking, sent._unsent, sent._carrier = threading.RLock(), deque(), None
    heard = list[Any]()
    wire: MessageSocket[FromKernel] = MessageSocket(theirs, FromKernel)
    with ours, theirs:
        for number in itertools.count(1):
            with cell(), Tracer(number) as tracer:
                sent.send(Go(number, []))
            sent.send(Go(-number, []))
            while not heard or heard[-1].steps != -number:
                heard += wire.receive() or []
            if sent._carrier is not None:
                sent._carrier.join()
            if not tracer.has_raised:
                break
    assert number > 10
    steps = [message.steps for message in heard]
    assert [step for step in steps if step < 0] == list(range(-1, -number - 1, -1))
    assert all(steps[steps.index(step) + 1] == -step for step in steps if step > 0)


@pytest.mark.usefixtures("_untold")
@pytest.mark.parametrize("visits", [0, 1, 3])
def test_interrupts_anywhere_while_visits_are_forgotten_leave_none_without_a_visitor(visits: int) -> None:
    for number in itertools.count(1):
        control = Control(lambda _: None)
        for _ in range(visits):
            control.arrive("visitor", "a visit")
        with cell(), Tracer(number) as tracer:
            control.forget("visitor")
        assert visits or not control.visited, number
        control.forget("visitor")
        assert not control.visited, number
        assert control.waiting_for is None
        if not tracer.has_raised:
            break
    assert number > 3


@pytest.mark.usefixtures("_untold")
def test_interrupts_anywhere_in_a_start_leave_a_training_that_can_be_started() -> None:
    thread, number, ended = run(epochs=1), 0, False
    while not ended:
        number += 7
        engine = tasks.engine(epochs=1)
        with cell(), Tracer(number):
            engine.start()
            ended = True
        if engine.state == "idle":
            engine.start()
        assert engine.wait(groups.SECONDS), number
        assert_same(thread, engine)
    assert number > 100
