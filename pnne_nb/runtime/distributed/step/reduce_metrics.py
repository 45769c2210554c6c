"""`ReducedMetric`: a metric over the examples of all processes."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast, final

from torch import nn

from pnne_nb.runtime.objective.metric_choices import NamedMetric
from pnne_nb.runtime.objective.metrics import Metric, load_metric, saved_metric, target_for
from pnne_nb.runtime.objective.step_logs import Peers

if TYPE_CHECKING:
    # It takes two seconds, and most trainings do without.
    import torchmetrics

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
