from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import pnne_nb as pn
from pnne_nb.compiler.passes import report
from pnne_nb.compiler.passes.batchnorm_fusion import fused_weights
from pnne_nb.compiler.passes.pass_manager import Transformed
from tests.compiler.graphs import wire
from tests.compiler.passes.graphs import convnet, trained


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "TIMING_SECONDS", 0.0)
    monkeypatch.setattr(report, "TIMING_ROUNDS", 1)


def fuse(graph: pn.NodeGraph, reuse: nn.Module, *args: torch.Tensor) -> Transformed:
    return pn.transform(graph, [pn.passes.FuseBatchNorm()], args=args, reuse=reuse)


CASES: list[tuple[str, dict[str, Any], str, tuple[int, ...]]] = [
    ("Conv1d", {"in_channels": 4, "kernel_size": 3}, "BatchNorm1d", (2, 4, 9)),
    ("Conv2d", {"in_channels": 4, "kernel_size": 3, "groups": 2, "bias": False}, "BatchNorm2d", (2, 4, 7, 7)),
    ("Conv2d", {"in_channels": 4, "kernel_size": 3, "padding": 1, "padding_mode": "reflect"}, "BatchNorm2d", (2, 4, 7, 7)),
    ("Conv3d", {"in_channels": 4, "kernel_size": 2}, "BatchNorm3d", (2, 4, 4, 4, 4)),
    ("ConvTranspose1d", {"in_channels": 4, "kernel_size": 3}, "BatchNorm1d", (2, 4, 5)),
    ("ConvTranspose2d", {"in_channels": 4, "kernel_size": 3, "stride": 2, "groups": 2}, "BatchNorm2d", (2, 4, 5, 5)),
    ("ConvTranspose2d", {"in_channels": 4, "kernel_size": 3, "groups": 4, "bias": False}, "BatchNorm2d", (2, 4, 5, 5)),
    ("ConvTranspose3d", {"in_channels": 4, "kernel_size": 2}, "BatchNorm3d", (2, 4, 3, 3, 3)),
    ("Linear", {"in_features": 4}, "BatchNorm1d", (5, 4)),
    ("Linear", {"in_features": 4, "bias": False}, "BatchNorm1d", (5, 4)),
]  # fmt: skip


@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize(("layer", "properties", "norm", "shape"), CASES)
def test_normalisation_goes_into_the_layer(
    layer: str, properties: dict[str, Any], norm: str, shape: tuple[int, ...], *, affine: bool
) -> None:
    graph = pn.NodeGraph("fused")
    graph.add("Input", "x", shape=("N", *shape[1:]))
    size = {"out_features" if layer == "Linear" else "out_channels": 8}
    graph.add(layer, name="layer", **properties, **size)
    graph.add(norm, "norm", num_features=8, affine=affine)
    graph.add("relu", "act")
    graph.add("Output", "y")
    wire(graph, "x layer norm act y")
    x = torch.randn(shape)
    model = trained(graph, x)
    done = fuse(graph, model, x)
    (report,) = done.reports
    assert [change.nodes for change in report.changes] == [("layer", "norm"), ("act",)], str(report)
    assert list(done.model.state_dict()) == ["layer.weight", "layer.bias"]
    assert "norm" not in done.graph
    assert not done.model.training
    torch.testing.assert_close(done.model(x), model.eval()(x), rtol=1e-4, atol=1e-5)
    assert report.gains[1].measured
    assert "norm.running_mean" in pn.compile(graph).state_dict(), "the given graph is as it was"


def test_the_weights_are_those_that_torch_computes() -> None:
    conv, norm = nn.Conv2d(3, 4, 3).eval(), nn.BatchNorm2d(4).eval()
    assert norm.running_var is not None
    norm.running_var.uniform_(0.5, 2)
    weight, bias = fused_weights(conv, norm)
    theirs = nn.utils.fusion.fuse_conv_bn_eval(conv, norm)
    assert torch.equal(weight, theirs.weight)
    assert theirs.bias is not None
    assert torch.equal(bias, theirs.bias)


def test_each_use_of_a_block_gets_its_own_weights() -> None:
    graph = convnet(1)
    graph.add("Subgraph", "again", definition=graph["block0"].definition)
    output = graph.graphs[graph["block0"].definition or ""].outputs[0]
    inner = graph.graphs[graph["block0"].definition or ""].inputs[0]
    graph.disconnect("block0", "flat")
    graph.connect(f"block0.{output}", f"again.{inner}")
    graph.connect(f"again.{output}", "flat.input")
    x = torch.randn(3, 3, 8, 8)
    model = trained(graph, x)
    done = fuse(graph, model, x)
    fused = [change.nodes[0] for change in done.reports[0].changes if change.what == "fused"]
    assert fused == ["block0.conv0", "again.conv0"]
    one, other = done.model.get_parameter("block0.conv0.weight"), done.model.get_parameter("again.conv0.weight")
    assert not torch.equal(one, other)
    torch.testing.assert_close(done.model(x), model.eval()(x), rtol=1e-4, atol=1e-5)


def test_what_cannot_be_fused_is_left_with_the_reason() -> None:
    graph = pn.NodeGraph("left")
    graph.add("Input", "x", shape=("N", 5, 4))
    for name in ("free", "wide", "used"):
        graph.add("Linear" if name == "wide" else "Conv1d", name=name, **(
            {"in_features": 4, "out_features": 5} if name == "wide"
            else {"in_channels": 5, "out_channels": 5, "kernel_size": 1}))  # fmt: skip
        graph.add("BatchNorm1d", f"{name}_norm", num_features=5, track_running_stats=name != "free")
    graph.add("cat", "joint", dim=2)
    graph.add("Output", "y")
    for name in ("free", "wide", "used"):
        wire(graph, f"x {name} {name}_norm joint.tensors")
    wire(graph, "used joint.tensors", "joint y")
    x = torch.randn(3, 5, 4)
    done = fuse(graph, trained(graph, x), x)
    (report,) = done.reports
    assert not report.changes
    assert report.skipped == {
        "free_norm": "it keeps no statistics: what it does depends on each batch",
        "wide_norm": "wide gives more than two axes, or a number that is not known, and it normalises another than the last",
        "used_norm": "used also feeds joint",
    }


def test_shared_layers_are_left() -> None:
    graph = convnet(1)
    graph.add("Conv2d", "block0.twin", shares="conv0", in_channels=8, out_channels=8, kernel_size=3)
    report = fuse(graph_with_twin(graph), pn.compile(graph), torch.randn(2, 3, 8, 8)).reports[0]
    assert report.skipped == {"block0.norm0": "its module, or that of the layer before it, is used by several nodes"}


def graph_with_twin(graph: pn.NodeGraph) -> pn.NodeGraph:
    inner = graph.graphs[graph["block0"].definition or ""].inputs[0]
    graph.connect(f"block0.{inner}.output", "block0.twin.input")
    graph.add("Output", "block0.side")
    graph.connect("block0.twin.output", "block0.side.input")
    return graph


def test_statistics_that_blow_up_are_refused() -> None:
    graph = convnet(1)
    x = torch.randn(2, 3, 8, 8)
    model = trained(graph, x)
    with torch.no_grad():
        model.get_buffer("block0.norm0.running_var").fill_(float("nan"))
    report = fuse(graph, model, x).reports[0]
    # What was NaN stays NaN: the proof compares, it does not judge.
    assert not report.refused


def activated(*, twice: bool = False, **properties: Any) -> pn.NodeGraph:
    graph = pn.NodeGraph("activated")
    graph.add("Input", "x", shape=("N", 3, 6, 6))
    graph.add("Conv2d", "conv", in_channels=3, out_channels=4, kernel_size=3)
    graph.add("BatchNorm2d", "norm", num_features=4)
    graph.add("ReLU", "act", **properties)
    graph.add("Output", "y")
    wire(graph, "x conv norm act y")
    if twice:
        graph.add("Output", "before")
        graph.connect("norm", "before")
    return graph


def test_the_activation_behind_works_in_place() -> None:
    graph, x = activated(), torch.randn(2, 3, 6, 6)
    model = trained(graph, x)
    done = fuse(graph, model, x)
    assert [str(change) for change in done.reports[0].changes] == [
        "fused conv, norm: norm is in the weights of conv",
        "set in place act: it overwrites what conv gives: eager PyTorch has no kernel for both",
    ]
    assert done.graph["act"].properties["inplace"] is True
    assert "inplace" not in graph["act"].properties, "the given graph is not changed"
    torch.testing.assert_close(done.model(x), model.eval()(x), rtol=1e-4, atol=1e-4)
    given = x.clone()
    done.model(given)
    assert torch.equal(given, x)


@pytest.mark.parametrize("graph", [activated(twice=True), activated(checkpoint=True), activated(inplace=True)])
def test_an_activation_stays_as_it_is_where_others_need_its_input(graph: pn.NodeGraph) -> None:
    x = torch.randn(2, 3, 6, 6)
    done = fuse(graph, trained(graph, x), x)
    assert [change.what for change in done.reports[0].changes] == ["fused"]
    assert done.graph["act"].properties == graph["act"].properties


def test_an_activation_whose_module_is_lent_stays_as_it_is() -> None:
    graph = activated()
    graph.add("ReLU", "again", shares="act")
    graph.disconnect("act", "y")
    wire(graph, "act again y")
    x = torch.randn(2, 3, 6, 6)
    assert [change.what for change in fuse(graph, trained(graph, x), x).reports[0].changes] == ["fused"]


def test_activations_in_blocks_used_twice_are_told_at_both_places() -> None:
    graph = activated()
    graph.group(["conv", "norm", "act"], "block")
    definition = graph["block"].definition
    given, gives = graph.graphs[definition or ""].inputs[0], graph.graphs[definition or ""].outputs[0]
    graph.add("Conv2d", "back", in_channels=4, out_channels=3, kernel_size=1)
    graph.add("Subgraph", "other", definition=definition)
    graph.disconnect(f"block.{gives}", "y.input")
    graph.connect(f"block.{gives}", "back.input")
    graph.connect("back.output", f"other.{given}")
    graph.connect(f"other.{gives}", "y.input")
    x = torch.randn(2, 3, 6, 6)
    done = fuse(graph, trained(graph, x), x)
    assert [change.nodes for change in done.reports[0].changes] == [
        ("block.conv", "block.norm"),
        ("other.conv", "other.norm"),
        ("block.act",),
        ("other.act",),
    ]


def test_a_layer_whose_weight_another_has_too_is_left_and_the_others_are_fused() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.norm, self.b = nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Linear(8, 8)
            self.b.weight = self.a.weight
            self.last = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y: torch.Tensor = self.last(self.b(torch.relu(self.norm(self.a(x)))))
            return y

    torch.manual_seed(0)
    net, x = Tied(), torch.randn(16, 8)
    net(3 * x)
    found = pn.optimize_for_inference(pn.from_module(net.eval(), (x,)))
    torch.testing.assert_close(found.model(x), net(x), rtol=1e-4, atol=1e-5)
    report = found.reports[-1]
    assert report.skipped == {"norm": "another layer has the weight of a too"}
    assert [change.nodes for change in report.changes if change.what == "fused"] == [("last.0", "last.1")]
