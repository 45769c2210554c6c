from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from threading import Barrier, Thread
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
from pnne_nb.runtime.distributed.step.sharding import ReducedMetric, Sharded, sharded
from pnne_nb.runtime.objective.metric_choices import NamedMetric, make_metrics
from pnne_nb.runtime.objective.metrics import Metric
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


CPU = torch.device("cpu")


class _Table:
    """Peers that are threads."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.given: dict[int, Sequence[float]] = {}
        self.barrier = Barrier(count, timeout=60)


class _Seat:
    def __init__(self, table: _Table, rank: int) -> None:
        self.count = table.count
        self.present = True
        self._table, self.rank = table, rank

    def sum(self, values: Sequence[float]) -> list[float]:
        self._table.given[self.rank] = values
        self._table.barrier.wait()
        summed = [math.fsum(column) for column in zip(*self._table.given.values(), strict=True)]
        self._table.barrier.wait()
        return summed

    def total(self, value: float) -> float:
        return self.sum([value])[0]

    def any(self, fact: bool) -> bool:
        return self.sum([float(fact)])[0] > 0


def _everywhere(acts: list[Any]) -> list[Any]:
    results: list[Any] = [None] * len(acts)

    def run(rank: int) -> None:
        results[rank] = acts[rank]()

    threads = [Thread(target=run, args=(rank,)) for rank in range(len(acts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def _metric(name: str) -> Metric:
    if name == "node":
        return NamedMetric("perplexity", "node", lambda output, target: (output, target))
    return make_metrics([name], CPU)[name]


def _target(name: str, output: torch.Tensor) -> torch.Tensor:
    return output.argmax(1).roll(1) if name in ("accuracy", "node") else output.roll(1)


@pytest.mark.parametrize("name", ["accuracy", "mae", "node"])
def test_all_processes_tell_the_value_over_everybodys_examples(name: str) -> None:
    outputs = list(torch.randn(5, 7, 3, generator=torch.Generator().manual_seed(0)))
    alone = _metric(name)
    for output in outputs:
        alone.update(output, _target(name, output))
    table = _Table(2)
    joined = [ReducedMetric(_metric(name), _Seat(table, rank), first=rank == 0) for rank in range(2)]
    for index, output in enumerate(outputs[:3]):
        joined[index % 2].update(output, _target(name, output))
    saved = _everywhere([metric.state_dict for metric in joined])[0]
    # Others go on from there, as after a restart: before they have seen a batch, they hold what they were given.
    again = [ReducedMetric(_metric(name), _Seat(table, rank), first=rank == 0) for rank in range(2)]
    for metric in again:
        metric.load_state_dict(saved)
    assert _everywhere([metric.state_dict for metric in again])[0] == saved
    for index, output in enumerate(outputs[3:]):
        again[index % 2].update(output, _target(name, output))
    assert _everywhere([metric.compute for metric in again]) == pytest.approx([float(alone.compute())] * 2, rel=1e-6)
    for metric in again:
        metric.reset()
    assert all(math.isnan(value) for value in _everywhere([metric.compute for metric in again]))
