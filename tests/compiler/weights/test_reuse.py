from __future__ import annotations

from typing import Any

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


def pictures() -> pn.NodeGraph:
    """Convolutions, a depthwise one among them, batch norms and linear layers in a row; and pictures [N, 3, 8, 8]."""
    graph = pn.NodeGraph("pictures")
    graph.add("Input", "x", shape=("N", 3, 8, 8))
    graph.add("Conv2d", "conv1", in_channels=3, out_channels=4, kernel_size=3)
    graph.add("BatchNorm2d", "norm")
    graph.add("ReLU", "relu")
    graph.add("Conv2d", "deep", out_channels=4, groups=4, kernel_size=3)
    graph.add("Conv2d", "conv2", out_channels=6, kernel_size=1)
    graph.add("Flatten", "flat")
    graph.add("Linear", "fc1", out_features=10)
    graph.add("Tanh", "tanh")
    graph.add("Linear", "fc2", out_features=5)
    graph.add("Output", "y")
    graphs.wire(graph, "x conv1 norm relu deep conv2 flat fc1 tanh fc2 y")
    return graph


@pytest.mark.parametrize(
    "edits",
    [
        {"fc1": {"out_features": 13}},
        {"conv2": {"out_channels": 7}},
        {"conv1": {"out_channels": 6}, "deep": {"out_channels": 6, "groups": 6}},
        {"conv1": {"out_channels": 8}, "deep": {"out_channels": 8, "groups": 8}, "fc1": {"out_features": 30}},
    ],
)
@pytest.mark.parametrize("training", [True, False])
def test_the_wider_model_computes_what_it_did(edits: dict[str, dict[str, int]], training: bool) -> None:
    graph = pictures()
    old = pn.compile(graph).double()
    x = torch.randn(5, 3, 8, 8, dtype=torch.float64)
    old(x)  # the batch norm has seen something
    for node, values in edits.items():
        graph.set(node, **values)
    new = pn.compile(graph, reuse=old)
    assert sum(p.numel() for p in new.parameters()) > sum(p.numel() for p in old.parameters())
    torch.testing.assert_close(new.train(training)(x), old.train(training)(x))
    new(x).square().sum().backward()
    columns = new.get_parameter("fc2.weight").grad
    assert columns is not None
    assert columns.abs().sum(0).all(), "what starts at zero learns"


def test_old_rows_are_kept_and_new_ones_are_drawn() -> None:
    graph = pictures()
    old = pn.compile(graph)
    graph.set("fc1", out_features=13)
    new = pn.compile(graph, reuse=old)
    rows, columns = new.get_parameter("fc1.weight"), new.get_parameter("fc2.weight")
    assert torch.equal(rows[:10], old.get_parameter("fc1.weight"))
    assert torch.equal(new.get_parameter("fc1.bias")[:10], old.get_parameter("fc1.bias"))
    assert rows[10:].all()
    assert torch.equal(columns[:, :10], old.get_parameter("fc2.weight"))
    assert not columns[:, 10:].any()


def test_more_classes_and_more_words_keep_the_old_ones() -> None:
    graph = pn.NodeGraph("words")
    graph.add("Input", "x", shape=("N", "T"), dtype="int64")
    graph.add("Embedding", "words", num_embeddings=11, embedding_dim=4)
    graph.add("Linear", "classes", in_features=4, out_features=3)
    graph.add("Output", "y")
    graphs.wire(graph, "x words classes y")
    old = pn.compile(graph)
    graph.set("words", num_embeddings=15)
    graph.set("classes", out_features=7)
    new = pn.compile(graph, reuse=old)
    tokens = torch.arange(11).reshape(1, 11)
    assert torch.equal(new.get_parameter("words.weight")[:11], old.get_parameter("words.weight"))
    torch.testing.assert_close(new(tokens)[..., :3], old(tokens))
    assert new(torch.tensor([[14]])).shape == (1, 1, 7)


def test_columns_for_another_layers_units_are_new() -> None:
    graph = graphs.mlp()
    old = pn.compile(graph)
    graph.disconnect("fc1.output", "act.input")
    graph.add("Linear", "between", out_features=64)
    graph.set("fc2", in_features=64)
    graphs.wire(graph, "fc1 between act")
    new = pn.compile(graph, reuse=old)
    columns = new.get_parameter("fc2.weight")
    assert columns.shape[1] == 64
    assert columns.all()
    assert not torch.equal(columns[:, : old.get_parameter("fc2.weight").shape[1]], old.get_parameter("fc2.weight"))


@pytest.mark.parametrize(
    ("node", "before", "after"),
    [
        ("Linear", {"in_features": 6, "out_features": 8}, {"out_features": 5}),
        ("Conv1d", {"in_channels": 6, "out_channels": 8, "kernel_size": 3, "padding": 1}, {"kernel_size": 5}),
        ("Conv1d", {"in_channels": 6, "out_channels": 8, "kernel_size": 1, "groups": 2}, {"out_channels": 12}),
        ("ConvTranspose1d", {"in_channels": 6, "out_channels": 8, "kernel_size": 1, "groups": 2}, {"out_channels": 12}),
    ],
)
def test_narrower_and_regrouped_weights_start_fresh(node: str, before: dict[str, Any], after: dict[str, Any]) -> None:
    graph = pn.NodeGraph("one")
    graph.add("Input", "x", shape=("N", 6, 6))
    graph.add(node, "layer", **before)
    graph.add("Output", "y")
    graphs.wire(graph, "x layer y")
    old = pn.compile(graph)
    graph.set("layer", **after)
    new = pn.compile(graph, reuse=old)
    was, now = old.get_parameter("layer.weight"), new.get_parameter("layer.weight")
    shared = tuple(slice(0, min(pair)) for pair in zip(was.shape, now.shape, strict=True))
    assert was.shape != now.shape
    assert not torch.isclose(now[shared], was[shared]).any()
    assert now.all()


def test_a_transposed_convolution_and_frozen_weights() -> None:
    graph = pn.NodeGraph("up")
    graph.add("Input", "x", shape=("N", 3, 5))
    graph.add("ConvTranspose1d", "up", in_channels=3, out_channels=4, kernel_size=3)
    graph.add("ConvTranspose1d", "last", out_channels=2, kernel_size=2)
    graph.add("Output", "y")
    graphs.wire(graph, "x up last y")
    old = pn.compile(graph)
    old.get_parameter("up.weight").requires_grad_(False)
    graph.set("up", out_channels=9)
    new = pn.compile(graph, reuse=old)
    x = torch.randn(2, 3, 5)
    torch.testing.assert_close(new(x), old(x))
    assert not new.get_parameter("up.weight").requires_grad


def test_tied_weights_grow_as_one() -> None:
    graph = pn.NodeGraph("tied")
    graph.add("Input", "x", shape=("N", 4))
    graph.add("Linear", "one", in_features=4, out_features=4)
    graph.add("Linear", "two", in_features=4, out_features=4)
    graph.add("Output", "y")
    graphs.wire(graph, "x one two y")
    old = pn.compile(graph)
    old.get_submodule("two").register_parameter("weight", old.get_parameter("one.weight"))
    graph.set("x", shape=("N", 6))
    for name in ("one", "two"):
        graph.set(name, in_features=6, out_features=6)
    new = pn.compile(graph, reuse=old)
    assert new.get_parameter("two.weight") is new.get_parameter("one.weight")
    assert torch.equal(new.get_parameter("one.weight")[:4, :4], old.get_parameter("one.weight"))


def test_an_imported_net_is_widened_from_the_module_itself() -> None:
    net = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2)).eval()
    x = torch.randn(3, 4)
    graph = pn.from_module(net, (x,))
    graph.set("0", out_features=12)
    graph.set("1", num_features=12)
    graph.set("3", in_features=12)
    torch.testing.assert_close(pn.compile(graph, reuse=net)(x), net(x))
