"""What depends on memory that nobody has written is found to differ only where the code does."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

import pnne_nb as pn
from pnne_nb.compiler.analysis.dispatch_modes import FillEmptyTensors
from pnne_nb.compiler.passes.equivalence import Promise, prove


class Dirty(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch does not say
    """Memory that holds something else each time, as it does where nobody looks."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch does not say
        self._numbers = itertools.count(7)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        return result.fill_(next(self._numbers)) if "empty" in func.name() else result


class Unwritten(nn.Module):
    """Leaves every second row as it was."""

    def __init__(self, scale: float = 1.0) -> None:
        super().__init__()
        self.inner = nn.Linear(4, 4)
        self.scale = scale

    def forward(self, x: Tensor) -> Tensor:
        out = x.new_empty(2 * x.shape[0], 4)
        out[::2] = self.inner(x) * self.scale
        return out


X = torch.linspace(-1, 1, 24).reshape(6, 4)


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.empty(2, 3),
        lambda: torch.empty(3, dtype=torch.int64),
        lambda: torch.empty(3, dtype=torch.complex64),
        lambda: torch.empty_like(X),
        lambda: X.new_empty(2),
        lambda: torch.empty_strided((2, 2), (1, 2)),
        lambda: torch.empty_permuted((2, 3), (1, 0)),
        lambda: torch.Tensor(3),
    ],
)
def test_fresh_memory_holds_ones(make: Any) -> None:
    with Dirty(), FillEmptyTensors():
        made = make()
    assert torch.equal(made, torch.ones_like(made))


def test_what_is_written_stays() -> None:
    with FillEmptyTensors():
        assert torch.equal(torch.empty(3).copy_(X[0, :3]), X[0, :3])
        assert torch.empty(2, layout=torch.sparse_coo).layout == torch.sparse_coo


def test_memory_that_nobody_writes_makes_no_difference() -> None:
    torch.manual_seed(0)
    net = Unwritten()
    with Dirty():
        assert not torch.equal(net(X), net(X))  # it is not equal to itself
        graph = pn.from_module(net, X)
        report = pn.verify(graph, net, X)
    assert report, str(report)
    assert report.opaque == {}
    assert "Module" not in {node.type for node in graph.nodes.values()}


def test_it_hides_no_difference() -> None:
    torch.manual_seed(0)
    net, other = Unwritten(), Unwritten(scale=1.5)
    graph = pn.from_module(net, X)
    with Dirty():
        report = pn.verify(graph, other, X)
    assert {check.what for check in report.differences} == {"outputs", "gradients"}


def test_a_pass_is_proved_in_the_same_way() -> None:
    torch.manual_seed(0)
    net = Unwritten()
    with Dirty():
        assert prove(net, net, (X,), {}, Promise()).holds
        assert not prove(net, Unwritten(), (X,), {}, Promise()).holds
