"""Checks find wrong gradients and values that are not finite, and are quiet otherwise."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from pnne_nb.inspector.checks import check_gradients, check_numerics
from tests.inspector.models import Encoder, hooks_on


class WrongSquare(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        [x] = ctx.saved_tensors
        return 3 * x * grads[0]  # type: ignore[no-any-return]


class Squared(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 2)

    def forward(self, x: Tensor) -> Tensor:
        return WrongSquare.apply(self.linear(x))  # type: ignore[no-any-return, no-untyped-call]


def test_right_gradients_pass_and_unused_parameters_are_named() -> None:
    torch.manual_seed(0)
    net = Encoder()
    report = check_gradients(net, torch.randn(2, 3, 8))
    assert report.ok
    assert bool(report)
    assert "args.0" in report.checked
    assert "blocks.1.ffn.2.weight" in report.checked
    assert next(net.parameters()).dtype == torch.float32
    assert hooks_on(net) == 0


def test_wrong_gradients_are_found() -> None:
    torch.manual_seed(0)
    report = check_gradients(Squared(), torch.randn(4, 3))
    assert not report
    assert set(report.wrong) == {"args.0", "linear.weight", "linear.bias"}
    assert "3 wrong" in repr(report)
    assert "numerical" in report.wrong["linear.bias"].lower()


def test_dropout_and_batch_norm_are_the_same_in_every_evaluation() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Tanh())
    x, before = torch.randn(6, 3), torch.get_rng_state()
    assert check_gradients(net, x).wrong == {}
    assert torch.equal(torch.get_rng_state(), before)


class Spectrum(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 3, dtype=torch.complex64)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(torch.fft.fft(x))  # type: ignore[no-any-return]


def test_complex_values_and_sparse_gradients_are_checked() -> None:
    report = check_gradients(Spectrum(), torch.randn(2, 4))
    assert set(report.checked) == {"args.0", "linear.weight", "linear.bias"}
    assert check_gradients(nn.Embedding(5, 3, sparse=True), torch.tensor([1, 4, 1])).checked == ("weight",)


def test_what_is_not_finite_has_no_gradient_to_compare() -> None:
    report = check_gradients(nn.Linear(2, 2), torch.tensor([[1.0, float("nan")]]))
    assert not report
    assert report.wrong["bias"] == (
        "There is nothing to compare: args.0 has NaN or infinite values (see check_numerics)."
    )


class Root(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.sqrt()


def test_the_first_layer_that_is_not_finite_is_named() -> None:
    net = nn.Sequential(nn.Identity(), nn.Sequential(Root()), nn.Linear(2, 2))
    assert check_numerics(net, torch.ones(3, 2), loss_fn=lambda output: output.sum()).ok
    report = check_numerics(net, -torch.ones(3, 2))
    assert not report
    assert [finding.layer for finding in report.findings] == ["1.0"]
    assert "6 NaN values" in repr(report)


def test_an_infinite_gradient_is_found() -> None:
    net = nn.Sequential(nn.Linear(2, 2), Root())
    with torch.no_grad():
        net[0].weight.zero_()  # type: ignore[operator]
        net[0].bias.zero_()  # type: ignore[operator]
    [finding] = check_numerics(net, torch.ones(3, 2), loss_fn=lambda output: output.sum()).findings
    assert finding.layer == "0"
    assert "while the outputs are finite" in finding.reason


def test_inputs_and_parameters_are_checked_first() -> None:
    net = nn.Sequential(nn.Linear(2, 2))
    with torch.no_grad():
        net[0].bias.fill_(float("nan"))  # type: ignore[operator]
    findings = check_numerics(net, torch.tensor([[1.0, float("inf")]])).findings
    assert [finding.reason for finding in findings[:2]] == [
        "The input 0 has NaN or infinite values.",
        "Its bias has NaN or infinite values.",
    ]
    assert findings[1].layer == "0"
