from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

import pytest

import pnne_nb as pn
from pnne_nb.compiler.ir.snapshot import GraphSnapshot, read
from pnne_nb.compiler.pipeline.snapshot_patch import patched
from pnne_nb.graph.model.ops import AddNode, Connect, Disconnect, Op, RemoveNode, RenameNode, SetProperty


def branches() -> pn.NodeGraph:
    graph = pn.NodeGraph("branches")
    graph.add("Input", name="x", shape=("N", 4))
    for name in ("a", "b", "c"):
        graph.add("Linear", name=name, out_features=4)
        graph.connect("x", name)
    graph.add("add", name="sum")
    graph.connect("a", "sum.input")
    graph.connect("b", "sum.other")
    return graph


def same_but_for_the_order(one: dict[str, GraphSnapshot], other: dict[str, GraphSnapshot]) -> None:
    assert one.keys() == other.keys()
    for id, snapshot in one.items():
        read_anew = other[id]
        assert snapshot.nodes == read_anew.nodes
        assert _filled(snapshot.wires) == _filled(read_anew.wires)
        assert {name: set(found) for name, found in _filled(snapshot.followers).items()} == {
            name: set(found) for name, found in _filled(read_anew.followers).items()
        }
        assert set(snapshot.edges) == set(read_anew.edges)
        rank = {name: place for place, name in enumerate(snapshot.order)}
        assert rank.keys() == snapshot.nodes.keys()
        for edge in snapshot.edges:
            assert rank[edge.source.partition(".")[0]] < rank[edge.target.partition(".")[0]]


def _filled(found: dict[str, Any]) -> dict[str, Any]:
    return {name: inner for name, inner in found.items() if inner}


def change(graph: pn.NodeGraph, ops: Iterable[Op]) -> dict[str, GraphSnapshot] | None:
    before = read(graph)
    done = graph.apply(tuple(ops))
    return patched(before, graph, done.ops)


@pytest.mark.parametrize(
    "ops",
    [
        [SetProperty("a", "bias", False)],
        [Disconnect("a.output", "sum.input"), Connect("c.output", "sum.input")],
        [Disconnect("b.output", "sum.other"), Connect("a.output", "sum.other"), Disconnect("a.output", "sum.input")],
        [AddNode("d", "ReLU"), Connect("sum.output", "d.input")],
        [AddNode("d", "ReLU", index=1), Connect("x.output", "d.input")],
        [RemoveNode("a")],
        [RemoveNode("sum"), RemoveNode("b")],
    ],
)
def test_the_snapshot_after_ops_is_the_one_that_reading_gives(ops: list[Op]) -> None:
    graph = branches()
    found = change(graph, ops)
    assert found is not None
    same_but_for_the_order(found, read(graph))


@pytest.mark.parametrize(
    "ops",
    [
        [RenameNode("a", "other")],
        [AddNode("y", "Input")],
        [AddNode("first", "ReLU"), Disconnect("x.output", "a.input"), Connect("first.output", "a.input")],
        [SetProperty("a", "bias", False), RenameNode("a", "other")],
    ],
)
def test_what_joins_more_than_edges_is_read_anew(ops: list[Op]) -> None:
    assert change(branches(), ops) is None


def test_random_edits_of_a_graph_with_blocks() -> None:
    chance = random.Random(7)
    graph = branches()
    graph.group(["a", "b"], "pair")
    snapshots, patches = read(graph), 0
    for number in range(150):
        nodes = [name for name, node in graph.nodes.items() if node.type in ("Linear", "add", "ReLU")]
        match chance.choice(["add", "remove", "link", "cut", "set"]):
            case "add":
                done = graph.apply([AddNode(f"n{number}", "add")])
            case "remove" if nodes:
                done = graph.apply([RemoveNode(chance.choice(nodes))])
            case "link" if len(nodes) > 1:
                source, target = chance.sample(nodes, 2)
                try:
                    done = graph.apply([Connect(f"{source}.output", f"{target}.input")])
                except pn.GraphError:
                    continue
            case "cut" if graph.edges:
                edge = chance.choice(graph.edges)
                done = graph.apply([Disconnect(edge.source, edge.target)])
            case "set" if nodes:
                done = graph.apply([SetProperty(chance.choice(nodes), "ablate", "bypass")])
            case _:
                continue
        found = patched(snapshots, graph, done.ops)
        patches += found is not None
        snapshots = read(graph) if found is None else found
        same_but_for_the_order(snapshots, read(graph))
    assert patches > 50
