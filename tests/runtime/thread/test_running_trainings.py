"""Blocks between two steps: what a cell draws, and its locks."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from pnne_nb.compiler.shapes.infer import infer_shapes
from pnne_nb.process.random_state import private_random_state, turn
from pnne_nb.runtime.thread.cells import cells
from pnne_nb.runtime.thread.running_trainings import alone
from tests.runtime.tasks import engine, network, picture_graph

SECONDS = 60.0


def _draw() -> None:
    torch.rand(3)


def _seed() -> None:
    torch.manual_seed(0)


def _begin_at_a_seed() -> None:
    with private_random_state():
        torch.rand(3)


@pytest.mark.parametrize("draw", [_draw, _seed, _begin_at_a_seed])
def test_a_cell_that_draws_does_not_wait_for_functions_that_are_told_of_a_step(draw: Callable[[], None]) -> None:
    lock, told, has_lock = threading.Lock(), threading.Event(), threading.Event()

    def tell(_: object) -> None:
        told.set()
        assert has_lock.wait(SECONDS)
        with lock:
            torch.rand(3)

    trained = engine(epochs=10**6)
    trained.on("step", tell)
    trained.start()
    cells.began()
    try:
        assert told.wait(SECONDS)
        with lock:
            has_lock.set()
            draw()
    finally:
        cells.ended()
        trained.stop()
    assert trained.error is None


class Held(nn.Module):
    """Its forward pass waits until the test goes on."""

    def __init__(self) -> None:
        super().__init__()
        self.net = network()
        self.begun, self.go_on = threading.Event(), threading.Event()

    def forward(self, x: Tensor) -> Tensor:
        self.begun.set()
        assert self.go_on.wait(SECONDS)
        scores: Tensor = self.net(x)
        return scores


def test_shapes_are_inferred_in_the_middle_of_a_step() -> None:
    model, graph = Held(), picture_graph()
    graph.add("Dropout", name="dropout1")
    graph.connect("fc", "dropout1")
    trained = engine(model=model, epochs=10**6)
    trained.start()
    cells.began()
    try:
        assert model.begun.wait(SECONDS)
        shapes = infer_shapes(graph)
        assert trained.waiting_for is None
        assert trained.progress.step == 0
    finally:
        model.go_on.set()
        cells.ended()
        trained.stop()
    assert shapes["conv1.output"].shape == ("N", 4, 4, 4)


def test_an_interrupt_that_cuts_a_block_short_leaves_no_turn() -> None:
    cells.began()
    block = alone()
    block.__enter__()
    assert turn._is_owned()
    cells.ended(interrupted=True)
    assert not turn._is_owned()
    # Whoever ends the block later has nothing to release.
    with pytest.raises(RuntimeError, match="un-acquired lock"):
        block.__exit__(None, None, None)
