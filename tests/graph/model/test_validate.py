"""What the catalogue allows: values are stored in one form, and what is refused is named with its place."""

from __future__ import annotations

import pytest

from pnne_nb.errors import BadValueError, GraphError, KindMismatchError, UnknownPortError, UnknownPropertyError
from pnne_nb.graph.edits.apply import apply_op
from pnne_nb.graph.model.content import Content
from pnne_nb.graph.model.ops import AddNode, Connect, Op, RemoveNode, ResetProperty, SetProperty
from pnne_nb.graph.model.validate import checked, sharing_fault
from tests.graph.types import TYPES

LINEAR: dict[str, object] = {"in_features": 1, "out_features": 1}


@pytest.fixture
def content() -> Content:
    made = Content("net")
    for op in (
        AddNode("x", "Input"),
        AddNode("fc", "Linear", LINEAR),
        AddNode("twin", "Linear", {**LINEAR, "shares": "fc"}),
        AddNode("third", "Linear", LINEAR),
        AddNode("all", "cat"),
        AddNode("data", "Digits"),
    ):
        apply_op(made, op)
    return made


def test_values_are_brought_to_their_stored_form(content: Content) -> None:
    added = checked(content, AddNode("conv", "Conv2d", {"kernel_size": [3, 5]}), TYPES)
    assert isinstance(added, AddNode)
    assert added.properties == {"kernel_size": (3, 5)}


def test_the_bare_name_of_a_variadic_input_is_its_next_place(content: Content) -> None:
    for place in range(3):
        op = checked(content, Connect("x.output", "all.tensors"), TYPES)
        assert op == Connect("x.output", f"all.tensors_{place}")
        apply_op(content, op)


@pytest.mark.parametrize(
    ("op", "error", "message"),
    [
        (SetProperty("fc", "in_features", 0), BadValueError, r"fc\.in_features cannot be 0: it must be"),
        (SetProperty("fc", "in_feature", 1), UnknownPropertyError, r"fc \(Linear\) has no property 'in_feature'.*in_features"),
        (ResetProperty("fc", "size"), UnknownPropertyError, r"fc \(Linear\) has no property 'size'"),
        (Connect("x.out", "fc.input"), UnknownPortError, r"x \(Input\) has no output 'out'.*Its outputs are output\."),
        (Connect("x.output", "fc.in"), UnknownPortError, r"fc \(Linear\) has no input 'in'.*Its inputs are input\."),
        (Connect("data.output", "fc.input"), KindMismatchError, r"data\.output gives a dataset and fc\.input takes a tensor"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_named_with_its_place(
    content: Content, op: Op, error: type[GraphError], message: str
) -> None:
    with pytest.raises(error, match=message):
        checked(content, op, TYPES)


def test_every_bad_value_of_a_new_node_is_told(content: Content) -> None:
    with pytest.raises(BadValueError) as refused:
        checked(content, AddNode("new", "Linear", {"in_features": 0, "out_features": "many"}), TYPES)
    assert "new.in_features" in str(refused.value)
    assert "new.out_features" in str(refused.value)


def test_what_needs_no_catalogue_passes_as_it_is(content: Content) -> None:
    op = RemoveNode("whatever")
    assert checked(content, op, TYPES) is op


def test_a_module_is_shared_by_nodes_of_its_type_that_are_no_sharers(content: Content) -> None:
    graph = content.graphs[""]
    assert sharing_fault(graph, "third", "Linear", "fc") == ""
    assert "cannot share its own" in sharing_fault(graph, "fc", "Linear", "fc")
    assert "there is no such node" in sharing_fault(graph, "third", "Linear", "gone")
    assert "that is a Input" in sharing_fault(graph, "third", "Linear", "x")
    assert "name 'fc' instead" in sharing_fault(graph, "third", "Linear", "twin")
    assert "is shared by 'twin'" in sharing_fault(graph, "fc", "Linear", "third")
