from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import DataLoader, IterableDataset, Subset, TensorDataset

from pnne_nb.errors import TrainingError
from pnne_nb.runtime.data.batches import StandIn, as_batch
from pnne_nb.runtime.data.open_data import open_source
from pnne_nb.runtime.data.sources import DatasetSource, Share, StreamSource
from pnne_nb.runtime.distributed.step.sharding import Sharded, sharded
from pnne_nb.runtime.objective.step_logs import ALONE
from pnne_nb.runtime.thread.rng import seeded_globals
from tests.runtime import tasks


class _Once:
    size: int | None = 1
    draws = False

    def __init__(self, batch: Any) -> None:
        self.batch = batch
        self.closed = False

    def batches(self, epoch: int, start: int = 0) -> Iterator[Any]:
        yield from [self.batch][start:]

    def forget(self) -> None:
        pass

    def close(self) -> None:
        self.closed = True


@given(examples=st.integers(1, 12), count=st.integers(1, 9))
def test_the_parts_of_all_processes_are_the_batch_in_order(examples: int, count: int) -> None:
    batch: dict[str, Any] = {
        "x": torch.arange(examples),
        "weight": torch.ones(13),
        "target": (torch.arange(examples) * 2,),
    }
    parts = [next(Sharded(_Once(batch), Share(rank, count), ALONE).batches(1)) for rank in range(count)]
    real = [part for part in parts if not isinstance(part, StandIn)]
    assert torch.equal(torch.cat([part["x"] for part in real]), batch["x"])
    assert torch.equal(torch.cat([part["target"][0] for part in real]), batch["target"][0])
    assert all(part["weight"] is batch["weight"] for part in real)
    assert not isinstance(parts[0], StandIn)
    sizes = [len(part["x"]) for part in real]
    assert max(sizes) - min(sizes) <= 1
    for part in parts:
        if isinstance(part, StandIn):
            read = as_batch(part, wants_target=True)
            assert (read.examples, read.counts, len(read.named["x"])) == (0, False, 1)


def test_batches_that_nobody_can_share() -> None:
    with pytest.raises(TrainingError, match="no dimension of examples"):
        next(Sharded(_Once((torch.tensor(1.0),)), Share(0, 2), ALONE).batches(1))


def test_it_is_the_source_but_for_the_cut() -> None:
    source = _Once((torch.arange(4),))
    sharded = Sharded(source, Share(1, 2), ALONE)
    assert (sharded.size, sharded.draws) == (1, False)
    assert list(sharded.batches(1, 1)) == []
    sharded.close()
    assert source.closed


@given(count=st.integers(1, 5), batch_size=st.integers(1, 40), start=st.integers(0, 2))
def test_a_dataset_is_loaded_in_parts_that_make_up_its_batches(count: int, batch_size: int, start: int) -> None:
    loader: DataLoader[Any] = DataLoader(Subset(TensorDataset(*tasks.images()), range(43)), batch_size, shuffle=True)
    source = open_source(loader, batch_size=1, shuffle=False, seed=3, num_workers=0, name="data")
    assert isinstance(source, DatasetSource)
    parts = [list(sharded(source, Share(rank, count), ALONE).batches(2, start)) for rank in range(count)]
    for whole, *pieces in zip(source.batches(2, start), *parts, strict=True):
        real = [piece for piece in pieces if not isinstance(piece, StandIn)]
        assert torch.equal(torch.cat([piece[0] for piece in real]), whole[0])
        assert torch.equal(torch.cat([piece[1] for piece in real]), whole[1])
        assert len(real) == min(count, len(whole[0]))
        assert not isinstance(pieces[0], StandIn)


def test_processes_draw_noise_of_their_own_and_the_same_when_they_come_again() -> None:
    source = open_source(tasks.Noisy(), batch_size=8, shuffle=False, seed=3, num_workers=0, name="data")

    def noise(rank: int, start: int) -> torch.Tensor:
        part: torch.Tensor = next(iter(sharded(source, Share(rank, 2), ALONE).batches(1, start)))[0]
        return part - tasks.images()[0][8 * start + 4 * rank :][:4]

    assert torch.equal(noise(1, 2), noise(1, 2))
    assert not torch.allclose(noise(0, 2), noise(1, 2))


class _Drawn(IterableDataset[torch.Tensor]):
    """Draws its examples from every global generator."""

    def __iter__(self) -> Iterator[torch.Tensor]:
        for _ in range(10):
            yield torch.rand(2) + random.gauss(0, 1) + float(np.random.normal())  # noqa: NPY002  datasets do


class _First:
    """What the first of two processes has told the other."""

    count = 2
    rank = 0
    present = True

    def __init__(self, told: list[list[float]]) -> None:
        self.told = told

    def sum(self, values: Sequence[float]) -> list[float]:
        """Keeps what the first says, and gives it to the other in the same order."""
        if any(values):
            self.told.append(list(values))
            return list(values)
        return self.told.pop(0)

    def total(self, value: float) -> float:
        """Likewise of one value."""
        return self.sum([value])[0]

    def any(self, fact: bool) -> bool:
        """Likewise of a fact."""
        return self.sum([float(fact)])[0] > 0


def test_a_stream_that_draws_gives_all_processes_parts_of_the_same_batches() -> None:
    source = StreamSource(DataLoader(_Drawn(), batch_size=4))
    with seeded_globals(1):
        whole = list(source.batches(1, 1))
    told: list[list[float]] = []
    with seeded_globals(1):
        first = list(sharded(source, Share(0, 2), _First(told)).batches(1, 1))
    with seeded_globals(2):
        second = list(sharded(source, Share(1, 2), _First(told)).batches(1, 1))
        left = torch.rand(1)
    assert told == []
    assert [len(part) for part in first] == [2, 1]
    for batch, one, other in zip(whole, first, second, strict=True):
        assert torch.equal(torch.cat([one, other]), batch)
    with seeded_globals(2):
        assert torch.equal(torch.rand(1), left), "its own numbers go on where they were"
