from __future__ import annotations

from typing import Any

import pytest
import torch

from pnne_nb.runtime.loop.step_ring import STEPS, StepRing, copied


class Clock:
    """Time passes only by what is told."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, step: float, snapshot: float) -> None:
        self.now, self.step, self.snapshot = 0.0, step, snapshot
        monkeypatch.setattr("pnne_nb.runtime.loop.step_ring.time.monotonic", lambda: self.now)

    def take(self) -> dict[str, Any]:
        self.now += self.snapshot
        return {"model": {"weight": torch.zeros(100)}, "steps": 3}

    def train(self, ring: StepRing, steps: int) -> float:
        """Returns the share of the time that snapshots have taken."""
        for step in range(steps):
            ring.offer(step, self.take)
            self.now += self.step
            ring.note(step + 1, float(step + 1))
        return 1 - steps * self.step / self.now


@pytest.mark.parametrize(("step", "snapshot"), [(1.0, 0.1), (0.001, 0.001), (0.0001, 0.0004), (0.01, 0.5)])
def test_keeping_takes_its_share_and_covers_the_last_steps(
    monkeypatch: pytest.MonkeyPatch, step: float, snapshot: float
) -> None:
    ring = StepRing(memory=100_000)
    share = Clock(monkeypatch, step=step, snapshot=snapshot).train(ring, 5000)
    assert share < 0.015
    found = ring.before(5000 - STEPS)
    assert found is not None
    assert found.step <= 5000 - STEPS


def test_memory_is_capped(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch, step=1.0, snapshot=0.0)
    ring = StepRing(memory=1000)
    clock.train(ring, 500)
    assert sum(each.nbytes for each in ring.snapshots) <= 1000
    assert len(ring.snapshots) == 2
    small = StepRing(memory=399)
    clock.train(small, 500)
    assert not small.snapshots
    assert small.needed == 400


def test_without_memory_nothing_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    ring = StepRing()
    clock = Clock(monkeypatch, step=1.0, snapshot=1.0)
    clock.train(ring, 100)
    assert clock.now == 100


def test_losses_are_known_by_step(monkeypatch: pytest.MonkeyPatch) -> None:
    ring = StepRing(memory=1000)
    Clock(monkeypatch, step=1.0, snapshot=0.1).train(ring, 1500)
    assert ring.loss_of(1500) == 1500.0
    assert ring.loss_of(1) is None
    assert len(ring.losses) == STEPS
    ring.cut(1480)
    assert ring.losses[-1] == 1480.0
    assert all(each.step <= 1480 for each in ring.snapshots)
    ring.clear()
    assert not ring.snapshots
    assert ring.loss_of(1480) is None


def test_a_copy_shares_nothing() -> None:
    tensor, rows = torch.zeros(2), [1, 2]
    state = {"a": {"b": (tensor, [tensor])}, "rows": rows, "none": None}
    kept = copied(state)
    tensor.fill_(1)
    rows.append(3)
    assert kept["a"]["b"][0].tolist() == [0, 0]
    assert kept["a"]["b"][1][0].tolist() == [0, 0]
    assert kept["rows"] == [1, 2]
