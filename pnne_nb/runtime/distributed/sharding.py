"""One process's part of each batch: together, the processes train on the batches of a single one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, final

from pnne_nb.errors import TrainingError
from pnne_nb.runtime.batches import StandIn, as_batch
from pnne_nb.runtime.easing import cut
from pnne_nb.runtime.sources import Source


@final
class Sharded:
    """Cuts this process's part out of each batch of `source`.

    The batches, their order and the random numbers that made them are those of a training in one process.

    Args:
        source: The same in every process.
        rank: Number of this process, from 0.
        count: How many there are.
    """

    def __init__(self, source: Source, rank: int, count: int) -> None:
        self.size = source.size
        self.draws = source.draws
        self._source = source
        self._rank = rank
        self._count = count

    def batches(self, epoch: int, start: int = 0) -> Iterator[Any]:
        """The parts of the batches of `epoch` (from 1), beginning with number `start` (from 0)."""
        for raw in self._source.batches(epoch, start):
            yield self._part(raw)

    def _part(self, raw: Any) -> Any:
        examples = as_batch(raw, wants_target=False).examples
        if examples == 0:
            raise TrainingError("A batch of the data has no dimension of examples: it cannot be shared by processes.")
        # Rounded up, so that the first process always has one.
        start, stop = (-(-examples * edge // self._count) for edge in (self._rank, self._rank + 1))
        if start == stop:
            return StandIn(cut(raw, slice(0, 1), examples))
        return cut(raw, slice(start, stop), examples)

    def close(self) -> None:
        """End workers; the source can be used again."""
        self._source.close()
