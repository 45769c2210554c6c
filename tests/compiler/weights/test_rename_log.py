"""A renamed, grouped or ungrouped node keeps its weights; a new node under an old name has none of them."""

from __future__ import annotations

import gc
import weakref
from collections import OrderedDict
from collections.abc import Container, Iterator

import hypothesis
import pytest
import torch
from hypothesis import strategies as st
from torch import nn

import pnne_nb as pn
from pnne_nb.compiler.weights import rename_log
from tests.compiler.graphs import wire


def blocks() -> tuple[nn.Sequential, pn.NodeGraph]:
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


def test_layers_of_a_block_in_a_list_keep_their_weights_when_it_is_ungrouped() -> None:
    class Listed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.h = nn.ModuleList([nn.Sequential(nn.Linear(3, 3), nn.Tanh()) for _ in range(2)])

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for each in self.h:
                x = each(x)
            return x

    net, x = Listed(), torch.randn(4, 3)
    graph = pn.from_module(net, (x,))
    for block in ("h_0", "h_1"):
        graph.ungroup(block)
        assert torch.equal(pn.compile(graph)(x), net(x))
        assert torch.equal(pn.compile(graph, reuse=net)(x), net(x))


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


def test_a_file_remembers_what_it_was_when_it_was_loaded() -> None:
    """Before its first compilation, too."""
    net, imported = blocks()
    graph = pn.NodeGraph.from_json(imported.to_json())
    graph.group(["0", "1"], name="front")
    graph.rename("front.0", "stem")
    graph.rename("front", "start")
    graph.rename("2", "end")
    graph.ungroup("start.1")
    graph.undo()
    model = pn.compile(graph, reuse=net)
    for now, before in (("start.stem", "0"), ("start.1.0", "1.0"), ("start.1.1", "1.1"), ("end", "2")):
        assert torch.equal(model.get_parameter(f"{now}.weight"), net.get_parameter(f"{before}.weight"))
    x = torch.randn(4, 3)
    assert torch.equal(model.eval()(x), net.eval()(x))
    other = pn.compile(imported, reuse=net)  # of another document
    assert torch.equal(pn.compile(graph, reuse=other).eval()(x), net(x))


def test_names_of_today_count_where_a_model_has_no_others() -> None:
    net, imported = blocks()
    graph = pn.NodeGraph.from_json(imported.to_json())
    graph.rename("0", "stem")
    renamed = nn.Sequential(OrderedDict(stem=net[0], **{"1": net[1], "2": net[2]}))
    model = pn.compile(graph, reuse=renamed)
    assert torch.equal(model.get_parameter("stem.weight"), net.get_parameter("0.weight"))
    graph = chain("a")
    graph.rename("a", "b")
    graph.disconnect("b", "y")
    graph.add("Linear", "a", in_features=3, out_features=3)
    wire(graph, "b a y")
    both = nn.Sequential(OrderedDict(b=nn.Linear(3, 3), a=nn.Linear(3, 3)))
    made = pn.compile(graph, reuse=both)
    x = torch.randn(2, 3)
    assert torch.equal(made(x), both(x))


def test_a_new_node_in_a_file_takes_nothing_under_an_old_name() -> None:
    net, imported = blocks()
    graph = pn.NodeGraph.from_json(imported.to_json())
    graph.rename("0", "first")
    graph.add("Linear", name="0", in_features=3, out_features=3)
    graph.disconnect("input", "first")
    wire(graph, "input 0 first")
    graph.rename("0", "new")
    model = pn.compile(graph, reuse=net)
    assert torch.equal(model.get_parameter("first.weight"), net.get_parameter("0.weight"))
    assert not torch.equal(model.get_parameter("new.weight"), net.get_parameter("0.weight"))


def test_a_file_that_was_saved_after_nodes_were_moved_says_what_begins_afresh() -> None:
    net, imported = blocks()
    imported.group(["0", "1"], name="front")
    graph = pn.NodeGraph.from_json(imported.to_json())
    said = r"front\.0\.weight is newly initialised, although 0\.weight of the reused model has the same shape\. There are 5 more"
    with pytest.warns(UserWarning, match=said):
        pn.compile(graph, reuse=net)
    graph.add("Linear", "head", in_features=3, out_features=3)
    fresh = pn.NodeGraph.from_json(blocks()[1].to_json())
    fresh.remove("2")
    fresh.add("Linear", "head", in_features=3, out_features=3)
    wire(fresh, "1 head output")
    pn.compile(fresh, reuse=net)  # a new node is meant to begin afresh
    changed = pn.NodeGraph.from_json(blocks()[1].to_json())
    changed.set("2", bias=False)
    changed.remove("1.1")
    wire(changed, "1.0 1.output")
    plain = nn.Sequential(nn.Linear(3, 3), nn.Sequential(nn.Linear(3, 3, bias=False), nn.BatchNorm1d(3)))
    pn.compile(changed, reuse=plain)  # which has no bias there


def test_a_document_that_is_gone_is_forgotten() -> None:
    _, graph = blocks()
    track = weakref.ref(rename_log.track_of(graph))
    del graph
    gc.collect()
    assert track() is None


def chain(*names: str) -> pn.NodeGraph:
    graph = pn.NodeGraph("chain")
    graph.add("Input", "x", shape=("N", 3))
    for name in names:
        graph.add("Linear", name, in_features=3, out_features=3)
    graph.add("Output", "y")
    wire(graph, " ".join(["x", *names, "y"]))
    return graph


MOVES = st.sampled_from(["group", "group two", "ungroup", "rename", "undo", "redo", "both at once", "compile"])


@hypothesis.settings(max_examples=30, deadline=None)
@hypothesis.given(st.lists(st.tuples(MOVES, st.integers(0, 9)), min_size=1, max_size=8))
@hypothesis.example([("group", 0)] * 3)  # each under the name of what it holds
@hypothesis.example([("group", 0), ("group", 0), ("ungroup", 1), ("group", 0)])
def test_moving_nodes_never_loses_weights(moves: list[tuple[str, int]]) -> None:
    graph = chain("a", "b", "c", "d")
    graph = pn.NodeGraph.from_json(graph.to_json())  # without anything to undo
    model = first = pn.compile(graph)
    unseen = pn.NodeGraph.from_json(graph.to_json())
    x = torch.randn(2, 3)
    expected = model(x)
    for move, number in moves:
        try:
            _move(graph, move, number)
            _move(unseen, move, number)
        except pn.GraphError:
            continue
        if move == "compile":
            model = pn.compile(graph, reuse=model)
        assert torch.equal(pn.compile(graph, reuse=model)(x), expected)
    assert torch.equal(pn.compile(unseen, reuse=first)(x), expected)


class Every(nn.Module):
    """Has what a node can have weights as: a tensor of its own, a list, a dictionary, a module that is called twice, a tie."""

    class Part(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc, self.scale = nn.Linear(3, 3), nn.Parameter(torch.rand(3))
            self.register_buffer("shift", torch.rand(3))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y: torch.Tensor = self.fc(x * self.scale) + self.shift
            return y

    def __init__(self) -> None:
        super().__init__()
        self.parts = nn.ModuleList([self.Part(), self.Part()])
        self.named = nn.ModuleDict({"a": nn.Linear(3, 3), "b": nn.Linear(3, 3)})
        self.offset = nn.Parameter(torch.rand(3))
        self.named["b"].weight = self.parts[0].get_submodule("fc").get_parameter("weight")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.named["a"](x + self.offset)
        for part in self.parts:
            x = torch.tanh(part(x))
        y: torch.Tensor = self.named["b"](self.named["a"](x))
        return y


ALL = {"Linear", "Subgraph", "Parameter", "Buffer", "add", "mul", "tanh"}


@hypothesis.settings(max_examples=30, deadline=None)
@hypothesis.given(st.lists(st.tuples(MOVES, st.integers(0, 40)), min_size=1, max_size=8))
@hypothesis.example([("rename", 1)])
@hypothesis.example([("ungroup", 0), ("group two", 1), ("undo", 0)])
def test_moving_imported_nodes_never_loses_weights_or_ties(moves: list[tuple[str, int]]) -> None:
    torch.manual_seed(0)
    net, x = Every(), torch.randn(2, 3)
    graph = pn.from_module(net, (x,))
    sizes = sorted(parameter.numel() for parameter in net.parameters())
    for move, number in moves:
        try:
            _move(graph, move, number, ALL)
        except pn.GraphError:
            continue
        model = pn.compile(graph)
        assert torch.equal(model(x), net(x))
        assert sorted(parameter.numel() for parameter in model.parameters()) == sizes
    with pytest.warns(UserWarning, match="does not contain the values"):
        fresh = pn.compile(graph, reuse=None)
    assert sorted(parameter.numel() for parameter in fresh.parameters()) == sizes


def _move(graph: pn.NodeGraph, move: str, number: int, types: Container[str] = ("Linear", "Subgraph")) -> None:
    paths = [path for path in _paths(graph, "", "") if graph[path].type in types]
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
