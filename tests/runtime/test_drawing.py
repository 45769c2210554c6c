"""Which functions draw random numbers, and what waits for whom."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from pnne_nb.runtime.control import Control
from pnne_nb.runtime.drawing import DRAWING, guard_draws, trainings

RANDOM: Any = torch.random

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
        assert RANDOM.default_generator is not torch.default_generator
        assert torch.manual_seed(3).initial_seed() == 3
        assert RANDOM.default_generator.device == torch.device("cpu")
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(4)
        assert torch.initial_seed() == 3
    finally:
        trainings.remove(control)
    assert RANDOM.default_generator is torch.default_generator


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
    control = Control(lambda _: None)
    visits = Recorded(monkeypatch, control)
    trainings.add(control)
    end = guard_draws()
    try:
        torch.ones(3).add_(1)
        torch.rand(3, generator=torch.Generator().manual_seed(0))
        assert visits.count == 0
        torch.rand(3)
        torch.empty(3).uniform_()
        torch.manual_seed(0)
        assert visits.count == 3
    finally:
        end()
        trainings.remove(control)
    torch.rand(3)
    assert visits.count == 3
