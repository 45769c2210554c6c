"""Quantize trained models of several kinds, and compare their forms.

    python scripts/quantization_trials.py [NAME ...] [REPEATS] [slow]

REPEATS (1) tables are made of each model; with ``slow``, they have the rows that take minutes to build.

Each model learns real data that packages ship: a CNN and a ResNet-18 on scikit-learn's digits, a classifier and an LSTM on
pieces of Python's own documentation and library. What must hold is printed with what was seen: the budget on held-out data,
the share of multiply-adds in int8, the time of the search, and whether the ranking of forms repeats.
"""

from __future__ import annotations

import argparse
import ast
import calendar
import inspect
import itertools
import sys
import time
from collections.abc import Callable, Sequence
from pydoc_data.topics import topics

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn

import pnne_nb as pn
from pnne_nb.inference.targets.target_table import Measured

Data = tuple[Tensor, Tensor]


def digits(side: int = 8) -> tuple[Data, Data]:
    """Return training and held-out digits `[N, 1, side, side]`."""
    pictures, classes = load_digits(return_X_y=True)
    x = torch.tensor(pictures, dtype=torch.float32).reshape(-1, 1, 8, 8) / 16
    x = nn.functional.interpolate(x, size=(side, side), mode="bilinear")
    return _split(x, torch.tensor(classes))


def letters(length: int = 48) -> tuple[Data, Data]:
    """Return pieces of text `[N, length]` as bytes, and which are of Python's library and which of its documentation."""
    sources = "".join(inspect.getsource(module) for module in (argparse, ast, calendar, inspect))
    rows, classes = [], []
    for kind, text in enumerate(("".join(topics.values()), sources)):
        codes = torch.tensor(list(text.encode("ascii", "replace")))
        pieces = codes[: len(codes) // length * length].reshape(-1, length)
        rows.append(pieces[torch.randperm(len(pieces), generator=torch.Generator().manual_seed(0))[:3000]])
        classes.append(torch.full((len(rows[-1]),), kind))
    x, y = torch.cat(rows).clamp(max=127), torch.cat(classes)
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))
    return _split(x[order], y[order])


def _split(x: Tensor, y: Tensor) -> tuple[Data, Data]:
    held_out = torch.arange(len(x)) % 5 == 0
    return (x[~held_out], y[~held_out]), (x[held_out], y[held_out])


def cnn() -> pn.NodeGraph:
    """A small convolutional network."""
    return pn.sequential(
        nn.Conv2d(1, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.Conv2d(32, 64, 3, padding=1), nn.BatchNorm2d(64),
        nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(1024, 64), nn.ReLU(), nn.Linear(64, 10), input=("N", 1, 8, 8),
    )  # fmt: skip


class Block(nn.Module):
    """Two convolutions beside a connection that skips them."""

    def __init__(self, inside: int, outside: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inside, outside, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outside)
        self.relu = nn.ReLU()
        self.conv2 = nn.Conv2d(outside, outside, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outside)
        self.skip: nn.Module = nn.Identity()
        if inside != outside or stride > 1:
            self.skip = nn.Sequential(nn.Conv2d(inside, outside, 1, stride, bias=False), nn.BatchNorm2d(outside))

    def forward(self, x: Tensor) -> Tensor:
        """Return `[n, outside, h / stride, w / stride]` of `[n, inside, h, w]`."""
        out = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        result: Tensor = self.relu(out + self.skip(x))  # one ReLU module twice
        return result


def resnet18() -> nn.Module:
    """The layers of ResNet-18, for small pictures of one colour."""
    torch.manual_seed(0)
    widths = [(64, 64, 1), (64, 64, 1)]
    for inside in (64, 128, 256):
        widths += [(inside, 2 * inside, 2), (2 * inside, 2 * inside, 1)]
    return nn.Sequential(
        nn.Conv2d(1, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU(), *(Block(*width) for width in widths),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10),
    )  # fmt: skip


class Averaged(nn.Module):
    """A classifier of text: the mean of its letters' vectors, then two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.one, self.two = nn.Embedding(128, 64), nn.Linear(64, 64), nn.Linear(64, 2)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return `[n, 2]` of `[n, t]`."""
        result: Tensor = self.two(torch.relu(self.one(self.table(tokens).mean(1))))
        return result


class Recurrent(nn.Module):
    """An LSTM over letters."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.rnn, self.head = nn.Embedding(128, 32), nn.LSTM(32, 64, batch_first=True), nn.Linear(64, 2)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return `[n, 2]` of `[n, t]`."""
        out, _ = self.rnn(self.table(tokens))
        result: Tensor = self.head(out[:, -1])
        return result


MODELS: dict[
    str, tuple[Callable[[], nn.Module | pn.NodeGraph], Callable[[], tuple[Data, Data]], int, tuple[str, ...]]
] = {
    "cnn": (cnn, digits, 4, ("static", "weight_only", "bfloat16")),
    "resnet18": (resnet18, lambda: digits(16), 2, ("static",)),
    "text": (Averaged, letters, 8, ("static", "dynamic", "weight_only")),
    "lstm": (Recurrent, letters, 8, ("static", "dynamic", "weight_only")),
}


def trial(name: str, repeats: int, *, slow: bool) -> None:
    """Train one model, quantize it, and compare its forms so often."""
    make, read, epochs, kinds = MODELS[name]
    torch.manual_seed(0)
    train, val = read()
    engine = pn.TrainingEngine(make(), train, val, metrics=("accuracy",), epochs=epochs, batch_size=64)
    engine.start()
    engine.wait()
    print(f"== {name}: {engine.history['val_accuracy'][-1]:.4f} on {len(val[0])} held-out examples", flush=True)
    report = None
    for kind in kinds:
        start, busy = time.perf_counter(), time.process_time()
        found = pn.quantize(engine, budget=("val_accuracy", 0.5), kind=kind)  # type: ignore[arg-type]  # from the table
        spent = f"{time.perf_counter() - start:.0f} s, {time.process_time() - busy:.0f} s of a processor's time"
        print(
            f"{kind}: kept the budget: {found.loss <= found.budget} (lost {found.loss:.2f} points), {found.share:.1%} of the "
            f"multiply-adds, {found.evaluations} models in {spent}. {found.headline}",
            flush=True,
        )
        for path, node in found.nodes.items():
            if node.reason:
                print(f"  {path}: {node.reason}")
        report = report or found
    tables = []
    for _ in range(repeats):
        tables.append(pn.compare_targets(engine, quantized=report, include_slow=slow))
        print(repr(tables[-1]), flush=True)
        for row in tables[-1].rows.values():
            said = row.missing
            if row.latency is not None:
                said = f"{in_words(row.latency.p50, 1e3)} ms, {in_words(row.latency.ratio)} × eager"
            print(f"  {row.rank or '-'} {row.name}: {said}", flush=True)
    if repeats > 1:
        print(repeated(tables))


def in_words(time_: Measured, unit: float = 1.0) -> str:
    """Return a figure with its interval."""
    return f"{unit * time_.value:.3f} [{unit * time_.low:.3f}, {unit * time_.high:.3f}]"


def repeated(tables: Sequence[pn.TargetTable]) -> str:
    """Return how often the ranking of the first table comes again, and how often intervals hold the medians of later runs."""
    pairs = list(itertools.combinations(tables, 2))
    first, *others = tables
    agree = 1 + sum(not apart(first) & {(slow, fast) for fast, slow in apart(other)} for other in others)
    same = sum([row.rank for row in each.rows.values()] == [row.rank for row in first.rows.values()] for each in tables)
    held: dict[str, list[bool]] = {"median times": [], "relative times": []}
    for one, later in pairs:
        for name, row in one.rows.items():
            then = later.rows[name].latency
            if row.latency is not None and then is not None:
                held["median times"].append(row.latency.p50.low <= then.p50.value <= row.latency.p50.high)
                held["relative times"].append(row.latency.ratio.low <= then.ratio.value <= row.latency.ratio.high)
    intervals = ", ".join(f"{sum(found)} of {len(found)} later {what}" for what, found in held.items())
    return (
        f"{agree} of {len(tables)} runs rank no two forms the other way round than the first, {same} give the same ranks, "
        f"{sum(each.best == first.best for each in tables)} recommend the same form; intervals held {intervals}"
    )


def apart(table: pn.TargetTable) -> set[tuple[str, str]]:
    """Return the pairs of forms that a table tells apart, the faster one first."""
    ranked = [row for row in table.rows.values() if row.rank is not None]
    return {(one.name, two.name) for one in ranked for two in ranked if (one.rank or 0) < (two.rank or 0)}


if __name__ == "__main__":
    words = [each for each in sys.argv[1:] if not each.isdigit() and each != "slow"]
    count = int(next((each for each in sys.argv[1:] if each.isdigit()), 1))
    for chosen in words or list(MODELS):
        trial(chosen, count, slow="slow" in sys.argv)
