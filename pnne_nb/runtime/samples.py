"""Examples as people write them down by hand, in a list or by name, as a dataset."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, final

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset


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
class Columns(Dataset[Any]):
    """``{"input": X, "target": y}``: tensors by name, with the examples along the first dimension."""

    def __init__(self, columns: Mapping[str, Tensor]) -> None:
        self._columns = columns

    def __len__(self) -> int:
        return len(next(iter(self._columns.values())))

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        return {name: values[index] for name, values in self._columns.items()}


def are_samples(data: Sequence[Any]) -> bool:
    """Whether a list holds examples, not arrays with all examples in them."""
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
