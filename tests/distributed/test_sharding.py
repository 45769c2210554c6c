from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pnne_nb.errors import TrainingError
from pnne_nb.runtime.batches import StandIn, as_batch
from pnne_nb.runtime.distributed.sharding import Sharded


class _Once:
    size: int | None = 1
    draws = False

    def __init__(self, batch: Any) -> None:
        self.batch = batch
        self.closed = False

    def batches(self, epoch: int, start: int = 0) -> Iterator[Any]:
        yield from [self.batch][start:]

    def close(self) -> None:
        self.closed = True


@given(examples=st.integers(1, 12), count=st.integers(1, 9))
def test_the_parts_of_all_processes_are_the_batch_in_order(examples: int, count: int) -> None:
    batch: dict[str, Any] = {
        "x": torch.arange(examples),
        "weight": torch.ones(13),
        "target": (torch.arange(examples) * 2,),
    }
    parts = [next(Sharded(_Once(batch), rank, count).batches(1)) for rank in range(count)]
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
        next(Sharded(_Once((torch.tensor(1.0),)), 0, 2).batches(1))


def test_it_is_the_source_but_for_the_cut() -> None:
    source = _Once((torch.arange(4),))
    sharded = Sharded(source, 1, 2)
    assert (sharded.size, sharded.draws) == (1, False)
    assert list(sharded.batches(1, 1)) == []
    sharded.close()
    assert source.closed
