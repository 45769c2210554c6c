"""Checks find wrong gradients and values that are not finite, and are quiet otherwise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from pnne_nb.errors import InspectionError
from pnne_nb.inspector.tools.checks import check_gradients, check_numerics
from tests.inspector.models import Checkpointed, Encoder, hooks_on


class WrongSquare(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        [x] = ctx.saved_tensors
        return 3 * x * grads[0]  # type: ignore[no-any-return]  # torch types the call of a module as Any


class Squared(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 2)

    def forward(self, x: Tensor) -> Tensor:
        return WrongSquare.apply(self.linear(x))  # type: ignore[no-any-return, no-untyped-call]  # torch leaves it untyped


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
        return self.linear(torch.fft.fft(x))  # type: ignore[no-any-return]  # torch types the call of a module as Any


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
        net[0].weight.zero_()  # type: ignore[operator]  # a part of a Sequential is typed as any module
        net[0].bias.zero_()  # type: ignore[operator]  # a part of a Sequential is typed as any module
    [finding] = check_numerics(net, torch.ones(3, 2), loss_fn=lambda output: output.sum()).findings
    assert finding.layer == "1"
    assert "sqrt made 6 infinite of 6 values, while the outputs are finite. At " in finding.reason


class Logarithm(nn.Module):
    """Its own code makes NaN of a layer's finite output."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(2, 2, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return torch.log(self.fc(x))


@pytest.mark.parametrize("loss", [None, torch.mean])
def test_what_the_model_s_own_code_makes_is_found(loss: Callable[[Tensor], Tensor] | None) -> None:
    net = Logarithm()
    nn.init.constant_(net.fc.weight, -1.0)
    [finding] = check_numerics(net, torch.ones(3, 2), loss_fn=loss).findings
    assert "while every layer's output is finite: log made 6 NaN of 6 values. At " in finding.reason
    assert "torch.log(self.fc(x))" in finding.reason


def test_inputs_and_parameters_are_checked_first() -> None:
    net = nn.Sequential(nn.Linear(2, 2))
    with torch.no_grad():
        net[0].bias.fill_(float("nan"))  # type: ignore[operator]  # a part of a Sequential is typed as any module
    findings = check_numerics(net, torch.tensor([[1.0, float("inf")]])).findings
    assert [finding.reason for finding in findings[:2]] == [
        "The input 0 has NaN or infinite values.",
        "Its bias has NaN or infinite values.",
    ]
    assert findings[1].layer == "0"


class Masked(nn.Module):
    """Attention scores under a causal mask, the masking in a layer of its own."""

    def __init__(self, *, fill: float, absorbed: bool = True) -> None:
        super().__init__()
        self.project, self.mask, self.absorbed = nn.Linear(4, 4), Mask(fill), absorbed

    def forward(self, x: Tensor) -> Tensor:
        scores = self.mask(self.project(x))
        return scores.softmax(-1) if self.absorbed else scores  # type: ignore[no-any-return]  # torch types the call of a module as Any


class Mask(nn.Module):
    def __init__(self, fill: float) -> None:
        super().__init__()
        self.fill = fill

    def forward(self, scores: Tensor) -> Tensor:
        return scores.masked_fill(torch.ones(4, 4).triu(1).bool(), self.fill)


def test_a_mask_that_a_softmax_takes_in_is_none() -> None:
    x = torch.randn(4, 4)
    assert check_numerics(Masked(fill=-torch.inf), x, loss_fn=lambda output: output.square().sum()).ok
    assert check_numerics(Masked(fill=-torch.inf), x).ok
    for net in (Masked(fill=torch.inf), Masked(fill=-torch.inf, absorbed=False)):
        assert check_numerics(net, x).findings[0].layer == "mask"


def test_a_gradient_that_is_infinite_inside_is_told() -> None:
    class Halt(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.detach().requires_grad_()  # no parameter before it has a gradient

    net = nn.Sequential(nn.Linear(4, 5), Halt(), nn.Identity(), Root())
    with torch.no_grad():
        net[0].weight.zero_()  # type: ignore[operator]  # a part of a Sequential is typed as any module
        net[0].bias.copy_(torch.tensor([0.0, 0.0, 1.0, 1.0, 1.0]))  # type: ignore[operator]  # a part of a Sequential is typed as any module
    [finding] = check_numerics(net, torch.ones(4, 4), loss_fn=lambda output: output.sum()).findings
    assert finding.layer == "3", "what makes it, and not the layer before, which is given it"
    assert "In the backward pass, sqrt made 8 infinite of 20 values, while the outputs are finite." in finding.reason


def test_a_loss_that_is_not_finite_by_itself_is_named() -> None:
    def log_loss(output: Tensor, target: Tensor) -> Tensor:
        return output.sum() + target.log().sum()

    [finding] = check_numerics(nn.Linear(2, 2), torch.ones(3, 2), torch.zeros(3, 2), log_loss).findings
    assert finding.layer is None
    assert "The loss is -inf, while every output of the model is finite: log_loss produces it." in finding.reason


def test_a_loss_is_to_blame_for_the_gradients_that_follow_from_it() -> None:
    losses: list[Callable[[Tensor, Tensor], Tensor]] = [
        lambda output, _: (0 * output).sum().log(),
        lambda output, target: (output - target).sum() / 0,
        lambda output, target: nn.functional.mse_loss(output, target * torch.nan),
    ]
    for loss in losses:
        [finding] = check_numerics(nn.Linear(4, 2), torch.randn(3, 4), torch.ones(3, 2), loss).findings
        assert "while every output of the model is finite: <lambda> produces it." in finding.reason
    large = nn.Linear(4, 2)
    nn.init.constant_(large.weight, 1e38)
    [finding] = check_numerics(large, torch.ones(3, 4), torch.ones(3, 2), nn.MSELoss()).findings
    assert "first of all layers" in finding.reason


def test_checkpointed_modules_are_checked() -> None:
    report = check_gradients(Checkpointed(reentrant=False), torch.randn(3, 5))
    assert report.ok
    assert set(report.checked) == {"args.0", *(name for name, _ in Checkpointed(reentrant=False).named_parameters())}


def test_a_reentrant_checkpoint_is_refused_with_what_to_do() -> None:
    with pytest.raises(InspectionError, match=r"reentrant checkpoint.*use_reentrant=False"):
        check_gradients(Checkpointed(reentrant=True), torch.randn(3, 5))


@pytest.mark.parametrize(
    "cast", [lambda x: x.float(), lambda x: x.to(torch.bfloat16), lambda x: x.to(dtype=torch.half)]
)
def test_modules_that_cast_inside_are_checked_in_float64(cast: Callable[[Tensor], Tensor]) -> None:
    class Cast(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(3, 2)

        def forward(self, x: Tensor) -> Tensor:
            return self.linear(cast(x).square().to(self.linear.weight.dtype)).sin()  # type: ignore[no-any-return]  # torch types the call of a module as Any

    report = check_gradients(Cast(), torch.randn(4, 3))
    assert report.ok
    assert set(report.checked) == {"args.0", "linear.weight", "linear.bias"}
