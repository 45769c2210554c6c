"""A part that keeps what it has computed trains as the module does: a second step goes on, or fails in both."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn

import pnne_nb as pn

X = torch.linspace(-1, 1, 12).reshape(3, 4)


class Cell(nn.Module):
    """Keeps its state with what it was computed from, which counts only where a sequence goes on."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.state: Tensor | None = None

    def forward(self, x: Tensor, goes_on: Tensor) -> Tensor:
        before = self.state if self.state is not None else torch.zeros(3, 4)
        self.state = torch.tanh(self.fc(x) + before * goes_on)
        return self.state


class Forgetting(nn.Module):
    """Resets the state of its part before each call, as RecurrentGemma does."""

    def __init__(self) -> None:
        super().__init__()
        self.cell, self.out = Cell(), nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        self.cell.state = torch.zeros(3, 4)
        y: Tensor = self.out(self.cell(x, torch.zeros(3, 1)))
        return y


class Detaching(Forgetting):
    def forward(self, x: Tensor) -> Tensor:
        if self.cell.state is not None:
            self.cell.state = self.cell.state.detach()
        y: Tensor = self.out(self.cell(x, torch.zeros(3, 1)))
        return y


class Keeping(Forgetting):
    """Fails in a second step itself."""

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.out(self.cell(x, torch.ones(3, 1)))
        return y


def steps(module: nn.Module) -> list[Tensor]:
    found = []
    for _ in range(3):
        result = module(X)
        result.square().sum().backward()
        found.append(result.detach().clone())
        with torch.no_grad():
            for parameter in module.parameters():
                assert parameter.grad is not None
                parameter.sub_(0.1 * parameter.grad)
                parameter.grad = None
    return found


@pytest.mark.parametrize("kind", [Forgetting, Detaching])
def test_a_second_step_goes_on_as_in_the_module(kind: type[Forgetting]) -> None:
    net = kind()
    graph = pn.from_module(net, X)
    model = pn.compile(graph, reuse=net)
    expected = steps(copy.deepcopy(net))
    assert all(map(torch.equal, steps(model), expected))
    (reason,) = (row.reason for row in graph.import_report.rows if row.path == "module")
    assert "in a second step, which the module itself takes, the imported graph fails: Trying to backward" in reason


def test_what_fails_in_both_is_no_difference() -> None:
    net = Keeping()
    graph = pn.from_module(net, X)
    assert graph["out"].type == "Linear"
    for module in (copy.deepcopy(net), pn.compile(graph, reuse=net)):
        with pytest.raises(RuntimeError, match="backward through the graph a second time"):
            steps(module)
