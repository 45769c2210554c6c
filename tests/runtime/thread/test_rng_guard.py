"""Which functions draw random numbers, and what waits for whom."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset, random_split

from pnne_nb.runtime.thread.control import Control
from pnne_nb.runtime.thread.rng_guard import DRAWING, is_global, trainings
from pnne_nb.runtime.thread.use_guard import guard_thread, unguard_thread
from tests.runtime.tasks import engine

RANDOM: Any = torch.random
DEFAULT = torch.default_generator

# Kernels and helpers that no cell calls by these names, and what only other devices have.
INTERNAL = ("_", "miopen", "cauchy", "exponential", "geometric", "log_normal", "uniform")


def test_every_operator_that_torch_marks_as_drawing_is_known() -> None:
    tag = torch.Tag.nondeterministic_seeded
    drawing = set()
    for name in dir(torch.ops.aten):
        packet = getattr(torch.ops.aten, name)
        overloads = packet.overloads() if hasattr(packet, "overloads") else []
        if any(tag in getattr(packet, overload).tags for overload in overloads):
            drawing.add(name)
    public = {name for name in drawing if not name.startswith("_") and name not in INTERNAL}
    assert public - {"miopen_rnn", "normal_functional", "rrelu_with_noise_functional"} <= DRAWING


def test_the_guarded_generator_is_there_only_while_a_training_is() -> None:
    control = Control(lambda _: None)
    trainings.add(control)
    try:
        assert RANDOM.default_generator is torch.default_generator is not DEFAULT
        assert torch.manual_seed(3).initial_seed() == 3
        assert RANDOM.default_generator.device == torch.device("cpu")
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(4)
        assert torch.initial_seed() == 3
    finally:
        trainings.remove(control)
    assert RANDOM.default_generator is torch.default_generator is DEFAULT


def test_the_guarded_generator_is_the_default_one_wherever_it_is_given() -> None:
    def drawn() -> list[float]:
        generator = torch.default_generator
        generator.manual_seed(3)
        tensors = [torch.randn(3, generator=generator), torch.rand(2), torch.empty(2).uniform_(generator=generator)]
        first, second = random_split(TensorDataset(torch.arange(10)), [5, 5], generator=generator)
        shuffled: Any = DataLoader(TensorDataset(torch.arange(8.0)), shuffle=True, generator=generator)
        indices = torch.tensor([*first.indices, *second.indices], dtype=torch.float32)
        state = generator.get_state()
        copied = torch.rand(2, generator=generator.clone_state())
        generator.set_state(state)
        return torch.cat([*tensors, indices, *(one for (one,) in shuffled), copied, torch.rand(1)]).tolist()

    expected = drawn()
    control = Control(lambda _: None)
    trainings.add(control)
    try:
        assert isinstance(torch.default_generator, torch.Generator)
        assert torch.default_generator.device == torch.device("cpu")
        assert is_global(torch.default_generator)
        assert is_global(DEFAULT)
        assert is_global(None)
        assert not is_global(torch.Generator())
        assert drawn() == expected
    finally:
        trainings.remove(control)
    assert drawn() == expected


def test_methods_of_the_default_generator_wait_for_the_end_of_the_step(monkeypatch: pytest.MonkeyPatch) -> None:
    control = Control(lambda _: None)
    visits = Recorded(monkeypatch, control)
    trainings.add(control)
    try:
        torch.default_generator.manual_seed(3)
        torch.default_generator.set_state(torch.default_generator.get_state())
        torch.default_generator.seed()
        assert visits.count == 4
    finally:
        trainings.remove(control)
    torch.default_generator.manual_seed(3)
    assert visits.count == 4


class Recorded:
    """Counts the visits of a control."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, control: Control) -> None:
        self.count = 0
        real = control.arrive

        def arrive(key: int, reason: str) -> None:
            self.count += 1
            assert reason == "random numbers in a cell"
            real(key, reason)

        monkeypatch.setattr(control, "arrive", arrive)


def test_only_draws_from_the_global_generator_visit(monkeypatch: pytest.MonkeyPatch) -> None:
    training = engine()
    visits = Recorded(monkeypatch, training._control)
    trainings.add(training._control)
    guard_thread()
    try:
        torch.ones(3).add_(1)
        torch.rand(3, generator=torch.Generator().manual_seed(0))
        assert visits.count == 0
        torch.rand(3)
        torch.empty(3).uniform_()
        torch.manual_seed(0)
        assert visits.count == 3
    finally:
        unguard_thread()
        trainings.remove(training._control)
    torch.rand(3)
    assert visits.count == 3
