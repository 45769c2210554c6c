"""What an output port gives, whatever comes after it."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import pnne_nb as pn
from pnne_nb.compiler.analysis.run_to_port import compile_to_port, run_fragment


class Tagger(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(4, 5, batch_first=True)
        self.head = nn.Sequential(nn.Linear(5, 3), nn.ReLU(inplace=True), nn.Dropout(0.5))
        self.again = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))

    def forward(self, x: Tensor) -> Tensor:
        hidden, _ = self.lstm(x)
        result: Tensor = self.again(self.head(hidden[:, -1]))
        return result


def test_each_port_gives_what_the_model_computes_there() -> None:
    net, x = Tagger(), torch.randn(2, 6, 4)
    graph = pn.from_module(net, (x,))
    before = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    net.eval()
    with torch.no_grad():
        hidden, (_, cells) = net.lstm(x)
        linear = net.head[0](hidden[:, -1])
        whole = net(x)
    net.train()

    def at(port: str) -> object:
        fragment = compile_to_port(graph, port, net)
        assert fragment.fresh == ()
        return run_fragment(fragment, (x,))

    torch.testing.assert_close(at("lstm.c_n"), cells, rtol=0, atol=0)
    # The ReLU that follows works in place: it must not have run.
    torch.testing.assert_close(at("head.0.output"), linear, rtol=0, atol=0)
    torch.testing.assert_close(at("again.output"), whole, rtol=0, atol=0)
    assert net.training
    torch.testing.assert_close(net.state_dict(), before, rtol=0, atol=0)


def test_what_comes_after_may_be_wrong_and_is_not_run() -> None:
    graph = pn.NodeGraph()
    graph.add("Input", name="x", shape=("N", 4))
    graph.add("Input", name="unused")
    graph.add("Linear", name="fc", in_features=4, out_features=3)
    graph.add("Linear", name="wrong", in_features=99, out_features=2)
    graph.connect("x", "fc", "wrong")
    fragment = compile_to_port(graph, "fc.output")
    assert list(fragment.graph.nodes) == ["x", "fc", "here"]
    assert fragment.fresh == ("fc.weight", "fc.bias")
    assert run_fragment(fragment, (torch.ones(2, 4),)).shape == (2, 3)


def test_one_of_two_blocks_with_one_definition_is_cut() -> None:
    inner = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
    net, x = nn.Sequential(inner, inner, nn.ReLU()), torch.randn(2, 4)
    graph = pn.from_module(net, (x,))
    first, second = (node.name for node in graph.nodes.values() if node.type == "Subgraph")
    with torch.no_grad():
        values = {first: inner[0](x), second: inner[0](inner(x))}
    for block, expected in values.items():
        fragment = compile_to_port(graph, f"{block}.0.output", net)
        assert fragment.fresh == ()
        torch.testing.assert_close(run_fragment(fragment, (x,)), expected, rtol=0, atol=0)


def test_a_module_that_is_its_own_graph_keeps_its_weights() -> None:
    net, x = nn.Linear(4, 3), torch.randn(2, 4)
    graph = pn.from_module(net, (x,))
    fragment = compile_to_port(graph, "linear.output", net)
    assert fragment.fresh == ()
    with torch.no_grad():
        torch.testing.assert_close(run_fragment(fragment, (x,)), net(x), rtol=0, atol=0)


def test_arguments_stay_as_they_are() -> None:
    graph = pn.NodeGraph()
    graph.add("Input", name="x", shape=("N", 4))
    graph.add("ReLU", name="act", inplace=True)
    graph.connect("x", "act")
    x = torch.full((2, 4), -1.0)
    assert run_fragment(compile_to_port(graph, "act.output"), (x,)).eq(0).all()
    assert x.eq(-1).all()


def test_a_port_that_is_not_there_is_refused() -> None:
    graph = pn.sequential(nn.Linear(4, 3), input=("N", 4))
    with pytest.raises(pn.GraphError, match="There is no node 'gone'"):
        compile_to_port(graph, "gone.output")
    with pytest.raises(pn.CompileError, match="has no output 'nothing'"):
        compile_to_port(graph, "linear1.nothing")


def test_what_hangs_on_no_input_can_be_run() -> None:
    net, x = nn.Linear(4, 3), torch.randn(2, 4)
    fragment = compile_to_port(pn.from_module(net, (x,)), "weight.output", net)
    torch.testing.assert_close(run_fragment(fragment, (torch.zeros(1),)), net.weight.detach(), rtol=0, atol=0)
