"""Forked children beside a training: they neither hang nor have anything that is the training's."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

from pnne_nb.errors import TrainingError
from pnne_nb.process.fork import fork_safe, renewed_after_fork
from pnne_nb.process.random_state import turn
from pnne_nb.runtime.engine import TrainingEngine
from pnne_nb.runtime.thread import step_lock as turns
from pnne_nb.runtime.thread.step_lock import is_of_a_step
from tests.runtime.tasks import Noisy, engine, images, network

pytestmark = pytest.mark.timeout(120)

RANDOM: Any = torch.random


def in_child(function: Callable[[], Any]) -> Any:
    """What `function` returns in a forked child; the child is killed if it hangs."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(30)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        try:
            answer = pickle.dumps(function())
        except BaseException:  # noqa: BLE001  the parent shows it
            answer = pickle.dumps(traceback.format_exc())
        os.write(writing, answer)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        answer = pipe.read()
    _, status = os.waitpid(child, 0)
    assert status == 0, f"the child has ended with {os.waitstatus_to_exitcode(status)}"
    return pickle.loads(answer)


def drawn(_: int = 0) -> tuple[float, float]:
    """Without seeding; Python's own generator begins afresh in every forked child."""
    return torch.rand(()).item(), float(np.random.rand())  # noqa: NPY002  what children use


class Gated(nn.Module):
    """Stops in its forward pass until it is let go, at the first step that is asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.net = network()
        self.inside, self.go_on = threading.Event(), threading.Event()

    def forward(self, x: Tensor) -> Tensor:
        self.inside.set()
        assert self.go_on.wait(60)
        scores: Tensor = self.net(x)
        return scores


@contextmanager
def in_a_step(**options: Any) -> Iterator[TrainingEngine]:
    """A training that stays in the middle of a step, certainly, for as long as the block takes."""
    model = Gated()
    training = engine(model=model, epochs=1, **options)
    training.start()
    assert model.inside.wait(60)
    try:
        yield training
    finally:
        model.go_on.set()
        training.stop()


@pytest.fixture
def running() -> Iterator[TrainingEngine]:
    """A training that runs until the test is over."""
    training = engine(epochs=10**6)
    training.start()
    yield training
    training.stop()


def test_a_lock_that_another_thread_holds_is_free_in_the_child() -> None:
    locks: list[Any] = [fork_safe(threading.Lock()), fork_safe(threading.RLock())]
    condition = fork_safe(threading.Condition(threading.RLock()))
    held, release = threading.Event(), threading.Event()

    def hold() -> None:
        with locks[0], locks[1], condition:
            held.set()
            release.wait(60)

    thread = threading.Thread(target=hold)
    thread.start()
    assert held.wait(60)
    try:
        assert not locks[0].acquire(blocking=False)
        assert in_child(lambda: [one.acquire(timeout=5) for one in (*locks, condition)]) == [True, True, True]
    finally:
        release.set()
        thread.join()


def test_a_lock_of_the_forking_thread_stays_its_own() -> None:
    lock = fork_safe(threading.RLock())

    def leave() -> str:
        lock.release()
        return "released"

    with lock:
        assert in_child(leave) == "released"


def test_objects_are_renewed_in_the_child_only() -> None:
    class Renewed:
        count = 0

        def renew_after_fork(self) -> None:
            self.count += 1

    one = renewed_after_fork(Renewed())
    assert in_child(lambda: one.count) == 1
    assert one.count == 0


def test_a_loader_with_workers_beside_a_training(running: TrainingEngine) -> None:
    numbers: Any = torch.arange(32)
    for _ in range(3):
        loaded = torch.cat(list(DataLoader(numbers, num_workers=2)))
        assert loaded.tolist() == list(range(32))
    assert running.state == "running"


def test_a_pool_of_forked_processes_beside_a_training(running: TrainingEngine) -> None:
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert len(pool.map_async(drawn, range(8)).get(60)) == 8
    assert running.state == "running"


def test_a_second_training_whose_workers_fork_while_the_first_trains(running: TrainingEngine) -> None:
    loader = DataLoader(Noisy(), 16, shuffle=True, num_workers=2)
    second = engine(train_data=loader, epochs=2)
    assert second.start().wait(60)
    assert (second.state, running.state) == ("finished", "running")


def test_many_forks_of_a_running_training_seed_and_draw(running: TrainingEngine) -> None:
    def seeds() -> float:
        torch.manual_seed(3)
        return torch.rand(()).item()

    expected = torch.rand((), generator=torch.Generator().manual_seed(3)).item()
    assert {in_child(seeds) for _ in range(30)} == {expected}


@pytest.mark.parametrize("data", [images, Noisy])
def test_a_fork_in_the_middle_of_a_step_draws_what_everybody_else_would(
    monkeypatch: pytest.MonkeyPatch, data: Callable[[], Any]
) -> None:
    monkeypatch.setattr(turns, "_SECONDS_FOR_FORK", 0.01)  # the step does not end before the fork
    set_seeds()
    expected = drawn()
    set_seeds()
    with in_a_step(train_data=data(), deterministic=True):
        assert in_child(lambda: (drawn(), torch.are_deterministic_algorithms_enabled())) == (expected, False)
        assert in_child(lambda: RANDOM.default_generator is torch.default_generator)
        assert not in_child(is_of_a_step)


def set_seeds() -> None:
    torch.manual_seed(11)
    np.random.seed(11)  # noqa: NPY002  # the old generator is what is tested


def test_a_fork_waits_for_the_end_of_the_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "_SECONDS_FOR_FORK", 60)
    with in_a_step() as training:
        model = training.module
        assert isinstance(model, Gated)
        asked = threading.Thread(target=model.go_on.set)
        asked.start()
        # Only the end of the step gives the turn to the fork; the last thing in a step is the update.
        assert in_child(lambda: len(training.optimizer.state)) > 0
        asked.join()
    assert turn.acquire(blocking=False)
    turn.release()


class Forking(nn.Module):
    """Forks in each forward pass, in the training thread."""

    def __init__(self) -> None:
        super().__init__()
        self.net = network()
        self.answers: list[Any] = []

    def forward(self, x: Tensor) -> Tensor:
        def child() -> tuple[bool, float]:
            torch.manual_seed(3)
            return is_of_a_step(), torch.rand(()).item()

        self.answers.append(in_child(child))
        scores: Tensor = self.net(x)
        return scores


def test_a_fork_from_the_training_thread() -> None:
    model = Forking()
    training = engine(model=model, epochs=1)
    assert training.start().wait(60)
    expected = torch.rand((), generator=torch.Generator().manual_seed(3)).item()
    assert set(model.answers) == {(True, expected)}
    plain = engine(epochs=1)
    assert plain.start().wait(60)
    assert plain.history["loss"].tolist() == training.history["loss"].tolist()


def test_an_engine_in_the_child_can_be_read_and_refuses_in_words(running: TrainingEngine) -> None:
    def looks() -> tuple[str, str | None, bool]:
        with pytest.raises(TrainingError, match="This process was forked while the training was under way"):
            running.start()
        with pytest.raises(TrainingError, match=r"resume_from\(\) makes another one from a checkpoint"):
            running.save_checkpoint("never.ckpt")
        running.pause()
        running.stop()
        running.module(images()[0])
        return running.state, running.waiting_for, running.wait()

    assert in_child(looks) == ("stopped", None, True)
    assert running.state == "running"


def test_an_engine_that_was_not_under_way_trains_in_the_child() -> None:
    training = engine(epochs=1)

    def trains() -> tuple[str, list[float]]:
        assert training.start().wait(20)
        return training.state, training.history["loss"].tolist()

    state, losses = in_child(trains)
    assert training.start().wait(60)
    assert (state, losses) == ("finished", training.history["loss"].tolist())


def test_a_child_leaves_by_the_ordinary_way(running: TrainingEngine) -> None:
    child = os.fork()
    if child == 0:
        signal.alarm(30)
        import atexit  # noqa: PLC0415  what the child would do at its end

        atexit._run_exitfuncs()
        os._exit(7)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 7
    assert running.state == "running"
