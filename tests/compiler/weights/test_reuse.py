from __future__ import annotations

import pytest
import torch
from torch import nn

import pnne_nb as pn
from tests.compiler import graphs


def test_an_edit_keeps_the_weights_of_all_other_nodes() -> None:
    graph = graphs.lenet()
    old = pn.compile(graph)
    graph.set("conv2", out_channels=8)
    new = pn.compile(graph, reuse=old)
    assert torch.equal(new.get_parameter("conv1.weight"), old.get_parameter("conv1.weight"))
    assert new.get_parameter("conv2.weight").shape[0] == 8
    assert torch.equal(new.get_parameter("fc.bias"), old.get_parameter("fc.bias")), "what still fits is kept"
    assert new.get_parameter("fc.weight").shape == (10, 128)


def test_nothing_is_shared_with_the_old_model() -> None:
    graph = graphs.residual()
    old = pn.compile(graph)
    new = pn.compile(graph, reuse=old)
    before = {name: value.clone() for name, value in old.state_dict().items()}
    new(torch.randn(3, 3, 8, 8)).sum().backward()
    with torch.no_grad():
        for parameter in new.parameters():
            parameter.zero_()
    assert all(parameter.grad is None for parameter in old.parameters())
    assert all(torch.equal(before[name], value) for name, value in old.state_dict().items())


def test_buffers_modes_gradients_and_types_come_along() -> None:
    graph = graphs.residual()
    old = pn.compile(graph).double()
    old(torch.randn(3, 3, 8, 8, dtype=torch.float64))
    old.eval()
    old.get_submodule("drop").train()
    old.get_parameter("stem.weight").requires_grad_(False)
    graph.add("Linear", "extra", in_features=4, out_features=2)
    graph.disconnect("flat", "y")
    graphs.wire(graph, "flat extra y")
    new = pn.compile(graph, reuse=old)
    assert torch.equal(new.get_buffer("norm1.running_mean"), old.get_buffer("norm1.running_mean"))
    assert not new.training
    assert new.get_submodule("drop").training
    assert not new.get_submodule("extra").training
    assert not new.get_parameter("stem.weight").requires_grad
    assert new.get_parameter("extra.weight").dtype == torch.float64
    assert new(torch.randn(1, 3, 8, 8, dtype=torch.float64)).shape == (1, 2)


def test_tied_weights_stay_tied() -> None:
    graph = pn.NodeGraph("tied")
    graph.add("Input", "x", shape=("N", 4))
    graph.add("Linear", "one", in_features=4, out_features=4)
    graph.add("Linear", "two", in_features=4, out_features=4)
    graph.add("Output", "y")
    graphs.wire(graph, "x one two y")
    old = pn.compile(graph)
    old.get_submodule("two").register_parameter("weight", old.get_parameter("one.weight"))
    new = pn.compile(graph, reuse=old)
    assert new.get_parameter("two.weight") is new.get_parameter("one.weight")
    assert new.get_parameter("one.weight") is not old.get_parameter("one.weight")


@pytest.mark.parametrize("dtype", ["bfloat16", "float64"])
def test_a_type_that_a_new_node_names_is_kept(dtype: str) -> None:
    graph = graphs.mlp()
    old = pn.compile(graph)
    graph.add("Buffer", "table", shape=(3,), dtype=dtype)
    assert pn.compile(graph, reuse=old).get_buffer("table").dtype == getattr(torch, dtype)
    graph.set("table", dtype="float32")
    assert pn.compile(graph, reuse=old.to(torch.float16)).get_buffer("table").dtype == torch.float16


def test_recurrent_layers_use_what_was_carried_over() -> None:
    graph = graphs.recurrent()
    old = pn.compile(graph)
    new = pn.compile(graph, reuse=old)
    tokens = torch.arange(12).reshape(2, 6) % 11
    assert torch.equal(new(tokens), old(tokens))


def test_any_module_may_give_its_tensors() -> None:
    hand = graphs.Residual()
    model = pn.compile(graphs.residual(), reuse=hand)
    x = torch.randn(3, 3, 8, 8)
    assert torch.equal(model.eval()(x), hand.eval()(x))


def test_a_model_without_tensors_gives_its_mode_only() -> None:
    model = pn.compile(graphs.mlp(), reuse=nn.Identity().eval())
    assert not model.training


EDITS: tuple[tuple[str, dict[str, object], set[str]], ...] = (
    ("conv1", {"out_channels": 4}, {"conv1.weight", "conv1.bias", "conv2.weight"}),
    ("conv1", {"padding": 1, "kernel_size": 7}, {"conv1.weight"}),
    ("conv1", {"bias": False}, set()),
    ("conv2", {"padding": 1, "stride": 1}, {"fc.weight"}),
    ("fc", {"out_features": 7}, {"fc.weight", "fc.bias"}),
)


@pytest.mark.parametrize(("node", "values", "fresh"), EDITS)
def test_a_property_changes_only_what_no_longer_fits(node: str, values: dict[str, object], fresh: set[str]) -> None:
    graph = pn.NodeGraph("edited")
    graph.add("Input", "x", shape=("N", 1, 12, 12))
    graph.add("Conv2d", "conv1", out_channels=6, kernel_size=5)
    graph.add("Conv2d", "conv2", out_channels=8, kernel_size=3)
    graph.add("Flatten", "flat")
    graph.add("Linear", "fc", out_features=10)
    graph.add("Output", "y")
    graphs.wire(graph, "x conv1 conv2 flat fc y")
    old = pn.compile(graph)
    graph.set(node, **values)
    new = pn.compile(graph, reuse=old)
    before, after = old.state_dict(), new.state_dict()

    assert {name for name in after if before[name].shape != after[name].shape} == fresh
    assert all(torch.equal(after[name], before[name]) for name in after.keys() - fresh)
    settings = {name: getattr(new.get_submodule(node), name) for name in values if name != "bias"}
    wanted = {name: getattr(_rebuilt(graph, node), name) for name in settings}
    assert settings == wanted
    assert new(torch.randn(2, 1, 12, 12)).shape[0] == 2


def _rebuilt(graph: pn.NodeGraph, node: str) -> nn.Module:
    return pn.compile(graph).get_submodule(node)


def test_class_weights_follow_the_node_and_not_the_old_model() -> None:
    graph = pn.NodeGraph("weighted")
    graph.add("Input", "x", shape=("N", 3))
    graph.add("Input", "target", shape=("N",), dtype="int64")
    graph.add("CrossEntropyLoss", "loss", weight=torch.tensor([0.5, 2.0, 1.0]))
    graph.add("Output", "y")
    graph.connect("x", "loss.input")
    graph.connect("target", "loss.target")
    graph.connect("loss", "y")
    old = pn.compile(graph).double()
    assert "nn.CrossEntropyLoss(weight=torch.tensor([0.5, 2.0, 1.0]))" in pn.to_source(graph)
    assert list(old.state_dict()) == list(nn.ModuleDict({"loss": nn.CrossEntropyLoss(torch.ones(3))}).state_dict())
    graph.set("loss", weight=[1, 1, 3])
    new = pn.compile(graph, reuse=old)
    assert torch.equal(new.get_buffer("loss.weight"), torch.tensor([1.0, 1.0, 3.0], dtype=torch.float64))


def test_a_loss_with_class_weights_is_imported_with_them() -> None:
    class Judge(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.loss = nn.BCEWithLogitsLoss(pos_weight=torch.tensor([0.1, 3.0]))

        def forward(self, x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
            loss: torch.Tensor = self.loss(x, target)
            return loss

    net, args = Judge(), (torch.randn(4, 2), torch.rand(4, 2))
    graph = pn.from_module(net, args)
    assert graph["loss"].type == "BCEWithLogitsLoss"
    assert pn.verify(graph, net, args).equal
