"""The engine against a loop written by hand, and the kernel's latency while it trains.

The two are compared in one process and one thread, one step of each in turn: the ratio of the median CPU
times holds on a shared machine, where wall times do not. Budgets: 1.02 for the CNN and the ResNet (the MLP's
step of half a millisecond shows what the bookkeeping costs, without a budget), 100 ms for the latency.
"""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable, Iterator

import torch
from torch import nn

from pnne_nb.runtime.engine import TrainingEngine
from pnne_nb.runtime.loop import Stepped

BUDGET = 1.02
LATENCY_BUDGET = 100.0
SECONDS = 10.0
"""CPU time for each comparison."""


def mlp() -> tuple[nn.Module, torch.Tensor]:
    return nn.Sequential(
        nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 10)
    ), torch.randn(2048, 64)


def cnn() -> tuple[nn.Module, torch.Tensor]:
    net = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.BatchNorm2d(32),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(32 * 49, 10),
    )
    return net, torch.randn(2048, 1, 28, 28)


class Block(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1)
        self.norm1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1)
        self.norm2 = nn.BatchNorm2d(channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = torch.relu(self.norm1(self.conv1(x)))
        return torch.relu(x + self.norm2(self.conv2(hidden)))


def resnet() -> tuple[nn.Module, torch.Tensor]:
    net = nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1), *[Block(32) for _ in range(4)], nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(32, 10),
    )  # fmt: skip
    return net, torch.randn(512, 3, 16, 16)


def by_hand(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> Iterator[None]:
    """What a person would write, with the loss and the accuracy that the engine reports as well."""
    optimizer, loss_of = torch.optim.AdamW(model.parameters(), lr=1e-3), nn.CrossEntropyLoss()
    losses: list[float] = []
    hits = torch.zeros((), dtype=torch.int64)
    while True:
        order = torch.randperm(len(x))
        for at in range(0, len(x), 64):
            chosen = order[at : at + 64]
            inputs, target = x[chosen], y[chosen]
            optimizer.zero_grad()
            output = model(inputs)
            loss = loss_of(output, target)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            hits += (output.detach().argmax(1) == target).sum()
            yield


def engine_steps(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> Iterator[None]:
    """The engine's own loop and its bookkeeping, run in this thread so that both sides share its time."""
    engine = TrainingEngine(model, (x, y), epochs=10**9, device="cpu")
    control, loop = engine._control, engine._loop
    control.launch()
    control.enter()
    engine._shared.open()
    events = loop.run(10**9)
    while control.boundary() == "go":
        event = next(events)
        engine._work.tell(event)
        if isinstance(event, Stepped):
            yield


def ratio(make: Callable[[], tuple[nn.Module, torch.Tensor]]) -> tuple[float, float]:
    """Ratio engine / by hand of the median CPU times of a step, and the milliseconds of a step by hand."""
    torch.manual_seed(0)
    (model, x), (other, _) = make(), make()
    y = torch.randint(0, 10, (len(x),))
    sides = by_hand(model, x, y), engine_steps(other, x, y)
    spent: tuple[list[float], list[float]] = ([], [])
    for side in sides:
        for _ in range(3):
            next(side)
    began = time.process_time()
    turn = 0
    while time.process_time() - began < SECONDS:
        turn += 1
        for which in (0, 1) if turn % 2 else (1, 0):
            before = time.process_time()
            next(sides[which])
            spent[which].append(time.process_time() - before)
    by, engine = map(statistics.median, spent)
    return engine / by, by * 1000


def latency(make: Callable[[], tuple[nn.Module, torch.Tensor]]) -> tuple[float, float]:
    """Median and 95th percentile, in milliseconds, of a trivial operation in another thread while training runs."""
    model, x = make()
    engine = TrainingEngine(model, (x, torch.randint(0, 10, (len(x),))), epochs=10**9, device="cpu")
    engine.start()
    pause = threading.Event()
    waits = []
    for _ in range(200):
        pause.wait(0.01)
        began = time.perf_counter()
        sum(range(100))
        torch.ones(3).sum().item()
        waits.append((time.perf_counter() - began) * 1000)
    engine.stop()
    return statistics.median(waits), statistics.quantiles(waits, n=20)[-1]


def halting(make: Callable[[], tuple[nn.Module, torch.Tensor]]) -> float:
    """Longest time, in milliseconds, that `pause` took to halt a running training."""
    model, x = make()
    engine = TrainingEngine(model, (x, torch.randint(0, 10, (len(x),))), epochs=10**9, device="cpu")
    engine.start()
    longest = 0.0
    for _ in range(20):
        began = time.perf_counter()
        engine.pause()
        longest = max(longest, time.perf_counter() - began)
        engine.resume()
    engine.stop()
    return longest * 1000


def main() -> None:
    """Print the figures; raise `SystemExit` if one is over its budget."""
    torch.set_num_threads(1)
    over = []
    for make in (mlp, cnn, resnet):
        found, hand = ratio(make)
        middle, late = latency(make)
        print(
            f"{make.__name__:8} step {hand:6.2f} ms   engine / by hand {found:.3f}   cell during training "
            f"p50 {middle:.2f} ms p95 {late:.2f} ms   longest pause {halting(make):.0f} ms",
            flush=True,
        )
        if found > BUDGET and make is not mlp:
            over.append(f"a step of {make.__name__} ({found:.3f} > {BUDGET})")
        if late > LATENCY_BUDGET:
            over.append(f"latency with {make.__name__} ({late:.0f} ms > {LATENCY_BUDGET:.0f} ms)")
    if over:
        raise SystemExit(f"Over budget: {', '.join(over)}.")


if __name__ == "__main__":
    main()
