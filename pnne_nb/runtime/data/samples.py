"""Datasets of hand-written examples, in a list or by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, final

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from pnne_nb.runtime.data.batches import tensors_in


@final
class Samples(Dataset[Any]):
    """``[(x0, y0), (x1, y1), …]`` or ``[{"input": x0, "target": y0}, …]``.

    Numbers become tensors of the types that layers and losses expect: float32, or int64 for whole ones.
    """

    def __init__(self, samples: Sequence[Any]) -> None:
        self._samples = samples

    def __len__(self) -> int:
        return len(self._samples)

    def __getitem__(self, index: int) -> Any:
        return _tensors(self._samples[index])


@final
class Arrays(Dataset[Any]):
    """Tensors in tuples and mappings, as ``{"input": X, "target": y}`` or ``(X, (y0, y1))``.

    The first dimension of each counts the examples.

    Attributes:
        arrays: All of them.
    """

    def __init__(self, arrays: Any) -> None:
        self.arrays = arrays
        self._count = len(next(tensors_in(arrays)))

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int) -> Any:
        return _example(self.arrays, index)


def _example(arrays: Any, index: int) -> Any:
    match arrays:
        case Mapping():
            return {name: _example(part, index) for name, part in arrays.items()}
        case tuple():
            return tuple(_example(part, index) for part in arrays)
        case _:
            return arrays[index]


def are_samples(data: Sequence[Any]) -> bool:
    """Return whether a list holds examples, not arrays with all examples in them."""
    return bool(data) and all(isinstance(item, tuple | list | Mapping) for item in data)


def _tensors(value: Any) -> Any:
    match value:
        case bool() | np.bool_():
            return torch.tensor(bool(value))
        case int() | np.integer():
            return torch.tensor(int(value))
        case float() | np.floating():
            return torch.tensor(float(value), dtype=torch.float32)
        case np.ndarray() if value.dtype == np.float64:
            return torch.from_numpy(value.astype(np.float32))
        case Mapping():
            return {name: _tensors(item) for name, item in value.items()}
        case tuple():
            return tuple(_tensors(item) for item in value)
        case list() if value and all(isinstance(item, int | float | np.number) for item in value):
            return torch.stack([_tensors(item) for item in value])
        case list():
            return [_tensors(item) for item in value]
        case Tensor():
            return value.detach()
        case _:
            return value
