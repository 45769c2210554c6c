"""Nested values: copies, differences in words, and the tensors in them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import torch

from pnne_nb.compiler.analysis.nested_values import copied, difference, has_nan, tensors_in


@dataclass
class Output:
    """A result, as of a language model."""

    logits: torch.Tensor
    states: tuple[torch.Tensor, ...] = ()
    extra: dict[str, Any] = field(default_factory=dict)


class Cache:
    """An object that a call fills, and that knows itself."""

    def __init__(self, *kept: torch.Tensor) -> None:
        self.kept = list(kept)
        self.itself = self


ONE = torch.ones(2)


@pytest.mark.parametrize(
    ("mine", "theirs", "said"),
    [
        (ONE, ONE.clone(), ""),
        (ONE * torch.nan, ONE * torch.nan, ""),
        ({"a": (1, [ONE])}, {"a": (1, [ONE.clone()])}, ""),
        (Output(ONE, (ONE,)), Output(ONE.clone(), (ONE.clone(),)), ""),
        (Cache(ONE), Cache(ONE.clone()), ""),
        (np.array([np.nan, 1]), np.array([np.nan, 1]), ""),
        ([ONE, 2 * ONE], [ONE, ONE], "item 1: "),
        ((ONE,), [ONE], "a tuple of 1 and a list of 1"),
        ({"a": 1}, {"b": 1}, "the keys ['a'] and ['b']"),
        (Output(ONE), Output(2 * ONE), "logits: "),
        (Output(ONE, extra={"n": 1}), Output(ONE, extra={"n": 2}), "extra: n: 1 and 2"),
        (Cache(ONE), Cache(2 * ONE), "kept: item 0: "),
        (np.array([1, 2]), np.array([1, 3]), "different values in an array"),
        ("a", "b", "'a' and 'b'"),
    ],
)
def test_a_difference_is_told_with_its_place(mine: Any, theirs: Any, said: str) -> None:
    assert difference(mine, theirs).startswith(said)
    assert bool(difference(mine, theirs)) == bool(said)


def test_a_copy_shares_nothing_and_requires_the_same_gradients() -> None:
    wanted, cache = torch.ones(2, requires_grad=True), Cache(torch.ones(3))
    (tensor, kept), named = copied(((wanted, cache), {"sparse": torch.eye(2).to_sparse()}))
    assert tensor.requires_grad
    assert tensor is not wanted
    kept.kept[0].zero_()
    assert cache.kept[0].sum() == 3
    assert torch.equal(named["sparse"].to_dense(), torch.eye(2))


def test_tensors_are_found_wherever_they_are() -> None:
    first, second, third = (torch.full((1,), float(number)) for number in range(3))
    found = tensors_in([Output(first, (second,)), Cache(third), "text", 4])
    assert [each is expected for each, expected in zip(found, (first, second, third), strict=True)] == [True] * 3
    assert not has_nan(found)
    assert has_nan([found, {"a": Cache(torch.tensor(torch.nan))}])
