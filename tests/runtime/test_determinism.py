from __future__ import annotations

import torch
from torch import nn

from pnne_nb.runtime.determinism import Determinism
from tests.runtime.tasks import engine


class Asks(nn.Module):
    """Notes what torch's switches say while it runs."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(36, 4)
        self.found: set[tuple[bool, bool]] = set()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.found.add((torch.are_deterministic_algorithms_enabled(), torch.backends.cudnn.benchmark))
        scores: torch.Tensor = self.fc(x.flatten(1))
        return scores


def switches() -> tuple[bool, bool, bool]:
    return (
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
        torch.backends.cudnn.benchmark,
    )


def test_steps_and_validations_are_deterministic_and_nothing_else() -> None:
    before = switches()
    model = Asks()
    trained = engine(model=model, deterministic=True, val_data=(torch.zeros(4, 1, 6, 6), torch.zeros(4).long()))
    found = []
    trained.on("step", lambda _: found.append(switches()))
    trained.start()
    assert trained.wait(60)
    trained.validate()
    assert model.found == {(True, False)}
    assert set(found) == {before}
    assert switches() == before


def test_a_training_leaves_the_switches_alone_unless_asked() -> None:
    model = Asks()
    trained = engine(model=model)
    trained.step()
    trained.stop()
    assert model.found == {(False, False)}


def test_the_switches_of_others_come_back() -> None:
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        with Determinism(torch.device("cpu"), wanted=True):
            assert switches()[:2] == (True, False)
        assert switches()[:2] == (True, True)
    finally:
        torch.use_deterministic_algorithms(False)
