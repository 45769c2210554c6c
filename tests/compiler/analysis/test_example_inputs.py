"""What was given as inputs goes where a model takes it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from pnne_nb.compiler.analysis.example_inputs import argument_names, is_one_argument, spread_inputs
from pnne_nb.graph.sequential import sequential

X, Y = torch.ones(3, 2), torch.zeros(3)


class One(nn.Module):
    def forward(self, batch: Any, scale: float = 1.0) -> Any:
        return batch


class Two(nn.Module):
    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        return a + b


class Keywords(nn.Module):
    def forward(self, batch: Any, **options: Any) -> Any:
        return batch


class Several(nn.Module):
    def forward(self, *parts: Tensor) -> Tensor:
        return parts[0]


def test_the_names_of_arguments() -> None:
    assert argument_names(Two()) == ["a", "b"]
    assert argument_names(Several()) is None
    assert argument_names(sequential("ReLU", input=("N", 4))) == ["x"]


def test_inputs_in_a_tuple_or_by_name_are_spread() -> None:
    assert spread_inputs(((X, X), Y), ["a", "b"]) == (X, X, Y)
    assert spread_inputs(((X, X), Y), None) == (X, X, Y)
    assert spread_inputs(({"b": X, "a": X}, Y), ["a", "b"]) == {"b": X, "a": X, "target": Y}


@pytest.mark.parametrize(
    "data", [((X, X), Y), (X, Y), ({"a": X, "other": X}, Y), [(X, X), Y], None, ({"y": X}, Y)], ids=str
)
def test_anything_else_stays(data: Any) -> None:
    assert spread_inputs(data, ["both"]) is data


@pytest.mark.parametrize(
    ("model", "mapping", "whole"),
    [
        (One(), {"ids": X, "mask": X}, True),
        (One(), {"batch": X}, False),
        (One(), {"bach": X}, False),  # misspelt: the model's own words say so
        (One(), {"ids": X, "scale": 2.0}, False),
        (One(), {"ids": X}, False),  # another name, more likely than a dict
        (One(), {}, False),
        (Two(), {"ids": X, "mask": X}, False),
        (Keywords(), {"ids": X}, False),
        (Several(), {"ids": X}, False),
    ],
)
def test_a_mapping_is_the_only_argument_where_no_name_is_an_argument(
    model: nn.Module, mapping: Any, whole: bool
) -> None:
    assert is_one_argument(mapping, model) is whole


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")
def test_a_scripted_module_takes_names() -> None:
    assert not is_one_argument({"ids": X}, torch.jit.script(Two()))
