"""Gradients of large parameters are compared by checksums, and told by their values where they differ."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from pnne_nb.compiler.analysis.gradient_checksums import LARGE, collected, parameter_bytes
from pnne_nb.compiler.analysis.nested_values import difference
from pnne_nb.compiler.analysis.verify import compare

SIDE = int(LARGE**0.5) + 1
X = torch.linspace(-1, 1, 2 * SIDE).reshape(2, SIDE)


class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        return grads[0] * 2


class Layered(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.fc = nn.Linear(SIDE, SIDE)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.fc(x)
        return y


class Otherwise(Layered):
    """Computes the same, with other gradients."""

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = Scaled.apply(self.fc(x))  # type: ignore[no-untyped-call]  # torch does not say
        return y


@pytest.mark.parametrize("whole", [True, False])
def test_equal_gradients_are_equal_and_others_are_not(whole: bool) -> None:
    for other, equal in ((Layered(), True), (Otherwise(), False)):
        net = Layered()
        with collected(net, other, whole=whole) as gradients:
            for module in (net, other):
                module(X).sum().backward()
            mine, theirs = (each.named() for each in gradients)
        assert (difference(mine, theirs) == "") is equal
        assert isinstance(mine["fc.weight"], Tensor) is whole
        assert (net.fc.weight.grad is None) is not whole  # what it takes is free
        assert isinstance(mine["fc.bias"], Tensor)


def test_nothing_is_collected_after_the_block() -> None:
    net = Layered()
    with collected(net, Layered(), whole=False):
        pass
    net(X).sum().backward()
    assert net.fc.weight.grad is not None


def test_what_differs_is_told_by_its_values() -> None:
    failed = [check for check in compare(Layered(), Otherwise(), (X,), {}) if not check.equal]
    assert {check.what for check in failed} == {"gradients"}
    assert all("fc.weight: differs by up to" in check.detail for check in failed)


def test_the_memory_of_parameters_is_counted() -> None:
    assert parameter_bytes(nn.Linear(3, 4).double()) == 8 * (12 + 4)
