"""Several trainings in one process, which has one random generator and one set of switches."""

from __future__ import annotations

import queue
import threading
from _thread import start_new_thread
from typing import Any

import torch
from torch import Tensor, nn

from pnne_nb.errors import TrainingError
from pnne_nb.runtime.engine import TrainingEngine
from pnne_nb.runtime.thread.cells import cells
from pnne_nb.runtime.thread.step_lock import adopt_thread, is_of_a_step
from tests.runtime.tasks import Noisy, engine, images, network, picture_graph

EPOCHS = 8


def runs() -> list[TrainingEngine]:
    """Dropout in both; one draws for its data as well, and validates."""
    return [
        engine(epochs=EPOCHS, seed=1),
        engine(epochs=EPOCHS, seed=2, train_data=Noisy(), val_data=Noisy(), batch_size=8),
    ]


def test_trainings_at_once_are_what_they_are_alone() -> None:
    alone = runs()
    for one in alone:
        assert one.start().wait(60)
    together = runs()
    for one in together:
        one.start()
    assert all(one.wait(60) for one in together)
    for one, other in zip(alone, together, strict=True):
        assert one.history["loss"].tolist() == other.history["loss"].tolist()
    assert together[1].history["val_loss"].tolist() == alone[1].history["val_loss"].tolist()


class Switched(nn.Module):
    """Notes, whenever it runs, how torch's switch for deterministic algorithms is set."""

    def __init__(self) -> None:
        super().__init__()
        self.net = network()
        self.seen: set[bool] = set()

    def forward(self, x: Tensor) -> Tensor:
        self.seen.add(torch.are_deterministic_algorithms_enabled())
        scores: Tensor = self.net(x)
        return scores


def test_each_training_has_its_own_switches() -> None:
    strict, free = Switched(), Switched()
    trainings = [engine(model=strict, epochs=EPOCHS, deterministic=True), engine(model=free, epochs=EPOCHS)]
    for one in trainings:
        one.start()
    assert all(one.wait(60) for one in trainings)
    assert (strict.seen, free.seen) == ({True}, {False})
    assert not torch.are_deterministic_algorithms_enabled()


def test_a_cell_validates_and_draws_while_another_training_runs() -> None:
    halted, running = runs()[1], engine(epochs=10**6)
    halted.step(2)
    running.start()
    cells.began()
    try:
        assert halted.validate() == halted.validate()
        torch.rand(3)
    finally:
        cells.ended()
        running.stop()
        halted.stop()


def test_a_step_may_use_and_command_another_training() -> None:
    other = engine(epochs=10**6)
    refused: list[str] = []

    def step(model: nn.Module, batch: Any) -> Tensor:
        x, y = batch
        other.pause()
        torch.rand(3)
        soft = other.model(x).softmax(1)
        other.resume()
        try:
            other.wait()
        except TrainingError as error:
            refused.append(str(error))
        scores: Tensor = model(x)
        return nn.functional.cross_entropy(scores, soft) + nn.functional.cross_entropy(scores, y)

    student = engine(epochs=2, step_function=step, train_data=images())
    other.start()
    assert student.start().wait(60)
    other.stop()
    assert refused
    assert all("wait() would never return: this is inside a step" in each for each in refused)


def test_what_is_made_beside_a_training_is_made_between_its_steps() -> None:
    alone, beside = engine(epochs=EPOCHS), engine(epochs=EPOCHS)
    assert alone.start().wait(60)
    first = engine(model=picture_graph()).module.state_dict()
    beside.start()
    while not beside.wait(0):
        made = engine(model=picture_graph()).module.state_dict()
        assert all(torch.equal(first[name], made[name]) for name in first)
    assert beside.history["loss"].tolist() == alone.history["loss"].tolist()


def test_what_a_thread_of_autograd_starts_belongs_to_the_step_as_well() -> None:
    found: queue.SimpleQueue[bool] = queue.SimpleQueue()

    def backward() -> None:
        adopt_thread(None)
        helper = threading.Thread(target=lambda: found.put(is_of_a_step()))
        helper.start()
        helper.join()

    # Python does not know a thread that torch has started either.
    start_new_thread(backward, ())
    assert found.get(timeout=60)
    assert not is_of_a_step()
