"""Gradient norms against the plain formula."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from pnne_nb.inspector.statistics.measure import gradient_norms
from tests.inspector.models import Encoder, Twice, mlp


def test_norms_by_layer_and_total() -> None:
    net = Encoder()
    net(torch.randn(2, 3, 8)).square().sum().backward()
    found = gradient_norms(net)
    gradients = [parameter.grad for parameter in net.parameters() if parameter.grad is not None]
    assert found.total == pytest.approx(nn.utils.get_total_norm(gradients).item(), rel=1e-6)
    head = net.head
    assert head.weight.grad is not None
    assert head.bias.grad is not None
    assert found.by_layer["head"] == pytest.approx(
        torch.cat([head.weight.grad.flatten(), head.bias.grad]).norm().item(), rel=1e-6
    )
    assert "unused" not in found.by_layer
    assert "blocks.0" not in found.by_layer


def test_no_gradient_at_all() -> None:
    assert gradient_norms(mlp()).by_layer == {}
    assert gradient_norms(mlp()).total == 0


def test_shared_parameters_count_once() -> None:
    net = Twice()
    net(torch.randn(2, 5)).sum().backward()
    assert list(gradient_norms(net).by_layer) == ["layer"]


def test_half_precision_does_not_overflow() -> None:
    net = nn.Linear(100, 1, bias=False).half()
    net.weight.grad = torch.full_like(net.weight, 6e4)
    assert gradient_norms(net).total == pytest.approx(6e5, rel=1e-3)


def test_mixed_precision_sparse_and_not_finite() -> None:
    net = nn.Sequential(nn.Embedding(5, 2, sparse=True), nn.Linear(2, 1).double())
    net[0](torch.tensor([1, 1])).sum().backward()
    net[1].weight.grad = torch.tensor([[3.0, 4.0]], dtype=torch.float64)
    found = gradient_norms(net)
    assert found.by_layer == {"0": pytest.approx(8**0.5), "1": 5.0}
    net[1].weight.grad[0, 0] = math.nan
    assert math.isnan(gradient_norms(net).total)
