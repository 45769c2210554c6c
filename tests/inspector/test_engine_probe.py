"""Findings come with the frames of the step in which they were made, each once."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import nn

import pnne_nb as pn
from pnne_nb.diagnosis.evidence import LOSSES, Evidence
from pnne_nb.diagnosis.rules import Divergence, LossNotDecreasing, Overfitting
from pnne_nb.inspector.capture.live import LiveProbe
from pnne_nb.inspector.engine_probe import EVERY, DiagnosingProbe
from pnne_nb.telemetry.frames import AnomalyFrame, EpochFrame, Frame, StepFrame
from pnne_nb.telemetry.probe import Timed
from tests.inspector.models import hooks_on, mlp


def observe(probe: DiagnosingProbe, net: nn.Module, steps: int) -> list[Frame]:
    frames: list[Frame] = []
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-3)
    for step in range(1, steps + 1):
        probe.open(step)
        optimizer.zero_grad()
        net(torch.randn(16, 5)).square().sum().backward()
        probe.gradients_ready()
        optimizer.step()
        probe.updated()
        frames += probe.close()
    return frames


def test_what_its_hooks_take_is_what_those_of_the_probe_take() -> None:
    net = nn.Linear(2, 2)
    measuring = LiveProbe(net)
    probe = DiagnosingProbe(measuring)
    assert isinstance(probe, Timed)
    probe.open(1)
    net(torch.zeros(1, 2))
    assert probe.hooked == measuring.hooked > 0.0
    probe.close()


def test_a_dead_relu_is_told_once_with_its_layer_and_what_to_try() -> None:
    torch.manual_seed(0)
    net = mlp()
    nn.init.constant_(net[0].bias, -100.0)  # type: ignore[arg-type]  # a part of a Sequential is typed as any module
    frames = observe(DiagnosingProbe(LiveProbe(net)), net, 4 * EVERY)
    told = [frame for frame in frames if isinstance(frame, AnomalyFrame) and frame.kind == "dead-relu"]
    assert [(frame.step, frame.node) for frame in told] == [(EVERY, "1")]
    assert told[0].hint is not None
    assert hooks_on(net) == 0


def test_a_training_that_is_too_short_for_a_look_is_looked_at_in_the_end() -> None:
    x, y = torch.randn(96, 5, generator=torch.Generator().manual_seed(0)), torch.arange(96) % 3
    net = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 3))
    nn.init.constant_(net[0].bias, -100.0)  # type: ignore[arg-type]  # a part of a Sequential is typed as any module
    engine = pn.TrainingEngine(net, (x, y), epochs=1, batch_size=16, device="cpu", metrics=())
    inspector = pn.Inspector(net)
    inspector.watch("*", what=("activations", "updates"))
    inspector.attach(engine, budget=1.0, hz=1e6)
    assert engine.start().wait(60)
    assert (6, "dead-relu") in {(frame.step, frame.kind) for frame in engine.history.anomalies}
    assert "dead-relu" in {finding.kind for finding in pn.diagnose(engine)}


def test_a_healthy_training_is_quiet() -> None:
    torch.manual_seed(0)
    net = mlp()
    frames = observe(DiagnosingProbe(LiveProbe(net)), net, 4 * EVERY)
    assert not any(isinstance(frame, AnomalyFrame) for frame in frames)


def test_the_rules_can_be_chosen() -> None:
    net = mlp()
    nn.init.constant_(net[0].bias, -100.0)  # type: ignore[arg-type]  # a part of a Sequential is typed as any module
    frames = observe(DiagnosingProbe(LiveProbe(net), ()), net, EVERY)
    assert not any(isinstance(frame, AnomalyFrame) for frame in frames)


def told(losses: Callable[[int], float], steps: int) -> list[tuple[str, str | None]]:
    """What is found in a training of those losses, of which every tenth step is observed."""
    net = mlp()
    probe, found = DiagnosingProbe(LiveProbe(net), (LossNotDecreasing(), Divergence(), Overfitting())), []
    for step in range(1, steps + 1):
        if step % 10 == 0:
            found += observe(probe, net, 1)
        probe.hear(StepFrame(step, 1, losses(step), 1e-3, 16, 0.0))
    return [(frame.kind, frame.node) for frame in found if isinstance(frame, AnomalyFrame)]


@pytest.mark.parametrize(
    ("losses", "kinds"),
    [
        (lambda step: 2.0 / step**0.5, []),
        (lambda step: 2.3 + 0.01 * math.sin(step), [("loss-not-decreasing", None)]),
        (lambda step: 1.0 + step / 100, [("divergence", None)]),
        (lambda step: 1.0 + (step / 250) ** 4, [("divergence", None)]),
    ],
)
def test_what_the_losses_show_is_told_once(losses: Callable[[int], float], kinds: list[tuple[str, str | None]]) -> None:
    assert told(losses, 500) == kinds


def test_overfitting_is_told_when_the_epochs_show_it() -> None:
    net = mlp()
    probe = DiagnosingProbe(LiveProbe(net), (Overfitting(),))
    for epoch in range(1, 9):
        metrics = {"train_loss": 1 / epoch, "val_loss": 0.5 + 0.1 * abs(epoch - 2)}
        probe.hear(EpochFrame(epoch, 100 * epoch, metrics))
    [finding] = [frame for frame in observe(probe, net, EVERY) if isinstance(frame, AnomalyFrame)]
    assert finding.kind == "overfitting"
    assert "lowest in epoch 2" in finding.message
    assert finding.hint is not None
    assert "Stop at epoch 2" in finding.hint


def test_what_the_training_has_told_itself_is_not_told_again() -> None:
    net = mlp()
    nn.init.constant_(net[0].bias, -100.0)  # type: ignore[arg-type]  # a part of a Sequential is typed as any module
    probe = DiagnosingProbe(LiveProbe(net))
    probe.hear(AnomalyFrame(1, "dead-relu", "Nothing fires.", node="1"))
    assert not any(
        isinstance(frame, AnomalyFrame) and frame.kind == "dead-relu" for frame in observe(probe, net, EVERY)
    )


def test_the_losses_of_a_long_training_are_thinned_to_means() -> None:
    evidence = Evidence.of(mlp())
    for step in range(1, 100_001):
        evidence.add(StepFrame(step, 1, float(step), 1e-3, 16, 0.0))
        if step % 1000 == 0:
            evidence.keep_recent()
    assert LOSSES // 2 <= len(evidence.losses) <= LOSSES
    first, last = evidence.losses[0], evidence.losses[-1]
    assert first == (1 + evidence.stride) / 2
    assert last == pytest.approx(len(evidence.losses) * evidence.stride - (evidence.stride - 1) / 2, rel=0.01)
