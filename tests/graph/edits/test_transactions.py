"""The ledger: changes are whole or not at all, whatever was staged before the one that is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pnne_nb.errors import GraphError
from pnne_nb.graph.edits.transactions import TransactionLog, label_of
from pnne_nb.graph.model import ops
from pnne_nb.graph.model.content import Content
from pnne_nb.graph.model.ops import (
    AddNode,
    CollapseNode,
    Connect,
    Disconnect,
    MoveNode,
    Op,
    RemoveNode,
    RenameDocument,
    SetProperty,
)
from pnne_nb.graph.storage import DocumentState, state_of
from tests.graph.types import TYPES


def ledger() -> TransactionLog:
    return TransactionLog(Content("net"), TYPES, lambda: "net")


def chain(count: int) -> list[Op]:
    nodes: list[Op] = [AddNode(f"n{each}", "ReLU") for each in range(count)]
    return nodes + [Connect(f"n{each}.output", f"n{each + 1}.input") for each in range(count - 1)]


@given(st.integers(1, 6), st.data())
def test_a_refused_op_takes_back_all_before_it(count: int, data: st.DataObject) -> None:
    book, steps = ledger(), chain(count)
    at = data.draw(st.integers(0, len(steps)))
    before = state_of(book.content)
    with pytest.raises(GraphError), book.editing():
        book.apply([*steps[:at], RemoveNode("gone"), *steps[at:]])
    assert state_of(book.content) == before
    assert (book.version, book.undo_label) == (0, None)


@given(st.integers(1, 6))
def test_undo_and_redo_lead_through_the_same_states(count: int) -> None:
    book = ledger()
    states: list[DocumentState] = [state_of(book.content)]
    for op in chain(count):
        with book.editing():
            book.apply([op])
        states.append(state_of(book.content))
    for state in reversed(states[:-1]):
        book.undo()
        assert state_of(book.content) == state
    for state in states[1:]:
        book.redo()
        assert state_of(book.content) == state
    assert book.version == 3 * (len(states) - 1)


@given(st.lists(st.sampled_from(["record", "undo", "redo"]), max_size=40))
def test_the_steps_are_a_list_with_a_place_in_it(moves: list[str]) -> None:
    book = ledger()
    labels: list[str] = []
    place = 0
    for number, move in enumerate(moves):
        if move == "record":
            with book.editing():
                book.apply([RenameDocument(f"net{number}")], f"step {number}")
            labels, place = [*labels[:place], f"step {number}"], place + 1
        elif move == "undo" and place:
            assert book.undo().label == f"Undo: {labels[place - 1]}"
            place -= 1
        elif move == "redo" and place < len(labels):
            assert book.redo().label == f"Redo: {labels[place]}"
            place += 1
        assert [step.label for step in book.done] == labels[:place]
        assert [step.label for step in reversed(book.undone)] == labels[place:]
        assert book.undo_label == (labels[place - 1] if place else None)
        assert book.redo_label == (labels[place] if place < len(labels) else None)


def test_an_empty_ledger_has_nothing_to_undo() -> None:
    with pytest.raises(GraphError, match=r"There is nothing to undo\."):
        ledger().undo()
    with pytest.raises(GraphError, match=r"There is nothing to redo\."):
        ledger().redo()


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
