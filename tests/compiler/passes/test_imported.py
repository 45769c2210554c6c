"""Passes on graphs of imported modules, whose attributes are not always called as their nodes."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils import _pytree as pytree

import pnne_nb as pn
from pnne_nb.compiler.passes import report
from tests.compiler.importing.test_importer import MODELS
from tests.compiler.pipeline.test_compile import stand_alone
from tests.compiler.test_works_with import X, shared


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "TIMING_SECONDS", 0.0)
    monkeypatch.setattr(report, "TIMING_ROUNDS", 1)


@pytest.mark.parametrize("name", MODELS)
def test_every_pass_keeps_what_an_imported_model_computes(name: str) -> None:
    make, args, _ = MODELS[name]
    net = make()
    graph = pn.from_module(net, args)
    passes = [
        pn.passes.RemoveDeadNodes(),
        pn.passes.FoldConstants(),
        pn.passes.MergeEqualNodes(),
        pn.passes.FuseBatchNorm(),
    ]
    done = pn.transform(graph, passes, args, reuse=net)
    assert not any(report.refused for report in done.reports), str(done)
    results = [pytree.tree_leaves(model.eval()(*copy.deepcopy(args))) for model in (net, done.model)]
    for mine, theirs in zip(*results, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-5)
    lost = set(pn.compile(graph, reuse=net).state_dict()) - set(done.model.state_dict())
    told = " ".join(str(report) for report in done.reports)
    fused = {change.nodes[1] for change in done.reports[3].changes}
    assert all(key in told or any(key.startswith(f"{node}.") for node in fused) for key in lost), told


class Listed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = torch.relu(layer(x))
        return x


def test_members_of_a_list_are_checkpointed_placed_and_watched() -> None:
    net = Listed()
    graph = pn.from_module(net, (torch.randn(2, 4),))
    graph.set("layers.0", checkpoint=True)
    graph.set("layers.1", device="cpu")
    model = pn.compile(graph, reuse=net)
    x = torch.randn(3, 4, requires_grad=True)
    assert torch.equal(model(x), net(x))
    twin = stand_alone(pn.to_source(graph), "Listed")
    twin.load_state_dict(net.state_dict())
    assert torch.equal(twin(x), net(x))
    assert "torch.utils.checkpoint.checkpoint(" in pn.to_source(graph)
    assert '.to("cpu")' in pn.to_source(graph)
    with torch.no_grad():
        model.get_parameter("layers.1.weight").fill_(float("inf"))
    with pytest.raises(pn.ExecutionError, match=r"Its weight holds 16 infinite of 16 values") as caught:
        _watched(model, x)
    assert caught.value.diagnostics[0].node == "layers_1"


def _watched(model: nn.Module, x: torch.Tensor) -> None:
    with pn.detect_anomaly(model):
        model(x)


class Taken(nn.Module):
    """A list whose members the module itself calls."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(2)])
        self.norms = nn.ModuleList([nn.LayerNorm(4) for _ in range(2)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer, norm in zip(self.layers, self.norms, strict=True):
            x = torch.relu(norm(layer(x)))
        return x


def test_members_that_are_held_elsewhere_are_found() -> None:
    net = Taken()
    graph = pn.from_module(net, (torch.randn(2, 4),))
    names = {"Linear": "", "LayerNorm": ""} | {node.type: name for name, node in graph.nodes.items()}
    graph.set(names["Linear"], device="cpu", checkpoint=True)
    model = pn.compile(graph, reuse=net)
    assert list(model.state_dict()) == list(net.state_dict())
    x = torch.randn(3, 4)
    assert torch.equal(model(x), net(x))
    done = pn.transform(graph, [pn.passes.CheckpointActivations([names["LayerNorm"]])], x, reuse=net)
    assert not done.reports[0].refused


def test_shared_blocks_are_fused_where_their_weights_are() -> None:
    graph = shared()
    model = pn.compile(graph)
    done = pn.transform(graph, [pn.passes.FuseBatchNorm()], X, reuse=model)
    fused = [change.nodes[0] for change in done.reports[0].changes if change.what == "fused"]
    assert fused == ["block0.conv0", "own.conv0", "tied.conv0"]
    torch.testing.assert_close(done.model(X), model.eval()(X), rtol=1e-4, atol=1e-5)


def test_what_looks_at_its_data_is_run_on_copies() -> None:
    make, args, _ = MODELS["branching"]
    net: Any = make()
    graph = pn.from_module(net, args)
    graph.add("relu", "dead")
    graph.connect("first.output", "dead.input")
    before = copy.deepcopy(net.state_dict())
    done = pn.transform(graph, [pn.passes.RemoveDeadNodes()], args, reuse=net)
    assert "dead" not in done.graph
    assert all(torch.equal(before[key], value) for key, value in net.state_dict().items())
