"""A stop ends a training whose data never comes, keeps what was trained, and is answered at once."""

from __future__ import annotations

import _thread
import random
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, default_collate

from pnne_nb.runtime.engine import TrainingEngine
from pnne_nb.runtime.faults.watchdog import AT_MOST
from pnne_nb.runtime.loop import forced_stop
from pnne_nb.runtime.loop.forced_stop import DISMISSED, KILLED, LEFT, ForcedStop
from pnne_nb.runtime.thread import foreign_calls
from pnne_nb.runtime.thread.foreign_calls import ForeignCalls, LeftBehindError
from pnne_nb.runtime.thread.step_lock import StopWantedError, TrainingTurn, has_turn, renew_turn, turn
from tests.runtime.tasks import Noisy, engine, images, network

PATIENCE = 60


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is due when is a test of its own; the others need not wait for it."""
    monkeypatch.setattr(forced_stop, "DISMISSED", 0.2)
    monkeypatch.setattr(forced_stop, "KILLED", 0.8)
    monkeypatch.setattr(forced_stop, "LEFT", 1.2)


class Gate:
    """Where data waits: in Python, or in C until it is let go."""

    def __init__(self, *, stuck: bool) -> None:
        self.stuck = stuck
        self.shut = True
        self.reached = threading.Event()
        self.let_go = threading.Event()

    def pass_through(self) -> None:
        if not self.shut:
            return
        self.reached.set()
        if self.stuck:
            # Of C, and without an end: no exception comes through.
            self.let_go.wait()
        while not self.let_go.is_set():
            self.let_go.wait(0.01)


@contextmanager
def gate(*, stuck: bool) -> Iterator[Gate]:
    made = Gate(stuck=stuck)
    try:
        yield made
    finally:
        made.let_go.set()


class Held(Noisy):
    """Draws from every generator, and waits in the middle of the third batch."""

    def __init__(self, gate: Gate, at: int = 40) -> None:
        super().__init__()
        self.gate = gate
        self.at = at

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        if index == self.at:
            random.random()
            self.gate.pass_through()
        return super().__getitem__(index)


class Stream(IterableDataset[tuple[Tensor, Tensor]]):
    """Waits before its first example, or before its 40th."""

    def __init__(self, gate: Gate, *, at_once: bool = False) -> None:
        self.gate = gate
        self.at_once = at_once

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        if self.at_once:
            self.gate.pass_through()
        return self._examples()

    def _examples(self) -> Iterator[tuple[Tensor, Tensor]]:
        for index, (picture, label) in enumerate(zip(*images(), strict=True)):
            if index == 40:
                self.gate.pass_through()
            yield picture + 0.1 * random.random(), label


def collating(gate: Gate) -> Callable[[Any], Any]:
    count = iter(range(10**6))

    def collate(examples: Any) -> Any:
        if next(count) == 2:
            gate.pass_through()
        return default_collate(examples)

    return collate


def training_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "pnne-training"]


def generators() -> tuple[Any, ...]:
    name, keys, *rest = np.random.get_state()  # noqa: NPY002  those that datasets use
    return torch.default_generator.get_state().tolist(), random.getstate(), name, np.asarray(keys).tolist(), rest


KINDS: dict[str, Callable[[Gate], dict[str, Any]]] = {
    "dataset": lambda gate: {"train_data": Held(gate), "shuffle": False},
    "first example": lambda gate: {"train_data": Held(gate, at=0), "shuffle": False},
    "stream": lambda gate: {"train_data": DataLoader(Stream(gate), 16)},
    "start of a stream": lambda gate: {"train_data": DataLoader(Stream(gate, at_once=True), 16)},
    "collate_fn": lambda gate: {"train_data": DataLoader(Noisy(), 16, collate_fn=collating(gate))},
    "validation": lambda gate: {"val_data": Held(gate)},
    "deterministic": lambda gate: {"train_data": Held(gate), "shuffle": False, "deterministic": True},
}


@pytest.mark.parametrize("stuck", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_the_training_ends_as_after_its_last_step_and_goes_on_from_there(
    kind: str, stuck: bool, tmp_path: Path
) -> None:
    with gate(stuck=False) as open_gate:
        open_gate.shut = False
        whole = engine(**KINDS[kind](open_gate))
        whole.start()
        assert whole.wait(PATIENCE)
    with gate(stuck=stuck) as shut:
        held = engine(**KINDS[kind](shut), checkpoint_dir=tmp_path)
        before = generators()
        deterministic = torch.are_deterministic_algorithms_enabled()
        held.start()
        assert shut.reached.wait(PATIENCE)
        held.stop()
        assert held.state == "stopped"
        assert held.error is None
        assert not held._control.alive
        # What everybody else draws from is theirs again.
        assert generators() == before
        assert torch.are_deterministic_algorithms_enabled() == deterministic
        assert not has_turn()
        assert held.model.training
        steps = held.progress.step
        losses = whole.history["loss"].tolist()
        assert held.history["loss"].tolist() == losses[:steps]
        shut.shut = False
        resumed_from = TrainingEngine.resume_from(tmp_path, network(), **_data(KINDS[kind](shut)))
        for continued in (held, resumed_from):
            continued.start()
            assert continued.wait(PATIENCE)
            assert continued.history["loss"].tolist() == losses


def _data(options: dict[str, Any]) -> dict[str, Any]:
    return {"train_data": images()} | {name: value for name, value in options.items() if name.endswith("_data")}


def test_a_thread_that_comes_back_touches_nothing() -> None:
    with gate(stuck=True) as shut:
        held = engine(train_data=Held(shut), shuffle=False, epochs=1)
        held.start()
        assert shut.reached.wait(PATIENCE)
        (stuck,) = training_threads()
        held.stop()
        shut.shut = False
        # The same engine makes the rest, in another thread, and halts in the middle of it.
        held.step(2)
        losses, weights = held.history["loss"].tolist(), [one.clone() for one in held.model.parameters()]
        before, doing = generators(), held.progress
        shut.let_go.set()
        stuck.join(PATIENCE)
        assert not stuck.is_alive()
        assert not foreign_calls._left
        assert generators() == before
        assert (held.state, held.progress.step, held.progress.batch) == ("paused", doing.step, doing.batch)
        assert held.history["loss"].tolist() == losses
        assert all(map(torch.equal, held.model.parameters(), weights))
        held.resume()
        assert held.wait(PATIENCE)
        assert held.progress.step == 6


def test_other_trainings_go_on_and_can_be_stopped_meanwhile() -> None:
    with gate(stuck=True) as shut:
        held, waiting = engine(train_data=Held(shut), shuffle=False), engine(epochs=10**6)
        held.start()
        assert shut.reached.wait(PATIENCE)
        # Until the first is given up, the second cannot make a step.
        waiting.start()
        waiting.stop()
        assert (waiting.state, waiting.progress.step) == ("stopped", 0)
        waiting.start()
        held.stop()
        waiting.step(3)
        assert waiting.progress.step >= 3
        waiting.stop()


def test_the_answer_is_there_at_once() -> None:
    with gate(stuck=False) as shut:
        held = engine(train_data=Held(shut), shuffle=False)
        held.start()
        assert shut.reached.wait(PATIENCE)
        told = [held.waiting_for]
        held.pause(wait=False)
        told.append(held.waiting_for)
        assert told == [None, "pausing: waiting for the data, batch 3 of epoch 1"]
        held.stop(wait=False)
        held.stop(wait=False)
        told.append(held.waiting_for)
        # Nobody is quicker than the watch has to be.
        assert told[2] in {None, "stopping: waiting for the data, batch 3 of epoch 1; ends in at most 5 s"}
        assert held.wait(PATIENCE)
        assert (held.state, held.waiting_for) == ("stopped", None)


def test_of_a_step_that_hangs_it_is_told_that_nothing_cuts_it_short() -> None:
    inside, let_go = threading.Event(), threading.Event()

    class Slow(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = nn.Sequential(nn.Flatten(), nn.Linear(36, 4))

        def forward(self, x: Tensor) -> Tensor:
            inside.set()
            assert let_go.wait(PATIENCE)
            scores: Tensor = self.net(x)
            return scores

    slow = engine(model=Slow(), epochs=1)
    slow.start()
    assert inside.wait(PATIENCE)
    slow.stop(wait=False)
    assert slow.waiting_for == "stopping: training on batch 1 of epoch 1, which is not cut short"
    let_go.set()
    assert slow.wait(PATIENCE)
    assert (slow.state, slow.progress.step) == ("stopped", 1)


@pytest.mark.parametrize("topic", ["step", "epoch", "state"])
@pytest.mark.parametrize("stuck", [False, True])
def test_a_function_that_never_returns_from_being_told_does_not_keep_the_training(topic: str, stuck: bool) -> None:
    with gate(stuck=stuck) as shut:

        def on_news(frame: Any) -> None:
            if getattr(frame, "state", "paused") == "paused":
                shut.pass_through()

        made = engine(epochs=2)
        made.on(topic, on_news)
        made.start()
        if topic == "state":
            made.pause(wait=False)
        assert shut.reached.wait(PATIENCE)
        made.stop(wait=False)
        told = made.waiting_for
        assert told is not None
        assert told.endswith(f"on_news, which on({topic!r}, ...) has registered; ends in at most 15 s")
        assert made.wait(PATIENCE)
        assert made.state == "stopped"
        shut.shut = False
        steps = made.progress.step
        made.step()
        assert made.progress.step == steps + 1
        made.stop()


class Waiting(Dataset[tuple[Tensor, Tensor]]):
    """Never comes to its 40th example, in a worker."""

    def __init__(self, *, deaf: bool) -> None:
        self.pictures, self.classes = images()
        self.deaf = deaf
        self.shut = True

    def __len__(self) -> int:
        return len(self.classes)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        if index == 40 and self.shut:
            if self.deaf:
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
            threading.Event().wait()
        return self.pictures[index], self.classes[index]


@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize("deaf", [False, True])
@pytest.mark.parametrize("order", [None, [*range(96)]])
def test_workers_that_never_answer_are_ended_and_others_go_on(
    deaf: bool, persistent: bool, order: list[int] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetching = threading.Event()
    enter = ForeignCalls.__enter__

    def entered(calls: ForeignCalls) -> None:
        enter(calls)
        if held._loop.doing == "fetching batch 3 of epoch 1":
            fetching.set()

    monkeypatch.setattr(ForeignCalls, "__enter__", entered)
    data = Waiting(deaf=deaf)
    loader = DataLoader(
        data, 16, sampler=order, num_workers=2, persistent_workers=persistent, multiprocessing_context="fork"
    )
    held = engine(train_data=loader, shuffle=False, epochs=1)
    held.start()
    assert fetching.wait(PATIENCE)
    held.stop()
    assert (held.state, held.progress.step) == ("stopped", 2)
    data.shut = False
    held.start()
    assert held.wait(PATIENCE)
    assert (held.state, held.progress.step) == ("finished", 6)


@pytest.fixture
def interruptible() -> Iterator[None]:
    """An interrupt raises KeyboardInterrupt, as in a kernel: a shell's background jobs ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_ends_the_waiting_for_a_stop_not_the_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forced_stop, "LEFT", 10**6)
    with gate(stuck=True) as shut:
        held = engine(train_data=Held(shut), shuffle=False)
        held.start()
        assert shut.reached.wait(PATIENCE)
        waits = held._control._has_obeyed

        def interrupt() -> bool:
            monkeypatch.setattr(held._control, "_has_obeyed", waits)
            _thread.interrupt_main()
            return waits()

        monkeypatch.setattr(held._control, "_has_obeyed", interrupt)
        with pytest.raises(KeyboardInterrupt):
            held.stop()
        assert held._control.stopping
        monkeypatch.setattr(forced_stop, "LEFT", 0.0)
        assert held.wait(PATIENCE)
        assert held.state == "stopped"


class Sources:
    """Notes which source is dismissed, and how."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, calls: ForeignCalls) -> None:
        self.done: list[str] = []
        monkeypatch.setattr(forced_stop, "DISMISSED", DISMISSED)
        monkeypatch.setattr(forced_stop, "KILLED", KILLED)
        monkeypatch.setattr(forced_stop, "LEFT", LEFT)
        monkeypatch.setattr(
            forced_stop, "dismiss", lambda source, at_once: self.done.append("kill" if at_once else "terminate")
        )
        monkeypatch.setattr(calls, "interrupt", lambda thread: self.done.append("interrupt"))
        monkeypatch.setattr(calls, "leave_behind", self._left)

    def _left(self, _thread: int) -> bool:
        self.done.append("leave")
        return True


def at(stop: ForcedStop, done: Sources, seconds: list[float]) -> dict[float, list[str]]:
    """What is done when."""
    told = {}
    for now in seconds:
        stop.act(now)
        told[now], done.done = done.done, []
    return told


@pytest.mark.parametrize("workers", [0, 2])
def test_what_is_due_when(monkeypatch: pytest.MonkeyPatch, workers: int) -> None:
    loader = DataLoader(Noisy(), 16, num_workers=workers)
    made = engine(train_data=loader)
    loop, calls = made._loop, made._loop.foreign_calls
    done = Sources(monkeypatch, calls)
    stop = ForcedStop(loop, threading.get_ident, lambda: True, lambda: None)
    assert at(stop, done, [0.0, 50.0]) == {0.0: [], 50.0: []}
    kill, terminate = ["kill"] * 2, ["terminate"] * 2
    with calls:
        soft = terminate if workers else [*terminate, "interrupt"]
        assert at(stop, done, [100.0, 100.9, 101.0, 101.1, 101.5, 102.0, 102.5, 103.4]) == {
            100.0: [],
            100.9: [],
            101.0: soft,
            101.1: [],
            101.5: soft,
            102.0: [*kill, "interrupt"],
            102.5: [*kill, "interrupt"],
            103.4: [*kill, "interrupt"],
        }
        assert at(stop, done, [103.5]) == {103.5: ["leave"]}
    assert LEFT < AT_MOST
    # Another call has its own time, and one of a function more of it.
    with calls.of("f"):
        assert at(stop, done, [200.0, 202.9, 210.4, 210.5]) == {
            200.0: [],
            202.9: [],
            210.4: [*kill, "interrupt"],
            210.5: ["leave"],
        }


def test_an_exception_is_raised_in_foreign_code_only() -> None:
    calls, inside, let_go = ForeignCalls(), threading.Event(), threading.Event()
    ended: list[str] = []

    def work() -> None:
        try:
            with calls:
                inside.set()
                while not let_go.is_set():
                    let_go.wait(0.01)
        except StopWantedError:
            ended.append("by the exception")

    thread = threading.Thread(target=work)
    thread.start()
    assert inside.wait(PATIENCE)
    assert thread.ident is not None
    calls.interrupt(threading.get_ident())
    calls.interrupt(thread.ident)
    thread.join(PATIENCE)
    let_go.set()
    assert ended == ["by the exception"]
    # It is no longer there.
    calls.interrupt(thread.ident)
    assert not calls.leave_behind(thread.ident)


def test_what_an_exception_has_kept_from_being_left_is_left() -> None:
    calls, told = ForeignCalls(), []

    @contextmanager
    def block() -> Iterator[None]:
        yield
        told.append("left")

    kept = calls.around(block(), undo=lambda: told.append("undone"), after=lambda: told.append("after"))
    kept.__enter__()
    calls.cut_short()
    assert told == ["undone", "left", "after"]
    calls.cut_short()
    assert len(told) == 3


def test_whoever_was_left_behind_leaves_nothing_again() -> None:
    calls, told, inside, go = ForeignCalls(), [], threading.Event(), threading.Event()
    ended: list[type[BaseException]] = []

    @contextmanager
    def block() -> Iterator[None]:
        yield
        told.append(threading.current_thread().name)

    def work() -> None:
        try:
            with turn, calls.around(block()), calls:
                inside.set()
                go.wait()
        except BaseException as error:  # noqa: BLE001  which one, is the question
            ended.append(type(error))
        foreign_calls.thread_ended()

    thread = threading.Thread(target=work)
    thread.start()
    assert inside.wait(PATIENCE)
    assert thread.ident is not None
    assert calls.leave_behind(thread.ident)
    assert told == [threading.current_thread().name]
    assert turn.acquire(blocking=False)
    turn.release()
    go.set()
    thread.join(PATIENCE)
    assert len(told) == 1
    # The turn is not its own any more.
    assert ended == [RuntimeError]
    foreign_calls._left.add(threading.get_ident())
    with pytest.raises(LeftBehindError):
        foreign_calls.require_not_left()
    foreign_calls.thread_ended()
    foreign_calls.require_not_left()


def test_whoever_waits_for_a_turn_that_is_renewed_has_it() -> None:
    held, let_go, had = threading.Event(), threading.Event(), threading.Event()

    def hold() -> None:
        turn.acquire()
        held.set()
        let_go.wait()

    def wait() -> None:
        with TrainingTurn():
            had.set()

    threads = [threading.Thread(target=hold), threading.Thread(target=wait)]
    threads[0].start()
    assert held.wait(PATIENCE)
    threads[1].start()
    assert not had.wait(0.0)
    renew_turn()
    assert had.wait(PATIENCE)
    let_go.set()
    for thread in threads:
        thread.join()
