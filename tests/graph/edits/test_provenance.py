"""What a change takes of the proofs of imported nodes, and what it leaves them."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from pnne_nb.graph.document import NodeGraph
from pnne_nb.graph.model.ops import AddGraph, AddNode, Connect, RemoveNode, RenameNode, SetOrigin, SetProperty
from pnne_nb.graph.model.origin import Origin
from tests.graph.types import TYPES

EQUAL = Origin("equal", member=0)


def imported() -> NodeGraph:
    """``x → fc → block (x → one → two → y) → act → last``, with a second use of the block's definition beside."""
    graph = NodeGraph("net", types=TYPES)
    chain = ["x", "fc", "block", "act", "last"]
    graph.apply(
        [
            AddGraph("Block"),
            AddNode("x", "Input", graph="Block", origin=EQUAL),
            AddNode("one", "Linear", {"in_features": 4, "out_features": 4}, graph="Block", origin=EQUAL),
            AddNode("two", "ReLU", graph="Block", origin=EQUAL),
            AddNode("y", "Output", graph="Block", origin=EQUAL),
            *[Connect(f"{one}.output", f"{two}.input", "Block") for one, two in (("x", "one"), ("one", "two"))],
            Connect("two.output", "y.input", "Block"),
            AddNode("x", "Input", origin=EQUAL),
            AddNode("fc", "Linear", {"in_features": 4, "out_features": 4}, origin=EQUAL),
            AddNode("block", "Subgraph", {"definition": "Block"}, origin=EQUAL),
            AddNode("act", "ReLU", origin=EQUAL),
            AddNode("last", "ReLU", origin=EQUAL),
            AddNode("beside", "Subgraph", {"definition": "Block"}, origin=EQUAL),
            AddNode("odd", "ReLU", origin=Origin("opaque", "of its own")),
            *[
                Connect(f"{one}.{'y' if one == 'block' else 'output'}", f"{two}.{'x' if two == 'block' else 'input'}")
                for one, two in itertools.pairwise(chain)
            ],
        ]
    )
    assert edited(graph) == set()
    return graph


def edited(graph: NodeGraph) -> set[str]:
    """Return which nodes have lost their proof: names, those in a definition after its id."""
    proofs = {
        f"{id}/{name}" if id else name: node.origin.proof
        for id, view in graph.graphs.items()
        for name, node in view.nodes.items()
        if node.origin is not None
    }
    assert set(proofs.values()) <= {"equal", "edited", "opaque"}
    return {path for path, proof in proofs.items() if proof == "edited"}


def _without(graph: NodeGraph) -> None:
    with graph.transaction("Bypass"):
        graph.remove("act")
        graph.connect("block.y", "last.input")


def _other_feed(graph: NodeGraph) -> None:
    graph.disconnect("block.y", "act.input")
    graph.connect("fc.output", "act.input")


def _deep(graph: NodeGraph) -> None:
    graph.group(["block.one"], name="own")
    graph.set("block.own.one", out_features=8)


def _names(graph: NodeGraph) -> None:
    graph.rename("fc", "dense")
    graph.rename("block.one", "first")


def _looks(graph: NodeGraph) -> None:
    graph.move("fc", 1, 2)
    graph.collapse("fc")


CHANGES: dict[str, tuple[Callable[[NodeGraph], object], set[str]]] = {
    "a property": (lambda graph: graph.set("fc", out_features=8), {"fc"}),
    "a property back to its default": (lambda graph: graph.reset("fc", "out_features"), {"fc"}),
    "what feeds it": (_other_feed, {"act"}),
    "it is fed no more": (lambda graph: graph.disconnect("act.output", "last.input"), {"last"}),
    "what fed it is gone": (lambda graph: graph.remove("act"), {"last"}),
    "what fed it is left out": (_without, {"last"}),
    "inside": (lambda graph: graph.set("block.one", out_features=8), {"Block/one", "block", "beside"}),
    "something is added inside": (
        lambda graph: graph.apply([AddNode("more", "ReLU", graph="Block")]),
        {"block", "beside"},
    ),
    "something inside is gone": (lambda graph: graph.remove("block.two"), {"block", "beside"}),
    "the end inside is fed by another": (
        lambda graph: graph.disconnect("block.two.output", "block.y.input"),
        {"block", "beside"},
    ),
    "inside a group inside": (_deep, {"own/one", "block", "beside"}),
    "under another name in the same change": (
        lambda graph: graph.apply([SetProperty("fc", "out_features", 8), RenameNode("fc", "dense")]),
        {"dense"},
    ),
    "an opaque node": (lambda graph: graph.connect("fc.output", "odd.input"), set()),
    "the same value": (lambda graph: graph.set("fc", out_features=4), set()),
    "a name": (_names, set()),
    "a place": (_looks, set()),
    "a group": (lambda graph: graph.group(["fc", "block"], name="stem"), set()),
    "no group any more": (lambda graph: graph.ungroup("block"), set()),
    "a definition of its own": (lambda graph: graph.make_own("block"), set()),
    "another definition": (
        lambda graph: graph.apply([AddGraph("Empty"), SetProperty("beside", "definition", "Empty")]),
        {"beside"},
    ),
    "what is drawn beside": (lambda graph: graph.connect("fc.output", graph.add("ReLU", name="more")), set()),
    "what comes with its own proof": (
        lambda graph: graph.apply([AddNode("copy", "ReLU", origin=EQUAL), Connect("fc.output", "copy.input")]),
        set(),
    ),
    "what goes again": (lambda graph: graph.apply([AddNode("more", "ReLU"), RemoveNode("more")]), set()),
    "by hand": (lambda graph: graph.apply([SetOrigin("fc", None)]), set()),
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_change_takes_the_proof_of_what_it_changes(what: str) -> None:
    change, expected = CHANGES[what]
    graph = imported()
    before, version = graph.to_json(), graph.version
    change(graph)
    assert edited(graph) == expected
    after = graph.to_json()
    steps = graph.version - version
    for _ in range(steps):
        graph.undo()
    assert graph.to_json() == before
    for _ in range(steps):
        graph.redo()
    assert graph.to_json() == after
    assert edited(NodeGraph.from_json(after, types=TYPES)) == expected


def test_the_rest_of_the_origin_stays() -> None:
    graph = imported()
    graph.set("fc", out_features=8)
    assert graph["fc"].origin == Origin("edited", member=0)
    assert graph["odd"].origin == Origin("opaque", "of its own")


def test_whoever_looks_is_told_with_the_change() -> None:
    graph = imported()
    done = graph.apply([SetProperty("fc", "out_features", 8)])
    assert done.ops == (SetProperty("fc", "out_features", 8), SetOrigin("fc", Origin("edited", member=0)))
    assert done.label == "Set fc.out_features to 8"
    again = graph.apply([SetProperty("fc", "out_features", 9)])
    assert again.ops == (SetProperty("fc", "out_features", 9),), "it is marked already"
