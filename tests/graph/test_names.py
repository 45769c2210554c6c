"""Names: the frozen list of reserved ones against torch's, and the names that new nodes get."""

from __future__ import annotations

import keyword

import pytest
import torch

from pnne_nb.errors import IllegalNameError
from pnne_nb.graph.names import RESERVED, check_name, free_name, numbered, stem_of


def test_no_attribute_of_a_module_is_a_legal_name() -> None:
    taken = {*dir(torch.nn.Module()), *keyword.kwlist, "self", "torch", "nn", "F"}
    missing = {name for name in taken if not name.startswith("__")} - RESERVED
    assert not missing, f"add {sorted(missing)} to MODULE_ATTRIBUTES"
    for name in taken:
        with pytest.raises(IllegalNameError, match="cannot be named"):
            check_name(name)


@pytest.mark.parametrize("name", ["0", "conv1", "_x", "layer1", "A", "x" * 100, "weight"])
def test_legal_names(name: str) -> None:
    assert check_name(name) == name
    torch.nn.Module().add_module(name, torch.nn.Identity())


@pytest.mark.parametrize("name", ["", "a.b", "a b", "é", "a-b", "a\n", None, 3])
def test_illegal_names(name: object) -> None:
    with pytest.raises(IllegalNameError, match="is not a legal name: use letters"):
        check_name(name)


@pytest.mark.parametrize(
    ("type", "first"),
    [
        ("Conv2d", "conv2d1"),
        ("MaxPool2d", "max_pool2d1"),
        ("ReLU", "relu1"),
        ("ReLU6", "relu6_1"),
        ("LeakyReLU", "leaky_relu1"),
        ("PReLU", "prelu1"),
        ("SiLU", "silu1"),
        ("LSTM", "lstm1"),
        ("GRUCell", "gru_cell1"),
        ("CrossEntropyLoss", "cross_entropy_loss1"),
        ("float", "float1"),
        ("scaled_dot_product_attention", "scaled_dot_product_attention1"),
        ("__add__", "add__1"),
        ("my.Type", "my_type1"),
    ],
)
def test_the_first_node_of_a_type(type: str, first: str) -> None:
    assert check_name(numbered(stem_of(type), ())) == first


def test_free_names() -> None:
    assert free_name("block", {"a"}) == "block"
    assert free_name("block", {"block", "block2"}) == "block3"
    assert free_name("conv1", {"conv1"}) == "conv1_2"
    assert free_name("train", ()) == "train2"
    assert free_name("block", {"block", "block3"}, first=3) == "block4"
    assert free_name("block", {"a"}, first=3) == "block"
