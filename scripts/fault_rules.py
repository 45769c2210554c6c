"""Measures the rules that say what is wrong with a training: recall on faults, false alarms on healthy runs.

``python scripts/fault_rules.py [--only faults|watched|default] [healthy [first]]``; 300 healthy runs unless told otherwise,
from number `first` on. Every fault is put into every model; it counts as found if its kind is among what
``pn.diagnose(engine)`` says, and as named if it comes first. A healthy run that is accused of anything is a false alarm. The
healthy runs are made three times: with the engine alone, with an inspector that watches everything, and with the dashboard
in its default settings.
``--write`` keeps the counts in the file that findings quote.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime as dt
import itertools
import json
from collections import Counter
from collections.abc import Callable
from multiprocessing import get_context
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor, nn

import pnne_nb as pn
from pnne_nb.diagnosis.finding import KINDS, MEASURED

CLASSES: Final = 4
WIDTH: Final = 16
OPTIMIZERS: Final[tuple[tuple[str, dict[str, float]], ...]] = (
    ("AdamW", {"lr": 3e-3}),
    ("Adam", {"lr": 3e-3}),
    ("SGD", {"lr": 0.05, "momentum": 0.9}),
    ("RMSprop", {"lr": 1e-3}),
    ("Adagrad", {"lr": 0.03}),
    ("NAdam", {"lr": 3e-3}),
    ("Adamax", {"lr": 5e-3}),
)
SCHEDULES: Final[tuple[dict[str, Any], ...]] = (
    {},
    {"scheduler": ("CosineAnnealingLR", {"T_max": 5})},
    {},
    {"scheduler": ("OneCycleLR", {"total_steps": 100, "cycle_momentum": False})},
    {"scheduler": ("StepLR", {"step_size": 2, "gamma": 0.1})},
    {"scheduler": ("ExponentialLR", {"gamma": 0.1})},
    {"scheduler": ("LinearLR", {"start_factor": 0.01, "total_iters": 3})},
)


class Attending(nn.Module):
    """A transformer layer over 16 tokens of one number each."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Linear(1, 16)
        self.place = nn.Parameter(0.1 * torch.randn(WIDTH, 16))
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
        self.head = nn.Linear(16, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        """`[N, 16]` to `[N, 4]`."""
        scores: Tensor = self.head(self.layer(self.embed(x.unsqueeze(-1)) + self.place).mean(1))
        return scores


def mlp() -> nn.Module:
    """Two hidden layers."""
    return nn.Sequential(
        nn.Linear(WIDTH, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, CLASSES)
    )


def cnn() -> nn.Module:
    """Two convolutions."""
    return nn.Sequential(
        nn.Unflatten(1, (1, 4, 4)), nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(),
        nn.Conv2d(8, 8, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(128, CLASSES),
    )  # fmt: skip


class Recurrent(nn.Module):
    """A GRU over four steps of four numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn, self.head = nn.GRU(4, 16, batch_first=True), nn.Linear(16, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        """`[N, 16]` to `[N, 4]`."""
        scores: Tensor = self.head(self.rnn(x.unflatten(1, (4, 4)))[0][:, -1])
        return scores


PARTS: Final = {
    "alone": "the engine alone",
    "watched": "everything watched",
    "default": "the dashboard's default settings",
}
MODELS: Final[tuple[Callable[[], nn.Module], ...]] = (mlp, cnn, Attending, Recurrent)


Data = Callable[[int, float, int], tuple[Tensor, Tensor]]
"""Of a seed, a noise and a number of examples: inputs `[count, 16]` and one of four classes for each."""


def _drawn(seed: int, count: int) -> tuple[torch.Generator, Tensor, Tensor]:
    draws = torch.Generator().manual_seed(seed)
    return draws, torch.randint(CLASSES, (count,), generator=draws), torch.randn(count, WIDTH, generator=draws)


def blobs(seed: int, noise: float = 0.7, count: int = 640) -> tuple[Tensor, Tensor]:
    """Four clouds."""
    _, y, scatter = _drawn(seed, count)
    centres = torch.randn(CLASSES, WIDTH, generator=torch.Generator().manual_seed(99))
    return centres[y] + noise * scatter, y


def waves(seed: int, noise: float = 0.7, count: int = 640) -> tuple[Tensor, Tensor]:
    """Four frequencies, with any phase within a quarter."""
    draws, y, scatter = _drawn(seed, count)
    phase = 1.5 * torch.rand(count, 1, generator=draws)
    return 1.4 * torch.sin(0.5 * (y[:, None] + 1) * torch.arange(WIDTH) + phase) + noise * scatter, y


def stripes(seed: int, noise: float = 0.7, count: int = 640) -> tuple[Tensor, Tensor]:
    """Pictures of 4 x 4 with a bright row."""
    _, y, scatter = _drawn(seed, count)
    x = noise * scatter.unflatten(1, (4, 4))
    x[torch.arange(count), y] += 2
    return (x - 0.5).flatten(1), y


def taught(seed: int, noise: float = 0.7, count: int = 640) -> tuple[Tensor, Tensor]:
    """What a network with random weights says of random inputs, with some noise on its scores."""
    draws, _, x = _drawn(seed, count)
    fixed = torch.Generator().manual_seed(77)
    first, second = torch.randn(WIDTH, 8, generator=fixed) / 4, torch.randn(8, CLASSES, generator=fixed)
    scores = torch.tanh(x @ first) @ second
    return x, (scores + 0.3 * noise * torch.randn(scores.shape, generator=draws)).argmax(1)


DATA: Final[tuple[Data, ...]] = (blobs, waves, stripes, taught)


class Setup(NamedTuple):
    """What is trained."""

    model: nn.Module
    train: tuple[Tensor, Tensor]
    val: tuple[Tensor, Tensor]
    options: dict[str, Any]


def _after(setup: Setup, layer: nn.Module) -> Setup:
    return setup._replace(model=nn.Sequential(setup.model, layer))


def _scaled(setup: Setup, factor: float) -> Setup:
    return setup._replace(train=(setup.train[0] * factor, setup.train[1]), val=(setup.val[0] * factor, setup.val[1]))


def _frozen(setup: Setup) -> Setup:
    layers = [layer for layer in setup.model.modules() if [*layer.parameters(recurse=False)]]
    for parameter in layers[len(layers) // 2].parameters(recurse=False):
        parameter.requires_grad_(False)
    return setup


def _head(setup: Setup, factor: float) -> Setup:
    last = [layer for layer in setup.model.modules() if isinstance(layer, nn.Linear)][-1]
    with torch.no_grad():
        last.weight.mul_(factor)
    return setup


def _with(setup: Setup, **options: Any) -> Setup:
    return setup._replace(options={**setup.options, **options})


def _rare(setup: Setup) -> Setup:
    y = torch.zeros_like(setup.train[1])
    y[::150] = 1
    return setup._replace(train=(setup.train[0], y))


def _behind(setup: Setup, *layers: nn.Module) -> Setup:
    """With layers behind the scores that give four scores again."""
    return _after(setup, nn.Sequential(nn.Linear(CLASSES, 16), *layers, nn.Linear(16, CLASSES)))


def _spoilt(setup: Setup, activation: nn.Module, spoil: Callable[[nn.Linear], object]) -> Setup:
    """With layers behind the scores, the first of which is spoilt."""
    broken = _behind(setup, activation)
    with torch.no_grad():
        spoil(broken.model[1][0])  # type: ignore[index, arg-type]  # a Sequential of a Sequential
    return broken


def _zeros(setup: Setup) -> Setup:
    broken = _behind(setup, nn.ReLU())
    for parameter in broken.model[1].parameters():  # type: ignore[index]  # likewise
        nn.init.zeros_(parameter)
    return broken


def _binary(setup: Setup, low: float = 0.0) -> Setup:
    """With the classes 0 and 1 against 2 and 3, as `low` and 1."""
    targets = [torch.where(y > 1, 1.0, low)[:, None] for _, y in (setup.train, setup.val)]
    model = nn.Sequential(setup.model, nn.Linear(CLASSES, 1))
    train, val = (setup.train[0], targets[0]), (setup.val[0], targets[1])
    return _with(Setup(model, train, val, setup.options), loss="BCEWithLogitsLoss")


def _spread(setup: Setup) -> Setup:
    """With a quantity `[N]` and outputs `[N, 1]`."""
    model = nn.Sequential(setup.model, nn.Linear(CLASSES, 1))
    train, val = ((x, x[:, :4].sum(1)) for x, _ in (setup.train, setup.val))
    return _with(Setup(model, train, val, setup.options), loss="MSELoss")


def _column(setup: Setup, value: float) -> Setup:
    x = setup.train[0].clone()
    x[:, 3] = value
    return setup._replace(train=(x, setup.train[1]))


def _one_bad(setup: Setup) -> Setup:
    x = setup.train[0].clone()
    x[77, 5] = torch.nan
    return setup._replace(train=(x, setup.train[1]))


def _without_last(setup: Setup) -> Setup:
    rows = setup.train[1] != CLASSES - 1
    return setup._replace(train=(setup.train[0][rows], setup.train[1][rows]))


class Silent(nn.BatchNorm1d):
    """Batch norm that stays in eval mode."""

    def train(self, mode: bool = True) -> Silent:
        """It never trains."""
        super().train(False)
        del mode
        return self


FAULTS: Final[dict[str, tuple[str | tuple[str, ...], Callable[[Setup], Setup]]]] = {
    "softmax before cross-entropy": ("softmax-before-loss", lambda one: _after(one, nn.Softmax(1))),
    "softmax over the batch": ("softmax-before-loss", lambda one: _after(one, nn.Softmax(0))),
    "a layer is frozen": ("frozen-layer", _frozen),
    "batch norm with two examples": (
        "tiny-batch-norm",
        lambda one: _with(_after(one, nn.BatchNorm1d(CLASSES)), batch_size=2, epochs=1),
    ),
    "batch norm in eval mode": ("batch-norm-in-eval", lambda one: _after(one, Silent(CLASSES))),
    "one class in 150": ("one-class", _rare),
    "constant targets": (
        "constant-target",
        lambda one: one._replace(train=(one.train[0], torch.ones_like(one.train[1]))),
    ),
    "validation on another scale": (
        "validation-scaled-otherwise",
        lambda one: one._replace(val=(one.val[0] * 20 + 50, one.val[1])),
    ),
    "validation inside training": ("validation-in-training", lambda one: one._replace(val=one.train)),
    "inputs of scale 1000": ("large-input", lambda one: _scaled(one, 1000.0)),
    "classes under MSE": (
        "classes-under-distance",
        lambda one: _with(_after(one, nn.Sequential(nn.Linear(CLASSES, 1), nn.Flatten(0))), loss="MSELoss"),
    ),
    "weight decay of 2": ("weight-decay-dominates", lambda one: _with(one, optimizer=("AdamW", {"weight_decay": 2.0}))),
    "momentum of 0.999": ("momentum-dominates", lambda one: _with(one, optimizer=("SGD", {"lr": 0.01, "momentum": 0.999}))),
    "clipping to 1e-5": ("clipping-dominates", lambda one: _with(one, grad_clip=1e-5)),
    "head 50 times too large": ("first-loss-high", lambda one: _head(one, 50.0)),
    "rate of 0": (
        ("unchanged-weights", "loss-not-decreasing"),
        lambda one: _with(one, optimizer=("SGD", {"lr": 0.0}), epochs=8),
    ),
    "rate of 100": (
        ("divergence", "nan-loss", "nan-gradient"),
        lambda one: _with(one, optimizer=("SGD", {"lr": 100.0, "momentum": 0.9})),
    ),
    "rate far too large": (
        ("oscillation", "divergence", "update-ratio-high", "exploding-gradients", "nan-loss", "nan-gradient"),
        lambda one: _with(one, optimizer=("SGD", {"lr": 3.0, "momentum": 0.9})),
    ),
    "rate 300 times too large": (
        ("oscillation", "divergence", "update-ratio-high", "exploding-gradients"),
        lambda one: _with(one, optimizer=("Adam", {"lr": 1.0})),
    ),
    "rate 1000 times too small": (
        ("slow-progress", "loss-not-decreasing", "update-ratio-low"),
        lambda one: _with(one, optimizer=("SGD", {"lr": 1e-4}), epochs=20),
    ),
    "rate 100 times too small": (
        ("slow-progress", "loss-not-decreasing", "update-ratio-low"),
        lambda one: _with(one, optimizer=("Adam", {"lr": 3e-5}), epochs=20),
    ),
    "sigmoid before its loss": ("sigmoid-before-loss", lambda one: _after(_binary(one), nn.Sigmoid())),
    "-1 and 1 for a loss of 0 and 1": ("targets-out-of-range", lambda one: _binary(one, -1.0)),
    "outputs [N, 1], targets [N]": ("spread-targets", _spread),
    "one example is NaN": (("nan-loss", "not-finite"), _one_bad),
    "a class is not trained": ("class-not-trained", _without_last),
    "a constant column": ("constant-column", lambda one: _column(one, 3.0)),
    "every example is the same": (
        "constant-input",
        lambda one: one._replace(train=(one.train[0][:1].expand(640, WIDTH).clone(), one.train[1])),
    ),
    "only training is standardised": (
        "validation-scaled-otherwise",
        lambda one: one._replace(val=(one.val[0] * 4 + 1, one.val[1])),
    ),
    "dead units": ("dead-relu", lambda one: _spoilt(one, nn.ReLU(), lambda layer: layer.bias.fill_(-50.0))),
    "saturated units": ("saturated-activations", lambda one: _spoilt(one, nn.Tanh(), lambda layer: layer.weight.mul_(300.0))),
    "ten sigmoids": (
        ("vanishing-gradients", "saturated-activations"),
        lambda one: _behind(one, *(layer for _ in range(10) for layer in (nn.Sigmoid(), nn.Linear(16, 16)))),
    ),
    "layers of zeros": ("zero-weights", _zeros),
    "weight decay of 0.5 within the gradient": (
        "weight-decay-dominates",
        lambda one: _with(one, optimizer=("SGD", {"lr": 0.05, "momentum": 0.9, "weight_decay": 0.5})),
    ),
    "an explosion in ten steps": (
        ("divergence", "nan-loss", "nan-gradient", "update-ratio-high"),
        lambda one: _with(
            one._replace(train=(one.train[0][:320], one.train[1][:320])), epochs=1, optimizer=("SGD", {"lr": 300.0})
        ),
    ),
    "overfitting": (
        "overfitting",
        lambda one: _with(
            one._replace(train=(one.train[0][:32], torch.randint(CLASSES, (32,)))),
            epochs=40, optimizer=("Adam", {"lr": 3e-2}), batch_size=16,
        ),
    ),
}  # fmt: skip
"""By name: the kinds of findings that are right, and what puts the fault into a healthy setup.

What ends in NaN is found where that names it.
"""


def healthy(number: int) -> Setup:
    """One of the healthy setups: models, data, optimizers, schedules, noises and seeds in turn."""
    model, data = MODELS[number % len(MODELS)], DATA[number // len(MODELS) % len(DATA)]
    optimizer = OPTIMIZERS[number % len(OPTIMIZERS)]
    torch.manual_seed(number)
    noise = (0.3, 0.7, 1.0, 1.5)[number // (len(MODELS) * len(DATA)) % 4]
    options: dict[str, Any] = {"optimizer": optimizer, "batch_size": 32, "epochs": 5}
    schedule = SCHEDULES[number // 8 % len(SCHEDULES)]
    if not schedule:
        options["epochs"] = (5, 10, 15)[number % 3]
    for name, (kind, arguments) in schedule.items():
        # It begins at the optimizer's rate, or rises to it.
        arguments = {**arguments, "max_lr": optimizer[1]["lr"]} if kind == "OneCycleLR" else arguments
        options[name] = (kind, arguments)
    return Setup(model(), data(number, noise, 640), data(number + 10_000, noise, 192), options)


def findings(setup: Setup, part: str = "watched") -> list[str]:
    """The kinds of what is found in one training, in their order.

    Args:
        setup: What is trained.
        part: ``"watched"`` by an inspector, with a dashboard (``"default"``), or ``"alone"``.
    """
    engine = pn.TrainingEngine(setup.model, setup.train, setup.val, device="cpu", metrics=(), **setup.options)
    if part == "watched":
        inspector = pn.Inspector(engine.module)
        inspector.watch("*", what=("activations", "updates"))
        inspector.attach(engine, budget="50%", hz=1000)
    dashboard = pn.TrainingDashboard(engine) if part == "default" else None
    engine.start()
    with contextlib.suppress(pn.TrainingError):  # some faults end a training
        engine.wait(120)
    if dashboard is not None:
        dashboard.close()
    return [finding.kind for finding in pn.diagnose(engine)]


def _found(part: str, number: int) -> tuple[int, list[str]]:
    torch.set_num_threads(1)
    return number, findings(healthy(number), part)


def main(count: int, begin: int, only: str | None, *, write: bool, jobs: int) -> None:
    """Print recall, how often the first is right, and false alarms; or one of the three parts alone."""
    alarms, runs = Counter[str](), 0
    if only == "faults" or (only is None and begin == 0 and not write):
        faults()
    for part, what in PARTS.items():
        if only not in (None, part):
            continue
        accused: Counter[str] = Counter()
        wrong = 0
        with get_context("spawn").Pool(jobs) as pool:
            results = pool.starmap(_found, [(part, number) for number in range(begin, begin + count)], chunksize=5)
        for number, kinds in results:
            if kinds:
                print(f"accused: number {number} of {kinds}", flush=True)
            wrong += bool(kinds)
            accused.update(kinds)
        alarms, runs = alarms + accused, runs + count
        print(f"{what}: {wrong} of {count} healthy runs accused: {dict(accused)}", flush=True)
    if write:
        today = dt.datetime.now(dt.UTC).date().isoformat()
        rows = {kind: alarms[kind] for kind in KINDS}
        kept = {"measured": today, "torch": torch.__version__, "healthy": runs, "false_alarms": rows}
        MEASURED.write_text(json.dumps(kept, indent=2) + "\n", encoding="utf-8")


def faults() -> None:
    """Put every fault into every model."""
    found: Counter[str] = Counter()
    first: Counter[str] = Counter()
    asked: Counter[str] = Counter()
    for (name, (kind, put)), number in itertools.product(FAULTS.items(), range(len(MODELS))):
        kinds = findings(put(healthy(number + 4)))
        asked[name] += 1
        right = {kind} if isinstance(kind, str) else set(kind)
        found[name] += not right.isdisjoint(kinds)
        first[name] += kinds[0] in right if kinds else 0
        if not kinds or kinds[0] not in right:
            said = "not named first" if not right.isdisjoint(kinds) else "missed"
            print(f"{said}: {name} in {MODELS[number].__name__}; found {kinds}", flush=True)
    for name, total in asked.items():
        print(f"{name:>30}: found {found[name]} of {total}, named first {first[name]}")
    print(
        f"recall averaged over kinds {sum(found[name] / total for name, total in asked.items()) / len(asked):.0%}, named "
        f"first {sum(first.values()) / sum(asked.values()):.0%}",
        flush=True,
    )


if __name__ == "__main__":
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    asked.add_argument("healthy", nargs="?", type=int, default=300, help="number of healthy runs")
    asked.add_argument("first", nargs="?", type=int, default=0, help="number of the first healthy run")
    asked.add_argument("--only", choices=("faults", *PARTS), help="one part alone")
    asked.add_argument("--write", action="store_true", help="keep the counts of false alarms where findings quote them")
    asked.add_argument("--jobs", type=int, default=2, help="number of processes for the healthy runs")
    given = asked.parse_args()
    if given.write and (given.only is not None or given.first):
        asked.error("--write needs all kinds of healthy runs, from the first on")
    torch.set_num_threads(1)
    main(given.healthy, given.first, given.only, write=given.write, jobs=given.jobs)
