"""Attention sees no later letter, and the exercise accepts every usual form of the mask that makes it so."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from pnne_nb.lessons.words import causal_attention, exercise


def test_attention_is_that_of_torch() -> None:
    query, key, value = torch.randn(3, 2, 5, 4)
    mixed, weights = causal_attention(query, key, value)
    torch.testing.assert_close(mixed, nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True))
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 5))
    assert not weights.triu(1).any()


@pytest.mark.parametrize(
    "mask",
    [
        lambda n: torch.ones(n, n, dtype=torch.bool).tril(),
        lambda n: (torch.arange(n)[None] <= torch.arange(n)[:, None]).long(),
        lambda n: torch.full((n, n), -torch.inf).triu(1),
        lambda n: torch.tril(torch.ones(n, n)),
    ],
    ids=["what is seen", "zeros and ones", "what is added", "floats"],
)
def test_each_form_of_the_mask_is_right(mask: Any) -> None:
    assert repr(exercise().check(mask)) == "Right. Each letter sees itself and those before it."


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (None, "Give the function: exercise.check(mask)."),
        (torch.ones(4, 4), "Give the function: exercise.check(mask)."),
        (lambda n: n / 0, "mask(1) raises ZeroDivisionError: division by zero"),
        (lambda n: [[True] * n] * n, "mask(1) must be a tensor of shape (1, 1), not list."),
        (torch.ones, "mask(1) must be a tensor of shape (1, 1), not shape (1,)."),
        (lambda n: torch.ones(n, n), "mask(4): letter 0 sees letter 1, which comes later."),
        (lambda n: torch.ones(n, n).triu(), "mask(4): letter 0 sees letter 1, which comes later."),
        (torch.eye, "mask(4): letter 1 does not see letter 0, which comes earlier."),
        (lambda n: torch.ones(n, n).tril(-1).bool(), "mask(1): letter 0 does not see itself."),
        (lambda n: torch.full((n, n), -9.0).triu(1), "must be minus infinity"),
    ],
)
def test_what_is_wrong_with_a_mask_is_said(answer: Any, words: str) -> None:
    verdict = exercise().check(answer)
    assert not verdict.right
    assert words in verdict.words
