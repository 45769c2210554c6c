"""`Inspector`: watches layers by name pattern, in one run of a model or live, and leaves the model as it was."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, NoReturn, final

import numpy.typing as npt
import pandas as pd
import torch
from torch import Tensor, nn

from pnne_nb.errors import ArgumentError, InspectionError, expect, no_attribute, shown
from pnne_nb.inspector.capture.capture import Capture, LayerView
from pnne_nb.inspector.capture.compiled import is_compiled, uncompiled, why_not_hookable
from pnne_nb.inspector.capture.live import LiveProbe
from pnne_nb.inspector.capture.lookup import DEFAULT, as_quantities, find
from pnne_nb.inspector.capture.run import Inspection, run_once
from pnne_nb.inspector.diagnosis.diagnosing_probe import DiagnosingProbe
from pnne_nb.inspector.diagnosis.evidence import frames_of
from pnne_nb.inspector.diagnosis.rules import RULES, Finding, Rule, as_rules, diagnose
from pnne_nb.inspector.engine_probe import ObservableEngine, attach, scale_of
from pnne_nb.inspector.manual_loop import HandwrittenLoop
from pnne_nb.inspector.statistics.histogram import Bins, Histogram, histograms
from pnne_nb.inspector.statistics.measure import Statistics
from pnne_nb.inspector.statistics.patterns import EVERYTHING, ModuleTypes, Patterns, match_layers
from pnne_nb.inspector.statistics.sampling import to_array
from pnne_nb.telemetry.frames import Frame, Quantity
from pnne_nb.telemetry.plot_hook import installed_plots
from pnne_nb.telemetry.probe import Cadence

_ELSEWHERE = {
    **dict.fromkeys(("forward", "inspect", "run"), "inspector.run_inspection(x)"),
    **dict.fromkeys(("activations", "gradients"), "inspector.captured_data, after run_inspection(x)"),
    "register_hook": 'inspector.watch("*", what=("activations", "gradients"))',
    "show": 'inspector.plot("name of a layer"), or inspector.summary()',
}
"""What to write instead of methods that inspectors of other libraries have."""


@final
class Inspector:
    """Looks inside any module by names, without changing it.

    Args:
        net: The module. One that ``torch.compile`` made is inspected as the module that it wraps, uncompiled.

    Raises:
        InspectionError: If hooks cannot see its layers (TorchScript).
    """

    def __init__(self, net: nn.Module) -> None:
        self.net = net
        self._model = uncompiled(net)
        reason = why_not_hookable(self._model)
        if reason and not is_compiled(self._model):
            raise InspectionError(reason)
        self._watched: dict[str, tuple[Quantity, ...]] = {}
        self._inspection: Inspection | None = None
        self._trainings: list[ObservableEngine] = []
        self._loop: HandwrittenLoop | None = None

    def __repr__(self) -> str:
        run = "not run yet" if self._inspection is None else repr(self._inspection)
        return f"Inspector({type(self._model).__name__}, watching {len(self._watched)} layers, {run})"

    if not TYPE_CHECKING:  # for a type checker, the class would then have any attribute

        def __getattr__(self, name: str) -> NoReturn:
            raise no_attribute(self, name, _ELSEWHERE)

    # What to watch

    def watch(
        self,
        pattern: Patterns = EVERYTHING,
        what: Quantity | tuple[Quantity, ...] | list[Quantity] = DEFAULT,
        *,
        exclude: Patterns = (),
        types: ModuleTypes | None = None,
    ) -> list[str]:
        """Watch the layers that match, from the next run on, in addition to those watched already.

        Args:
            pattern: Wildcards over dotted paths (``"*.ffn.*"``), or several; ``"!…"`` takes away.
            what: ``"activations"``, ``"inputs"``, ``"gradients"`` (of activations), ``"parameters"``,
                ``"parameter_gradients"``, ``"updates"`` (live only).
            exclude: Patterns of layers to leave out.
            types: Only layers of these module types.

        Returns:
            The names of the layers that match, in the model's order.

        Raises:
            LayerNotFoundError: If nothing matches; near names are suggested.
            ArgumentError: If `what` names an unknown quantity or none, or an argument is no pattern or no type.
        """
        quantities = as_quantities(what)
        matched = match_layers(self._model, pattern, exclude=exclude, types=types)
        for name in matched:
            self._watched[name] = tuple(dict.fromkeys((*self._watched.get(name, ()), *quantities)))
        order = {name: index for index, (name, _) in enumerate(self._model.named_modules())}
        self._watched = dict(sorted(self._watched.items(), key=lambda item: order.get(item[0], len(order))))
        return list(matched)

    def unwatch(self, pattern: Patterns = EVERYTHING) -> list[str]:
        """Stop watching the layers that match; returns those that were watched."""
        matched = [name for name in match_layers(self._model, pattern) if name in self._watched]
        for name in matched:
            del self._watched[name]
        return matched

    @property
    def watched(self) -> dict[str, tuple[Quantity, ...]]:
        """What is watched, by layer, in the model's order."""
        return dict(self._watched)

    # One run

    def run_inspection(
        self,
        data: object,
        target: object = None,
        loss_fn: Callable[..., Tensor] | None = None,
    ) -> Inspection:
        """Run the model once and capture what is watched (every layer, if `watch` was never called).

        Training mode, gradients, buffers and random numbers are afterwards as they were before, and no hook is
        left, also if the model raises. The ambient autocast applies. Running in the mode that the model is in,
        it draws the random numbers that its next call would draw.

        Args:
            data: A tensor (or anything else) is the model's argument, a tuple its arguments, a mapping its
                keyword arguments. Tensors are copied, so that nothing writes into them.
            target: The second argument of `loss_fn`; left out if None.
            loss_fn: A function of output and target that gives a scalar. Without it only the forward pass
                runs, and there are no gradients.

        Returns:
            The run: every captured tensor with its statistics, what was called how often, the norms of the
            gradients, the loss and the output. It is also kept: `get_statistics`, `summary`, `plot` … tell of it.

        Raises:
            InspectionError: If the model does not take `data`, `target` is missing or given without `loss_fn`, the loss
                is not a real scalar with a gradient, or a lazy layer has no parameters yet.
            ArgumentError: If `loss_fn` cannot be called, or is the class of a loss.
            Exception: Whatever the model or the loss raises itself, with a note of where it happened.
        """
        watched = self._watched or dict.fromkeys(match_layers(self._model), DEFAULT)
        with self.held():
            self._inspection = run_once(self._model, watched, data, target, loss_fn)
        return self._inspection

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the attached trainings between two steps, for whatever runs the model meanwhile."""
        with ExitStack() as stack:
            for training in self._trainings:
                stack.enter_context(training.paused())
            yield

    @property
    def last_captures(self) -> tuple[Capture, ...]:
        """What the last run captured; empty if there was none."""
        return self._inspection.captures if self._inspection else ()

    @property
    def inspection(self) -> Inspection:
        """The last run.

        Raises:
            InspectionError: If there was none.
        """
        if self._inspection is None:
            raise InspectionError("Nothing has been captured yet: call run_inspection(data) first.")
        return self._inspection

    @property
    def captured_data(self) -> dict[str, dict[Quantity, Tensor | dict[str, Tensor]]]:
        """The captured tensors by layer and quantity; empty before the first run.

        Where a layer has several (several outputs or calls, weight and bias), they stand by label.
        A run that would keep more than 256 MiB keeps samples: see ``inspection.captures`` for which.
        """
        found: dict[str, dict[Quantity, dict[str, Tensor]]] = {}
        for capture in self.last_captures:
            found.setdefault(capture.layer, {}).setdefault(capture.quantity, {})[capture.label] = capture.tensor
        return {
            layer: {
                quantity: tensors[""] if list(tensors) == [""] else tensors for quantity, tensors in quantities.items()
            }
            for layer, quantities in found.items()
        }

    def to_numpy(self) -> dict[str, npt.NDArray[Any]]:
        """Return the captured tensors as arrays on the host, as ``np.savez`` takes them; empty before the first run.

        The names are ``"layer.quantity"``, with ``".label"`` where a layer has several: ``"0.parameters.weight"``.
        What NumPy has no type for (bfloat16) becomes float32.
        """
        return {
            ".".join(filter(None, (capture.layer, capture.quantity, capture.label))): to_array(capture.tensor)
            for capture in self.last_captures
        }

    def get_statistics(self, name: str, what: Quantity | None = None, label: str | None = None) -> Statistics:
        """Return the statistics of one captured tensor: its activation, or what else was watched there.

        Args:
            name: Path of the layer; of a module that appears twice, any of its paths.
            what: The quantity; by default the first captured of activations, inputs, gradients, parameters …
            label: Which of several outputs, calls or parameters; by default the first.

        Raises:
            LayerNotFoundError: If the model has no such layer.
            InspectionError: If nothing was captured there; the message says why.
        """
        return self._find(name, what, label).statistics

    def histogram(
        self,
        name: str,
        what: Quantity | None = None,
        label: str | None = None,
        *,
        bins: Bins = "auto",
        log: bool = False,
    ) -> Histogram:
        """Return the histogram of one captured tensor; arguments and errors as of `get_statistics` and `histograms`."""
        [found] = histograms([self._find(name, what, label).tensor], bins, log=log)
        return found

    def plot(
        self,
        name: str,
        what: Quantity | None = None,
        label: str | None = None,
        *,
        bins: Bins = "auto",
        log: bool = False,
    ) -> object:
        """Return a figure (bqplot) of the distribution of one captured tensor; arguments as of `histogram`."""
        capture = self._find(name, what, label)
        [found] = histograms([capture.tensor], bins, log=log)
        kind = type(self._model.get_submodule(capture.layer)).__name__
        view = LayerView(capture.layer, kind, capture.quantity, capture.label, found, capture.statistics)
        drawn: object = installed_plots().layer(view)
        return drawn

    def summary(self) -> pd.DataFrame:
        """Return one row per captured tensor: layer, type, quantity, label, and all its statistics."""
        modules = dict(self._model.named_modules())
        rows = []
        for capture in self.last_captures:
            units = capture.units
            rows.append(
                {
                    "layer": capture.layer,
                    "type": type(modules[capture.layer]).__name__,
                    "what": capture.quantity,
                    "label": capture.label,
                    **capture.statistics.to_row(),
                    "units": units.units if units else None,
                    "dead_units": units.dead if units else None,
                    "saturated_units": units.saturated if units else None,
                }
            )
        return pd.DataFrame(rows, columns=None if rows else ["layer", "type", "what", "label"])

    def diagnose(self, frames: Iterable[Frame] | None = None, rules: Iterable[Rule] = RULES) -> list[Finding]:
        """Return what is wrong, where, why, and what to try; empty if nothing is.

        ```python
        from pnne_nb.inspector.diagnosis.rules import RULES, ExplodingGradients

        inspector.diagnose(rules=[*RULES, ExplodingGradients(limit=100)])
        ```

        Args:
            frames: Of a training, e.g. ``live.frames``; None for the last run of `run_inspection`.
            rules: What to look for; each has its thresholds as fields.

        Returns:
            The findings, in the order of the rules.

        Raises:
            InspectionError: If there are no frames and there was no run.
            ArgumentError: If `frames` or `rules` are none.
        """
        return diagnose(self._model, frames_of(self.inspection) if frames is None else frames, rules)

    # Live

    def probe(self, gradient_scale: Callable[[], float] | None = None) -> LiveProbe:
        """Return a probe of the watch list (every leaf layer's activations, if `watch` was never called).

        Args:
            gradient_scale: Tells the factor that the loss is multiplied by before the backward pass; None for 1.
        """
        return LiveProbe(self._model, self._watched or None, gradient_scale=gradient_scale)

    def attach(
        self, engine: ObservableEngine, budget: str | float = "2%", hz: float = 10.0, *, rules: Iterable[Rule] = RULES
    ) -> Callable[[], None]:
        """Watch the same layers while `engine` trains the model; the frames go where the engine's frames go.

        What `rules` find in them is told as the engine's ``"anomaly"`` events and shown in its dashboard, once
        for each kind and layer.

        Later calls of `run_inspection` hold the training between two steps while they run. Where the same layers and
        quantities are attached to the training already, also by another inspector, this takes their place: a cell
        may be run again and again.

        Args:
            engine: The training.
            budget: Share of the running time that watching may take: ``"1%"`` or 0.01. All that watches one training, a
                dashboard included, takes no more than the largest of their budgets together.
            hz: Observed steps a second, at most; 10 is what a dashboard can show.
            rules: What to look for.

        Returns:
            A function that detaches; it may be called twice.

        Raises:
            InspectionError: If `engine` trains another module.
            InspectionError: If the layers' calls cannot be seen (``torch.compile``).
            ArgumentError: If `engine` is no training, `budget` no share, `hz` negative, or a rule none.
        """
        pace = cadence(hz, budget)
        expect(engine, ObservableEngine, "engine", "a training", "pn.TrainingEngine(model, data) makes one.")
        trained = uncompiled(engine.module)
        if not any(module is self._model for module in trained.modules()):
            raise InspectionError(
                f"The training trains another {type(trained).__name__}, not the {type(self._model).__name__} of this"
                " inspector: make it with Inspector(engine.module), or train inspector.net."
            )
        probe = DiagnosingProbe(self.probe(scale_of(engine)), as_rules(rules))
        remove = attach(engine, probe, pace, (id(self._model), tuple(self._watched.items())))
        if engine not in self._trainings:
            self._trainings.append(engine)

        def detach() -> None:
            if remove() and engine in self._trainings:
                self._trainings.remove(engine)

        return detach

    @contextmanager
    def live(
        self, budget: str | float = "2%", hz: float = 10.0, *, scaler: torch.amp.GradScaler | None = None
    ) -> Iterator[HandwrittenLoop]:
        """Watch a hand-written training loop, which calls `step` after each optimizer step.

        ```python
        with inspector.live(budget="1%") as live:
            for x, y in batches:
                loss_fn(net(x), y).backward()
                optimizer.step()
                optimizer.zero_grad()
                inspector.step()
        live.frames
        ```

        What belongs to parameters (their gradients, norms, updates) is measured when an optimizer of ``torch.optim``
        steps; a loop that changes them by itself shows activations, inputs and gradients of activations.

        Gradients are shown as the optimizer uses them. Those of parameters are unscaled in any case; those of
        activations, where a `GradScaler` is at work, if it is given as `scaler` or the optimizer is a fused one: without
        either, they are shown multiplied by its scale.

        Args:
            budget: Share of the running time that watching may take: ``"1%"`` or 0.01. What it takes is measured in
                processor time, and shown as ``live.cost``, with its 95 % interval.
            hz: Observed steps a second, at most.
            scaler: The one that scales the loop's loss, so that gradients of activations are shown as they are.

        Raises:
            InspectionError: If it is live already, or the layers' calls cannot be seen.
            ArgumentError: If `budget` is no share, or `hz` negative.
        """
        if self._loop is not None:
            raise InspectionError("This inspector is live already: end the other `with inspector.live()` first.")
        probe = self.probe(None if scaler is None else scaler.get_scale)
        with HandwrittenLoop(self._model, probe, cadence(hz, budget)) as loop:
            self._loop = loop
            try:
                yield loop
            finally:
                self._loop = None

    def step(self, loss: float | Tensor | None = None) -> None:
        """Say that a step of the hand-written loop is over.

        Args:
            loss: Of the step, to be kept among the frames; read only on observed steps.

        Raises:
            InspectionError: Outside ``with inspector.live()``.
        """
        if self._loop is None:
            raise InspectionError("step() belongs inside `with inspector.live():`.")
        self._loop.step(loss)

    def _find(self, name: str, what: Quantity | None, label: str | None) -> Capture:
        return find(self._model, self.inspection, self._watched, name, what, label)


def cadence(hz: float, budget: str | float) -> Cadence:
    """Observations at most `hz` times a second, within a share of the running time.

    Raises:
        ArgumentError: If `hz` is no number of at least 0, or `budget` no share.
    """
    expect(hz, int | float, "hz", "a number of observed steps a second")
    if not hz >= 0:
        raise ArgumentError(f"hz must be at least 0 observed steps a second, not {hz!r}; 0 observes none.")
    return Cadence(hz, parse_share(budget))


def parse_share(budget: str | float) -> float:
    """Return the share that ``"1%"`` or 0.01 stands for.

    Raises:
        ArgumentError: If it is neither, or not within (0, 1].
    """
    try:
        share = float(budget[:-1]) / 100 if isinstance(budget, str) and budget.endswith("%") else float(budget)
    except (TypeError, ValueError):
        share = -1.0
    if not 0 < share <= 1:
        raise ArgumentError(f"budget must be a share of the running time such as '1%' or 0.01, not {shown(budget)}.")
    return share
