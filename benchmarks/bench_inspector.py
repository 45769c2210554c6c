"""What watching costs: every layer's histogram and all gradient norms, ten frames a second, against the bare loop.

Blocks of bare and of watched training alternate, so that both see the same machine. CPU seconds of every step are
taken: the lower quartile of the observed steps and that of the others, weighted by their number, against the latter.
Quartiles, because other programs on the machine disturb single steps by far more than what is measured. Budget: 1.03.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import torch
from torch import Tensor, nn

from pnne_nb.inspector.live import LiveProbe
from pnne_nb.probe import Cadence
from pnne_nb.runtime import observers as observers_module

BUDGET = 1.03
PAIRS = 40
BLOCK = 0.35
"""Seconds of one block."""


class Residual(nn.Module):
    """A block of a small ResNet."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.relu1 = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.skip = nn.Conv2d(inputs, outputs, 1, stride) if stride > 1 or inputs != outputs else nn.Identity()
        self.relu2 = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        """Images `[n, inputs, h, w]` to `[n, outputs, h / stride, w / stride]`."""
        out = self.bn2(self.conv2(self.relu1(self.bn1(self.conv1(x)))))
        return self.relu2(out + self.skip(x))  # type: ignore[no-any-return]


def mlp() -> tuple[nn.Module, Tensor]:
    """Half a millisecond a step."""
    layers = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 10))
    return layers, torch.randn(64, 64)


def cnn() -> tuple[nn.Module, Tensor]:
    """Some 25 ms a step."""
    layers = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(32 * 49, 64), nn.ReLU(), nn.Linear(64, 10),
    )  # fmt: skip
    return layers, torch.randn(64, 1, 28, 28)


def resnet() -> tuple[nn.Module, Tensor]:
    """Some 50 ms a step, 40 layers."""
    blocks = [Residual(16, 16, 1), Residual(16, 32, 2), Residual(32, 32, 1), Residual(32, 64, 2), Residual(64, 64, 1)]
    head = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))
    return nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), *blocks, head), torch.randn(16, 3, 32, 32)


class Clock:
    """The CPU time that the watched blocks took so far, in seconds: the pauses between frames pass in them only.

    With the machine's clock, a pause would pass in the bare block, and every watched block would begin with a
    frame that it did not pay for; on a busy machine there would be more frames for each second of training.
    """

    def __init__(self) -> None:
        self.elapsed = 0.0
        self.running_since: float | None = None

    def monotonic(self) -> float:
        """Seconds."""
        return self.elapsed + (0.0 if self.running_since is None else time.thread_time() - self.running_since)

    def thread_time(self) -> float:
        """Seconds of this thread's own CPU time, as the machine's clock has it: what a probe's cost is taken from."""
        return time.thread_time()

    def run(self, *, on: bool) -> None:
        """Start or stop."""
        self.elapsed = self.monotonic()
        self.running_since = time.thread_time() if on else None


def quiet(times: list[float]) -> float:
    """The lower quartile: what a step takes when nothing else disturbs it."""
    return statistics.quantiles(times, n=4)[0]


def measure(make: Callable[[], tuple[nn.Module, Tensor]]) -> tuple[float, float, float, float]:
    """Return ratio, CPU milliseconds of a bare step, frames a second, and the share that the tool shows."""
    torch.manual_seed(0)
    net, x = make()
    y = torch.randint(0, 10, (len(x),))
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.AdamW(net.parameters())
    probe, cadence, clock = LiveProbe(net), Cadence(hz=10), Clock()
    observers_module.time = clock  # type: ignore[assignment, attr-defined]
    published: list[int] = []
    observers = observers_module.Observers(lambda frames: published.append(len(frames)))
    step = 0

    def block(times: dict[bool, list[float]]) -> None:
        """Train for a while; collect the CPU seconds of steps, by whether they were observed."""
        nonlocal step
        until = time.monotonic() + BLOCK
        while time.monotonic() < until:
            step += 1
            began = time.thread_time()
            with observers.watching(step) as watched:
                optimizer.zero_grad()
                criterion(net(x), y).backward()
                if watched is not None:
                    watched.gradients_ready()
                optimizer.step()
                if watched is not None:
                    watched.updated()
            times[watched is not None].append(time.thread_time() - began)

    def bare_block() -> None:
        block(bare)

    def watched_block() -> None:
        remove = observers.add(probe, cadence)
        clock.run(on=True)
        block(watched)
        clock.run(on=False)
        remove()

    bare: dict[bool, list[float]] = {False: [], True: []}
    watched: dict[bool, list[float]] = {False: [], True: []}
    block({False: [], True: []})
    for pair in range(PAIRS):
        # The order alternates, so that a machine that becomes faster or slower favours neither.
        first, second = (bare_block, watched_block) if pair % 2 else (watched_block, bare_block)
        first()
        second()
    observed = len(watched[True]) / (len(watched[True]) + len(watched[False]))
    # A step that is not observed differs from a bare one by two readings of the clock, a microsecond. Blocks of
    # the very same work differ by several percent on a shared machine, so both kinds make up the bare step.
    typical = quiet(bare[False] + watched[False])
    mean = observed * quiet(watched[True]) + (1 - observed) * typical
    rate = len(published) / clock.monotonic()
    return mean / typical, 1000 * typical, rate, cadence.share(clock.monotonic())


def main() -> None:
    """Print the figures; raise `SystemExit` if watching costs more than the budget."""
    torch.set_num_threads(1)
    over = []
    for make in (mlp, cnn, resnet):
        ratio, milliseconds, rate, share = measure(make)
        print(
            f"{make.__name__:8} step {milliseconds:7.2f} ms   watched / bare {ratio:.3f} (budget {BUDGET})"
            f"   {rate:4.1f} frames/s   shown cost {share:.1%}",
            flush=True,
        )
        if ratio > BUDGET:
            over.append(make.__name__)
    if over:
        raise SystemExit(f"Watching costs more than {BUDGET} of the bare loop: {', '.join(over)}.")


if __name__ == "__main__":
    main()
