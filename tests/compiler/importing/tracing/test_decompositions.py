"""Arithmetic in place keeps the element type of its tensor, in an autocast too, where ``x + y`` has a wider one."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import pnne_nb as pn

X = torch.linspace(-1, 1, 12).reshape(3, 4)


class Positions(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.positions = nn.Parameter(torch.linspace(0.5, 1.5, 4))


class Added(Positions):
    """Adds to what depends on the mode: a choice of two tensors is a tensor."""

    def forward(self, x: Tensor) -> Tensor:
        h: Tensor = self.fc(x)
        h = h * 2 if self.training else h
        h += self.positions
        return h


class Every(Positions):
    def forward(self, x: Tensor) -> Tensor:
        h: Tensor = self.fc(x)
        h -= self.positions
        h *= self.positions
        h /= self.positions
        h.add_(self.positions, alpha=2).sub_(self.positions)
        return h


class Remainder(Positions):
    def forward(self, x: Tensor) -> Tensor:
        h: Tensor = self.fc(x) * 2
        return h.fmod_(self.positions)


class Signed(Positions):
    def forward(self, x: Tensor) -> Tensor:
        h: Tensor = self.fc(x) + 1
        h.copysign_(self.positions - 1)
        return h


class Angle(Positions):
    def forward(self, x: Tensor) -> Tensor:
        h: Tensor = self.fc(x) * 2
        h.atan2_(self.positions)
        return h


class Given(Positions):
    """Changes what it is given by the module around it."""

    def forward(self, x: Tensor) -> Tensor:
        x += self.positions
        return torch.relu(x)


class Around(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.inner = Given()

    def forward(self, x: Tensor) -> Tensor:
        h: Tensor = self.fc(x)
        y: Tensor = self.inner(h)
        return y + h


@pytest.mark.parametrize("kind", [Added, Every, Remainder, Signed, Angle, Around])
def test_what_is_changed_in_place_keeps_its_element_type(kind: Callable[[], nn.Module]) -> None:
    net = kind()
    graph = pn.from_module(net, X)
    assert graph.import_report.closed == 0
    model = pn.compile(graph, reuse=net)
    for training in (True, False):
        net.train(training)
        model.train(training)
        assert torch.equal(net(X), model(X))
        with torch.autocast("cpu", torch.bfloat16):
            mine, theirs = net(X), model(X)
        assert mine.dtype == theirs.dtype == torch.bfloat16
        assert torch.equal(mine, theirs)
