"""A look at the layers tells how they are, leaves nothing behind, and does not change the training."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from pnne_nb.diagnosis import layer_look
from pnne_nb.diagnosis.layer_look import LayerLook
from pnne_nb.runtime.engine import TrainingEngine
from pnne_nb.telemetry.frames import Frame, LookFrame


def look(net: nn.Module, x: Tensor, rate: float = 0.1) -> dict[tuple[str, str], dict[str, float]]:
    probe = LayerLook(net)
    probe.open(1)
    net(x).square().sum().backward()
    probe.gradients_ready()
    torch.optim.SGD(net.parameters(), lr=rate).step()
    probe.updated()
    [frame] = probe.close()
    assert isinstance(frame, LookFrame)
    assert not any(module._forward_hooks for module in net.modules())
    return {(one.layer, one.quantity): one.values for one in frame.statistics}


def test_rectifiers_bounds_weights_and_updates_are_measured() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 1))
    with torch.no_grad():
        net[0].bias.fill_(-100.0)  # type: ignore[operator]  # a part of a Sequential is typed as any module
        net[2].bias.fill_(50.0)  # type: ignore[operator]  # likewise
    seen = look(net, torch.randn(128, 4))
    assert seen["1", "activations"] == {"zeros": 1.0, "dead": 1.0}
    assert seen["3", "activations"] == {"saturation": 1.0}
    assert seen["0", "updates"] == {"ratio": 0.0}
    assert seen["4", "updates"]["ratio"] > 0.1
    assert 0.2 < seen["0", "parameters"]["scale"] < 1.5
    assert seen["0", "parameters"]["equal"] == 0.0


def test_few_examples_say_nothing_about_dead_units() -> None:
    seen = look(nn.Sequential(nn.Linear(4, 8), nn.ReLU()), torch.randn(16, 4))
    assert list(seen["1", "activations"]) == ["zeros"]


def test_equal_rows_of_weights_are_seen() -> None:
    net = nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 1))
    with torch.no_grad():
        for layer in (net[0], net[1]):
            layer.weight.fill_(0.5)  # type: ignore[operator]  # a part of a Sequential is typed as any module
    seen = look(net, torch.randn(16, 4))
    assert seen["0", "parameters"]["equal"] == 1.0
    assert seen["1", "parameters"]["equal"] == 0.0, "there is no other unit"


class Detached(nn.Module):
    """One layer behind a detach, and one that never runs."""

    def __init__(self) -> None:
        super().__init__()
        self.features, self.head, self.unused = nn.Linear(4, 4), nn.Linear(4, 1), nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        """`[N, 4]` to `[N, 1]`."""
        found: Tensor = self.head(self.features(x).detach())
        return found


def test_only_what_runs_can_miss_a_gradient() -> None:
    seen = look(Detached(), torch.randn(16, 4))
    assert [layer for layer, quantity in seen if quantity == "parameter_gradients"] == ["features"]


def trained(steps: frozenset[int], monkeypatch: pytest.MonkeyPatch) -> tuple[list[Any], list[Tensor]]:
    monkeypatch.setattr(layer_look, "STEPS", steps)
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.3), nn.Linear(16, 3))
    x, y = torch.randn(480, 6), torch.arange(480) % 3
    engine = TrainingEngine(net, (x, y), epochs=2, batch_size=16, device="cpu", metrics=())
    looks: list[Any] = []
    publish = engine._session.observers.publish

    def noted(frames: Sequence[Frame]) -> None:
        looks.extend(frame.step for frame in frames if isinstance(frame, LookFrame))
        publish(frames)

    monkeypatch.setattr(engine._session.observers, "publish", noted)
    assert engine.start().wait(60)
    return looks, [each.clone() for each in net.state_dict().values()]


def test_looking_changes_no_bit_of_the_training(monkeypatch: pytest.MonkeyPatch) -> None:
    looks, watched = trained(frozenset((1, 10, 33)), monkeypatch)
    assert looks == [1, 10, 33, 60], "and the last step"
    _, alone = trained(frozenset(), monkeypatch)
    assert all(map(torch.equal, watched, alone))
