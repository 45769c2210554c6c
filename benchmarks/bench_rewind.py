"""What it costs to keep the last hundred steps, so that a training can go back to each of them.

Of a period of steps, one takes a snapshot, and the others note one number each. A training takes turns with itself, as `paired`
says, in CPU time of the one thread that does both: two steps with a snapshot, and two that keep nothing. What the one block
takes more is spread over the period, whose length the training says itself. Budget: 1.015.
"""

from __future__ import annotations

import time
from types import SimpleNamespace
from unittest import mock

import numpy as np
import torch

from benchmarks.budgets import Budgets
from benchmarks.models import MODELS
from benchmarks.paired import Blocks, Comparison, Cost, compare
from pnne_nb.runtime.engine import TrainingEngine
from pnne_nb.runtime.loop import step_ring
from pnne_nb.runtime.loop.loop_events import Stepped

BUDGET = 1.015
SECONDS = 120.0
"""For each comparison, at most."""
SPAN = 2
"""Steps in a block: the one that takes a snapshot, and the one after it, which finds other data in the caches."""


class Keeping:
    """A training that keeps its steps now and then.

    Args:
        name: Of the model.

    Attributes:
        periods: Steps from each snapshot to when the next one was due.
    """

    def __init__(self, name: str) -> None:
        model, x, y = MODELS[name]()
        loop = TrainingEngine(model, (x, y), epochs=10**9, device="cpu")._loop
        self.periods: list[float] = []
        self._ring = loop.ring
        self._ring.memory = 0
        self._events = (event for event in loop.events(10**9) if isinstance(event, Stepped))
        self._bare_step = float("inf")

    def bare(self) -> Cost:
        began = time.thread_time()
        for _ in range(SPAN):
            next(self._events)
        self._bare_step = (time.thread_time() - began) / SPAN
        return {"cpu": self._bare_step}

    def kept(self) -> Cost:
        """As many steps, with one snapshot."""
        before = self._ring.snapshots[-1].step if self._ring.snapshots else -1
        began = time.thread_time()
        self._ring.memory = step_ring.MEMORY
        self._ring.touch()
        for _ in range(SPAN):
            next(self._events)
        self._ring.memory = 0
        seconds = time.thread_time() - began
        assert self._ring.snapshots[-1].step > before, "a snapshot was taken"
        pause = self._ring._next_time - time.thread_time()
        by_steps = self._ring._next_step - self._ring.snapshots[-1].step
        self.periods.append(max(by_steps, pause / self._bare_step))
        return {"cpu": seconds / SPAN}


def measure(name: str) -> tuple[Comparison, float]:
    """What keeping steps takes, and how many there are between two snapshots."""
    made: list[Keeping] = []

    def make() -> Blocks:
        made.append(Keeping(name))
        return made[-1].bare, made[-1].bare, made[-1].kept

    # The pause after a snapshot depends on how long that took, by the same clock.
    with mock.patch.object(step_ring, "time", SimpleNamespace(monotonic=time.thread_time)):
        blocks = compare(make, seconds=SECONDS, precision=0.01)["cpu"]
    period = float(np.median([each for keeping in made for each in keeping.periods]))
    return blocks.spread(SPAN / period), period


def main() -> None:
    torch.set_num_threads(1)
    budgets = Budgets()
    for name in ("cnn", "resnet"):
        torch.manual_seed(0)
        found, steps = measure(name)
        verdict = budgets.judge(name, found, BUDGET)
        print(
            f"{name:7} kept / not kept {found}, {found.rounds} rounds: {verdict} (≤ {BUDGET})   bare step"
            f" {1e3 * found.bare:.2f} ms CPU, a snapshot every {steps:.0f} steps",
            flush=True,
        )
    budgets.end()


if __name__ == "__main__":
    main()
