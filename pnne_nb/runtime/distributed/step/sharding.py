"""Shares each batch and each metric among the processes, whose training is that of a single process."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast, final

from torch import nn

from pnne_nb.errors import TrainingError
from pnne_nb.runtime.data.batches import StandIn, examples_in
from pnne_nb.runtime.data.sources import BatchSource, DatasetSource, Share
from pnne_nb.runtime.faults.oom_recovery import cut
from pnne_nb.runtime.objective.metric_choices import NamedMetric
from pnne_nb.runtime.objective.metrics import Metric, load_metric, saved_metric, target_for
from pnne_nb.runtime.objective.step_logs import Peers
from pnne_nb.runtime.thread.rng import globals_as_numbers, set_globals

if TYPE_CHECKING:
    # It takes two seconds, and most trainings do without.
    import torchmetrics


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


_SUMS = 2
"""How many numbers a metric that is not of torchmetrics saves; all of them are sums over examples."""


@final
class ReducedMetric:
    """Counts this process's examples in `metric`, and computes the value over those of all processes.

    `compute` and `state_dict` are called by every process in the same order. The `first` process goes on from a saved
    state; the others begin with nothing.
    """

    def __init__(self, metric: Metric, peers: Peers, *, first: bool) -> None:
        self._metric = metric
        self._peers = peers
        self._first = first
        self._loaded: dict[str, Any] = {}

    def update(self, output: Any, target: Any) -> None:
        self._metric.update(output, target_for(self._metric, target))

    def compute(self) -> Any:
        """Return the value over all examples of all processes since the last reset; None if the metric says nothing."""
        joined = self._counting()
        if not isinstance(joined, nn.Module):
            joined = copy.deepcopy(joined)
            load_metric(joined, self.state_dict())
        return joined.compute()

    def reset(self) -> None:
        self._metric.reset()
        self._loaded = {}

    def state_dict(self) -> dict[str, Any]:
        """Return the state of all processes; complete only in the first."""
        if isinstance(self._metric, NamedMetric) and self._metric.counting is None:
            return dict(self._loaded)
        counting = self._counting()
        if isinstance(counting, nn.Module):
            with cast("torchmetrics.Metric", counting).sync_context():
                return copy.deepcopy(saved_metric(counting) or {})
        counted = saved_metric(counting) or {}
        numbers = [float(counted[name]) for name in sorted(counted)]
        joined = self._peers.sum(numbers + [0.0] * (_SUMS - len(numbers)))
        return {
            name: int(number) if isinstance(counted[name], int) else number
            for name, number in zip(sorted(counted), joined, strict=False)
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from what was saved."""
        self.reset()
        self._loaded = dict(state)
        if self._first:
            load_metric(self._metric, self._loaded)

    def _counting(self) -> Metric:
        """Return what counts in the end: torchmetrics' are modules, and join what they have counted themselves."""
        if isinstance(self._metric, NamedMetric) and self._metric.counting is not None:
            return self._metric.counting
        return self._metric
