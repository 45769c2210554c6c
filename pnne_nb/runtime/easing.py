"""Smaller pieces of a batch, for a device whose memory is too small for the whole."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from torch import Tensor


def pieces(raw: Any, count: int, examples: int) -> list[Any]:
    """Cut a raw batch into at most `count` pieces of nearly equal size.

    Args:
        raw: Tensors with the examples along the first dimension, in sequences and mappings.
        count: Pieces; fewer if there are fewer examples.
        examples: In the batch; what has another length goes into every piece as a whole.
    """
    count = min(count, examples)
    edges = [examples * index // count for index in range(count + 1)] if count > 1 else []
    spans = [slice(start, stop) for start, stop in pairwise(edges)]
    return [_cut(raw, span, examples) for span in spans] if spans else [raw]


def _cut(value: Any, span: slice, examples: int) -> Any:
    match value:
        case Tensor():
            return value[span] if value.dim() > 0 and len(value) == examples else value
        case Mapping():
            return {name: _cut(item, span, examples) for name, item in value.items()}
        case tuple() if hasattr(value, "_fields"):
            return type(value)(*(_cut(item, span, examples) for item in value))
        case tuple():
            return tuple(_cut(item, span, examples) for item in value)
        case list():
            return [_cut(item, span, examples) for item in value]
        case _:
            return value
