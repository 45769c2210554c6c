"""Rules on real small trainings: quiet on healthy ones, right on broken ones; and each rule by itself."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from pnne_nb.diagnosis.finding import rank
from pnne_nb.diagnosis.judge import diagnose
from pnne_nb.diagnosis.rules import (
    RULES,
    AtChance,
    DeadReLU,
    Divergence,
    EqualUnits,
    ExplodingGradients,
    LossNotDecreasing,
    NoGradient,
    NotFinite,
    Oscillation,
    Overfitting,
    RateDecayed,
    SaturatedActivations,
    SlowProgress,
    SmallWeights,
    TargetsNotScaled,
    UpdateRatio,
    VanishingGradients,
    ZeroWeights,
)
from pnne_nb.errors import ArgumentError, PnneError
from pnne_nb.inspector.capture.live import LiveProbe
from pnne_nb.inspector.engine_probe import DiagnosingProbe
from pnne_nb.inspector.inspector import Inspector
from pnne_nb.inspector.statistics.patterns import leaf_layers
from pnne_nb.telemetry.frames import AnomalyFrame, EpochFrame, Frame, NormsFrame, StatisticsFrame, StepFrame
from tests.runtime.tasks import engine

STEPS = 80


@dataclass
class Setup:
    """A small training: a model, its data, and how it learns."""

    net: nn.Module
    x: Tensor
    y: Tensor
    loss: Callable[[Tensor, Tensor], Tensor]
    optimizer: Callable[[Any], torch.optim.Optimizer]
    epoch: int = 4
    x_val: Tensor | None = None
    y_val: Tensor | None = None
    steps: int = STEPS


def train(setup: Setup) -> list[Frame]:
    """Train in batches of 32, observe every step with every quantity, validate every `epoch` steps.

    Among the frames are the anomalies that are told while it trains.
    """
    net = setup.net
    probe = DiagnosingProbe(LiveProbe(net, dict.fromkeys(leaf_layers(net), ("activations", "parameters", "updates"))))
    trained = [parameter for parameter in net.parameters() if parameter.requires_grad]
    optimizer = setup.optimizer(trained)
    frames: list[Frame] = []
    losses: list[float] = []
    for step in range(1, setup.steps + 1):
        chosen = torch.randperm(len(setup.x))[:32]
        probe.open(step)
        try:
            optimizer.zero_grad()
            loss = setup.loss(net(setup.x[chosen]), setup.y[chosen])
            torch.autograd.backward(loss)
            probe.gradients_ready()
            optimizer.step()
            probe.updated()
        finally:
            frames += probe.close()
        losses.append(loss.item())
        told = StepFrame(step, 1, loss.item(), 0.0, 32, 0.0)
        frames.append(told)
        probe.hear(told)
        if step % setup.epoch == 0 and setup.x_val is not None and setup.y_val is not None:
            with torch.no_grad():
                val = setup.loss(net(setup.x_val), setup.y_val).item()
            epoch = EpochFrame(step // setup.epoch, step, {"train_loss": sum(losses[-4:]) / 4, "val_loss": val})
            frames.append(epoch)
            probe.hear(epoch)
    return frames


def adam(lr: float = 3e-3) -> Callable[[Any], torch.optim.Optimizer]:
    return lambda parameters: torch.optim.Adam(parameters, lr=lr)


def sgd(lr: float) -> Callable[[Any], torch.optim.Optimizer]:
    return lambda parameters: torch.optim.SGD(parameters, lr=lr, momentum=0.9)


def classes(n: int = 256, features: int = 10) -> tuple[Tensor, Tensor]:
    """Three blobs."""
    y = torch.arange(n) % 3
    return torch.randn(n, features) + 1.5 * torch.randn(3, features)[y], y


def images(n: int = 128) -> tuple[Tensor, Tensor]:
    """Noise with a bright half: left or right."""
    y = torch.arange(n) % 2
    x = 0.5 * torch.randn(n, 1, 8, 8)
    x[y == 0, :, :, :4] += 1
    x[y == 1, :, :, 4:] += 1
    return x, y


def stack(
    depth: int, width: int, activation: Callable[[], nn.Module], inputs: int = 10, outputs: int = 3
) -> nn.Sequential:
    layers: list[nn.Module] = []
    for index in range(depth):
        layers += [nn.Linear(width if index else inputs, width), activation()]
    return nn.Sequential(*layers, nn.Linear(width, outputs))


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.GRU(2, 16, batch_first=True)
        self.head = nn.Linear(16, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.rnn(x)[0][:, -1])  # type: ignore[no-any-return]  # torch types the call of a module as Any


class Attending(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Linear(2, 16)
        self.encoder = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.1, batch_first=True)
        self.head = nn.Linear(16, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.encoder(self.embed(x)).mean(1))  # type: ignore[no-any-return]  # torch types the call of a module as Any


def sequences() -> tuple[Tensor, Tensor]:
    x = torch.randn(128, 6, 2)
    return x, (x[:, :, 0].sum(1) > 0).long()


def cnn() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.AdaptiveAvgPool2d(1),
        nn.Flatten(), nn.Linear(16, 2),
    )  # fmt: skip


def regression() -> Setup:
    x = torch.randn(256, 10)
    return Setup(stack(2, 32, nn.Tanh, outputs=1), x, x[:, :1].sin() + x[:, 1:2], nn.MSELoss(), sgd(0.02))


def autoencoder() -> Setup:
    x = torch.rand(256, 3) @ torch.rand(3, 10) / 3
    net = nn.Sequential(nn.Linear(10, 16), nn.ELU(), nn.Linear(16, 10), nn.Sigmoid())
    return Setup(net, x, x, nn.MSELoss(), adam(1e-2))


def validated() -> Setup:
    x, y = classes(512)
    return Setup(
        stack(2, 32, nn.ReLU), x[:256], y[:256], nn.CrossEntropyLoss(), adam(1e-3), x_val=x[256:], y_val=y[256:]
    )


def fine_tuning() -> Setup:
    net = stack(2, 32, nn.ReLU)
    net[0].requires_grad_(False)
    return Setup(net, *classes(), nn.CrossEntropyLoss(), adam())


HEALTHY: dict[str, Callable[[], Setup]] = {
    "mlp with Adam": lambda: Setup(stack(2, 32, nn.ReLU), *classes(), nn.CrossEntropyLoss(), adam()),
    "mlp with SGD": lambda: Setup(stack(2, 32, nn.ReLU), *classes(), nn.CrossEntropyLoss(), sgd(0.02)),
    "cnn with normalisation": lambda: Setup(cnn(), *images(), nn.CrossEntropyLoss(), adam()),
    "tanh regression": regression,
    "sigmoid output": autoencoder,
    "gru": lambda: Setup(Recurrent(), *sequences(), nn.CrossEntropyLoss(), adam(1e-2)),
    "transformer": lambda: Setup(Attending(), *sequences(), nn.CrossEntropyLoss(), adam()),
    "validated": validated,
    "learnt at once": lambda: Setup(
        nn.Sequential(nn.Linear(10, 3)), *classes(), nn.CrossEntropyLoss(), lambda p: torch.optim.SGD(p, lr=5.0)
    ),
    "frozen stem": fine_tuning,
}


def initialised(net: nn.Sequential, change: Callable[[nn.Linear], object]) -> nn.Sequential:
    with torch.no_grad():
        for module in net:
            if isinstance(module, nn.Linear):
                change(module)
    return net


def dead() -> Setup:
    net = stack(2, 32, nn.ReLU)
    with torch.no_grad():
        net[2].bias.sub_(50)  # type: ignore[operator]  # a part of a Sequential is typed as any module
    return Setup(net, *classes(), nn.CrossEntropyLoss(), adam())


def exploding() -> Setup:
    net = initialised(stack(6, 32, nn.ReLU), lambda layer: layer.weight.mul_(8))
    return Setup(net, *classes(), nn.CrossEntropyLoss(), sgd(1e-9))


def saturated() -> Setup:
    x, y = classes()
    return Setup(stack(2, 32, nn.Tanh), 200 * x, y, nn.CrossEntropyLoss(), adam())


class Logarithm(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.log()


def logarithm() -> Setup:
    net = nn.Sequential(nn.Linear(10, 8), Logarithm(), nn.Linear(8, 3))
    return Setup(net, *classes(), nn.CrossEntropyLoss(), adam())


def overfitting() -> Setup:
    x, y = classes(32, features=40)
    return Setup(
        stack(2, 128, nn.ReLU, inputs=40), x, y, nn.CrossEntropyLoss(), adam(1e-2),
        x_val=torch.randn(64, 40), y_val=torch.arange(64) % 3,
    )  # fmt: skip


def forgotten() -> Setup:
    net = stack(2, 32, nn.ReLU)
    kept = {id(parameter) for parameter in net[0].parameters()}
    return Setup(
        net, *classes(), nn.CrossEntropyLoss(),
        lambda parameters: torch.optim.Adam([p for p in parameters if id(p) not in kept], lr=3e-3),
    )  # fmt: skip


def zeros() -> Setup:
    net = initialised(stack(2, 32, nn.ReLU), lambda layer: (layer.weight.zero_(), layer.bias.zero_()))
    return Setup(net, *classes(), nn.CrossEntropyLoss(), adam())


def slow() -> Setup:
    x, _ = classes(32)
    weight = torch.randn(10, 1)
    return Setup(
        nn.Linear(10, 1),
        x,
        x @ weight,
        nn.MSELoss(),
        lambda parameters: torch.optim.SGD(parameters, lr=3e-6),
        steps=300,
    )


def shuffled() -> Setup:
    x, _ = classes()
    return Setup(stack(1, 4, nn.ReLU), x, torch.randint(0, 3, (256,)), nn.CrossEntropyLoss(), sgd(1e-4), steps=160)


def diverging() -> Setup:
    x = torch.randn(256, 10)
    return Setup(nn.Sequential(nn.Linear(10, 1)), x, x[:, :1], nn.MSELoss(), sgd(0.6), steps=40)


def overshooting() -> Setup:
    """One weight whose gradient is 1 on either side of the optimum: it swings about it, and no rounding error grows."""
    net = nn.Linear(1, 1, bias=False)
    nn.init.ones_(net.weight)
    x = torch.ones(64, 1)
    return Setup(net, x, torch.zeros(64, 1), nn.L1Loss(), sgd(2.0))


BROKEN: dict[str, tuple[Callable[[], Setup], str, str | None]] = {
    "dead relu": (dead, "dead-relu", "3"),
    "exploding": (exploding, "exploding-gradients", "*"),
    "vanishing": (
        lambda: Setup(stack(14, 16, nn.Sigmoid), *classes(), nn.CrossEntropyLoss(), sgd(1e-3)),
        "vanishing-gradients",
        "0",
    ),
    "saturated": (saturated, "saturated-activations", "1"),
    "logarithm of negatives": (logarithm, "not-finite", "1"),
    "overfitting": (overfitting, "overfitting", None),
    "layer not in the optimizer": (forgotten, "unchanged-weights", "0"),
    "learning rate 0": (
        lambda: Setup(stack(2, 32, nn.ReLU), *classes(), nn.CrossEntropyLoss(), sgd(0.0)),
        "unchanged-weights",
        "0",
    ),
    "learning rate too small": (
        lambda: Setup(stack(2, 32, nn.ReLU), *classes(), nn.CrossEntropyLoss(), sgd(1e-8)),
        "update-ratio-low",
        "*",
    ),
    "learning rate too large": (
        lambda: Setup(stack(2, 32, nn.ReLU), *classes(), nn.CrossEntropyLoss(), adam(1.0), steps=10),
        "update-ratio-high",
        "*",
    ),
    "learning rate 300": (
        lambda: Setup(stack(2, 32, nn.ReLU), *classes(), nn.CrossEntropyLoss(), sgd(300.0)),
        "not-finite",
        "*",
    ),
    "learning rate 300, normalised": (
        lambda: Setup(cnn(), *images(), nn.CrossEntropyLoss(), sgd(300.0), steps=10),
        "exploding-gradients",
        "*",
    ),
    "learning rate 300, gated": (
        lambda: Setup(Recurrent(), *sequences(), nn.CrossEntropyLoss(), sgd(300.0), steps=40),
        "divergence",
        None,
    ),
    "learning rate too large, oscillating": (overshooting, "oscillation", None),
    "learning rate too small, but not for ever": (slow, "slow-progress", None),
    "all weights 0": (zeros, "zero-weights", "0"),
    "targets without relation": (shuffled, "loss-not-decreasing", None),
    "diverging": (diverging, "divergence", None),
}


def anomalies(frames: list[Frame]) -> list[AnomalyFrame]:
    return [frame for frame in frames if isinstance(frame, AnomalyFrame)]


@pytest.mark.parametrize("name", HEALTHY)
def test_healthy_trainings_are_left_alone(name: str) -> None:
    torch.manual_seed(0)
    setup = HEALTHY[name]()
    frames = train(setup)
    assert diagnose(setup.net, frames) == []
    assert anomalies(frames) == [], "told while it trained"


@pytest.mark.parametrize("name", BROKEN)
def test_broken_trainings_are_found(name: str) -> None:
    torch.manual_seed(0)
    make, kind, layer = BROKEN[name]
    setup = make()
    frames = train(setup)
    found = diagnose(setup.net, frames)
    match = [finding for finding in found if finding.kind == kind]
    assert match, found
    assert layer == "*" or match[0].layer == layer
    assert match[0].reason
    assert match[0].hint
    assert kind in {frame.kind for frame in anomalies(frames)}, "told while it trained"


def test_there_is_a_broken_training_for_every_rule() -> None:
    rules = (
        DeadReLU, ExplodingGradients, VanishingGradients, SaturatedActivations, NotFinite, Overfitting, UpdateRatio,
        ZeroWeights, LossNotDecreasing, Divergence, Oscillation, SlowProgress,
    )  # fmt: skip
    elsewhere = {
        AtChance,
        EqualUnits,
        NoGradient,
        RateDecayed,
        SmallWeights,
        TargetsNotScaled,
    }  # in test_level_rules.py
    assert {type(rule) for rule in RULES} == set(rules) | elsewhere
    assert len(HEALTHY) >= 5
    assert len(BROKEN) >= 10


def test_thresholds_can_be_set() -> None:
    net = nn.Sequential(nn.Linear(2, 2))
    frames = [NormsFrame(1, {"0": 50.0}, 50.0)]
    assert diagnose(net, frames) == []
    [finding] = diagnose(net, frames, [ExplodingGradients(limit=10)])
    assert finding.told == (
        "0: The norm of its gradient is 50, above 10. Clip gradients, lower the learning rate, scale the data, or"
        " initialise with smaller weights."
    )
    frame = finding.frame(7)
    assert (frame.step, frame.kind, frame.node, frame.hint) == (7, "exploding-gradients", "0", finding.hint)


def test_small_gradients_at_the_end_of_learning_are_natural() -> None:
    net = nn.Sequential(nn.Linear(2, 2))
    norms: list[Frame] = [NormsFrame(1, {"0": 1e-9}, 1e-9)]
    losses: list[Frame] = [
        StepFrame(step, 1, loss, 0.1, 1, 0.0) for step, loss in enumerate([1.0, 0.5, 1e-6, 1e-6, 1e-6])
    ]
    assert [finding.kind for finding in diagnose(net, norms)] == ["vanishing-gradients"]
    assert diagnose(net, [*norms, *losses]) == []


def test_what_is_learnt_in_the_first_steps_neither_vanishes_nor_diverges() -> None:
    net = nn.Sequential(nn.Linear(2, 2))
    norms: list[Frame] = [NormsFrame(1, {"0": 1e-9}, 1e-9)]
    losses: list[Frame] = [
        StepFrame(step, 1, loss, 0.1, 8, 0.0) for step, loss in enumerate([1.4, 20.0, *[1e-9] * 40, *[1e-6] * 10], 1)
    ]
    assert diagnose(net, norms + losses, [VanishingGradients(), Divergence()]) == []


def test_one_look_at_a_converged_model_finds_no_vanishing_gradients() -> None:
    torch.manual_seed(0)
    x = torch.randn(64, 4)
    y = (x[:, 0] > 0).long()
    net = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
    optimizer = torch.optim.Adam(net.parameters(), 0.1)
    for _ in range(600):
        optimizer.zero_grad()
        torch.autograd.backward(nn.functional.cross_entropy(net(x), y))
        optimizer.step()
    optimizer.zero_grad()
    for factor in (1.0, 2.0, 4.0):  # ever surer, down to a loss of 0
        with torch.no_grad():
            net[2].get_parameter("weight").mul_(factor)
        inspector = Inspector(net)
        assert inspector.run_inspection(x, y, nn.functional.cross_entropy).loss < 1e-3  # type: ignore[operator]  # there is a loss
        assert inspector.diagnose() == []


def test_one_look_at_a_deep_net_of_sigmoids_finds_them() -> None:
    torch.manual_seed(0)
    layers = [layer for _ in range(12) for layer in (nn.Linear(5, 5), nn.Sigmoid())]
    inspector = Inspector(nn.Sequential(*layers, nn.Linear(5, 2)))
    inspector.run_inspection(torch.randn(8, 5), torch.arange(8) % 2, nn.functional.cross_entropy)
    assert [finding.kind for finding in inspector.diagnose()] == ["vanishing-gradients"]


def test_a_loss_that_is_not_finite_by_itself_is_named_not_the_gradients_behind_it() -> None:
    inspector = Inspector(nn.Sequential(nn.Linear(4, 5), nn.Linear(5, 2)))
    inspector.watch("*", what=("activations", "gradients"))
    inspector.run_inspection(torch.randn(3, 4), loss_fn=lambda output: torch.log(output * 0).sum())
    [finding] = inspector.diagnose()
    assert finding.layer is None
    assert finding.reason.startswith("The loss is NaN or infinite, while the outputs of the watched layers are finite")


def test_updates_that_a_schedule_has_made_small_are_meant() -> None:
    net = nn.Sequential(nn.Linear(2, 2))

    def kinds(rates: list[float]) -> list[str]:
        frames: list[Frame] = []
        for step, rate in enumerate(rates, 1):
            frames.append(StepFrame(step, 1, 1.0, rate, 8, 0.0))
            frames.append(StatisticsFrame(step, "0", "updates", {"ratio": 1e-3 * rate}))
        return [finding.kind for finding in diagnose(net, frames, [UpdateRatio()])]

    assert kinds([1.0] * 10) == []
    assert kinds([1.0, *[1e-6] * 10]) == []
    assert kinds([1.0, *[0.0] * 10]) == []
    assert kinds([1e-6] * 10) == ["update-ratio-low"]
    assert kinds([0.0] * 10) == ["unchanged-weights"]


def test_an_epoch_without_a_validation_is_no_best_one() -> None:
    epochs = [
        EpochFrame(number, number, {"train_loss": 1.0 / number, **({"val_loss": 1.0 + number} if number % 2 else {})})
        for number in range(1, 12)
    ]
    told_in_parts = [
        EpochFrame(frame.epoch, frame.step, {name: value}) for frame in epochs for name, value in frame.metrics.items()
    ]
    for frames in (epochs, told_in_parts):
        [finding] = diagnose(nn.Identity(), frames, [Overfitting()])
        assert "lowest in epoch 1 (2)" in finding.reason


def test_gradients_that_are_not_finite_are_blamed_on_the_last_layer() -> None:
    net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2), nn.Linear(2, 2))
    frames = [NormsFrame(3, {"0": math.nan, "1": math.nan, "2": 1.0}, math.nan)]
    [finding] = diagnose(net, frames, [NotFinite()])
    assert finding.layer == "1"
    assert "step 3, while the outputs are finite" in finding.reason


def test_a_loss_that_is_not_finite_has_its_step() -> None:
    frames = [StepFrame(step, 1, loss, 0.1, 1, 0.0) for step, loss in enumerate((1.0, math.inf), 1)]
    [finding] = diagnose(nn.Linear(1, 1), frames)
    assert finding.reason == "The loss is NaN or infinite from step 2 on."


def test_a_container_is_not_blamed_for_the_layer_inside_it() -> None:
    net = nn.Sequential(nn.Sequential(nn.Linear(2, 2)))
    bad = {"nan": 2.0, "inf": 1.0}
    frames = [StatisticsFrame(1, layer, "activations", bad) for layer in ("0", "0.0")]
    [finding] = diagnose(net, frames)
    assert finding.layer == "0.0"
    assert "2 NaN and 1 infinite values at step 1" in finding.reason


def test_one_inspection_finds_dead_units_and_nan() -> None:
    torch.manual_seed(0)
    net = dead().net
    inspector = Inspector(net)
    inspector.run_inspection(classes()[0], loss_fn=lambda output: output.square().mean())
    [finding] = [finding for finding in inspector.diagnose() if finding.kind == "dead-relu"]
    assert finding.layer == "3"
    assert "100% of its units never fire" in finding.reason
    broken = Inspector(nn.Sequential(nn.Linear(2, 2), Logarithm()))
    broken.run_inspection(torch.randn(8, 2))
    assert [(finding.kind, finding.layer) for finding in broken.diagnose()] == [("not-finite", "1")]


def test_an_engine_and_its_history_are_diagnosed_after_the_training() -> None:
    healthy = engine(epochs=4)
    healthy.start().wait()
    assert diagnose(healthy) == diagnose(healthy.history) == []
    stuck = engine(epochs=30, optimizer=("SGD", {"lr": 0.0}))
    stuck.start().wait()
    assert [finding.kind for finding in diagnose(stuck)] == ["unchanged-weights", "loss-not-decreasing"]
    assert diagnose(copy.deepcopy(stuck.history)) == diagnose(stuck)


def test_what_the_training_told_comes_first_and_once() -> None:
    broken = engine(train_data=(torch.full((32, 1, 6, 6), torch.nan), torch.zeros(32, dtype=torch.long)))
    broken.start()
    with pytest.raises(PnneError):
        broken.wait()
    told = [frame for frame in broken.history.anomalies if frame.hint]
    found = diagnose(broken)
    assert told
    assert [(finding.kind, finding.reason) for finding in found[: len(told)]] == [
        (frame.kind, frame.message) for frame in told
    ]


def test_the_cause_comes_before_what_follows_from_it() -> None:
    x, y = torch.randn(64, 4), torch.zeros(64, dtype=torch.long)
    odd = engine(nn.Linear(4, 3), train_data=(1000 * x, y), epochs=3, optimizer=("SGD", {"lr": 10.0}))
    odd.start().wait()
    kinds = [finding.kind for finding in diagnose(odd)]
    assert kinds[:2] == ["constant-target", "large-input"]
    assert kinds == sorted(kinds, key=rank)


def losses(values: list[float]) -> list[Frame]:
    return [StepFrame(step, 1, value, 0.0, 8, 0.0) for step, value in enumerate(values, 1)]


def test_a_loss_that_scatters_does_not_oscillate() -> None:
    draws = torch.Generator().manual_seed(0)
    scatter = (0.5 * torch.rand(400, generator=draws)).tolist()
    falling = [1.4 * 0.99**step + noise for step, noise in enumerate(scatter)]
    assert not diagnose(nn.Linear(1, 1), losses(falling), [Oscillation(), SlowProgress()])
    jumping = [3.0 if step % 5 == 0 else 0.3 for step in range(1, 100)]
    [found] = diagnose(nn.Linear(1, 1), losses([1.4] * 3 + jumping), [Oscillation()])
    assert found.reason == "The loss jumps between 0.3 and 3, and began at 1.4: steps overshoot."
    draws = torch.Generator().manual_seed(0)
    scattered = (10 + 2 * torch.randn(200, generator=draws)).tolist()  # distances in small batches
    assert not diagnose(nn.Linear(1, 1), losses(scattered), [Oscillation()])
    draws = torch.Generator().manual_seed(0)
    residuals = torch.randn(25, 200, 8, generator=draws)  # of a regression that has little left to learn
    for run in residuals.square().mean(2).tolist():
        assert not diagnose(nn.Linear(1, 1), losses(run), [Oscillation()])
    ruined = [1.4] * 3 + [9.0] * 4 + [1.4] * 60
    [found] = diagnose(nn.Linear(1, 1), losses(ruined), [Oscillation()])
    assert found.reason == "The loss began at 1.4, has jumped to 9, and is at 1.4: steps overshoot."


def test_a_validation_loss_that_jumps_or_was_just_the_best_is_no_overfitting() -> None:
    def validated(values: list[float]) -> list[Frame]:
        return [
            EpochFrame(epoch, epoch, {"train_loss": 1 / epoch, "val_loss": value})
            for epoch, value in enumerate(values, 1)
        ]

    [found] = diagnose(nn.Linear(1, 1), validated([0.5, 0.2, 0.25, 0.28, 0.3]), [Overfitting()])
    assert found.kind == "overfitting"
    for values in ([0.5, 0.2, 0.25, 0.29, 0.23], [0.24, 0.022, 0.13, 0.024, 0.027], [0.5, 0.4, 0.2, 0.1, 0.0]):
        assert not diagnose(nn.Linear(1, 1), validated(values), [Overfitting()])


def test_a_model_that_is_nearly_always_right_does_not_overfit() -> None:
    epochs = [(0.5, 0.033), (0.016, 0.039), (0.013, 0.064), (0.006, 0.059), (0.005, 0.06)]
    validated = [EpochFrame(epoch, epoch, {"train_loss": a, "val_loss": b}) for epoch, (a, b) in enumerate(epochs, 1)]
    assert [finding.kind for finding in diagnose(nn.Linear(1, 1), validated, [Overfitting()])] == ["overfitting"]
    assert not diagnose(nn.Linear(1, 1), [*losses([1.4, 0.7, 0.3, 0.1]), *validated], [Overfitting()])


def test_a_loss_may_stay_where_it_is_before_the_training_finds_its_way() -> None:
    assert not diagnose(nn.Linear(1, 1), losses([1.4] * 149), [LossNotDecreasing()])
    [found] = diagnose(nn.Linear(1, 1), losses([1.4] * 150), [LossNotDecreasing()])
    assert found.reason == "After 150 steps the loss is 1.4; it began at 1.4."
    draws = torch.Generator().manual_seed(4)
    scatter = (0.06 * torch.randn(240, generator=draws)).tolist()
    falling = [1.38 - 0.03 * step / 240 + noise for step, noise in enumerate(scatter)]
    assert not diagnose(nn.Linear(1, 1), losses(falling), [LossNotDecreasing()])


def test_the_first_updates_may_be_large_while_the_loss_falls() -> None:
    def updates(first: int) -> list[Frame]:
        return [StatisticsFrame(step, "", "updates", {"ratio": 0.3}) for step in range(first, first + 10)]

    model, rule = nn.Linear(1, 1), [UpdateRatio()]
    falling, jumping = losses([1.4 * 0.95**step for step in range(10)]), losses([1.4, 75.0, 20.0, 8.0, 9.0, 4.0, 3.0])
    assert not diagnose(model, [*falling, *updates(1)], rule)
    for frames in ([*jumping, *updates(1)], [*falling, *updates(20)]):
        assert [finding.kind for finding in diagnose(model, frames, rule)] == ["update-ratio-high"]


def test_progress_is_slow_where_it_is_steady_and_not_where_it_ends() -> None:
    slow = [2.0 - 0.0005 * step for step in range(200)]
    [found] = diagnose(nn.Linear(1, 1), losses(slow), [SlowProgress()])
    assert found.reason == (
        "In 200 steps the loss has fallen by 5.0% of 1.995, as fast at the end as at the beginning: 1,995 more would halve it."
    )
    starting = [2.0 - 0.0002 * step - 0.05 * 1.02 ** (step - 200) for step in range(200)]
    assert not diagnose(nn.Linear(1, 1), losses(starting), [SlowProgress()])
    levelled = [2.0 - 0.05 * (1 - 0.97**step) for step in range(200)]
    assert not diagnose(nn.Linear(1, 1), losses(levelled), [SlowProgress()])


def test_findings_carry_the_numbers_that_show_them() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    frames: list[Frame] = [
        StatisticsFrame(step, "1", "activations", {"zeros": 0.99, "dead": 0.75}) for step in range(1, 11)
    ]
    frames += [NormsFrame(step, {"0": 5000.0}, 5000.0) for step in range(1, 11)]
    evidence = {finding.kind: finding.evidence for finding in diagnose(model, frames)}
    assert evidence["dead-relu"] == (("outputs that are 0", 0.99), ("units that never fire", 0.75), ("all", 1.0))
    assert evidence["exploding-gradients"] == (("0", 5000.0), ("limit", 1000.0))


@pytest.mark.parametrize("wrong", [None, 3, "engine"])
def test_what_cannot_be_diagnosed_is_refused(wrong: Any) -> None:
    with pytest.raises(
        ArgumentError, match="diagnose takes an engine, a history, or a module with frames about it, not"
    ):
        diagnose(wrong)
    with pytest.raises(ArgumentError, match="frames must be the frames of a training"):
        diagnose(nn.Linear(1, 1))


def test_an_empty_diagnosis_says_what_was_looked_for() -> None:
    empty = diagnose(nn.Linear(2, 2), [], [VanishingGradients(), DeadReLU()])
    assert empty == []
    assert repr(empty) == "Nothing found so far; looked for vanishing-gradients, dead-relu."
    assert not repr(diagnose(nn.Linear(2, 2), [])).startswith("[")
