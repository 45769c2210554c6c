"""Labels of changes: one op says what it does, several say what a person did."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pnne_nb.graph.edits.labels import label_of
from pnne_nb.graph.model import ops
from pnne_nb.graph.model.ops import AddNode, CollapseNode, Connect, Disconnect, MoveNode, Op, RemoveNode, SetProperty


@pytest.mark.parametrize(
    ("op", "label"),
    [
        (AddNode("a", "ReLU"), "Add a"),
        (ops.RenameNode("a", "b"), "Rename a to b"),
        (SetProperty("a", "bias", False), "Set a.bias to False"),
        (ops.ResetProperty("a", "bias"), "Reset a.bias"),
        (ops.SetOrigin("a", None), "Mark a"),
        (CollapseNode("a", True), "Collapse a"),
        (CollapseNode("a", False), "Expand a"),
        (Connect("a.output", "b.input"), "Connect a → b"),
        (Disconnect("a.output", "b.input"), "Disconnect a → b"),
        (ops.AddFrame("frame1", (0, 0, 1, 1), "Encoder"), "Frame Encoder"),
        (ops.AddFrame("frame1", (0, 0, 1, 1)), "Frame frame1"),
        (ops.AddGraph("block"), "Add definition block"),
        (ops.RemoveGraph("block"), "Remove definition block"),
        (ops.ChangeFrame("frame1"), "Change frame frame1"),
        (ops.RemoveFrame("frame1"), "Remove frame frame1"),
        (ops.RenameDocument("net"), "Name the graph net"),
        (ops.SetSize("hidden", 64), "Set the size hidden to 64"),
        (ops.SetSize("hidden", None), "Remove the size hidden"),
    ],
)
def test_one_op_is_named_by_what_it_changes(op: Op, label: str) -> None:
    assert label_of([op]) == label


@given(st.integers(2, 30), st.integers(0, 5))
def test_added_nodes_lead_however_many_edges_come_along(nodes: int, edges: int) -> None:
    added: list[Op] = [AddNode(f"n{each}", "ReLU") for each in range(nodes)]
    joined: list[Op] = [Connect("n0.output", f"n{each}.input") for each in range(edges)]
    assert label_of([*joined, *added]) == f"Add {nodes} nodes"


def test_a_replaced_node_is_an_addition_and_removed_nodes_lead_their_edges() -> None:
    assert label_of([RemoveNode("old"), AddNode("new", "ReLU")]) == "Add new"
    assert label_of([Disconnect("a.output", "b.input"), RemoveNode("a")]) == "Remove a"
    assert label_of([RemoveNode("a"), RemoveNode("b")]) == "Remove 2 nodes"


def test_equal_ops_are_counted_and_others_named_by_the_first() -> None:
    moves = [MoveNode(name, (0.0, 0.0)) for name in "abc"]
    assert label_of(moves) == "Move 3 nodes"
    assert label_of([*moves, CollapseNode("a", True)]) == "Move a and 3 more"
    assert label_of([]) == "Nothing"
