"""What nodes without a module give while they are trained: seen in observed steps, and never in others."""

from __future__ import annotations

import sys

import pytest
import torch
from torch import nn

import pnne_nb as pn
from pnne_nb.inspector.capture.function_probe import FunctionProbe
from pnne_nb.telemetry.frames import StatisticsFrame


def residual() -> pn.NodeGraph:
    """A layer, a rectifier as a function, an addition, one half of a split, and the whole inside a block."""
    graph = pn.NodeGraph("net")
    graph.add("Input", name="x", shape=("N", 8))
    graph.add("Linear", name="fc", in_features=8, out_features=8)
    graph.add("relu", name="fire")
    graph.add("add", name="sum")
    graph.add("chunk", name="halves", chunks=2, dim=1)
    graph.add("Output", name="y")
    for source, target in [
        ("x.output", "fc.input"),
        ("fc.output", "fire.input"),
        ("fire.output", "sum.input"),
        ("x.output", "sum.other"),
    ]:
        graph.connect(source, target)
    graph.connect("sum", "halves", "y")
    graph.group(["fire", "sum"], name="block")
    return graph


def observed(model: nn.Module, x: torch.Tensor, scale: float = 1.0) -> dict[tuple[str, str], StatisticsFrame]:
    """The frames of one training step by node and quantity."""
    probe = FunctionProbe(model, [name for name, _ in model.named_modules()], lambda: scale)
    probe.open(7)
    loss = _first(model(x)).square().sum() * scale
    loss.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
    probe.gradients_ready()
    probe.updated()
    frames = probe.close()
    assert all(isinstance(frame, StatisticsFrame) and frame.step == 7 for frame in frames)
    return {(frame.layer, frame.quantity): frame for frame in frames if isinstance(frame, StatisticsFrame)}


def _first(output: object) -> torch.Tensor:
    value = output[0] if isinstance(output, (tuple, list)) else output
    assert isinstance(value, torch.Tensor)
    return value


@pytest.fixture
def model() -> nn.Module:
    torch.manual_seed(0)
    return pn.compile(residual())


def test_each_function_tells_what_it_gives_and_what_comes_back(model: nn.Module) -> None:
    x = torch.randn(5, 8)
    frames = observed(model, x)
    assert {node for node, _ in frames} == {"block.fire", "block.sum", "halves"}
    fire = torch.relu(model.get_submodule("fc")(x))
    total = fire + x
    for node, expected in (("block.fire", fire), ("block.sum", total), ("halves", total[:, :4])):
        values = frames[node, "activations"].values
        assert values["mean"] == pytest.approx(expected.mean().item(), rel=1e-5)
        assert values["std"] == pytest.approx(expected.std().item(), rel=1e-5)
        assert values["zeros"] == pytest.approx((expected == 0).float().mean().item())
    gradient = torch.zeros_like(total)
    gradient[:, :4] = 2 * total[:, :4].detach()
    assert frames["block.sum", "gradients"].values["norm"] == pytest.approx(gradient.norm().item(), rel=1e-5)


def test_gradients_are_told_without_the_scale_of_the_loss(model: nn.Module) -> None:
    x = torch.randn(5, 8)
    plain = observed(model, x)["block.sum", "gradients"].values["norm"]
    assert observed(model, x, scale=1024.0)["block.sum", "gradients"].values["norm"] == pytest.approx(plain, rel=1e-5)


def test_nothing_is_left_behind_and_results_are_the_same(model: nn.Module) -> None:
    x = torch.randn(5, 8)
    before = _first(model(x))
    trace = sys.gettrace()
    probe = FunctionProbe(model, (), lambda: 1.0)
    probe.open(0)
    during = _first(model(x))
    assert probe.close(), "a step that fails before its gradients are ready is told as far as it came"
    assert sys.gettrace() is trace
    assert torch.equal(before, during)
    during.sum().backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
    assert not probe.close(), "a hook on a tensor of an ended step was left behind"


def test_of_a_module_that_was_not_compiled_nothing_is_seen() -> None:
    plain = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    probe = FunctionProbe(plain, (), lambda: 1.0)
    trace = sys.gettrace()
    probe.open(0)
    assert sys.gettrace() is trace
    plain(torch.randn(2, 4))
    assert not probe.close()
