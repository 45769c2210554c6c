from __future__ import annotations

import math
from collections.abc import Sequence
from threading import Barrier, Thread
from typing import Any

import pytest
import torch

from pnne_nb.runtime.distributed.step.reduce_metrics import ReducedMetric
from pnne_nb.runtime.objective.metric_choices import NamedMetric, make_metrics
from pnne_nb.runtime.objective.metrics import Metric

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
