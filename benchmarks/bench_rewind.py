"""What it costs to keep the last hundred steps, so that a training can go back to each of them.

One training takes turns with itself, as `paired` says, keeping its steps and not keeping them, in CPU time of the one
thread that does both. A block that keeps them is one period: the steps until a snapshot was taken, and that; the other has
as many steps. Budget: 1.015.
"""

from __future__ import annotations

import time
from unittest import mock

import torch

from benchmarks.models import MODELS
from benchmarks.paired import Blocks, Comparison, Cost, compare
from pnne_nb.runtime.engine import TrainingEngine
from pnne_nb.runtime.loop import step_ring
from pnne_nb.runtime.loop.loop_events import Stepped

BUDGET = 1.015
SECONDS = 120.0
"""For each comparison, at most: a round of the ResNet takes about ten."""


class Keeping:
    """A training that keeps its steps now and then.

    Args:
        name: Of the model.
    """

    def __init__(self, name: str) -> None:
        model, x, y = MODELS[name]()
        loop = TrainingEngine(model, (x, y), epochs=10**9, device="cpu")._loop
        self._ring = loop.ring
        self._ring.memory = 0
        self._events = (event for event in loop.run(10**9) if isinstance(event, Stepped))
        self._steps = 1
        self._kept_for = 0.0
        self._began = 0.0

    def monotonic(self) -> float:
        """The ring's clock, in seconds of this thread: between snapshots is time, which is to pass in its own blocks only."""
        return self._kept_for + time.thread_time() - self._began

    def bare(self) -> Cost:
        """As many steps as the last period had."""
        began = time.thread_time()
        for _ in range(self._steps):
            next(self._events)
        seconds = time.thread_time() - began
        self._ring._next_step += self._steps  # snapshots are so many kept steps apart
        return {"cpu": seconds / self._steps}

    def kept(self) -> Cost:
        """The steps until a snapshot was taken, and that."""
        self._began = time.thread_time()
        self._ring.memory = step_ring.MEMORY
        before, steps = self._last(), 0
        while self._last() == before:
            next(self._events)
            steps += 1
        self._ring.memory = 0
        seconds, self._steps = time.thread_time() - self._began, steps
        self._kept_for += seconds
        return {"cpu": seconds / steps}

    def _last(self) -> int:
        return self._ring.snapshots[-1].step if self._ring.snapshots else -1


def measure(name: str) -> tuple[Comparison, int]:
    """What keeping steps takes, and how many there are between two snapshots."""
    made: list[Keeping] = []

    def make() -> Blocks:
        made.append(Keeping(name))
        return made[-1].bare, made[-1].bare, made[-1].kept

    with mock.patch.object(step_ring, "time", _Current(made)):
        found = compare(make, seconds=SECONDS, precision=0.002)["cpu"]
    return found, made[-1]._steps


class _Current:
    """The clock of whichever training is measured."""

    def __init__(self, made: list[Keeping]) -> None:
        self._made = made

    def monotonic(self) -> float:
        """Seconds."""
        return self._made[-1].monotonic()


def main() -> None:
    """Print the figures; raise `SystemExit` if one is over its budget."""
    torch.set_num_threads(1)
    over = []
    for name in ("cnn", "resnet"):
        torch.manual_seed(0)
        found, steps = measure(name)
        verdict = found.verdict(BUDGET)
        print(
            f"{name:7} kept / not kept {found}, {found.rounds} rounds: {verdict} (≤ {BUDGET})   bare step"
            f" {1e3 * found.bare:.2f} ms CPU, a snapshot every {steps} steps",
            flush=True,
        )
        if verdict == "broken":
            over.append(f"{name} ({found.ratio} > {BUDGET})")
    if over:
        raise SystemExit(f"Keeping steps costs more than its budget: {', '.join(over)}.")


if __name__ == "__main__":
    main()
