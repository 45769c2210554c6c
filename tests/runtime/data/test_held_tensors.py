"""Data in memory are found behind loaders and datasets; what changes them or draws unevenly is left alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils.data import ConcatDataset, DataLoader, Subset, TensorDataset, WeightedRandomSampler, random_split

from pnne_nb.runtime.data.open_data import held_tensors, open_source

X, Y = torch.randn(20, 3), torch.arange(20)


class Noisy(TensorDataset):
    """Changes what it holds."""

    def __getitem__(self, index: Any) -> tuple[Tensor, ...]:
        return tuple(part[index] + 1 for part in self.tensors)


def opened(data: Any) -> Any:
    return open_source(data, batch_size=4, shuffle=True, seed=0, num_workers=0, name="train_data")


@pytest.mark.parametrize(
    "data",
    [
        lambda: (X, Y),
        lambda: TensorDataset(X, Y),
        lambda: DataLoader(TensorDataset(X, Y), 4, shuffle=True),
        lambda: {"y": Y, "input": X},
    ],
)
def test_tensors_are_found_behind_every_way_to_give_them(data: Callable[[], Any]) -> None:
    found = held_tensors(opened(data()))
    assert found is not None
    assert torch.equal(found[0], X)
    assert torch.equal(found[1], Y)


def test_a_part_of_a_split_holds_its_own_examples() -> None:
    part, _ = random_split(TensorDataset(X, Y), [12, 8])
    found = held_tensors(opened(DataLoader(part, 4)))
    assert found is not None
    assert found[1].tolist() == list(part.indices)


@pytest.mark.parametrize(
    "data",
    [
        lambda: Noisy(X, Y),
        lambda: Subset(Noisy(X, Y), range(4)),
        lambda: DataLoader(TensorDataset(X, Y), 4, sampler=WeightedRandomSampler([0.5] * 20, 20)),
        lambda: DataLoader(TensorDataset(X, Y), 4, collate_fn=lambda rows: rows),
        lambda: ConcatDataset([TensorDataset(X, Y)]),
        lambda: [1, 2],
        lambda: None,
    ],
)
def test_what_is_made_or_drawn_otherwise_is_not_looked_at(data: Callable[[], Any]) -> None:
    assert held_tensors(data()) is None
