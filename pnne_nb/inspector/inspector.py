"""`Inspector`: watches layers by name pattern, in one run of a model or live, and leaves the model as it was."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, NoReturn, final

import numpy.typing as npt
import pandas as pd
import torch
from torch import Tensor, nn

from pnne_nb.diagnosis.finding import Finding, Rule, as_rules
from pnne_nb.diagnosis.judge import diagnose
from pnne_nb.diagnosis.rules import RULES
from pnne_nb.errors import ArgumentError, InspectionError, answers_misuse, expect, no_attribute, shown
from pnne_nb.habits import Habits
from pnne_nb.inspector.capture.capture import Capture, LayerView
from pnne_nb.inspector.capture.live import LiveProbe
from pnne_nb.inspector.capture.preserve import is_compiled, uncompiled, why_not_hookable
from pnne_nb.inspector.capture.run import DEFAULT, Inspection, as_quantities, find, frames_of, run_once
from pnne_nb.inspector.engine_probe import DiagnosingProbe, ObservableEngine, attach, scale_of
from pnne_nb.inspector.manual_loop import HandwrittenLoop
from pnne_nb.inspector.statistics.histogram import Bins, Histogram, histograms
from pnne_nb.inspector.statistics.measure import Statistics
from pnne_nb.inspector.statistics.patterns import EVERYTHING, ModuleTypes, Patterns, match_layers
from pnne_nb.inspector.statistics.sampling import to_array
from pnne_nb.telemetry.frames import Frame, Quantity
from pnne_nb.telemetry.plot_hook import installed_plots
from pnne_nb.telemetry.probe import Cadence


@final
class Inspector:
    """Measures the layers of any module, selected by name, without changing the module.

    Args:
        net: The module. One that ``torch.compile`` made is inspected as the module that it wraps, uncompiled.

    Raises:
        InspectionError: If hooks cannot see its layers (TorchScript).
    """

    @answers_misuse('pn.Inspector(net), then inspector.watch("*") and inspector.run_inspection(x)')
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
            raise no_attribute(self, name, Habits("inspector"))

        def __enter__(self) -> NoReturn:
            raise TypeError(
                'An inspector needs no with block. Write inspector.watch("*"); inspector.run_inspection(x).'
            )

        def __exit__(self, *_: object) -> None: ...

        def __call__(self, *_args: object, **_kwargs: object) -> NoReturn:
            raise TypeError("An inspector is no function. Write inspector.run_inspection(x).")

        def __getitem__(self, name: str) -> NoReturn:
            raise TypeError(f"Write inspector.captured_data[{name!r}], after run_inspection(x).")

    # Watch list

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
        self, data: object, target: object = None, loss_fn: Callable[..., Tensor] | None = None
    ) -> Inspection:
        """Run the model once and capture what is watched (every layer, if `watch` was never called).

        Training mode, gradients, buffers and random state are restored afterwards and hooks are removed, also after an
        error. The model runs in its current mode, under the ambient autocast, with the random numbers that its next call
        would draw.

        Args:
            data: A tensor (or anything else) is the model's argument, a tuple its arguments, a mapping its
                keyword arguments. Tensors are copied, so that nothing writes into them.
            target: The second argument of `loss_fn`; left out if None.
            loss_fn: A function of output and target that gives a scalar. Without it only the forward pass
                runs, and there are no gradients.

        Returns:
            The run: every captured tensor with its statistics, the number of calls of each layer, the norms of the
            gradients, the loss and the output. `get_statistics`, `summary`, `plot` and others use the last run.

        Raises:
            InspectionError: If the model does not take `data`, `target` is missing or given without `loss_fn`, the loss
                is not a real scalar with a gradient, or a lazy layer has no parameters yet.
            ArgumentError: If `loss_fn` cannot be called, or is the class of a loss.
            Exception: An error of the model or the loss, with a note that names the layer.
        """
        watched = self._watched or dict.fromkeys(match_layers(self._model), DEFAULT)
        with self.held():
            self._inspection = run_once(self._model, watched, data, target, loss_fn)
        return self._inspection

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the attached trainings between two steps while this block runs the model."""
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

        If a layer has several tensors of one quantity (outputs, calls, weight and bias), the value is a dict by label.
        Beyond 256 MiB, a run keeps samples only; ``inspection.captures`` says of which tensors.
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
        Types that NumPy lacks (bfloat16) become float32.
        """
        return {
            ".".join(filter(None, (capture.layer, capture.quantity, capture.label))): to_array(capture.tensor)
            for capture in self.last_captures
        }

    def get_statistics(self, name: str, what: Quantity | None = None, label: str | None = None) -> Statistics:
        """Return the statistics of one captured tensor, by default the layer's activation.

        Args:
            name: Path of the layer; any of its paths if the module appears twice.
            what: The quantity; by default the first captured one, in the order activations, inputs, gradients, parameters …
            label: The label among several outputs, calls or parameters; by default the first.

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
        """Return the histogram of one captured tensor; see `get_statistics` and `histograms` for arguments and errors."""
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
        """Return a bqplot figure of the distribution of one captured tensor; see `histogram` for the arguments."""
        capture = self._find(name, what, label)
        [found] = histograms([capture.tensor], bins, log=log)
        kind = type(self._model.get_submodule(capture.layer)).__name__
        drawn: object = installed_plots().layer(LayerView(capture, kind, found))
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
        """Return findings: what is wrong, where, why, and what to try.

        A rule with other thresholds::

            from pnne_nb.diagnosis.rules import RULES, ExplodingGradients

            inspector.diagnose(rules=[*RULES, ExplodingGradients(limit=100)])

        Args:
            frames: Frames of a training, such as ``live.frames``; None for the last run of `run_inspection`.
            rules: The rules to apply; their fields are thresholds.

        Returns:
            The findings, in the order of the rules.

        Raises:
            InspectionError: If there are no frames and there was no run.
            ArgumentError: If `frames` or `rules` are invalid.
        """
        return diagnose(self._model, frames_of(self.inspection) if frames is None else frames, rules)

    # Live

    def probe(self, gradient_scale: Callable[[], float] | None = None) -> LiveProbe:
        """Return a probe of the watch list (every leaf layer's activations, if `watch` was never called).

        Args:
            gradient_scale: Returns the factor by which the loss is multiplied before the backward pass; None for 1.
        """
        return LiveProbe(self._model, self._watched or None, gradient_scale=gradient_scale)

    def attach(
        self, engine: ObservableEngine, budget: str | float = "2%", hz: float = 10.0, *, rules: Iterable[Rule] = RULES
    ) -> Callable[[], None]:
        """Watch the same layers while `engine` trains the model; the frames join the engine's frames.

        Findings of `rules` become ``"anomaly"`` events of the engine and appear in its dashboard, once per kind and layer.
        Later calls of `run_inspection` hold the training between two steps while they run. If an inspector is already
        attached with the same layers and quantities, the new one replaces it, so that a cell can be run repeatedly.

        Args:
            engine: The training.
            budget: Share of the running time that watching may take: ``"1%"`` or 0.01. All observers of one training, a
                dashboard included, together take no more than the largest of their budgets.
            hz: Most observed steps a second; a dashboard shows 10.
            rules: The rules to apply.

        Returns:
            A function that detaches; it may be called twice.

        Raises:
            InspectionError: If `engine` trains another module, or hooks cannot see the layers' calls (``torch.compile``).
            ArgumentError: If `engine` is not a training, `budget` not a share, `hz` negative, or a rule invalid.
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

        ::

            with inspector.live(budget="1%") as live:
                for x, y in batches:
                    loss_fn(net(x), y).backward()
                    optimizer.step()
                    optimizer.zero_grad()
                    inspector.step()
            live.frames

        Parameters, their gradients, norms and updates are measured when an optimizer of ``torch.optim`` steps. A loop
        without one shows only activations, inputs and gradients of activations.

        Gradients of parameters are shown unscaled, as the optimizer uses them. With a `GradScaler`, gradients of
        activations are unscaled if it is given as `scaler` or the optimizer is fused; else they include its scale.

        Args:
            budget: Share of the running time that watching may take: ``"1%"`` or 0.01. ``live.cost`` is the measured share
                of processor time, with its 95 % interval.
            hz: Most observed steps a second.
            scaler: The `GradScaler` of the loop's loss.

        Raises:
            InspectionError: If it is live already, or hooks cannot see the layers' calls.
            ArgumentError: If `budget` is not a share, or `hz` negative.
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
        """End a step of the hand-written loop.

        Args:
            loss: Loss of the step, to be kept among the frames; read only in observed steps.

        Raises:
            InspectionError: Outside ``with inspector.live()``.
        """
        if self._loop is None:
            raise InspectionError("step() belongs inside `with inspector.live():`.")
        self._loop.step(loss)

    def _find(self, name: str, what: Quantity | None, label: str | None) -> Capture:
        return find(self._model, self.inspection, self._watched, name, what, label)


def cadence(hz: float, budget: str | float) -> Cadence:
    """Return a cadence of at most `hz` observations a second within the share `budget` of the running time.

    Raises:
        ArgumentError: If `hz` is not a number of at least 0, or `budget` not a share.
    """
    expect(hz, int | float, "hz", "a number of observed steps a second")
    if not hz >= 0:
        raise ArgumentError(f"hz must be at least 0 observed steps a second, not {hz!r}; 0 observes none.")
    return Cadence(hz, parse_share(budget))


def parse_share(budget: str | float) -> float:
    """Return a share such as ``"1%"`` or 0.01 as a number.

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
