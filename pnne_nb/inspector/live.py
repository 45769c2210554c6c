"""`LiveProbe`: frames of single training steps, with hooks that exist only while such a step runs."""

from __future__ import annotations

import math
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
from pnne_nb.inspector.sampling import LIVE_SAMPLE, measurable, sample, to_host
from pnne_nb.inspector.segments import measure_segments
from pnne_nb.inspector.units import Bounds, bounds_of, saturation
from pnne_nb.probe import Watch

SAMPLE_BUDGET = 32_768
"""Elements that one observation looks at, at most, over all layers: many layers share it, 256 each at least."""

CALLS = 8
"""Calls of one layer in one step that are sampled: of an RNN cell that runs a thousand times, the first eight."""

_HOOKED: frozenset[Quantity] = frozenset(("activations", "inputs", "gradients"))

_Key = tuple[str, Quantity]


@final
class _Pool:
    """The samples of one quantity at one layer in one step.

    Attributes:
        total: Number of elements that there were, sampled or not.
        calls: Number of tensors that were offered.
    """

    __slots__ = ("calls", "limit", "samples", "total")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.samples: list[Tensor] = []
        self.total = 0
        self.calls = 0

    def add(self, tensor: Tensor) -> None:
        if not measurable(tensor):
            return
        self.total += tensor.numel()
        self.calls += 1
        if self.calls <= CALLS:
            self.samples.append(sample(tensor, self.limit))

    def joined(self) -> Tensor:
        return self.samples[0] if len(self.samples) == 1 else sample(torch.cat(self.samples), self.limit)


@dataclass
class _Observation:
    """What one observed step has gathered so far.

    Attributes:
        wanted: The layers that are measured in this step, with what is watched there.
        histograms: Layers whose histograms are wanted in this step; None for all.
        statistics: The same for statistics.
        limit: Elements to sample, at most, per layer and quantity.
        bounds: Where the outputs of saturating activations end, by layer.
        before: Samples of the parameters before the optimizer's step.
        changes: By layer, (change, value before) of each parameter.
        scale: The factor that the loss is multiplied by before the backward pass.
    """

    step: int
    wanted: dict[str, tuple[Quantity, ...]] = field(default_factory=dict)
    histograms: frozenset[str] | None = None
    statistics: frozenset[str] | None = None
    limit: int = LIVE_SAMPLE
    bounds: dict[str, Bounds] = field(default_factory=dict)
    pools: dict[_Key, _Pool] = field(default_factory=dict)
    norms: PendingNorms = field(default_factory=PendingNorms)
    before: list[tuple[str, nn.Parameter, Tensor]] = field(default_factory=list)
    changes: dict[str, list[tuple[Tensor, Tensor]]] = field(default_factory=dict)
    scale: float = 1.0

    def pool(self, name: str, quantity: Quantity) -> _Pool:
        key = (name, quantity)
        if key not in self.pools:
            self.pools[key] = _Pool(self.limit)
        return self.pools[key]

    def frames(self, bins: int) -> list[Frame]:
        """Bring everything to the host in one transfer and say it in frames."""
        places = [(key, pool) for key, pool in self.pools.items() if pool.samples]
        tensors = [pool.joined() for _, pool in places] + [_ratio(changes) for changes in self.changes.values()]
        arrays = to_host([*tensors, *self.norms.norms])
        # Divided here, where they are float32: in half precision, small gradients would vanish again.
        samples = [
            array / self.scale if quantity == "gradients" and self.scale != 1.0 else array
            for ((_, quantity), _), array in zip(places, arrays, strict=False)
        ]
        ratios = {
            name: float(array[0]) for name, array in zip(self.changes, arrays[len(places) : len(tensors)], strict=True)
        }
        frames: list[Frame] = []
        if self.norms.layers:
            measured = self.norms.finish(arrays[len(tensors) :])
            frames.append(NormsFrame(self.step, measured.by_layer, measured.total))
        segments = measure_segments(samples, bins)
        for row, ((name, quantity), pool) in enumerate(places):
            if self.statistics is None or name in self.statistics:
                values = {statistic: float(column[row]) for statistic, column in segments.values.items()}
                # Of the whole tensor, as far as its sample tells.
                values["norm"] *= math.sqrt(pool.total / max(1, len(samples[row])))
                if quantity == "updates":
                    values["ratio"] = ratios[name]
                if quantity == "activations" and name in self.bounds:
                    values["saturation"] = saturation(samples[row], self.bounds[name])
                frames.append(StatisticsFrame(self.step, name, quantity, values))
            if self.histograms is None or name in self.histograms:
                lower, upper = float(segments.lower[row]), float(segments.upper[row])
                counts = tuple(segments.counts[row].tolist())
                frames.append(
                    HistogramFrame(self.step, name, quantity, lower, upper, counts, len(samples[row]), pool.total)
                )
        return frames


@final
class LiveProbe:
    """Observes single training steps: gradient norms, histograms and statistics of the watched layers.

    It is a `pnne_nb.probe.Probe`, and portable: between `open` and `close` it holds hooks, otherwise nothing. Norms are exact;
    histograms and statistics (norms among them) come from samples of at most 2,048 elements (fewer where more than 16 quantities
    are watched: 32,768 in all), evenly spread over the tensor; the frames say how many. Of a
    layer that runs several times in a step, the first eight calls are pooled. Of several outputs, the first
    floating tensor is measured. A recomputation (activation checkpointing) is not counted again.

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
        self._seen = _Observation(0)

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
        self._seen = _Observation(step, wanted, histograms, statistics, limit, self._bounds)
        if self._gradient_scale is not None:
            # Now, because the scaler chooses the next one before the step is over.
            self._seen.scale = self._gradient_scale()
        for name, quantities in wanted.items():
            module = self._modules[name]
            if "inputs" in quantities:
                self._hooks.on_inputs(module, partial(_take_input, self._seen.pool(name, "inputs")))
            activations = self._seen.pool(name, "activations") if "activations" in quantities else None
            gradients = self._seen.pool(name, "gradients") if "gradients" in quantities else None
            if activations or gradients:
                self._hooks.on_output(module, partial(self._take_output, activations, gradients))

    def gradients_ready(self) -> None:
        """Start the gradient norms, and sample gradients and parameters before they change."""
        seen = self._seen
        if self.gradient_norms:
            seen.norms = launch_norms(own_parameters(self.model))
        for name, quantities in seen.wanted.items():
            for parameter in self._modules[name].parameters(recurse=False):
                if "parameter_gradients" in quantities and parameter.grad is not None:
                    seen.pool(name, "parameter_gradients").add(parameter.grad)
                if "parameters" in quantities:
                    seen.pool(name, "parameters").add(parameter)
                if "updates" in quantities and parameter.requires_grad and measurable(parameter):
                    seen.before.append((name, parameter, sample(parameter, seen.limit)))

    def updated(self) -> None:
        """Sample what the optimizer's step changed."""
        seen = self._seen
        for name, parameter, before in seen.before:
            change = sample(parameter, seen.limit) - before
            pool = seen.pool(name, "updates")
            pool.samples.append(change)
            pool.total += parameter.numel()
            seen.changes.setdefault(name, []).append((change, before))
        seen.before = []

    def close(self) -> Sequence[Frame]:
        """Detach everything and return the frames of the step; empty if nothing was seen."""
        self._hooks.close()
        seen, self._seen = self._seen, _Observation(self._seen.step)
        return seen.frames(self.bins)

    def _checked(self, chosen: Collection[str] | None) -> frozenset[str] | None:
        if chosen is None:
            return None
        for name in chosen:
            match_layers(self.model, name)
        return frozenset(chosen)

    def _take_output(self, activations: _Pool | None, gradients: _Pool | None, output: object) -> None:
        tensor = primary_tensor(output)
        if tensor is None:
            return
        if activations is not None and not in_backward():
            activations.add(tensor)
        if gradients is not None:
            # Also in a recomputation: a reentrant checkpoint has gradients only there; the other kind never
            # asks for the gradients of what it computed again.
            self._hooks.on_gradient(tensor, gradients.add)


def _take_input(pool: _Pool, args: tuple[object, ...], kwargs: dict[str, object]) -> None:
    tensor = primary_tensor((args, kwargs))
    if tensor is not None and not in_backward():
        pool.add(tensor)


def _ratio(changes: list[tuple[Tensor, Tensor]]) -> Tensor:
    """The norm of the change relative to the norm of what was changed, over all parameters of a layer, as `[1]`."""
    change = torch.stack([change.float().square().sum() for change, _ in changes]).sum().sqrt()
    before = torch.stack([before.float().square().sum() for _, before in changes]).sum().sqrt()
    return (change / before).reshape(1)
