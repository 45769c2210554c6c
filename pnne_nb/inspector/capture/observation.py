"""Gathers the samples of one observed training step and makes frames of them."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import final

import torch
from torch import Tensor, nn

from pnne_nb.inspector.statistics.gradients import PendingNorms
from pnne_nb.inspector.statistics.sampling import LIVE_SAMPLE, Sampler, sample, to_host, values_of
from pnne_nb.inspector.statistics.segments import measure_segments
from pnne_nb.inspector.statistics.units import Bounds, saturation
from pnne_nb.telemetry.frames import (
    Frame,
    HistogramFrame,
    NormsFrame,
    Quantity,
    StatisticsFrame,
)

CALLS = 8
"""Most calls of one layer that are sampled in one step; later calls (of an RNN cell, say) are only counted."""

BINS = 32
"""Bins of each histogram."""

Key = tuple[str, Quantity]
"""A layer and its quantity."""


@final
class Pool:
    """The samples of one quantity at one layer in one step.

    Attributes:
        samples: A sample of each tensor that was added, at most `CALLS`.
        total: Number of elements of all tensors that were added.
        calls: Number of tensors that were added.
    """

    __slots__ = ("calls", "sampler", "samples", "total")

    def __init__(self, sampler: Sampler) -> None:
        self.sampler = sampler
        self.samples: list[Tensor] = []
        self.total = 0
        self.calls = 0

    def add(self, tensor: Tensor) -> None:
        """Sample one more tensor."""
        self.put(self.sampler(tensor) if self.calls < CALLS else None, tensor.numel())

    def put(self, taken: Tensor | None, total: int) -> None:
        """Add a tensor of `total` elements by its sample, or by None if it was not sampled."""
        if taken is not None:
            self.samples.append(taken)
        self.calls += 1
        self.total += total

    def joined(self) -> Tensor:
        """Return all samples as one tensor."""
        if len(self.samples) == 1:
            return values_of(self.samples[0])
        return sample(torch.cat(self.samples), self.sampler.limit)


@dataclass
class Observation:
    """What one observed step has gathered so far.

    Attributes:
        wanted: The layers that are measured in this step, with what is watched there.
        histograms: Layers whose histograms are wanted in this step; None for all.
        statistics: Layers whose statistics are wanted in this step; None for all.
        limit: Most elements to sample per layer and quantity.
        bounds: Bounds of the outputs of saturating activations, by layer.
        samplers: Samplers, kept from earlier steps.
        before: Samples of the parameters before the optimizer's step, with their limits, by layer.
        changes: (change, value before) of each parameter's sample, by layer.
        scale: The factor by which the loss is multiplied before the backward pass.
        parameter_scale: The factor of the parameters' gradients.
    """

    step: int
    wanted: dict[str, tuple[Quantity, ...]] = field(default_factory=dict)
    histograms: frozenset[str] | None = None
    statistics: frozenset[str] | None = None
    limit: int = LIVE_SAMPLE
    bounds: dict[str, Bounds] = field(default_factory=dict)
    samplers: dict[Key, Sampler] = field(default_factory=dict)
    pools: dict[Key, Pool] = field(default_factory=dict)
    norms: PendingNorms = field(default_factory=PendingNorms)
    before: list[tuple[str, nn.Parameter, int, Tensor]] = field(default_factory=list)
    changes: dict[str, list[tuple[Tensor, Tensor]]] = field(default_factory=dict)
    scale: float = 1.0
    parameter_scale: float = 1.0

    def pool(self, name: str, quantity: Quantity) -> Pool:
        """Return the pool for samples of that quantity at that layer."""
        key = (name, quantity)
        if key not in self.pools:
            sampler = self.samplers.get(key)
            if sampler is None or sampler.limit != self.limit:
                sampler = self.samplers[key] = Sampler(self.limit)
            self.pools[key] = Pool(sampler)
        return self.pools[key]

    def frames(self) -> list[Frame]:
        """Move everything to the host in one transfer and return it as frames."""
        places = [(key, pool) for key, pool in self.pools.items() if pool.samples]
        tensors = [pool.joined() for _, pool in places] + [_ratio(changes) for changes in self.changes.values()]
        arrays = to_host([*tensors, *self.norms.norms])
        # Divided on the host in float32: in half precision, small gradients would underflow.
        scales = {"gradients": self.scale, "parameter_gradients": self.parameter_scale}
        samples = [
            array if scales.get(quantity, 1.0) == 1.0 else array / scales[quantity]
            for ((_, quantity), _), array in zip(places, arrays, strict=False)
        ]
        ratios = {
            name: float(array[0]) for name, array in zip(self.changes, arrays[len(places) : len(tensors)], strict=True)
        }
        frames: list[Frame] = []
        if self.norms.layers:
            measured = self.norms.finish([array / self.parameter_scale for array in arrays[len(tensors) :]])
            frames.append(NormsFrame(self.step, measured.by_layer, measured.total))
        segments = measure_segments(samples, BINS)
        statistics = zip(*(column.tolist() for column in segments.values.values()), strict=True)
        histograms = zip(segments.lower.tolist(), segments.upper.tolist(), segments.counts.tolist(), strict=True)
        for ((name, quantity), pool), taken, row, (lower, upper, counts) in zip(
            places, samples, statistics, histograms, strict=True
        ):
            if self.statistics is None or name in self.statistics:
                values = dict(zip(segments.values, row, strict=True))
                # Scaled from the sample to the whole tensor.
                values["norm"] *= math.sqrt(pool.total / max(1, len(taken)))
                if quantity == "updates":
                    values["ratio"] = ratios[name]
                if quantity == "activations" and name in self.bounds:
                    values["saturation"] = saturation(taken, self.bounds[name])
                frames.append(StatisticsFrame(self.step, name, quantity, values))
            if self.histograms is None or name in self.histograms:
                frames.append(
                    HistogramFrame(self.step, name, quantity, lower, upper, tuple(counts), len(taken), pool.total)
                )
        return frames


def _ratio(changes: list[tuple[Tensor, Tensor]]) -> Tensor:
    """Return the norm of a layer's change divided by the norm of its parameters before the change, as `[1]`."""
    change = torch.stack([change.float().square().sum() for change, _ in changes]).sum().sqrt()
    before = torch.stack([before.float().square().sum() for _, before in changes]).sum().sqrt()
    return (change / before).reshape(1)
