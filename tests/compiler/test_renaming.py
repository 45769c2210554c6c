"""A renamed, grouped or ungrouped node keeps its weights; a new node under an old name has none of them."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import hypothesis
import torch
from hypothesis import strategies as st
from torch import nn

import pnne_nb as pn
from pnne_nb.compiler import renaming
from tests.compiler.graphs import wire


def blocks() -> tuple[nn.Module, pn.NodeGraph]:
    net = nn.Sequential(nn.Linear(3, 3), nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3)), nn.Linear(3, 3))
    return net, pn.from_module(net, (torch.randn(2, 3),))


def test_a_renamed_node_keeps_its_weights_of_the_imported_module() -> None:
    net, graph = blocks()
    graph.rename("0", "stem")
    graph.rename("1.0", "inner")
    graph.rename("1", "block")
    model = pn.compile(graph, reuse=net)
    assert list(model.state_dict())[:3] == ["stem.weight", "stem.bias", "block.inner.weight"]
    assert torch.equal(model.get_parameter("stem.weight"), net.get_parameter("0.weight"))
    assert torch.equal(model.get_parameter("block.inner.weight"), net.get_parameter("1.0.weight"))
    x = torch.randn(4, 3)
    assert torch.equal(model.eval()(x), net.eval()(x))


def test_names_are_followed_from_the_model_that_is_reused() -> None:
    net, graph = blocks()
    graph.rename("0", "a")
    first = pn.compile(graph, reuse=net)
    graph.rename("a", "b")
    second = pn.compile(graph, reuse=first)
    graph.undo()
    third = pn.compile(graph, reuse=second)
    for model, key in ((second, "b.weight"), (third, "a.weight")):
        assert torch.equal(model.get_parameter(key), net.get_parameter("0.weight"))


def test_a_new_node_under_an_old_name_begins_anew() -> None:
    net, graph = blocks()
    graph.rename("0", "first")
    graph.disconnect("input", "first")
    graph.add("Linear", name="0", in_features=3, out_features=3)
    graph.connect("input", "0")
    graph.connect("0", "first")
    model = pn.compile(graph, reuse=net)
    assert torch.equal(model.get_parameter("first.weight"), net.get_parameter("0.weight"))
    assert not torch.equal(model.get_parameter("0.weight"), net.get_parameter("0.weight"))


def test_two_nodes_that_change_names_change_weights() -> None:
    net, graph = blocks()
    graph.rename("0", "aside")
    graph.rename("2", "0")
    graph.rename("aside", "2")
    model = pn.compile(graph, reuse=net)
    assert torch.equal(model.get_parameter("0.weight"), net.get_parameter("2.weight"))
    assert torch.equal(model.get_parameter("2.weight"), net.get_parameter("0.weight"))


def test_an_opaque_node_is_found_under_its_old_name() -> None:
    class Odd(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x if x.sum() > 0 else -x

    net = nn.Sequential(nn.Linear(3, 3), Odd())
    graph = pn.from_module(net, (torch.randn(2, 3),))
    graph.rename("1", "odd")
    assert isinstance(pn.compile(graph, reuse=net).get_submodule("odd"), Odd)


def test_a_document_that_is_gone_is_forgotten() -> None:
    _, graph = blocks()
    identity, track = id(graph), renaming._tracks[id(graph)]
    del graph
    gc.collect()
    assert renaming._tracks.get(identity) is not track


MOVES = st.sampled_from(["group", "group two", "ungroup", "rename", "undo", "redo", "both at once", "compile"])


@hypothesis.settings(max_examples=30, deadline=None)
@hypothesis.given(st.lists(st.tuples(MOVES, st.integers(0, 9)), min_size=1, max_size=8))
def test_moving_nodes_never_loses_weights(moves: list[tuple[str, int]]) -> None:
    graph = pn.NodeGraph("chain")
    graph.add("Input", "x", shape=("N", 3))
    for name in ("a", "b", "c", "d"):
        graph.add("Linear", name, in_features=3, out_features=3)
    graph.add("Output", "y")
    wire(graph, "x a b c d y")
    graph = pn.NodeGraph.from_json(graph.to_json())  # without anything to undo
    model = pn.compile(graph)
    x = torch.randn(2, 3)
    expected = model(x)
    for move, number in moves:
        try:
            _move(graph, move, number)
        except pn.GraphError:
            continue
        if move == "compile":
            model = pn.compile(graph, reuse=model)
        assert torch.equal(pn.compile(graph, reuse=model)(x), expected)


def _move(graph: pn.NodeGraph, move: str, number: int) -> None:
    paths = [path for path in _paths(graph, "", "") if graph[path].type in ("Linear", "Subgraph")]
    blocks = [path for path in paths if graph[path].type == "Subgraph"]
    path = paths[number % len(paths)]
    match move:
        case "group":
            graph.group([path], f"block{number}")
        case "group two":
            graph.group([path, paths[(number + 1) % len(paths)]], f"a{number}")
        case "ungroup" if blocks:
            graph.ungroup(blocks[number % len(blocks)])
        case "rename":
            graph.rename(path, f"n{number}")
        case "both at once":
            with graph.transaction():
                outer = graph.group([path], f"t{number}")
                graph.rename(outer, f"u{number}")
                graph.group([f"{path.rpartition('.')[0]}.u{number}".lstrip(".")], f"v{number}")
        case "undo":
            graph.undo()
        case "redo":
            graph.redo()


def _paths(graph: pn.NodeGraph, id: str, prefix: str) -> Iterator[str]:
    for name, node in graph.graphs[id].nodes.items():
        yield f"{prefix}{name}"
        if node.definition is not None:
            yield from _paths(graph, node.definition, f"{prefix}{name}.")
