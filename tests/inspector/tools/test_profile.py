"""A profile names layers and operators, writes a trace, and runs alone."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.autograd.profiler_util import FunctionEvent

from pnne_nb.errors import ArgumentError, InspectionError
from pnne_nb.inspector.tools import profile as profiling
from pnne_nb.inspector.tools.profile import profile
from tests.inspector.models import Checkpointed, Encoder, hooks_on


def test_layers_and_operators_have_times(tmp_path: Path) -> None:
    net, trace = Encoder(), tmp_path / "trace.json"
    found = profile(net, torch.randn(2, 3, 8), trace=trace, warmup=1)
    layers: Any = found.layers
    operators: Any = found.operators
    assert list(layers.index[:3]) == ["", "blocks.0", "blocks.0.norm"]
    assert "unused" not in found.layers.index
    for column in ("forward_ms", "backward_ms", "total_ms"):
        assert layers.loc["blocks.0.ffn", column] >= layers.loc["blocks.0.ffn.0", column] > 0
    assert layers.loc["", "share"] == 1
    assert layers.loc["", "backward_ms"] <= 1e3 * (found.backward or 0)
    assert operators.loc["aten::addmm", "calls"] >= 1
    assert found.forward > 0
    assert found.backward is not None
    assert any(event.get("name") == "layer: head" for event in json.loads(trace.read_text())["traceEvents"])
    assert repr(found).startswith(f"Profile({len(found.layers)} layers, ")
    assert all(path in repr(found) for path in (*found.layers.index[1:], "(model)", "forward_ms"))
    assert "<h4>By layer</h4>" in found._repr_html_()
    assert hooks_on(net) == 0
    assert all(parameter.grad is None for parameter in net.parameters())


def test_without_backward() -> None:
    found = profile(Encoder(), torch.randn(2, 3, 8), backward=False, warmup=0)
    assert found.backward is None
    assert (found.layers["backward_ms"] == 0).all()


class Slow(torch.autograd.Function):
    """Costs nothing forward, and many matrix products backward."""

    @staticmethod
    def forward(_context: Any, x: Tensor) -> Tensor:
        return x * 1.0

    @staticmethod
    def backward(_context: Any, *gradients: Tensor) -> Tensor:
        for _ in range(20):
            torch.randn(300, 300) @ torch.randn(300, 300)
        return gradients[0]


class SlowBackward(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return Slow.apply(x)  # type: ignore[no-any-return, no-untyped-call]  # torch leaves it untyped


def test_the_backward_pass_is_told_apart_by_layer() -> None:
    inner = nn.Sequential(nn.Linear(8, 8), SlowBackward())
    net = nn.Sequential(nn.Linear(8, 8), inner, nn.ReLU(), nn.Linear(8, 2))
    layers: Any = profile(net, torch.randn(4, 8)).layers
    assert layers["backward_ms"].drop(["", "1"]).idxmax() == "1.1"
    assert layers.loc["1", "backward_ms"] >= layers.loc["1.1", "backward_ms"] > layers.loc["1.1", "forward_ms"]
    assert layers.loc["2", "backward_ms"] > 0


def test_every_figure_is_the_median_of_the_calls() -> None:
    calls = [0]

    class Jump(nn.Module):
        """Computes a thousand products in its third call: the first measured one."""

        def forward(self, x: Tensor) -> Tensor:
            calls[0] += 1
            for _ in range(1000 if calls[0] == 3 else 1):
                x = x * 1.0
            return x

    found = profile(nn.Sequential(nn.Linear(8, 8), Jump()), torch.randn(4, 8), warmup=2, repeats=3)
    operators: Any = found.operators
    assert calls[0] == 5
    assert operators.loc["aten::mul", "calls"] < 10
    with pytest.raises(ArgumentError, match="repeats must be a number of calls, at least 1, not 0"):
        profile(nn.Linear(8, 8), torch.randn(4, 8), repeats=0)


def event(name: str, start: int, end: int, kernel: int = 0, number: int = -1, **more: Any) -> FunctionEvent:
    """Of a run on CUDA: on the CPU from `start` to `end`, with a kernel of so many microseconds."""
    made = FunctionEvent(start, name, 1, start, end, use_device="cuda", sequence_nr=number, **more)  # type: ignore[no-untyped-call]  # torch leaves it untyped
    made.scope = 0
    if kernel:
        made.append_kernel("kernel", 0, kernel)  # type: ignore[no-untyped-call]  # torch leaves it untyped
    return made


def test_on_an_accelerator_its_kernels_count_and_not_their_start() -> None:
    node = "autograd::engine::evaluate_function: AddmmBackward0"
    events = [
        event("layer: 0", 0, 10),
        event("aten::addmm", 2, 5, kernel=300, number=7),
        event("layer: 0", 1, 400, device_type=torch.autograd.DeviceType.CUDA),  # type: ignore[attr-defined]  # the test knows its type
        event(node, 20, 24, kernel=900, number=7),
    ]
    assert profiling._backward_by_layer(events, on_device=True) == {"0": 900.0}
    assert profiling._backward_by_layer(events, on_device=False) == {"0": 4.0}
    assert profiling._spent(events[1], on_device=True) == 300.0


def test_what_a_checkpoint_computes_again_is_counted_once() -> None:
    found = profile(Checkpointed(reentrant=False), torch.randn(4, 5))
    layers: Any = found.layers
    assert 0 < layers.loc["", "backward_ms"] <= 1e3 * (found.backward or 0)


def test_bars_show_both_passes_of_each_layer() -> None:
    shown = profile(nn.Sequential(nn.Linear(8, 8), nn.ReLU()), torch.randn(4, 8))._repr_html_()
    assert shown.count('title="forward ') == shown.count('title="backward ') == 3
    widths = [float(width) for width in re.findall(r"height:0.8em;width:([\d.]+)%", shown)]
    assert widths[0] + widths[1] == pytest.approx(100, abs=0.1)
    assert all(ahead + behind <= 100.1 for ahead, behind in zip(widths[::2], widths[1::2], strict=True))
    assert "<script" not in shown


def test_one_profile_at_a_time() -> None:
    with profiling._one_at_a_time, pytest.raises(InspectionError, match="Another profile is running"):
        profile(Encoder(), torch.randn(2, 3, 8))
    profile(Encoder(), torch.randn(2, 3, 8), warmup=0)
