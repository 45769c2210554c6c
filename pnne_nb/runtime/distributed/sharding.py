"""One process's part of each batch: together, the processes train on the batches of a single one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, final

from pnne_nb.errors import TrainingError
from pnne_nb.runtime.batches import StandIn, as_batch
from pnne_nb.runtime.easing import cut
from pnne_nb.runtime.sources import DatasetSource, Share, Source


def sharded(source: Source, share: Share) -> Source:
    """The source of one process, made of what is the same in every process.

    A dataset is loaded in parts; of anything else, each process cuts its part out of the whole batch.
    """
    return source.shared(share) if isinstance(source, DatasetSource) else Sharded(source, share)


@final
class Sharded:
    """Cuts this process's part out of each batch of `source`.

    The batches, their order and the random numbers that made them are those of a training in one process.

    Args:
        source: The same in every process.
        share: Of this process.
    """

    def __init__(self, source: Source, share: Share) -> None:
        self.size = source.size
        self.draws = source.draws
        self._source = source
        self._share = share

    def batches(self, epoch: int, start: int = 0) -> Iterator[Any]:
        """The parts of the batches of `epoch` (from 1), beginning with number `start` (from 0)."""
        for raw in self._source.batches(epoch, start):
            yield self._part(raw)

    def _part(self, raw: Any) -> Any:
        examples = as_batch(raw, wants_target=False).examples
        if examples == 0:
            raise TrainingError("A batch of the data has no dimension of examples: it cannot be shared by processes.")
        part = self._share.of(examples)
        if part.start == part.stop:
            return StandIn(cut(raw, slice(0, 1), examples))
        return cut(raw, part, examples)

    def close(self) -> None:
        """End workers; the source can be used again."""
        self._source.close()
