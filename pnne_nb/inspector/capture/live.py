"""`LiveProbe`: makes frames of single training steps from samples; its hooks exist only during an observed step."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import final

import torch
from torch import Tensor, nn

from pnne_nb.errors import InspectionError
from pnne_nb.inspector.capture.hooks import HookOwner, in_backward, primary_tensor
from pnne_nb.inspector.capture.preserve import why_not_hookable
from pnne_nb.inspector.statistics.histogram import measure_segments
from pnne_nb.inspector.statistics.measure import PendingNorms, launch_norms
from pnne_nb.inspector.statistics.patterns import leaf_layers, match_layers, own_parameters, resolve_watch
from pnne_nb.inspector.statistics.sampling import LIVE_SAMPLE, Sampler, measurable, sample, to_host, values_of
from pnne_nb.inspector.statistics.units import Bounds, bounds_of, saturation
from pnne_nb.telemetry.frames import Frame, HistogramFrame, NormsFrame, Quantity, StatisticsFrame
from pnne_nb.telemetry.probe import Watch

SAMPLE_BUDGET = 20_480
"""Most elements that one observation samples over all layers; each layer gets at least 256."""

_HOOKED: frozenset[Quantity] = frozenset(("activations", "inputs", "gradients"))
_OF_PARAMETERS: frozenset[Quantity] = frozenset(("parameters", "parameter_gradients", "updates"))


@final
class LiveProbe:
    """Observes single training steps: gradient norms, histograms and statistics of the watched layers.

    It is a portable `pnne_nb.telemetry.probe.Probe`, and holds hooks only between `open` and `close`.

    Gradient norms are exact. Histograms and statistics come from evenly spread samples, whose sizes the frames give: at
    most 2,048 elements of each quantity, and at most 20,480 in all if more than ten are watched, but at least 256 each.
    If a layer runs several times in a step, its first eight calls are pooled. If it has several outputs, the first
    floating-point tensor is measured. A recomputation (activation checkpointing) does not count again.

    Gradients of activations are divided by `gradient_scale`, because a `GradScaler` scales them; values that overflowed in
    half precision stay infinite.

    Args:
        model: The module that runs in the training step (inside a wrapper such as DDP: the inner module).
        watch: Quantities by layer pattern. Default: the activations of every leaf layer.
        histograms_of: Layers whose histograms are wanted; None for all watched.
        statistics_of: Layers whose statistics are wanted; None for all watched.
        gradient_scale: Returns the factor by which the loss was multiplied before the backward pass; called in each
            observed step. None for 1.

    Attributes:
        parameter_scale: The factor of the parameters' gradients at `gradients_ready`, by which they are divided; 1 unless
            the caller sets it.

    Raises:
        LayerNotFoundError: If a pattern or a chosen layer matches nothing.
        InspectionError: If layers are watched whose calls hooks cannot see (``torch.compile``, TorchScript).
    """

    def __init__(
        self,
        model: nn.Module,
        watch: Mapping[str, Iterable[Quantity]] | None = None,
        *,
        histograms_of: Collection[str] | None = None,
        statistics_of: Collection[str] | None = None,
        gradient_scale: Callable[[], float] | None = None,
    ) -> None:
        self.model = model
        self._gradient_scale = gradient_scale
        self.parameter_scale = 1.0
        if watch is None:
            watch = dict.fromkeys(leaf_layers(model), ("activations",))
        self._watched: dict[str, tuple[Quantity, ...]] = resolve_watch(model, watch)
        if any(_HOOKED.intersection(quantities) for quantities in self._watched.values()):
            reason = why_not_hookable(model)
            if reason:
                raise InspectionError(reason)
        self._modules = dict(model.named_modules())
        found = {name: bounds_of(self._modules[name]) for name in self._watched}
        self._bounds = {name: bounds for name, bounds in found.items() if bounds is not None}
        self.histograms_of = histograms_of
        self._statistics_of = self._checked(statistics_of)
        self._hooks = HookOwner()
        self._samplers: dict[Key, Sampler] = {}
        self._seen = Observation(0)
        self._hooked = 0.0

    @property
    def watched(self) -> dict[str, tuple[Quantity, ...]]:
        """What is watched, by layer, in the model's order."""
        return dict(self._watched)

    @property
    def histograms_of(self) -> frozenset[str] | None:
        """Layers whose histograms are wanted, or None for all; any thread may set it for the next step."""
        return self._histograms_of

    @histograms_of.setter
    def histograms_of(self, chosen: Collection[str] | None) -> None:
        self._histograms_of = self._checked(chosen)

    @classmethod
    def of(cls, model: nn.Module, watch: Watch, gradient_scale: Callable[[], float]) -> LiveProbe:
        """Return a probe of `model` that measures what `watch` of another probe says; raises what the class raises."""
        return cls(
            model,
            watch.layers,
            histograms_of=watch.histograms_of,
            statistics_of=watch.statistics_of,
            gradient_scale=gradient_scale,
        )

    @property
    def watch(self) -> Watch:
        """What the probe measures, in plain values; see `of`."""
        return Watch(self._watched, self._histograms_of, self._statistics_of)

    def take(self, frames: Sequence[Frame]) -> Sequence[Frame]:
        """Return the frames of another process unchanged."""
        return frames

    def open(self, step: int) -> None:
        """Attach the hooks that the wanted frames need."""
        self._hooks.close()
        # Read once, because another thread may choose other layers during the step.
        histograms, statistics = self._histograms_of, self._statistics_of
        wanted = {
            name: quantities
            for name, quantities in self._watched.items()
            if histograms is None or statistics is None or name in histograms or name in statistics
        }
        places = sum(len(quantities) for quantities in wanted.values())
        limit = max(256, min(LIVE_SAMPLE, SAMPLE_BUDGET // max(1, places)))
        self._seen = Observation(step, wanted, histograms, statistics, limit, self._bounds, self._samplers)
        self._hooked = 0.0
        if self._gradient_scale is not None:
            # Read now, because the scaler changes its factor before the step ends.
            self._seen.scale = self._gradient_scale()
        for name, quantities in wanted.items():
            module = self._modules[name]
            if "inputs" in quantities:
                self._hooks.on_inputs(module, partial(self._take_input, self._seen.pool(name, "inputs")))
            activations = self._seen.pool(name, "activations") if "activations" in quantities else None
            gradients = self._seen.pool(name, "gradients") if "gradients" in quantities else None
            if activations or gradients:
                self._hooks.on_output(module, partial(self._take_output, activations, gradients))

    def gradients_ready(self) -> None:
        """Start the gradient norms, and sample gradients and parameters before they change."""
        seen = self._seen
        seen.parameter_scale = self.parameter_scale
        if self._gradient_scale is None:
            # If the parameters' gradients are scaled, so are all others.
            seen.scale = self.parameter_scale
        seen.norms = launch_norms(own_parameters(self.model))
        for name, quantities in seen.wanted.items():
            if _OF_PARAMETERS.isdisjoint(quantities):
                continue
            own = [one for one in self._modules[name].parameters(recurse=False) if measurable(one)]
            elements = sum(parameter.numel() for parameter in own)
            for parameter in own:
                # Each parameter's sample is in proportion to its size.
                limit = max(1, round(seen.limit * parameter.numel() / max(1, elements)))
                if "parameter_gradients" in quantities and parameter.grad is not None:
                    gradient = parameter.grad
                    taken = sample(gradient, limit) if measurable(gradient) else None
                    seen.pool(name, "parameter_gradients").put(taken, gradient.numel())
                if "parameters" in quantities:
                    seen.pool(name, "parameters").put(sample(parameter, limit), parameter.numel())
                if "updates" in quantities and parameter.requires_grad:
                    seen.before.append((name, parameter, limit, sample(parameter, limit)))

    def updated(self) -> None:
        """Sample the changes that the optimizer's step made."""
        seen = self._seen
        for name, parameter, limit, before in seen.before:
            change = sample(parameter, limit) - before
            seen.pool(name, "updates").put(change, parameter.numel())
            seen.changes.setdefault(name, []).append((change, before))
        seen.before = []

    def close(self) -> Sequence[Frame]:
        """Detach everything and return the frames of the step; empty if nothing was measured."""
        self._hooks.close()
        seen, self._seen = self._seen, Observation(self._seen.step)
        return seen.frames()

    @property
    def hooked(self) -> float:
        """Processor time of the hooks since `open`, in seconds."""
        return self._hooked

    @property
    def blind(self) -> bool:
        """Whether layers' calls are watched but none happened since `open`."""
        calls = [pool.calls for (_, quantity), pool in self._seen.pools.items() if quantity in _HOOKED]
        return bool(calls) and not any(calls)

    def _checked(self, chosen: Collection[str] | None) -> frozenset[str] | None:
        if chosen is None:
            return None
        for name in chosen:
            match_layers(self.model, name)
        return frozenset(chosen)

    def _take_output(self, activations: Pool | None, gradients: Pool | None, output: object) -> None:
        began = time.thread_time()
        tensor = primary_tensor(output)
        # A recomputation was observed in the forward pass.
        if tensor is not None and activations is not None and not (activations.calls and in_backward()):
            activations.add(tensor)
        if tensor is not None and gradients is not None:
            # Also in a recomputation: a reentrant checkpoint has gradients only there; the other kind never
            # asks for the gradients of what it computed again.
            self._hooks.on_gradient(tensor, partial(self._take, gradients))
        self._hooked += time.thread_time() - began

    def _take_input(self, pool: Pool, args: tuple[object, ...], kwargs: dict[str, object]) -> None:
        tensor = primary_tensor((args, kwargs))
        if tensor is not None and not in_backward():
            self._take(pool, tensor)

    def _take(self, pool: Pool, tensor: Tensor) -> None:
        began = time.thread_time()
        pool.add(tensor)
        self._hooked += time.thread_time() - began


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
