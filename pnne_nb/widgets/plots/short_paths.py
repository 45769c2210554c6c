"""Shortens paths of layers: common parts are removed first, and the ends last."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise

Words = tuple[str, ...]


def short_paths(paths: Sequence[str], limit: int) -> list[str]:
    """Shorten `paths` consistently, so that they stay distinct; short ones are not changed.

    A word that has no sibling says nothing: ``encoder.layers.11.norm1`` becomes ``encoder…11.norm1``. While that is
    too long, the first words go too, ``11.norm1``, if nothing else is called so. What is longer even then loses its
    beginning, which an ellipsis stands for.

    Args:
        paths: Words joined by dots, each path once.
        limit: Letters of each at most; at least 2.
    """
    if max(map(len, paths), default=0) <= limit:
        return list(paths)
    split = [tuple(path.split(".")) for path in paths]
    telling = _telling(split)
    shown = found = [_joined(words, kept) for words, kept in zip(split, telling, strict=True)]
    for dropped in range(1, max(map(len, telling))):
        if max(map(len, found)) <= limit:
            break
        found = [
            _joined(words, kept[min(dropped, len(kept) - 1) :]) for words, kept in zip(split, telling, strict=True)
        ]
        if len(set(found)) < len(found):
            break
        shown = found
    return [name if len(name) <= limit else f"…{name[1 - limit :]}" for name in shown]


def _telling(paths: Sequence[Words]) -> list[list[int]]:
    """Return for each path the positions of its words with siblings, and of the last word."""
    following: dict[Words, set[Words]] = defaultdict(set)
    for words in paths:
        for place in range(len(words) + 1):
            following[words[:place]].add(words[place : place + 1])
    return [
        [place for place in range(len(words)) if len(following[words[:place]]) > 1 or place == len(words) - 1]
        for words in paths
    ]


def _joined(words: Words, kept: Sequence[int]) -> str:
    """Return the words at the positions `kept`, with an ellipsis for gaps."""
    text = words[kept[0]]
    for before, place in pairwise(kept):
        text += ("." if place == before + 1 else "…") + words[place]
    return text
