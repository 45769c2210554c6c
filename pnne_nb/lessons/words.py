"""The lesson about words: attention that sees no later letter, and the exercise to write its mask."""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor

from pnne_nb.lessons.exercise import Exercise, NotYetError

_SIZES: Final = (1, 4, 7)
"""Numbers of letters for which a mask is asked."""


def causal_attention(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    """Return for each letter the mean of the values of the letters that it may see, and the weights of that mean.

    Args:
        query: What each letter looks for, `[..., n, width]`.
        key: What each letter offers, `[..., n, width]`.
        value: What each letter gives, `[..., n, width]`.

    Returns:
        The means, `[..., n, width]`, and the weights, `[..., n, n]`: of the letter of the column for that of the row.
    """
    scores = query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5
    weights = scores.masked_fill(~_seen(scores.shape[-1]).to(scores.device), -torch.inf).softmax(-1)
    return weights @ value, weights


def _seen(count: int) -> Tensor:
    return torch.ones(count, count, dtype=torch.bool).tril()


def exercise() -> Exercise:
    """Return the exercise: write ``mask(n)``, `[n, n]`, in any of the three usual forms.

    It holds True where a letter (the row) may see another (the column), or 1, or is added to the scores.
    """

    def judge(answer: object) -> str:
        if not callable(answer):
            raise NotYetError("Give the function: exercise.check(mask).")
        for count in _SIZES:
            try:
                given = answer(count)
            except Exception as error:  # noqa: BLE001  the learner's function may raise anything
                raise NotYetError(f"mask({count}) raises {type(error).__name__}: {error}") from None
            _compare(given, count)
        return "Each letter sees itself and those before it."

    return Exercise(
        judge,
        (
            "The row is the letter that looks, the column the letter that is looked at.",
            "The first letter may see one letter, the second two. Which half of the square is that?",
            "torch has functions for the lower and the upper half of a square: triangles.",
        ),
    )


def _compare(given: object, count: int) -> None:
    """Raise `NotYetError` where a mask is not that of `count` letters."""
    if not isinstance(given, Tensor) or given.shape != (count, count):
        form = f"shape {tuple(given.shape)}" if isinstance(given, Tensor) else type(given).__name__
        raise NotYetError(f"mask({count}) must be a tensor of shape ({count}, {count}), not {form}.")
    added = given.is_floating_point() and bool((given <= 0).all())
    seen, wanted = (given == 0) if added else (given != 0), _seen(count)
    if added and bool((given[~seen] != -torch.inf).any()):
        raise NotYetError(
            "What is added to the scores must be minus infinity: any other number leaves a little to see."
        )
    if bool((seen & ~wanted).any()):
        row, column = (seen & ~wanted).nonzero()[0].tolist()
        raise NotYetError(f"mask({count}): letter {row} sees letter {column}, which comes later.")
    if bool((wanted & ~seen).any()):
        row, column = (wanted & ~seen).nonzero()[0].tolist()
        which = "itself" if row == column else f"letter {column}, which comes earlier"
        raise NotYetError(f"mask({count}): letter {row} does not see {which}.")
