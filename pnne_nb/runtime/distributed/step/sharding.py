"""Splits each batch among the processes, which together train on the batches of a single process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, final

from pnne_nb.errors import TrainingError
from pnne_nb.runtime.data.batches import StandIn, examples_in
from pnne_nb.runtime.data.sources import BatchSource, DatasetSource, Share
from pnne_nb.runtime.faults.oom_recovery import cut
from pnne_nb.runtime.objective.step_logs import Peers
from pnne_nb.runtime.thread.rng import globals_as_numbers, set_globals


def sharded(source: BatchSource, share: Share, peers: Peers) -> BatchSource:
    """Return the source of one process, made of what is the same in every process.

    A dataset is loaded in parts; of anything else, each process reads all and cuts its part out of the whole batch.
    """
    return source.shared(share) if isinstance(source, DatasetSource) else Sharded(source, share, peers)


@final
class Sharded:
    """Cuts this process's part out of each batch of `source`, which is the same in every process and read in the same order.

    The batches, their order and the random numbers that made them are those of a training in one process: a source that
    draws from the global generators finds them as they are in the first process.
    """

    def __init__(self, source: BatchSource, share: Share, peers: Peers) -> None:
        self.size = source.size
        self.draws = source.draws
        self._source = source
        self._share = share
        self._peers = peers

    def batches(self, epoch: int, start: int = 0) -> Iterator[Any]:
        """Return the parts of the batches of `epoch` (from 1), beginning with number `start` (from 0)."""
        with self._agreed():
            whole = self._source.batches(epoch, start)
        return self._parts(whole)

    def _parts(self, whole: Iterator[Any]) -> Iterator[Any]:
        while True:
            with self._agreed():
                raw = next(whole, _END)
            if raw is _END:
                return
            yield self._part(raw)

    @contextmanager
    def _agreed(self) -> Iterator[None]:
        """Use the first process's random numbers in this block."""
        if not self.draws:
            yield
            return
        own, leads = globals_as_numbers(), self._share.rank == 0
        agreed = self._peers.sum(own if leads else [0.0] * len(own))
        if leads:
            yield
            return
        set_globals(agreed)
        try:
            yield
        finally:
            set_globals(own)

    def _part(self, raw: Any) -> Any:
        examples = examples_in(raw)
        if not examples:
            raise TrainingError("A batch of the data has no dimension of examples: it cannot be shared by processes.")
        part = self._share.of(examples)
        if part.start == part.stop:
            return StandIn(cut(raw, slice(0, 1), examples))
        return cut(raw, part, examples)

    def close(self) -> None:
        self._source.close()

    def forget(self) -> None:
        self._source.forget()


_END = object()
