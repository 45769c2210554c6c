"""What watching costs: every quantity of every layer and all gradient norms, ten frames a second, against the bare loop.

Bare and watched training take turns, as `paired` says, in CPU time of the one thread that does both. The bare loop is the
training that nobody watches (`bench_runtime` compares that one with a loop that knows no observers), and it asks for the
time as the other does. A block of the MLP is one frame: the steps until one is observed, and that. Of the others, a block
is the observed step and the one after it; what it takes more than two bare steps is spread over all steps of a frame.

Budget: what the user allows, here 1 %, 2 % and 5 %, and one point more; and no more than that by the tool's own account.
Beside it stand the cost with the interval that a person sees, which `bench_cost_interval` puts to the test, and the rate of
frames, which is lower where ten frames a second cost more than the budget allows.
"""

from __future__ import annotations

import itertools
import math
import sys
import time
from collections.abc import Iterator, Sequence

import torch
from torch import nn

from benchmarks.budgets import Budgets
from benchmarks.models import ALL
from benchmarks.paired import Blocks, Comparison, Cost, compare
from pnne_nb.inspector.capture.live import LiveProbe
from pnne_nb.inspector.statistics.patterns import leaf_layers
from pnne_nb.runtime.monitoring import probes as observers_module
from pnne_nb.telemetry.frames import Frame, NormsFrame
from pnne_nb.telemetry.overhead import Overhead
from pnne_nb.telemetry.probe import Cadence

MARGIN = 0.01
"""Of the bare loop, beside what the user allows."""
BUDGETS = (0.01, 0.02, 0.05)
SECONDS = 30.0
"""For each comparison."""
SPAN = 2
"""Steps in a block: the observed one, and the one after it, which finds other data in the caches."""


class Clock:
    """The CPU time that the watched blocks took so far, in seconds: the pauses between frames pass in them only.

    With the machine's clock, a pause would pass in the bare block, and every watched block would begin with a
    frame that it did not pay for; on a busy machine there would be more frames for each second of training.
    """

    def __init__(self) -> None:
        self.elapsed = 0.0
        self.running_since: float | None = None

    def monotonic(self) -> float:
        """Seconds; it takes as long where the clock stands, of the bare steps: 1.5 % of a step of the MLP."""
        now = time.thread_time()
        return self.elapsed + (0.0 if self.running_since is None else now - self.running_since)

    def thread_time(self) -> float:
        """Seconds of this thread's own CPU time, as the machine's clock has it: what a probe's cost is taken from."""
        return time.thread_time()

    def run(self, *, on: bool) -> None:
        self.elapsed = self.monotonic()
        self.running_since = time.thread_time() if on else None


class Watching:
    def __init__(self, name: str, budget: float) -> None:
        self.net, self.x, self.y = ALL[name]()
        self.cadence, self.clock = Cadence(hz=10, budget=budget), Clock()
        self.frames = 0
        self._steps = self._blocks = 0
        self._is_short = name == "mlp"
        self._block = 1 if self._is_short else SPAN
        self._observers = observers_module.Observers(self._publish)
        everything = dict.fromkeys(leaf_layers(self.net), ("activations", "parameters", "gradients", "updates"))
        self._observers.add(LiveProbe(self.net, everything), self.cadence)
        criterion, optimizer = nn.CrossEntropyLoss(), torch.optim.AdamW(self.net.parameters())
        nobody = observers_module.Observers(self._publish)
        self._bare_steps = self._train(nobody, criterion, optimizer)
        self._watched_steps = self._train(self._observers, criterion, optimizer)

    def _batches(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        while True:
            for at in range(0, len(self.x), 64):
                yield self.x[at : at + 64], self.y[at : at + 64]

    def _publish(self, frames: Sequence[Frame]) -> None:
        self.frames += any(isinstance(frame, NormsFrame) for frame in frames)

    def shown(self) -> Overhead:
        return self._observers.cost(self.clock.monotonic())

    def _train(
        self, observers: observers_module.Observers, criterion: nn.Module, optimizer: torch.optim.Optimizer
    ) -> Iterator[None]:
        for step, (x, y) in enumerate(self._batches(), 1):
            with observers.watching(step) as watched:
                optimizer.zero_grad()
                criterion(self.net(x), y).backward()
                if watched is not None:
                    watched.gradients_ready()
                optimizer.step()
                if watched is not None:
                    watched.updated()
            yield

    def bare(self) -> Cost:
        began = time.thread_time()
        for _ in range(self._block):
            next(self._bare_steps)
        return {"cpu": (time.thread_time() - began) / self._block}

    @property
    def share(self) -> float:
        """Of all steps, those that are in watched blocks."""
        return 1.0 if self._is_short else SPAN * self._blocks / self._steps

    def watched(self) -> Cost:
        """The steps until one is observed, and that; of long ones, that alone and the one after it."""
        self.clock.run(on=True)
        frames, times = self.frames, [time.thread_time()]
        while self.frames == frames:
            next(self._watched_steps)
            times.append(time.thread_time())
        if self._is_short:
            self._block = len(times) - 1
        else:
            next(self._watched_steps)
            times.append(time.thread_time())
        self.clock.run(on=False)
        self._steps += len(times) - 1
        self._blocks += 1
        return {"cpu": (times[-1] - times[-1 - self._block]) / self._block}


def measure(name: str, budget: float) -> tuple[Comparison, float, float, Overhead]:
    """Return what watching takes, frames a second, the share that the pauses pay for, and the cost that is shown."""
    made: list[Watching] = []

    def make() -> Blocks:
        watching = Watching(name, budget)
        # The cadence of the training that is measured is told the time by its own clock.
        observers_module.time = watching.clock  # type: ignore[assignment, attr-defined]  # a clock that counts by itself
        made.append(watching)
        return watching.bare, watching.bare, watching.watched

    found = compare(make, seconds=SECONDS)["cpu"]
    found = found.spread(sum(watching.share for watching in made) / len(made))
    seconds = sum(watching.clock.monotonic() for watching in made)
    paid = sum(watching.cadence.share(watching.clock.monotonic()) * watching.clock.monotonic() for watching in made)
    return found, sum(watching.frames for watching in made) / seconds, paid / seconds, _together(made)


def _together(made: Sequence[Watching]) -> Overhead:
    """Join what trainings show that trained one after the other; each is weighted with its time."""
    shown = [(watching.shown(), watching.clock.monotonic()) for watching in made]
    shown = [(cost, time) for cost, time in shown if cost.margin is not None]
    seconds = sum(time for _, time in shown)
    if not seconds:
        return Overhead(0.0)
    share = sum(cost.share * time for cost, time in shown) / seconds
    return Overhead(share, math.hypot(*((cost.margin or 0.0) * time / seconds for cost, time in shown)))


def main() -> None:
    torch.set_num_threads(1)
    budgets = Budgets()
    for name, budget in itertools.product(sys.argv[1:] or ALL, BUDGETS):
        torch.manual_seed(0)
        found, rate, share, shown = measure(name, budget)
        most = 1 + budget + MARGIN
        verdict = budgets.judge(name, found, most)
        print(
            f"{name:11} budget {budget:.0%}: watched / bare {found}, {found.rounds} rounds: {verdict} (≤ {most:.2f})   bare"
            f" step {1e3 * found.bare:.2f} ms CPU, {rate:.1f} frames/s, cost shown {shown}, paid for"
            f" {share:.1%}, which is {1e3 * share / rate:.2f} ms a frame",
            flush=True,
        )
        if share > budget:
            budgets.fail(f"{name} by its own account ({share:.1%} > {budget:.0%})")
    budgets.end()


if __name__ == "__main__":
    main()
