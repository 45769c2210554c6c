"""A module whose kernels vary from call to call is drawn, and compared with its own noise."""

from __future__ import annotations

import os
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

import pnne_nb as pn
from pnne_nb.compiler.analysis.own_noise import FACTOR, OwnNoise, deterministic
from pnne_nb.compiler.analysis.verify import compare

X = torch.linspace(-1, 1, 2 * 3 * 8 * 8).reshape(2, 3, 8, 8)


class VaryingKernels(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch does not say
    """Multiplies what the backward pass of convolutions gives by ``1 + share * (call % 3)``, as kernels of a GPU vary."""

    def __init__(self, share: float = 1e-7, operator: Any = torch.ops.aten.convolution_backward) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch does not say
        self.calls = 0
        self._share, self._operator = share, operator

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        found = func(*args, **(kwargs or {}))
        if func.overloadpacket is not self._operator:
            return found
        self.calls += 1
        factor = 1 + self._share * (self.calls % 3)
        return (
            tuple(None if each is None else each * factor for each in found) if type(found) is tuple else found * factor
        )


def small() -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU())


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Conv2d(4, 4, 3, padding=1), nn.Conv2d(4, 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4)

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(x + self.b(torch.relu(self.norm(self.a(x)))))


def big() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.ReLU(), Residual(), nn.MaxPool2d(2), Residual(), nn.Flatten(), nn.Linear(36, 5)
    )


@pytest.mark.parametrize("make", [small, big])
def test_a_net_whose_kernels_vary_is_drawn_as_if_they_did_not(make: Any) -> None:
    net = make()
    plain = pn.from_module(net, X)
    with VaryingKernels() as kernels:
        graph = pn.from_module(net, X)
    # Each proof is one forward and backward pass of both; without a bound, there were thousands.
    assert 0 < kernels.calls < 60 * sum(isinstance(each, nn.Conv2d) for each in net.modules())
    assert graph.import_report.closed == 0
    assert graph.import_report.open == plain.import_report.open
    said = graph.import_report.noise
    assert "Sequential differs from itself by up to" in said
    assert "as some kernels of its device do" in said
    assert said in repr(graph.import_report)
    assert said in graph.import_report._repr_html_()
    assert plain.import_report.noise == ""
    assert torch.equal(pn.compile(graph, reuse=net)(X), net(X))


def test_verify_compares_with_the_noise_and_says_so() -> None:
    net = small()
    graph = pn.from_module(net, X)
    assert pn.verify(graph, net, X).noise == ""
    with VaryingKernels():
        report = pn.verify(graph, net, X)
    assert report
    assert "differs from itself" in report.noise
    assert report.noise in str(report)


class Off(nn.Module):
    """A convolution whose gradient is off by a share, as a wrong drawing has it."""

    def __init__(self, share: float) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
        self.share = share

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.conv(x)
        return y + self.share * (y - y.detach())


def test_what_is_further_away_than_the_noise_is_a_difference() -> None:
    torch.manual_seed(0)
    net, wrong = Off(0.0), Off(1e-4)
    wrong.load_state_dict(net.state_dict())
    with VaryingKernels():
        found = [check for check in compare(net, wrong, (X,), {}, noise=OwnNoise()) if not check.equal]
    assert [(check.what, check.mode) for check in found] == [("gradients", "train"), ("gradients", "eval")]


def test_what_varies_by_more_than_rounding_is_no_noise() -> None:
    net = small()
    with VaryingKernels(0.5):
        found = [check for check in compare(net, net, (X,), {}, noise=OwnNoise()) if not check.equal]
    assert found


def test_a_result_may_differ_as_much_as_is_usual_for_the_others() -> None:
    noise = OwnNoise()
    one = torch.tensor([1.0, 2.0])
    assert not noise
    assert not noise.allows("a: ", one, one + 1e-6)
    noise.note("a: ", one, one + 1e-6)
    assert noise
    assert noise.allows("b: ", one, one + 4e-6)
    assert not noise.allows("b: ", one, one + 2e-6 * FACTOR)
    assert not noise.allows("b: ", one.long(), one.long() + 1)
    noise.note("b: ", one.long(), one.long() + 0)
    assert noise.allows("b: ", one.long(), one.long() + 1)


def switches() -> tuple[object, ...]:
    return (
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
        torch.backends.cudnn.benchmark,
        os.environ.get("CUBLAS_WORKSPACE_CONFIG"),
    )


def test_deterministic_kernels_are_chosen_off_the_cpu_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)
    monkeypatch.setattr(torch.backends.cudnn, "benchmark", True)
    before = switches()
    with deterministic(nn.Linear(2, 2), (torch.ones(2),)):
        assert switches() == before
    elsewhere = nn.Linear(2, 2, device="meta")  # the only other device that is on every machine

    def entered() -> None:
        with deterministic(elsewhere, ()):
            assert switches() == (True, True, False, ":4096:8")
            raise KeyError

    with pytest.raises(KeyError):
        entered()
    assert switches() == before
