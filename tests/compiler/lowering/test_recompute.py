from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import pnne_nb as pn
from tests.compiler import graphs
from tests.compiler.graphs import wire
from tests.compiler.passes.graphs import convnet
from tests.compiler.pipeline.test_compile import assert_same, stand_alone


def assert_trains_alike(one: nn.Module, other: nn.Module, *inputs: torch.Tensor) -> None:
    """Compare two training steps bit for bit: outputs, gradients, statistics, and what is drawn afterwards."""
    other.load_state_dict(one.state_dict())
    found = []
    for model in (one, other):
        torch.manual_seed(7)
        for _ in range(2):
            out = model(*inputs)
            out.square().sum().backward()
        tensors = [out, *(p.grad for p in model.parameters()), *model.buffers(), torch.rand(3)]
        found.append([tensor for tensor in tensors if tensor is not None])
    assert len(found[0]) == len(found[1])
    assert all(torch.equal(a, b) for a, b in zip(*found, strict=True))


def checkpointed(graph: pn.NodeGraph, *nodes: str) -> pn.NodeGraph:
    copy = pn.NodeGraph.from_json(graph.to_json())
    for node in nodes:
        copy.set(node, checkpoint=True)
    return copy


@pytest.mark.parametrize(
    "nodes", [["block0"], ["block0", "block1"], ["block1.conv1"], ["block1", "block1.norm1"], ["stem"]]
)
def test_training_is_the_same_bit_for_bit(nodes: list[str]) -> None:
    graph = convnet(2, dropout=0.3)
    plain, again = pn.compile(graph), pn.compile(checkpointed(graph, *nodes))
    assert list(plain.state_dict()) == list(again.state_dict())
    assert_trains_alike(plain, again, torch.randn(4, 3, 8, 8))


def test_the_source_alone_does_the_same() -> None:
    graph = checkpointed(convnet(2, dropout=0.3), "block0", "head")
    source = pn.to_source(graph)
    assert "torch.utils.checkpoint.checkpoint(self.head, x, use_reentrant=False)" in source
    assert "x = checkpointed(self.block0, x)" in source
    assert "pnne_nb" not in source
    assert_trains_alike(pn.compile(graph), stand_alone(source, "Convnet"), torch.randn(4, 3, 8, 8))


def test_names_of_inputs_do_not_clash_with_what_the_source_needs() -> None:
    graph = pn.NodeGraph("clash")
    graph.add("Input", "checkpointed", shape=("N", 3, 4, 4))
    graph.add("Input", "nullcontext", shape=("N", 3, 4, 4))
    graph.add("BatchNorm2d", "torch_", num_features=3, checkpoint=True)
    graph.add("add", "sum")
    graph.add("Output", "y")
    wire(graph, "checkpointed torch_ sum.input", "nullcontext sum.other", "sum y")
    x = torch.randn(2, 3, 4, 4)
    model = pn.compile(graph)
    assert_same(model, stand_alone(pn.to_source(graph), "Clash"), [x, x])


def test_several_results_and_keyword_inputs() -> None:
    graph = checkpointed(graphs.recurrent(), "lstm")
    assert_trains_alike(pn.compile(graphs.recurrent()), pn.compile(graph), torch.randint(0, 11, (2, 6)))


def test_nothing_is_kept_inside() -> None:
    graph = convnet(3)
    sizes = []
    for each in (graph, checkpointed(graph, "block0", "block1", "block2")):
        kept: list[int] = []

        def pack(tensor: torch.Tensor, kept: list[int] = kept) -> torch.Tensor:
            kept.append(tensor.nbytes)
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            pn.compile(each)(torch.randn(4, 3, 8, 8))
        sizes.append(sum(kept))
    assert sizes[1] < sizes[0] / 2


def test_without_gradients_nothing_is_computed_again() -> None:
    graph = checkpointed(convnet(1), "block0")
    model = pn.compile(graph)
    calls: list[int] = []
    model.get_submodule("block0.conv0").register_forward_hook(lambda *_: calls.append(1))
    with torch.no_grad():
        model(torch.randn(2, 3, 8, 8))
    assert len(calls) == 1
    model(torch.randn(2, 3, 8, 8)).sum().backward()
    assert len(calls) == 3


def refused(graph: pn.NodeGraph) -> pn.Diagnostic:
    before = graph.to_json()
    with pytest.raises(pn.CompileError) as caught:
        pn.compile(graph)
    assert graph.to_json() == before
    (diagnostic,) = caught.value.diagnostics
    return diagnostic


@pytest.mark.parametrize("type", ["RNN", "LSTM", "GRU"])
def test_recurrent_layers_with_dropout_inside_are_refused(type: str) -> None:
    graph = pn.NodeGraph("recurrent")
    graph.add("Input", "x", shape=("N", "T", 4))
    graph.add(type, "rnn", input_size=4, hidden_size=4, num_layers=2, dropout=0.5, batch_first=True, checkpoint=True)
    graph.add("Output", "y")
    wire(graph, "x rnn", "rnn.output y.input")
    found = refused(graph)
    assert found.node == "rnn"
    assert str(found) == (
        "rnn: It cannot be checkpointed: it has dropout between its layers, and on a GPU keeps a random state of its "
        "own, so that recomputing it would give another dropout mask. Set its dropout to 0 and add Dropout nodes, or reset "
        "checkpoint."
    )
    graph.group(["rnn"], "block")
    graph.reset("block.rnn", "checkpoint")
    graph.set("block", checkpoint=True)
    assert "rnn has dropout between its layers" in refused(graph).message
    graph.set("block.rnn", dropout=0.0)
    pn.compile(graph)


def in_place(**where: Any) -> pn.NodeGraph:
    graph = pn.NodeGraph("in place")
    graph.add("Input", "x", shape=("N", 4))
    graph.add("Linear", "start", in_features=4, out_features=4)
    graph.add("Linear", "fc", in_features=4, out_features=4, **where.get("fc", {}))
    graph.add("ReLU", "act", **where.get("act", {}))
    graph.add("Output", "y")
    return wire(graph, "x start fc act y")


def test_what_changes_its_input_is_refused() -> None:
    graph = in_place(act={"inplace": True, "checkpoint": True})
    assert "it changes its input in place" in refused(graph).message
    graph.reset("act", "checkpoint")
    graph.group(["act"], "inner")
    graph.group(["inner"], "outer")
    graph.set("outer", checkpoint=True)
    found = refused(graph)
    assert (found.node, found.code) == ("outer", "checkpoint-in-place")


def test_an_input_that_is_changed_afterwards_is_refused() -> None:
    graph = in_place(fc={"checkpoint": True})
    graph.add("add_", "bump", other=1)
    graph.add("add", "sum")
    graph.disconnect("act", "y")
    wire(graph, "start bump sum.input", "act sum.other", "sum y")
    assert "bump changes its input in place afterwards" in refused(graph).message


def test_in_place_work_on_values_of_its_own_is_fine() -> None:
    graph = in_place(act={"inplace": True})
    graph.group(["fc", "act"], "block")
    assert_trains_alike(pn.compile(graph), pn.compile(checkpointed(graph, "block")), torch.randn(3, 4))
