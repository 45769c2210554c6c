"""`LiveProbe`: frames of single training steps, with hooks that exist only while such a step runs."""

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
from pnne_nb.frames import Frame, HistogramFrame, NormsFrame, Quantity, StatisticsFrame
from pnne_nb.inspector.compiled import why_not_hookable
from pnne_nb.inspector.gradients import PendingNorms, launch_norms
from pnne_nb.inspector.hooks import HookOwner, in_backward, primary_tensor
from pnne_nb.inspector.patterns import leaf_layers, match_layers, own_parameters, resolve_watch
from pnne_nb.inspector.sampling import LIVE_SAMPLE, Sampler, measurable, sample, to_host, values_of
from pnne_nb.inspector.segments import measure_segments
from pnne_nb.inspector.units import Bounds, bounds_of, saturation
from pnne_nb.probe import Watch

SAMPLE_BUDGET = 20_480
"""Elements that one observation looks at, at most, over all layers: many layers share it, 256 each at least."""

CALLS = 8
"""Calls of one layer in one step that are sampled: of an RNN cell that runs a thousand times, the first eight."""

_HOOKED: frozenset[Quantity] = frozenset(("activations", "inputs", "gradients"))
_OF_PARAMETERS: frozenset[Quantity] = frozenset(("parameters", "parameter_gradients", "updates"))

_Key = tuple[str, Quantity]


@final
class _Pool:
    """The samples of one quantity at one layer in one step.

    Attributes:
        samples: Of each tensor that was offered, up to `CALLS`.
        total: Number of elements that there were, sampled or not.
        calls: Number of tensors that were offered.
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
        """Note that there were `total` more elements, of which some were taken, or none."""
        if taken is not None:
            self.samples.append(taken)
        self.calls += 1
        self.total += total

    def joined(self) -> Tensor:
        """All samples in one."""
        if len(self.samples) == 1:
            return values_of(self.samples[0])
        return sample(torch.cat(self.samples), self.sampler.limit)


@dataclass
class _Observation:
    """What one observed step has gathered so far.

    Attributes:
        wanted: The layers that are measured in this step, with what is watched there.
        histograms: Layers whose histograms are wanted in this step; None for all.
        statistics: The same for statistics.
        limit: Elements to sample, at most, per layer and quantity.
        bounds: Where the outputs of saturating activations end, by layer.
        samplers: Those of earlier steps, to go on with.
        before: By layer, samples of at most so many elements of the parameters before the optimizer's step.
        changes: By layer, (change, value before) of each parameter.
        scale: The factor that the loss is multiplied by before the backward pass.
        parameter_scale: The factor that the gradients of parameters have.
    """

    step: int
    wanted: dict[str, tuple[Quantity, ...]] = field(default_factory=dict)
    histograms: frozenset[str] | None = None
    statistics: frozenset[str] | None = None
    limit: int = LIVE_SAMPLE
    bounds: dict[str, Bounds] = field(default_factory=dict)
    samplers: dict[_Key, Sampler] = field(default_factory=dict)
    pools: dict[_Key, _Pool] = field(default_factory=dict)
    norms: PendingNorms = field(default_factory=PendingNorms)
    before: list[tuple[str, nn.Parameter, int, Tensor]] = field(default_factory=list)
    changes: dict[str, list[tuple[Tensor, Tensor]]] = field(default_factory=dict)
    scale: float = 1.0
    parameter_scale: float = 1.0

    def pool(self, name: str, quantity: Quantity) -> _Pool:
        key = (name, quantity)
        if key not in self.pools:
            sampler = self.samplers.get(key)
            if sampler is None or sampler.limit != self.limit:
                sampler = self.samplers[key] = Sampler(self.limit)
            self.pools[key] = _Pool(sampler)
        return self.pools[key]

    def frames(self, bins: int) -> list[Frame]:
        """Bring everything to the host in one transfer and say it in frames."""
        places = [(key, pool) for key, pool in self.pools.items() if pool.samples]
        tensors = [pool.joined() for _, pool in places] + [_ratio(changes) for changes in self.changes.values()]
        arrays = to_host([*tensors, *self.norms.norms])
        # Divided here, where they are float32: in half precision, small gradients would vanish again.
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
        segments = measure_segments(samples, bins)
        statistics = zip(*(column.tolist() for column in segments.values.values()), strict=True)
        histograms = zip(segments.lower.tolist(), segments.upper.tolist(), segments.counts.tolist(), strict=True)
        for ((name, quantity), pool), taken, row, (lower, upper, counts) in zip(
            places, samples, statistics, histograms, strict=True
        ):
            if self.statistics is None or name in self.statistics:
                values = dict(zip(segments.values, row, strict=True))
                # Of the whole tensor, as far as its sample tells.
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


@final
class LiveProbe:
    """Observes single training steps: gradient norms, histograms and statistics of the watched layers.

    It is a `pnne_nb.probe.Probe`, and portable: between `open` and `close` it holds hooks, otherwise nothing. Norms are
    exact; histograms and statistics (norms among them) come from samples of at most 2,048 elements (fewer where more than
    ten quantities are watched: 20,480 in all, 256 each at least), evenly spread over the tensor; the frames say how many.
    Of a layer that runs several times in a step, the first eight calls are pooled. Of several outputs, the first floating
    tensor is measured. A recomputation (activation checkpointing) is not counted again.

    Gradients of activations come scaled where a `GradScaler` is at work, and are divided by `gradient_scale`: what
    overflowed in half precision on the way stays infinite.

    Args:
        model: The module that runs in the training step (inside a wrapper such as DDP: the inner module).
        watch: Quantities by layer pattern. Default: the activations of every leaf layer.
        gradient_norms: Whether to emit a `NormsFrame`.
        histograms_of: Layers whose histograms are wanted; None for all watched.
        statistics_of: Layers whose statistics are wanted; None for all watched.
        bins: Number of bins of each histogram.
        gradient_scale: The factor that the loss was multiplied by before the backward pass, asked in each observed
            step; None for 1.

    Attributes:
        parameter_scale: The factor that the gradients of parameters have at `gradients_ready`, which they are divided
            by; 1 unless whoever drives the probe sets it.

    Raises:
        LayerNotFoundError: If a pattern or a chosen layer matches nothing.
        InspectionError: If layers are watched whose calls hooks cannot see (``torch.compile``, TorchScript).
    """

    def __init__(
        self,
        model: nn.Module,
        watch: Mapping[str, Iterable[Quantity]] | None = None,
        *,
        gradient_norms: bool = True,
        histograms_of: Collection[str] | None = None,
        statistics_of: Collection[str] | None = None,
        bins: int = 32,
        gradient_scale: Callable[[], float] | None = None,
    ) -> None:
        self.model = model
        self._gradient_scale = gradient_scale
        self.parameter_scale = 1.0
        self.gradient_norms = gradient_norms
        self.bins = bins
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
        self.statistics_of = statistics_of
        self._hooks = HookOwner()
        self._samplers: dict[_Key, Sampler] = {}
        self._seen = _Observation(0)
        self._hooked = 0.0

    @property
    def watched(self) -> dict[str, tuple[Quantity, ...]]:
        """What is watched, by layer, in the model's order."""
        return dict(self._watched)

    @property
    def histograms_of(self) -> frozenset[str] | None:
        """Layers whose histograms are wanted, or None for all; may be set from any thread, for the next step."""
        return self._histograms_of

    @histograms_of.setter
    def histograms_of(self, chosen: Collection[str] | None) -> None:
        self._histograms_of = self._checked(chosen)

    @property
    def statistics_of(self) -> frozenset[str] | None:
        """Layers whose statistics are wanted, or None for all; may be set from any thread, for the next step."""
        return self._statistics_of

    @statistics_of.setter
    def statistics_of(self, chosen: Collection[str] | None) -> None:
        self._statistics_of = self._checked(chosen)

    @classmethod
    def of(cls, model: nn.Module, watch: Watch, gradient_scale: Callable[[], float]) -> LiveProbe:
        """A probe of `model` that measures what another one was made for; see there for what it raises."""
        return cls(
            model,
            watch.layers,
            gradient_norms=watch.gradient_norms,
            histograms_of=watch.histograms_of,
            statistics_of=watch.statistics_of,
            bins=watch.bins,
            gradient_scale=gradient_scale,
        )

    @property
    def watch(self) -> Watch:
        """What it measures, in plain values; see `of`."""
        return Watch(self._watched, self.gradient_norms, self._histograms_of, self._statistics_of, self.bins)

    def take(self, frames: Sequence[Frame]) -> Sequence[Frame]:
        """What was measured elsewhere is what would have been measured here."""
        return frames

    def open(self, step: int) -> None:
        """Attach the hooks that the wanted frames need."""
        self._hooks.close()
        # Read once: another thread may choose other layers during the step.
        histograms, statistics = self._histograms_of, self._statistics_of
        wanted = {
            name: quantities
            for name, quantities in self._watched.items()
            if histograms is None or statistics is None or name in histograms or name in statistics
        }
        places = sum(len(quantities) for quantities in wanted.values())
        limit = max(256, min(LIVE_SAMPLE, SAMPLE_BUDGET // max(1, places)))
        self._seen = _Observation(step, wanted, histograms, statistics, limit, self._bounds, self._samplers)
        self._hooked = 0.0
        if self._gradient_scale is not None:
            # Now, because the scaler chooses the next one before the step is over.
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
            # What reached the parameters scaled was scaled all the way.
            seen.scale = self.parameter_scale
        if self.gradient_norms:
            seen.norms = launch_norms(own_parameters(self.model))
        for name, quantities in seen.wanted.items():
            if _OF_PARAMETERS.isdisjoint(quantities):
                continue
            own = [one for one in self._modules[name].parameters(recurse=False) if measurable(one)]
            elements = sum(parameter.numel() for parameter in own)
            for parameter in own:
                # Each has its share: a bias is small next to its weight, and counts no more than that.
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
        """Sample what the optimizer's step changed."""
        seen = self._seen
        for name, parameter, limit, before in seen.before:
            change = sample(parameter, limit) - before
            seen.pool(name, "updates").put(change, parameter.numel())
            seen.changes.setdefault(name, []).append((change, before))
        seen.before = []

    def close(self) -> Sequence[Frame]:
        """Detach everything and return the frames of the step; empty if nothing was seen."""
        self._hooks.close()
        seen, self._seen = self._seen, _Observation(self._seen.step)
        return seen.frames(self.bins)

    @property
    def hooked(self) -> float:
        """Seconds of processor time that the hooks took since `open`."""
        return self._hooked

    @property
    def blind(self) -> bool:
        """Whether calls of layers are watched, and there was none since `open`."""
        calls = [pool.calls for (_, quantity), pool in self._seen.pools.items() if quantity in _HOOKED]
        return bool(calls) and not any(calls)

    def _checked(self, chosen: Collection[str] | None) -> frozenset[str] | None:
        if chosen is None:
            return None
        for name in chosen:
            match_layers(self.model, name)
        return frozenset(chosen)

    def _take_output(self, activations: _Pool | None, gradients: _Pool | None, output: object) -> None:
        began = time.thread_time()
        tensor = primary_tensor(output)
        # What is computed again for the backward pass was computed before.
        if tensor is not None and activations is not None and not (activations.calls and in_backward()):
            activations.add(tensor)
        if tensor is not None and gradients is not None:
            # Also in a recomputation: a reentrant checkpoint has gradients only there; the other kind never
            # asks for the gradients of what it computed again.
            self._hooks.on_gradient(tensor, partial(self._take, gradients))
        self._hooked += time.thread_time() - began

    def _take_input(self, pool: _Pool, args: tuple[object, ...], kwargs: dict[str, object]) -> None:
        tensor = primary_tensor((args, kwargs))
        if tensor is not None and not in_backward():
            self._take(pool, tensor)

    def _take(self, pool: _Pool, tensor: Tensor) -> None:
        began = time.thread_time()
        pool.add(tensor)
        self._hooked += time.thread_time() - began


def _ratio(changes: list[tuple[Tensor, Tensor]]) -> Tensor:
    """The norm of the change relative to the norm of what was changed, over all parameters of a layer, as `[1]`."""
    change = torch.stack([change.float().square().sum() for change, _ in changes]).sum().sqrt()
    before = torch.stack([before.float().square().sum() for _, before in changes]).sum().sqrt()
    return (change / before).reshape(1)
