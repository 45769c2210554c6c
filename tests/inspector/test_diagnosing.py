"""Findings come with the frames of the step in which they were made, each once."""

from __future__ import annotations

import torch
from torch import nn

from pnne_nb.frames import AnomalyFrame, Frame
from pnne_nb.inspector.diagnosing import EVERY, DiagnosingProbe
from pnne_nb.inspector.live import LiveProbe
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


def test_a_dead_relu_is_told_once_with_its_layer_and_what_to_try() -> None:
    torch.manual_seed(0)
    net = mlp()
    nn.init.constant_(net[0].bias, -100.0)  # type: ignore[arg-type]
    frames = observe(DiagnosingProbe(LiveProbe(net)), net, 4 * EVERY)
    told = [frame for frame in frames if isinstance(frame, AnomalyFrame) and frame.kind == "dead-relu"]
    assert [(frame.step, frame.node) for frame in told] == [(EVERY, "1")]
    assert told[0].hint is not None
    assert hooks_on(net) == 0


def test_a_healthy_training_is_quiet() -> None:
    torch.manual_seed(0)
    net = mlp()
    frames = observe(DiagnosingProbe(LiveProbe(net)), net, 4 * EVERY)
    assert not any(isinstance(frame, AnomalyFrame) for frame in frames)


def test_the_rules_can_be_chosen() -> None:
    net = mlp()
    nn.init.constant_(net[0].bias, -100.0)  # type: ignore[arg-type]
    frames = observe(DiagnosingProbe(LiveProbe(net), ()), net, EVERY)
    assert not any(isinstance(frame, AnomalyFrame) for frame in frames)
