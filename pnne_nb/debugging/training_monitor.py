"""`TrainingMonitor`: history, plots and findings for any training loop."""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Callable, Generator, Iterable, Sequence, Sized
from types import TracebackType
from typing import Any, Self, TypeVar, final

import torch
from torch import Tensor, nn

from pnne_nb.debugging.first_look import FirstLook, faults_of_data
from pnne_nb.diagnosis.finding import Finding, Rule, as_rules
from pnne_nb.diagnosis.rules import RULES
from pnne_nb.errors import ArgumentError, InspectionError, answers_misuse, expect, shown
from pnne_nb.inspector.inspector import Inspector, cadence
from pnne_nb.inspector.manual_loop import HandwrittenLoop
from pnne_nb.runtime.data.open_data import require_count
from pnne_nb.runtime.monitoring.history import History
from pnne_nb.runtime.monitoring.progress import Progress
from pnne_nb.runtime.monitoring.reporter import Reports
from pnne_nb.runtime.objective.step_logs import is_number, require_free
from pnne_nb.telemetry.channel import Channel
from pnne_nb.telemetry.frames import ALIVE, EpochFrame, Frame, HistogramFrame, NormsFrame, StepFrame, TrainingState

Batch = TypeVar("Batch")


@final
class TrainingMonitor:
    """Records any training loop as an engine records its own, and diagnoses it.

    ::

        monitor = pn.TrainingMonitor()
        for epoch in range(5):
            for x, y in monitor.track(loader, model, optimizer):
                loss = loss_fn(model(x), y)
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
                monitor.step(loss)
            monitor.epoch(val_loss=validate(model))
        monitor.history.plot()
        monitor.diagnose()

    ``pn.TrainingDashboard(monitor)`` shows it while it runs. Its Pause and Stop are obeyed where the loop asks: between two
    batches of `track`, and wherever it calls `goes_on`.

    Without `track`, call ``monitor.step(loss, model, optimizer)`` after each optimizer step; `close`, or a ``with``
    block around the loop, ends the monitoring. Losses of all steps are recorded; layers are observed only in some steps, so
    that it stays within the budget.

    Args:
        budget: Share of the running time that looking at layers may take: ``"2%"`` or 0.02.
        hz: Observed steps a second, at most.
        rules: What to look for.
        epochs: How many the loop will make, if that is to be shown.

    Attributes:
        history: Losses, learning rates, gradient norms and metrics, as of an engine.
        thread: In which the last step was made; 0 before.

    Raises:
        ArgumentError: `budget` is no share, `hz` negative, or a rule none.
        TrainingError: `epochs` is no positive number.
    """

    @answers_misuse(
        "pn.TrainingMonitor(); its track(loader, model, optimizer) or step(loss, model, optimizer) gets the model"
    )
    def __init__(
        self, *, budget: str | float = "2%", hz: float = 10.0, rules: Iterable[Rule] = RULES, epochs: int | None = None
    ) -> None:
        if epochs is not None:
            require_count("epochs", epochs)
        self._rules = as_rules(rules)
        cadence(hz, budget)
        self._budget, self._hz = budget, hz
        self._reports = Reports(self._rules)
        self._model: nn.Module | None = None
        self._optimizer: torch.optim.Optimizer | None = None
        self._loop: HandwrittenLoop | None = None
        self._first: FirstLook | None = None
        self._batch: Any = None
        self._looked = False
        self._steps = 0
        self._epochs = 0
        self._losses: list[float] = []
        self._began = time.monotonic()
        self._expected = epochs or 0
        self._progress = Progress(None, 1)
        self._batches: int | None = None
        self._state: TrainingState = "idle"
        self._asked = self._stopped = False
        self._may_go = threading.Event()
        self._may_go.set()
        self._histogram_of: tuple[str, ...] | None = ()
        self.thread = 0

    def __repr__(self) -> str:
        return f"TrainingMonitor({self._steps} steps, {self._epochs} epochs)"

    def _repr_html_(self) -> str:
        return self.history._repr_html_()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def history(self) -> History:
        """What was measured."""
        return self._reports.history

    @property
    def steps(self) -> int:
        """Number of recorded optimizer steps."""
        return self._steps

    @property
    def channel(self) -> Channel:
        """What a dashboard shows: every frame, bounded."""
        return self._reports.channel

    @property
    def state(self) -> TrainingState:
        """``"idle"`` before the first step, ``"running"``, ``"paused"``, ``"stopped"``, or ``"finished"`` after `close`."""
        return self._state

    @property
    def asked(self) -> bool:
        """Whether the loop has asked if it goes on, so that `pause` and `stop` have an effect."""
        return self._asked

    @property
    def layers(self) -> list[str]:
        """The watched layers; none before the model is known."""
        return [] if self._loop is None else list(self._loop.probe.watched)

    def show_histogram(self, layer: str | None) -> None:
        """Measure the histogram of the activations of a layer from now on; None stands for the first one."""
        self._histogram_of = None if layer is None else (layer,)
        if self._loop is not None:
            self._loop.probe.histograms_of = self._chosen()

    def _chosen(self) -> tuple[str, ...]:
        if self._histogram_of is None:
            return tuple(self.layers[:1])
        return tuple(name for name in self._histogram_of if name in self.layers)

    def pause(self) -> None:
        """Have the loop wait where it next asks; returns at once. May be called from any thread."""
        self._may_go.clear()

    def resume(self) -> None:
        """Let the loop go on after `pause`, and begin again after `stop`."""
        self._stopped = False
        self._may_go.set()

    def stop(self) -> None:
        """Have the loop end where it next asks: `track` gives no further batch. May be called from any thread."""
        self._stopped = True
        self._may_go.set()

    def goes_on(self) -> bool:
        """Return whether the loop is to make another step; waits during a pause: ``if not monitor.goes_on(): break``."""
        self._asked = True
        if not self._may_go.is_set():
            self._become("paused")
            while not self._may_go.wait(0.2):  # on Windows, a wait without an end cannot be interrupted
                pass
        self._become("stopped" if self._stopped else "running")
        return not self._stopped

    def _become(self, state: TrainingState) -> None:
        if state != self._state:
            self._state = state
            self._reports.state_changed(state, None, None)

    def on(self, event: str, function: Callable[[Any], object]) -> Callable[[], None]:
        """Call `function` with the frame of each ``"step"``, ``"epoch"``, ``"state"`` or ``"anomaly"``; returns what ends this.

        Raises:
            TrainingError: There is no such event.
        """
        return self._reports.listeners.add(event, function)

    def track(
        self,
        loader: Iterable[Batch],
        model: nn.Module | None = None,
        optimizer: torch.optim.Optimizer | None = None,
        *,
        val_data: object = None,
    ) -> Generator[Batch, None, None]:
        """Yield the batches of one epoch; its end records the mean loss, and ends the watching until the next one.

        Args:
            loader: Gives the batches. Data in memory, as of a `TensorDataset` or a list of batches, are looked at once.
            model: The module that is trained, once for all.
            optimizer: What moves it, likewise.
            val_data: A loader or a dataset of the validation, to be compared with that of the training.
        """
        self._know(model, optimizer)
        self.look_at_data(loader, val_data)
        self._asked = True
        if self._stopped:
            warnings.warn("The training was stopped: track gives no batches before monitor.resume().", stacklevel=2)
            return
        before, steps, self._batches = len(self._losses), self._steps, 0
        self._progress = Progress(len(loader) if isinstance(loader, Sized) else None, 1)
        self._watch()
        try:
            for self._batch in loader:
                yield self._batch
                self._batches += 1
                if not self.goes_on():
                    break
        finally:
            self._batch = None
            self._unwatch()
        if self._batches and self._steps == steps:
            warnings.warn(
                f"Nothing was recorded of {self._batches} batches: call monitor.step(loss) after optimizer.step(). With "
                "pn.track(loader, ...), optimizer.step() alone is enough, and was not called.",
                stacklevel=2,
            )
        self._batches = None
        if len(self._losses) > before:
            self.epoch()
        if self._epochs == self._expected > 0:
            self.close()

    def step(
        self,
        loss: float | Tensor,
        model: nn.Module | None = None,
        optimizer: torch.optim.Optimizer | None = None,
        *,
        examples: int = 1,
        **metrics: float | Tensor,
    ) -> None:
        """Record an optimizer step; call it once after each step.

        Args:
            loss: Of the step, `[]` or a number; reading it waits for an accelerator.
            model: The module that is trained; needed once, here or in `track`, to see layers.
            optimizer: What moves it; needed once to see learning rates.
            examples: In the step.
            metrics: Other numbers of the step by name, which the history and a dashboard show: ``accuracy=0.9``.

        Raises:
            ArgumentError: `loss` or a metric is no number, `model` no module, or `optimizer` none.
            TrainingError: A metric has a name that the history needs.
            InspectionError: The layers' calls cannot be seen.
        """
        expect(loss, (int, float, Tensor), "loss", "a number or a tensor with one")
        require_free(metrics, "monitor.step")
        logged = _numbers(metrics, "step(loss, accuracy=0.9)") or None
        self._know(model, optimizer)
        value = float(loss.detach() if isinstance(loss, Tensor) else loss)
        self._losses.append(value)
        self._look_first(loss if isinstance(loss, Tensor) else None)
        self.observed(value, examples=examples, logged=logged)

    def differentiates(self, loss: Tensor) -> None:
        """Check the loss `[]` of the first step before its backward pass; `step` also does so if it gets that tensor."""
        if self._first is not None:
            self._first.differentiates(loss)

    def observed(self, loss: float | None, *, examples: int = 1, logged: dict[str, float] | None = None) -> None:
        """Count a step, with its loss if known; for loops that report losses only occasionally."""
        self._look_first(None)
        self._steps += 1
        self.thread = threading.get_ident()
        norm = None
        for frame in self._taken():
            self._reports.judge.sees(frame)
            if isinstance(frame, NormsFrame):
                norm = frame.total
            if isinstance(frame, NormsFrame | HistogramFrame):
                self.channel.put(frame)
        if self._state not in ALIVE:
            self._become("running")
        if loss is not None:
            self.tell(loss, norm=norm, examples=examples, logged=logged)
        if self._progress.due(time.monotonic(), self._steps):
            done = 0 if self._batches is None else self._batches + 1
            self.channel.put(self._progress.frame(self._epochs + 1, self._expected, done, self._steps))
        self._watch()

    def tell(
        self, loss: float, *, norm: float | None = None, examples: int = 1, logged: dict[str, float] | None = None
    ) -> None:
        """Record the loss of the last step."""
        groups = [] if self._optimizer is None else self._optimizer.param_groups
        rate = float(groups[0]["lr"]) if groups else float("nan")
        seconds = time.monotonic() - self._began
        frame = StepFrame(self._steps, self._epochs + 1, loss, rate, examples, seconds, norm, logged=logged)
        self._reports.stepped(frame)

    def epoch(self, **metrics: float) -> None:
        """End an epoch, or add metrics to the one that has ended: ``val_loss``, ``val_accuracy`` and so on.

        Raises:
            ArgumentError: A metric is no number.
        """
        told = _numbers(metrics, "epoch(val_loss=0.5)")
        if self._losses:
            self._epochs += 1
            told.setdefault("train_loss", sum(self._losses) / len(self._losses))
            self._losses.clear()
        frame = EpochFrame(max(1, self._epochs), self._steps, told)
        self._reports.announce(frame)
        self._reports.conclude()

    def diagnose(self) -> list[Finding]:
        """Return findings: what is wrong, where and why, and what to try; see `pnne_nb.diagnose`.

        Returns:
            What was told while it ran and what the rules find now, each kind once for a layer, the most probable cause first.
        """
        return self._reports.judge.findings()

    def close(self) -> None:
        """End the training, or stop observing layers until the next step; the history stays."""
        self._unwatch()
        if self._state in ALIVE:
            self._become("finished")

    def _unwatch(self) -> None:
        if self._first is not None:
            self._first.close()
        loop, self._loop = self._loop, None
        if loop is not None:
            loop.__exit__(None, None, None)
        self._reports.conclude()

    def watch(self, model: nn.Module, optimizer: torch.optim.Optimizer | None = None) -> None:
        """Observe the layers of `model` from the next step on; `step` and `track` also do so.

        Raises:
            InspectionError: Another model is watched, or its layers' calls cannot be seen.
        """
        self._know(model, optimizer)
        self._watch()

    def look_at_data(self, train: object, val: object = None) -> None:
        """Check data in memory once; `track` also does so.

        Args:
            train: A loader, a dataset or a list of batches.
            val: Likewise, of the validation.
        """
        if self._model is not None and not self._looked:
            self._looked = True
            self._tell(faults_of_data(self._model, train, val))

    def _know(self, model: nn.Module | None, optimizer: torch.optim.Optimizer | None) -> None:
        if model is not None and model is not self._model:
            expect(model, nn.Module, "model", "a module")
            if self._model is not None:
                raise InspectionError(
                    f"This monitor watches a {type(self._model).__name__} already: make another TrainingMonitor for the "
                    f"{type(model).__name__}."
                )
            self._model = model
            self._reports.judge.watch(model)
            self._first = FirstLook(model)
        if optimizer is not None:
            expect(optimizer, torch.optim.Optimizer, "optimizer", "an optimizer of torch.optim")
            self._optimizer = optimizer

    def _watch(self) -> None:
        """Begin the next observed step, if hooks can see the layers."""
        if self._model is None or self._loop is not None:
            return
        inspector = Inspector(self._model)
        inspector.watch("*", what=("activations", "updates"))
        self._loop = HandwrittenLoop(self._model, inspector.probe(), cadence(self._hz, self._budget))
        self._loop.probe.histograms_of = self._chosen()
        self._loop.__enter__()

    def _look_first(self, loss: Tensor | None) -> None:
        first, self._first = self._first, None
        if first is not None:
            self._tell(first.of_step(loss, self._batch, self._optimizer))

    def _tell(self, found: Iterable[Finding]) -> None:
        for frame in (finding.frame(self._steps) for finding in found):
            if not self._reports.judge.knows(frame):
                self._reports.announce(frame)

    def _taken(self) -> Sequence[Frame]:
        loop = self._loop
        if loop is None:
            return ()
        loop.step()
        frames = list(loop.frames)
        loop.frames.clear()
        return frames


def _numbers(metrics: dict[str, Any], usage: str) -> dict[str, float]:
    for name, value in metrics.items():
        if not is_number(value):
            raise ArgumentError(f"{name} must be a number, not {shown(value)}. Write monitor.{usage}.")
    return {name: float(value) for name, value in metrics.items()}
