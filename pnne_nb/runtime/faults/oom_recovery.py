"""Detects out-of-memory errors, and cuts batches into smaller pieces."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from pnne_nb.errors import PnneError

_NO_MEMORY = ("can't allocate memory", "out of memory", "CUBLAS_STATUS_ALLOC_FAILED", "CUDNN_STATUS_ALLOC_FAILED")
"""What the CPU's allocator, MPS and CUDA's libraries say instead of raising torch's own exception."""


class OthersOutOfMemoryError(torch.OutOfMemoryError):
    """Another process has run out of memory in this forward pass; all of them have exchanged that already."""


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an error says that a device is out of memory; errors of this package about memory do not count."""
    return isinstance(error, torch.OutOfMemoryError) or (
        isinstance(error, RuntimeError)
        and not isinstance(error, PnneError)
        and any(said in str(error) for said in _NO_MEMORY)
    )


def batch_norms(model: nn.Module) -> list[str]:
    """Return the names of batch norm layers, which give other results for pieces of a batch."""
    return [name for name, layer in model.named_modules() if isinstance(layer, _BatchNorm) and layer.training]


def pieces(raw: Any, count: int, examples: int) -> list[Any]:
    """Cut a raw batch of `examples` into at most `count` pieces of nearly equal size; see `cut`."""
    count = min(count, examples)
    edges = [examples * index // count for index in range(count + 1)] if count > 1 else []
    spans = [slice(start, stop) for start, stop in pairwise(edges)]
    return [cut(raw, span, examples) for span in spans] if spans else [raw]


def cut(value: Any, span: slice, examples: int) -> Any:
    """Return the examples `span` of a raw batch that has `examples`; what has another length is left whole."""
    match value:
        case Tensor():
            return value[span] if value.dim() > 0 and len(value) == examples else value
        case Mapping():
            return {name: cut(item, span, examples) for name, item in value.items()}
        case PackedSequence():
            return _cut_packed(value, span)
        case tuple() if hasattr(value, "_fields"):
            return type(value)(*(cut(item, span, examples) for item in value))
        case tuple():
            return tuple(cut(item, span, examples) for item in value)
        case list():
            return [cut(item, span, examples) for item in value]
        case _:
            return value


def _cut_packed(sequences: PackedSequence, span: slice) -> PackedSequence:
    padded, lengths = pad_packed_sequence(sequences, batch_first=True)
    return pack_padded_sequence(padded[span], lengths[span], batch_first=True, enforce_sorted=False)
