"""Views: they follow the document, and only read."""

from __future__ import annotations

import threading

import pytest

from pnne_nb.errors import UnknownGraphError, UnknownNodeError
from pnne_nb.graph.edits.apply import apply_op
from pnne_nb.graph.model.content import Content
from pnne_nb.graph.model.ops import AddFrame, AddGraph, AddNode, Connect, RemoveNode
from pnne_nb.graph.model.views import Graphs
from tests.graph.types import TYPES


@pytest.fixture
def content() -> Content:
    made = Content("net")
    for op in (AddNode("all", "cat"), AddNode("x", "Input"), AddNode("y", "Output"), AddFrame("f", (0, 0, 9, 9))):
        apply_op(made, op)
    return made


@pytest.fixture
def graphs(content: Content) -> Graphs:
    return Graphs(lambda: content, TYPES, threading.RLock())


def test_a_view_is_up_to_date_and_a_copy_is_not(content: Content, graphs: Graphs) -> None:
    view = graphs[""]
    before = view.nodes.copy()
    apply_op(content, RemoveNode("y"))
    assert list(view.nodes) == ["all", "x"]
    assert len(view.nodes) == 2
    assert list(before) == ["all", "x", "y"]
    assert (view.inputs, view.outputs, view.frames) == (("x",), (), ("f",))
    assert repr(view) == "GraphView '': 2 nodes, 0 edges"


def test_variadic_places_come_by_number_and_not_by_letters(content: Content, graphs: Graphs) -> None:
    for place in (10, 2, 0):
        apply_op(content, AddNode(f"n{place}", "ReLU"))
        apply_op(content, Connect(f"n{place}.output", f"all.tensors_{place}"))
    view = graphs[""]
    assert list(view.sources("all")) == ["tensors_0", "tensors_2", "tensors_10"]
    assert [edge.target for edge in view.consumers("n2")] == ["all.tensors_2"]
    order = view.order()
    assert all(order.index(f"n{place}") < order.index("all") for place in (0, 2, 10))
    with pytest.raises(UnknownNodeError, match="no node 'gone'"):
        view.sources("gone")


def test_graphs_are_listed_with_the_root_first(content: Content, graphs: Graphs) -> None:
    apply_op(content, AddGraph("inner"))
    assert list(graphs) == ["", "inner"]
    assert graphs["inner"].id == "inner"
    with pytest.raises(UnknownGraphError, match=r"no definition 'iner'.*inner"):
        graphs["iner"]
