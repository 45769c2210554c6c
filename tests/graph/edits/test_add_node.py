"""Nodes as PyTorch users add them: by name, class or layer, with arguments by position."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import pnne_nb as pn
from pnne_nb.errors import GraphError, PortTakenError, UnknownPortError
from pnne_nb.graph.edits.add_node import connection, edges_between, loose_end
from pnne_nb.graph.edits.apply import apply_op
from pnne_nb.graph.model.content import Content
from pnne_nb.graph.model.node import Edge
from pnne_nb.graph.model.ops import AddGraph, AddNode, Connect
from pnne_nb.graph.schema.structural import MODULE_PROPERTIES
from tests.graph.types import TYPES


def added(*arguments: Any, **properties: Any) -> tuple[str, dict[str, Any]]:
    node = pn.NodeGraph().add(*arguments, **properties)
    return node.type, dict(node.properties)


@pytest.mark.parametrize(
    "arguments", [("Linear", 784, 128), (nn.Linear, 784, 128), (nn.Linear(784, 128),), ("Linear", "fc", 784, 128)]
)
def test_a_layer_is_added_in_every_spelling(arguments: tuple[Any, ...]) -> None:
    assert added(*arguments) == ("Linear", {"in_features": 784, "out_features": 128})


def test_a_layer_that_is_made_gives_its_arguments_which_may_be_changed() -> None:
    assert added(nn.Conv2d(1, 6, 5, padding=2), bias=False)[1] == {
        "in_channels": 1, "out_channels": 6, "kernel_size": 5, "padding": 2, "bias": False,
    }  # fmt: skip


def test_functions_stand_for_their_types() -> None:
    assert added(F.relu)[0] == added(torch.relu)[0] == "relu"
    assert added(torch.flatten, start_dim=1) == ("flatten", {"start_dim": 1})


def test_arguments_by_position_have_torchs_order_in_every_layer() -> None:
    common = {prop.name for prop in MODULE_PROPERTIES}
    for spec in pn.catalog.values():
        if spec.kind != "module" or spec.parts or spec.category == "Custom":
            continue
        assert isinstance(spec.torch, type)
        torchs = [name for name in inspect.signature(spec.torch).parameters if name not in ("args", "kwargs")]
        ours = [prop.name for prop in spec.properties if prop.name not in common and prop.role == "init"]
        assert [name for name in torchs if name in ours] == [name for name in ours if name in torchs], spec.type


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("Dense",), r"There is no node type 'Dense'. Write graph.add\(\"Linear\", ...\)"),
        (
            ("Conv",),
            r"Write graph.add\(\"Conv1d\", ...\), graph.add\(\"Conv2d\", ...\) or graph.add\(\"Conv3d\", ...\)",
        ),
        (("BatchNorm",), r"Write graph.add\(\"BatchNorm1d\""),
        (("Sequential",), r"drawn layer by layer: pn.sequential\("),
        (("ModuleList",), r"graph.chain\(\*layers\)"),
        (("LazyLinear",), r"Every Linear is lazy here: graph.add\(\"Linear\", ...\) without in_features"),
        (("conv_2d",), "Did you mean 'Conv2d'"),
        (("nn.Conv2d",), "Did you mean 'Conv2d'"),
        (("conv2d", 1, 6, 5), r"Did you mean the layer Conv2d: graph.add\(\"Conv2d\", ...\)"),
        (("flatten", 1), "flatten is the function, which takes its arguments by name. Did you mean the layer Flatten"),
        (("roll", 1), r"Give the arguments of the function roll by name: graph.add\(\"roll\", shifts=..., dims=...\)"),
        (("Linear", 1, 2, True, 4), "Linear takes no device here, which 4 stands for"),
        (("ReLU", True, False), r"ReLU has 1 arguments \(inplace\), and 2 are given by position"),
        ((nn.Linear(3, 4), 5), "The Linear is made already: change its properties by name"),
        ((nn.Sequential(nn.ReLU()),), r"There is no node type for a Sequential. A graph is drawn layer by layer"),
        ((nn.LazyLinear,), "Every Linear is lazy here"),
        ((type("Mine", (nn.Module,), {}),), r"pn.register_node\(Mine\) makes one"),
        ((lambda x: x,), r"pn.register_node\(name=...\) makes one of a function"),
        ((3,), r"3 is no node type: give the name of one, such as \"Linear\""),
    ],
)
def test_what_is_no_type_is_answered_with_what_to_write(arguments: tuple[Any, ...], message: str) -> None:
    graph = pn.NodeGraph()
    with pytest.raises(pn.PnneError, match=message):
        graph.add(*arguments)
    assert len(graph) == 0


def test_the_arguments_of_a_layer_are_not_given_to_the_function_of_its_name() -> None:
    with pytest.raises(
        pn.UnknownPropertyError, match=r"conv2d is the function, which has no in_channels, .* the layer Conv2d"
    ):
        added("conv2d", in_channels=1, out_channels=6, kernel_size=5)
    assert added("conv2d", stride=2) == ("conv2d", {"stride": 2})


def test_an_argument_is_given_once() -> None:
    with pytest.raises(pn.ArgumentError, match="Linear has in_features twice: 1 by position, 3 by name"):
        added("Linear", 1, 2, in_features=3)


def test_a_chain_is_one_change_from_the_one_loose_end() -> None:
    graph = pn.NodeGraph()
    graph.add("Input", name="x", shape=("N", 8))
    version = graph.version
    nodes = graph.chain(
        ("Linear", {"out_features": 16}), nn.ReLU, ("head", nn.Linear(16, 3)), ("Dropout", {"p": 0.2}), ("Output", "y")
    )
    assert [node.name for node in nodes] == [
        "linear1",
        "re_lu1" if "re_lu1" in graph else "relu1",
        "head",
        "dropout1",
        "y",
    ]
    assert graph.version == version + 1
    assert [edge.source.partition(".")[0] for edge in graph.edges] == ["x", "linear1", "relu1", "head", "dropout1"]
    graph.undo()
    assert list(graph) == ["x"]


def test_a_chain_that_cannot_be_leaves_no_trace() -> None:
    graph = pn.NodeGraph()
    graph.add("Input", name="x", shape=("N", 8))
    before = graph.to_json()
    with pytest.raises(pn.UnknownTypeError, match="Dense"):
        graph.chain("ReLU", "Dense")
    with pytest.raises(pn.ArgumentError, match=r"A layer of a chain cannot be \(\)"):
        graph.chain("ReLU", ())
    assert graph.to_json() == before


def test_where_a_chain_begins_is_said_if_it_is_open() -> None:
    graph = pn.NodeGraph()
    assert loose_end(graph._content, graph._types) is None
    a, b = graph.add("Input", name="a"), graph.add("Input", name="b")
    with pytest.raises(
        pn.GraphError, match=r'the outputs of a, b lead nowhere: name the node, as in graph.chain\(..., after="b"\)'
    ):
        graph.chain("ReLU")
    graph.chain("ReLU", after=a)
    graph.chain(b, "Tanh", graph.add("Output", name="y"))
    assert ("b.output", "tanh1.input") in graph.edges
    assert ("tanh1.output", "y.input") in graph.edges


def test_more_than_two_ends_are_connected_one_to_the_next_or_not_at_all() -> None:
    graph = pn.NodeGraph()
    for name in ("a", "b", "c"):
        graph.add("ReLU", name=name)
    assert graph.connect("a", graph["b"], "c") == ("b.output", "c.input")
    graph.undo()
    assert not graph.edges
    with pytest.raises(pn.UnknownNodeError, match="nowhere"):
        graph.connect("a", "b", "nowhere")
    assert not graph.edges


def test_a_node_says_how_it_is_changed() -> None:
    graph = pn.NodeGraph()
    node: Any = graph.add("Conv2d", 1, 6, 5, name="conv")
    with pytest.raises(AttributeError, match=r'read only: graph.set\("conv", out_channels=8\)'):
        node.out_channels = 8
    with pytest.raises(AttributeError, match=r'node.properties\["out_channels"\]'):
        _ = node.out_channels
    with pytest.raises(AttributeError, match="no attribute 'padding'"):
        _ = node.padding
    with pytest.raises(TypeError, match=r'graph.connect\("conv", "conv"\)'):
        node >> node


def test_a_document_is_a_collection_of_its_nodes() -> None:
    graph = pn.NodeGraph()
    assert (len(graph), bool(graph)) == (0, True)
    graph.add("ReLU", name="a")
    graph.group(["a"], name="block")
    assert (len(graph), list(graph), "a" in graph, "block.a" in graph) == (1, ["block"], False, True)
    assert graph._ipython_key_completions_() == ["block", "block.a", "block.output"]


def content(*nodes: tuple[str, str], edges: tuple[tuple[str, str], ...] = ()) -> Content:
    made = Content("net")
    for name, type in nodes:
        apply_op(made, AddNode(name, type))
    for source, target in edges:
        apply_op(made, Connect(source, target))
    return made


def test_the_first_free_input_is_taken_and_a_full_node_says_by_what() -> None:
    made = content(("x", "Input"), ("sum", "add"))
    assert connection(made, "x", "sum", TYPES) == Connect("x.output", "sum.input")
    apply_op(made, Connect("x.output", "sum.input"))
    assert connection(made, "x", "sum", TYPES) == Connect("x.output", "sum.other")
    apply_op(made, Connect("x.output", "sum.other"))
    with pytest.raises(
        PortTakenError, match=r"Every input of sum is fed already: sum\.input by x\.output, sum\.other by"
    ):
        connection(made, "x", "sum", TYPES)


def test_a_variadic_input_is_never_full_and_ports_that_fit_are_preferred() -> None:
    made = content(("x", "Input"), ("all", "cat"), ("data", "Digits"), ("load", "Loader"))
    for place in range(3):
        assert connection(made, "x", "all", TYPES) == Connect("x.output", "all.tensors")
        apply_op(made, Connect("x.output", f"all.tensors_{place}"))
    assert connection(made, "data", "load", TYPES) == Connect("data.output", "load.dataset")
    assert connection(made, "x.output", "load.sampler", TYPES) == Connect("x.output", "load.sampler")


def test_nodes_without_ports_and_of_different_graphs_say_so() -> None:
    made = content(("x", "Input"), ("y", "Output"))
    with pytest.raises(UnknownPortError, match=r"y \(Output\) has no outputs\."):
        connection(made, "y", "x", TYPES)
    apply_op(made, AddGraph("inner"))
    apply_op(made, AddNode("act", "ReLU", graph="inner"))
    apply_op(made, AddNode("block", "Subgraph", {"definition": "inner"}))
    with pytest.raises(GraphError, match=r"x and block\.act are in different graphs"):
        connection(made, "x", "block.act", TYPES)


def test_a_chain_goes_on_at_the_one_loose_end() -> None:
    assert loose_end(content(("y", "Output")), TYPES) is None
    made = content(("x", "Input"), ("a", "ReLU"), edges=(("x.output", "a.input"),))
    found = loose_end(made, TYPES)
    assert found is not None
    assert found.name == "a"
    apply_op(made, AddNode("b", "ReLU"))
    with pytest.raises(GraphError, match=r'the outputs of a, b lead nowhere: name the node, .*after="b"'):
        loose_end(made, TYPES)


def test_edges_between_nodes_are_all_of_them_and_between_ports_one() -> None:
    edges = (("x.output", "sum.input"), ("x.output", "sum.other"))
    made = content(("x", "Input"), ("sum", "add"), edges=edges)
    assert edges_between(made, "x", "sum")[1] == [Edge(*edge) for edge in edges]
    assert edges_between(made, "x", "sum.other")[1] == [Edge(*edges[1])]
    with pytest.raises(UnknownPortError, match=r"There is no edge from sum to x\."):
        edges_between(made, "sum", "x")
