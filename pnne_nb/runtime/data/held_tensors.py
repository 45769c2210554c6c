"""Finds the tensors behind data that are completely in memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from torch import Tensor
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    RandomSampler,
    SequentialSampler,
    Subset,
    TensorDataset,
    default_collate,
)

from pnne_nb.compiler.analysis.example_inputs import TARGET_KEYS
from pnne_nb.runtime.data.open_data import Arrays
from pnne_nb.runtime.data.sources import DatasetSource, TensorSource

_COPIED: Final = 100_000_000
"""Elements of a part of a dataset that are copied to be looked at, at most."""


def held_tensors(data: Any) -> tuple[Tensor, ...] | None:
    """Return the tensors `[N, ...]` behind a source, loader or dataset, the target last.

    None for anything else, and if examples are made one by one or sampled unevenly.
    """
    match data:
        case TensorSource():
            return data.tensors
        case DatasetSource():
            return held_tensors(data.template)
        case DataLoader():
            plain = (
                type(data.sampler) in {RandomSampler, SequentialSampler} and type(data.batch_sampler) is BatchSampler
            )
            return held_tensors(data.dataset) if plain and data.collate_fn is default_collate else None
        case TensorDataset() if type(data) is TensorDataset:
            return data.tensors
        case Arrays():
            return _of_arrays(data.arrays)
        case Subset() if type(data) is Subset:
            whole = held_tensors(data.dataset)
            if whole is None or sum(tensor[:1].numel() for tensor in whole) * len(data) > _COPIED:
                return None
            return tuple(tensor[list(data.indices)] for tensor in whole)
        case _:
            return None


def _of_arrays(arrays: Any) -> tuple[Tensor, ...] | None:
    if not isinstance(arrays, Mapping) or not all(isinstance(part, Tensor) for part in arrays.values()):
        return None
    targets = [name for name in arrays if name in TARGET_KEYS]
    return tuple(arrays[name] for name in (*(name for name in arrays if name not in targets), *targets))
