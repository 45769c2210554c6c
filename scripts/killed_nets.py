"""Kills nets in many ways within 200 steps, and measures what the engine alone says about it.

``python scripts/killed_nets.py [--only WORDS]``. No dashboard and no inspector watches. A way counts as told if a right kind
is announced (`engine.on("anomaly", ...)`) before the training ends, and as named if the first of `pn.diagnose(engine)` is of
a right kind. Advice is opposite if the findings advise to raise the learning rate where it is too high, to lower it where it
is too low, or both at once.
"""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Callable
from typing import Any, Final, Literal, NamedTuple

import torch
from sklearn.datasets import load_diabetes, load_digits, load_wine
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import pnne_nb as pn
from pnne_nb.diagnosis.finding import is_finding

STEPS: Final = 200
Rate = Literal["high", "low", "right"]


class Way(NamedTuple):
    """One way to kill a net.

    Attributes:
        kinds: Kinds of findings that name the cause.
        engine: Makes the training.
        rate: Whether the learning rate is what is wrong.
    """

    kinds: tuple[str, ...]
    engine: Callable[[], pn.TrainingEngine]
    rate: Rate = "right"


def digits(*, scaled: bool = True) -> tuple[Tensor, Tensor]:
    """Pictures of digits `[1797, 64]`, standardised if `scaled`, and their classes, in an order of their own."""
    x, y = load_digits(return_X_y=True)
    order = torch.randperm(len(y), generator=torch.Generator().manual_seed(1))
    pictures = torch.tensor(x, dtype=torch.float32)[order]
    return (pictures - 4.88) / 6.02 if scaled else pictures, torch.tensor(y)[order]


def diabetes() -> tuple[Tensor, Tensor]:
    """Measurements `[442, 10]`, standardised, and a quantity `[442, 1]` from 25 to 346."""
    x, y = load_diabetes(return_X_y=True)
    return torch.tensor(x * 21, dtype=torch.float32), torch.tensor(y, dtype=torch.float32)[:, None]


def scaled() -> tuple[Tensor, Tensor]:
    """The same with a quantity of mean 0 and deviation 1."""
    x, y = diabetes()
    return x, (y - 152) / 77


def wine() -> tuple[Tensor, Tensor]:
    """Measurements `[178, 13]` as they are, and one of three classes."""
    x, y = load_wine(return_X_y=True)
    return torch.tensor(x, dtype=torch.float32), torch.tensor(y)


def split(data: tuple[Tensor, Tensor], count: int) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """The first `count` examples, and the others."""
    x, y = data
    return (x[:count], y[:count]), (x[count:], y[count:])


def mlp(
    inputs: int = 64, outputs: int = 10, activation: Callable[[], nn.Module] = nn.ReLU, depth: int = 2
) -> nn.Sequential:
    """Hidden layers of 48 units."""
    layers: list[nn.Module] = []
    for index in range(depth):
        layers += [nn.Linear(48 if index else inputs, 48), activation()]
    return nn.Sequential(*layers, nn.Linear(48, outputs))


def cnn(outputs: int = 10) -> nn.Sequential:
    """Two convolutions over pictures of 8 x 8."""
    return nn.Sequential(
        nn.Unflatten(1, (1, 8, 8)), nn.Conv2d(1, 12, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(12, 24, 3, padding=1), nn.BatchNorm2d(24), nn.ReLU(), nn.Flatten(), nn.Linear(384, outputs),
    )  # fmt: skip


def dead_cnn() -> nn.Sequential:
    """One convolution."""
    return nn.Sequential(
        nn.Unflatten(1, (1, 8, 8)),
        nn.Conv2d(1, 12, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(192, 10),
    )


def large_head() -> nn.Sequential:
    """A network whose scores begin a hundred times too large."""
    return nn.Sequential(*list(mlp())[:-1], with_weights(nn.Linear(48, 10), lambda part: part.mul_(100.0)))


class Attending(nn.Module):
    """A transformer layer over the eight rows of a picture."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Linear(8, 32)
        self.place = nn.Parameter(0.1 * torch.randn(8, 32))
        self.layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True)
        self.head = nn.Linear(32, 10)

    def forward(self, x: Tensor) -> Tensor:
        """`[N, 64]` to `[N, 10]`."""
        scores: Tensor = self.head(self.layer(self.embed(x.unflatten(1, (8, 8))) + self.place).mean(1))
        return scores


class Detached(nn.Module):
    """A head on features that no gradient reaches."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(nn.Linear(64, 48), nn.ReLU())
        self.head = nn.Linear(48, 10)

    def forward(self, x: Tensor) -> Tensor:
        """`[N, 64]` to `[N, 10]`."""
        scores: Tensor = self.head(self.features(x).detach())
        return scores


class Judging(nn.Module):
    """Batch norm that the forward pass puts into eval mode, with statistics of other data."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(nn.Linear(64, 48), nn.BatchNorm1d(48), nn.ReLU())
        self.head = nn.Linear(48, 10)
        norm = self.features[1]
        assert isinstance(norm, nn.BatchNorm1d)
        assert norm.running_var is not None
        norm.running_var.fill_(1e6)

    def forward(self, x: Tensor) -> Tensor:
        """`[N, 64]` to `[N, 10]`."""
        self.eval()
        scores: Tensor = self.head(self.features(x))
        return scores


def train(
    net: nn.Module,
    data: Any = None,
    val: Any = None,
    optimizer: Any = ("SGD", {"lr": 0.05, "momentum": 0.9}),
    **options: Any,
) -> pn.TrainingEngine:
    """The engine of about `STEPS` steps."""
    data = digits() if data is None else data
    size = options.pop("batch_size", 32)
    batches = len(data) if isinstance(data, DataLoader) else -(-len(data[0]) // size)
    if not isinstance(data, DataLoader):
        options["batch_size"] = size
    epochs = max(1, round(STEPS / batches))
    return pn.TrainingEngine(net, data, val, optimizer=optimizer, epochs=epochs, device="cpu", **options)


def with_weights(net: nn.Module, spoil: Callable[[Tensor], object], *, biases: bool = False) -> nn.Module:
    """The net, with each weight or bias changed."""
    with torch.no_grad():
        for layer in net.modules():
            part = getattr(layer, "bias" if biases else "weight", None)
            if isinstance(part, Tensor) and (biases or part.dim() > 1):
                spoil(part)
    return net


def frozen_norm() -> nn.Module:
    """A network whose batch norm does not train, and goes on counting."""
    net = cnn()
    for parameter in net[5].parameters():
        parameter.requires_grad_(False)
    return net


def shuffled() -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """Digits with the labels of other digits, in training and validation."""
    x, y = digits()
    return split((x, y[torch.randperm(len(y), generator=torch.Generator().manual_seed(5))]), 1400)


def sorted_loader() -> DataLoader[Any]:
    """A loader that gives class after class."""
    x, y = digits()
    order = y.argsort()
    return DataLoader(TensorDataset(x[order], y[order]), batch_size=32)


def one_nan() -> tuple[Tensor, Tensor]:
    """Digits of which one has a hole."""
    x, y = digits()
    x[700, 3] = torch.nan
    return x, y


def few() -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """A few digits, a third of them with the class of another one, and many to validate on."""
    (x, y), (x_val, y_val) = split(digits(), 48)
    y = y.clone()
    y[:16] = y[:16].roll(1)
    return (x, y), (x_val[:400], y_val[:400])


_HIGH = (
    "divergence",
    "oscillation",
    "update-ratio-high",
    "exploding-gradients",
    "nan-loss",
    "nan-gradient",
    "rate-too-high",
)
_LOW = ("slow-progress", "loss-not-decreasing", "update-ratio-low")
_SMALL = ("small-weights", "vanishing-gradients")
_TARGETS = ("targets-not-scaled",)

WAYS: Final[dict[str, Way]] = {
    "SGD at 3": Way(_HIGH, lambda: train(mlp(), optimizer=("SGD", {"lr": 3.0})), "high"),
    "SGD at 10, convolutions": Way(_HIGH, lambda: train(cnn(), optimizer=("SGD", {"lr": 10.0})), "high"),
    "SGD at 30": Way(_HIGH, lambda: train(mlp(), optimizer=("SGD", {"lr": 30.0})), "high"),
    "SGD at 100": Way(_HIGH, lambda: train(mlp(), optimizer=("SGD", {"lr": 100.0})), "high"),
    "momentum at 3, tanh": Way(
        _HIGH, lambda: train(mlp(activation=nn.Tanh), optimizer=("SGD", {"lr": 3.0, "momentum": 0.9})), "high"
    ),
    "Adam at 1": Way(_HIGH, lambda: train(mlp(), optimizer=("Adam", {"lr": 1.0})), "high"),
    "Adam at 1, convolutions": Way(_HIGH, lambda: train(cnn(), optimizer=("Adam", {"lr": 1.0})), "high"),
    "AdamW at 0.3, transformer": Way(_HIGH, lambda: train(Attending(), optimizer=("AdamW", {"lr": 0.3})), "high"),
    "RMSprop at 1": Way(_HIGH, lambda: train(mlp(), optimizer=("RMSprop", {"lr": 1.0})), "high"),
    "regression at 1": Way(
        _HIGH,
        lambda: train(mlp(10, 1), scaled(), optimizer=("SGD", {"lr": 1.0, "momentum": 0.9}), batch_size=16),
        "high",
    ),
    "SGD at 1e-6": Way(_LOW, lambda: train(mlp(), optimizer=("SGD", {"lr": 1e-6})), "low"),
    "Adam at 1e-7": Way(_LOW, lambda: train(cnn(), optimizer=("Adam", {"lr": 1e-7})), "low"),
    "a rate of 0": Way(("unchanged-weights", *_LOW), lambda: train(mlp(), optimizer=("SGD", {"lr": 0.0})), "low"),
    "a schedule that ends at once": Way(
        ("rate-decayed",),
        lambda: train(mlp(), optimizer=("SGD", {"lr": 0.01}), scheduler=("ExponentialLR", {"gamma": 0.5}, "step")),
        "low",
    ),
    "momentum of 0.999": Way(("momentum-dominates",), lambda: train(mlp(), optimizer=("SGD", {"lr": 0.05, "momentum": 0.999}))),
    "weight decay of 3": Way(("weight-decay-dominates",), lambda: train(mlp(), optimizer=("AdamW", {"weight_decay": 3.0}))),
    "clipping to 1e-6": Way(("clipping-dominates",), lambda: train(mlp(), grad_clip=1e-6)),
    "biases of -10": Way(("dead-relu",), lambda: train(with_weights(mlp(), lambda part: part.fill_(-10.0), biases=True))),
    "biases of -10, convolutions": Way(
        ("dead-relu",), lambda: train(with_weights(dead_cnn(), lambda part: part.fill_(-10.0), biases=True))
    ),
    "weights a 10,000th": Way(_SMALL, lambda: train(with_weights(mlp(depth=3), lambda part: part.mul_(1e-4)))),
    "weights of 1e-6, Adam": Way(
        _SMALL, lambda: train(with_weights(mlp(depth=4), lambda part: part.mul_(1e-6)), optimizer=("Adam", {"lr": 1e-4}))
    ),
    "weights of 0": Way(("zero-weights",), lambda: train(with_weights(mlp(), lambda part: part.zero_()))),
    "weights all equal": Way(("equal-units",), lambda: train(with_weights(mlp(), lambda part: part.fill_(0.05)))),
    "weights times 100, tanh": Way(
        ("saturated-activations", "first-loss-high"),
        lambda: train(with_weights(mlp(activation=nn.Tanh, depth=4), lambda part: part.mul_(100.0))),
    ),
    "head times 100": Way(("first-loss-high",), lambda: train(large_head(), optimizer=("Adam", {"lr": 1e-3}))),
    "twelve sigmoids": Way(("vanishing-gradients", "saturated-activations"), lambda: train(mlp(activation=nn.Sigmoid, depth=12))),
    "dropout of 0.95": Way(
        ("dropout-dominates",),
        lambda: train(mlp(activation=lambda: nn.Sequential(nn.ReLU(), nn.Dropout(0.95)))),
    ),
    "features detached": Way(("no-gradient",), lambda: train(Detached())),
    "batch norm judged by other data": Way(("batch-norm-in-eval",), lambda: train(Judging())),
    "batches of 2 under batch norm": Way(("tiny-batch-norm",), lambda: train(cnn(), split(digits(), 400)[0], batch_size=2)),
    "a frozen batch norm that counts on": Way(("frozen-norm-moves",), lambda: train(frozen_norm())),
    "softmax before its loss": Way(("softmax-before-loss",), lambda: train(mlp().append(nn.Softmax(1)))),
    "softmax over the batch": Way(("softmax-before-loss",), lambda: train(mlp().append(nn.Softmax(0)))),
    "ReLU behind the scores": Way(("relu-before-loss",), lambda: train(mlp().append(nn.ReLU()))),
    "MSE on class numbers": Way(
        ("classes-under-distance",), lambda: train(mlp(outputs=1), (digits()[0], digits()[1].float()[:, None]), loss="MSELoss")
    ),
    "(N, 1) against (N,)": Way(
        ("spread-targets",), lambda: train(mlp(10, 1), (scaled()[0], scaled()[1][:, 0]), loss="MSELoss", batch_size=16)
    ),
    "-1 and 1 for a loss of 0 and 1": Way(
        ("targets-out-of-range",),
        lambda: train(mlp(outputs=1), (digits()[0], (digits()[1] % 2 * 2.0 - 1)[:, None]), loss="BCEWithLogitsLoss"),
    ),
    "targets from 25 to 346": Way(
        _TARGETS, lambda: train(mlp(10, 1), diabetes(), optimizer=("AdamW", {"lr": 1e-3}), batch_size=16)
    ),
    "targets from 25 to 346, SGD": Way(
        _TARGETS, lambda: train(mlp(10, 1), diabetes(), optimizer=("SGD", {"lr": 1e-7}), batch_size=16), "low"
    ),
    "inputs as they are": Way(
        ("large-input",), lambda: train(mlp(13, 3), wine(), optimizer=("SGD", {"lr": 0.01}), batch_size=16)
    ),
    "inputs of a millionth": Way(
        ("small-input",), lambda: train(mlp(), (digits()[0] * 1e-6, digits()[1]), optimizer=("SGD", {"lr": 0.05}))
    ),
    "shuffled labels": Way(("at-chance",), lambda: train(mlp(), *shuffled(), optimizer=("Adam", {"lr": 5e-3}))),
    "a loader sorted by class": Way(("sorted-batches",), lambda: train(mlp(), sorted_loader())),
    "one NaN": Way(("nan-loss", "bad-example", "not-finite"), lambda: train(mlp(), one_nan())),
    "48 digits, a third of them wrong": Way(
        ("overfitting",), lambda: train(mlp(), *few(), optimizer=("Adam", {"lr": 1e-2}), batch_size=8)
    ),
    "always the same input": Way(
        ("constant-input",), lambda: train(mlp(), (digits()[0][:1].expand(640, 64).clone(), digits()[1][:640]))
    ),
    "always the same target": Way(("constant-target",), lambda: train(mlp(), (digits()[0], torch.full((1797,), 3)))),
    "validation as the file has it": Way(
        ("validation-scaled-otherwise",),
        lambda: train(mlp(), split(digits(), 1400)[0], split(digits(scaled=False), 1400)[1]),
    ),
}  # fmt: skip


def killed(way: Way) -> tuple[list[str], list[str], list[str], str]:
    """Train once; returns the kinds told while it trained, those listed afterwards, the hints, and the state."""
    torch.manual_seed(0)
    told: list[str] = []
    engine = way.engine()
    engine.on("anomaly", lambda frame: told.append(frame.kind) if is_finding(frame.kind) else None)
    engine.start()
    with contextlib.suppress(pn.TrainingError):  # what ends in NaN ends in an error
        engine.wait(120)
    listed = pn.diagnose(engine)
    return told, [found.kind for found in listed], [found.hint for found in listed], engine.state


def opposite(hints: list[str], rate: Rate) -> bool:
    """Whether the hints advise the opposite of what helps, or of each other."""
    words = " ".join(hints).lower()
    up = "raise the learning rate" in words or "larger learning rate" in words
    down = "lower the learning rate" in words or "smaller learning rate" in words
    return (up and down) or (up and rate == "high") or (down and rate == "low")


def main(only: str) -> None:
    """Print one line for each way, and the counts."""
    asked = {name: way for name, way in WAYS.items() if only in name}
    told = first = wrong = 0
    for name, way in asked.items():
        heard, listed, hints, state = killed(way)
        is_told, is_first = not set(way.kinds).isdisjoint(heard), bool(listed) and listed[0] in way.kinds
        is_opposite = opposite(hints, way.rate)
        told, first, wrong = told + is_told, first + is_first, wrong + is_opposite
        marks = f"{'told' if is_told else 'MISSED':>6} {'first' if is_first else 'LATER':>5}{' OPPOSITE' * is_opposite}"
        print(f"{name:>38}: {marks} {state} {listed}", flush=True)
    print(
        f"{len(asked)} ways: told {told}, first cause right {first} ({first / max(1, len(asked)):.0%}), opposite advice {wrong}"
    )


if __name__ == "__main__":
    given = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    given.add_argument("--only", default="", help="ways whose names hold these words")
    torch.set_num_threads(1)
    main(given.parse_args().only)
