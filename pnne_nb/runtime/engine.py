"""The training engine: one training, one background thread, commands from anywhere."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, final

import torch
from torch import nn

from pnne_nb.channel import Channel
from pnne_nb.errors import TrainingError
from pnne_nb.frames import AnomalyFrame, EpochFrame, ProgressFrame, StateFrame, StepFrame, TrainingState
from pnne_nb.probe import Cadence, Probe
from pnne_nb.runtime.blame import node_of
from pnne_nb.runtime.control import ENDED, Control
from pnne_nb.runtime.data import Data, open_source, require_count
from pnne_nb.runtime.events import Listeners
from pnne_nb.runtime.history import History
from pnne_nb.runtime.loop import EpochEnded, NotFiniteError, Recipe, Stepped, TrainingLoop, Validated
from pnne_nb.runtime.metrics import MetricChoice, make_metrics
from pnne_nb.runtime.objectives import (
    Loss,
    OptimizerChoice,
    Options,
    SchedulerChoice,
    make_loss,
    make_optimizer,
    make_schedule,
)
from pnne_nb.runtime.observers import Observers
from pnne_nb.runtime.precision import Precision, choose_device
from pnne_nb.runtime.progress import Progress
from pnne_nb.runtime.randomness import PrivateRandomness
from pnne_nb.runtime.sharing import SharedModel
from pnne_nb.runtime.thread import start_training_thread


@final
class TrainingEngine:
    """Trains a model in a background thread, under control at every step.

    Commands may be given from any thread. A training stops, halts and lets others have the model between
    two steps only.

    Args:
        model: A graph, which is compiled, or any ``nn.Module``, which is trained in place.
        train_data: ``(X, y)`` tensors or numpy arrays, a ``Dataset``, or a ``DataLoader``. Batches hold the
            inputs in the model's order and the target last, or are mappings by parameter name.
        val_data: The same for validation after each epoch.
        loss: Name of a loss of ``torch.nn``, a name with arguments, a function of output and target; None
            if the model returns its own loss.
        optimizer: Name of an optimizer of ``torch.optim``, a name with arguments, a function of the
            parameters, or an optimizer.
        scheduler: Likewise of ``torch.optim.lr_scheduler``; a third part ``"step"`` moves it after every step.
        metrics: Names, torchmetrics, or functions; counted over each epoch.
        epochs: Passes over the data that one `start` makes.
        batch_size: Examples in a batch, unless a ``DataLoader`` decides.
        shuffle: Whether each epoch has an order of its own, unless a ``DataLoader`` decides.
        device: ``"auto"`` (the accelerator if there is one), ``"cpu"``, ``"cuda:0"`` …
        precision: ``"32"``, ``"bf16"``, or ``"16"`` (with scaled gradients).
        grad_clip: Largest norm of all gradients together, or None.
        accumulate: Batches that make up one optimizer step.
        seed: Decides about order, initial weights of a graph, and every random number of the training.
        num_workers: Processes that load a ``Dataset``.
        parameter_groups: Optimizer options by pattern of parameter names, e.g. ``{"*.bias": {"weight_decay": 0}}``.
        step_function: Replaces forward pass and loss: a function of model and batch that returns the loss.

    Raises:
        TrainingError: Something of the above cannot be; the message says what and why.
    """

    def __init__(
        self,
        model: nn.Module,
        train_data: Data,
        val_data: Data | None = None,
        loss: Loss = "CrossEntropyLoss",
        optimizer: OptimizerChoice = ("AdamW", {"lr": 1e-3}),
        scheduler: SchedulerChoice = None,
        metrics: Sequence[MetricChoice] = ("accuracy",),
        epochs: int = 5,
        batch_size: int = 64,
        shuffle: bool = True,
        device: str | torch.device = "auto",
        precision: str = "32",
        grad_clip: float | None = None,
        accumulate: int = 1,
        seed: int = 0,
        checkpoint_dir: str | Path | None = None,
        *,
        num_workers: int = 0,
        parameter_groups: Mapping[str, Options] | None = None,
        step_function: Callable[[nn.Module, Any], torch.Tensor] | None = None,
    ) -> None:
        require_count("epochs", epochs)
        require_count("accumulate", accumulate)
        if grad_clip is not None and not grad_clip > 0:
            raise TrainingError(f"grad_clip must be a positive norm or None, not {grad_clip!r}.")
        chosen = choose_device(device)
        self._model = model.to(chosen)
        train = open_source(
            train_data, batch_size=batch_size, shuffle=shuffle, seed=seed, num_workers=num_workers, name="train_data"
        )
        val = None
        if val_data is not None:
            val = open_source(
                val_data, batch_size=batch_size, shuffle=False, seed=seed, num_workers=num_workers, name="val_data"
            )
        made = make_optimizer(optimizer, self._model, parameter_groups)
        batches = train.size
        total = None if batches is None else epochs * -(-batches // accumulate)
        recipe = Recipe(
            model=self._model,
            train=train,
            val=val,
            loss=make_loss(loss),
            optimizer=made,
            schedule=make_schedule(scheduler, made, total_steps=total),
            metrics=make_metrics(metrics, chosen),
            val_metrics=make_metrics(metrics, chosen),
            expected=(),
            device=chosen,
            precision=Precision(precision, chosen),
            grad_clip=grad_clip,
            accumulate=accumulate,
            step=step_function,
        )
        self.device = chosen
        self.epochs = epochs
        self.channel = Channel()
        self.history = History()
        self.error: BaseException | None = None
        self._last_epoch = epochs
        self._observers = Observers(lambda frames: self.channel.put(*frames))
        python = not isinstance(train_data, tuple | list)
        self._loop = TrainingLoop(recipe, PrivateRandomness(seed, chosen, python=python), self._observers)
        self._progress = Progress(batches, accumulate)
        self._listeners = Listeners()
        self._control = Control(self._state_changed)
        self._shared = SharedModel(self._model, self._control)

    def __repr__(self) -> str:
        return f"TrainingEngine({type(self._model).__name__}, state={self.state!r})"

    # What is so

    @property
    def state(self) -> TrainingState:
        """``"idle"``, ``"running"``, ``"paused"``, ``"finished"``, ``"stopped"`` or ``"failed"``."""
        return self._control.state

    @property
    def model(self) -> nn.Module:
        """The live model; in a notebook cell, training waits from here to the end of the cell."""
        self._shared.use()
        return self._model

    @property
    def module(self) -> nn.Module:
        """The live model without a turn at it: for the names of its layers, and for probes; do not run it."""
        return self._model

    @property
    def exclusive(self) -> bool:
        """Whether training waits for every cell, not only for those that use the model."""
        return self._shared.exclusive

    @exclusive.setter
    def exclusive(self, exclusive: bool) -> None:
        self._shared.exclusive = exclusive

    @property
    def optimizer(self) -> torch.optim.Optimizer:
        """The live optimizer."""
        return self._loop.recipe.optimizer

    @property
    def waiting_for(self) -> str | None:
        """What a running training waits for between two steps, in words, or None."""
        return self._control.waiting_for

    @property
    def progress(self) -> ProgressFrame:
        """How far training has come."""
        return self._progress.frame(self._loop.epoch, self._last_epoch, self._loop.position, self._loop.steps)

    # Commands

    def start(self) -> None:
        """Train in the background.

        A new training makes ``epochs`` passes over the data. One that was stopped, or has failed, goes on
        where it was; a finished one makes ``epochs`` passes more; a halted one resumes; a running one is
        left alone.
        """
        self._shared.release()
        if self._control.alive:
            self._control.resume()
        else:
            self._launch(None)

    def pause(self, *, wait: bool = True) -> None:
        """Halt after the running step.

        Args:
            wait: Return only when training has halted; a button passes False.
        """
        self._control.pause()
        self._settle(wait)

    def resume(self) -> None:
        """Go on after `pause` or `step`.

        Raises:
            TrainingError: Training has not been started, or has ended.
        """
        if not self._control.alive:
            raise TrainingError(f"There is nothing to resume: the training is {self.state}. Call start().")
        self._shared.release()
        self._control.resume()

    def step(self, n: int = 1, *, wait: bool = True) -> None:
        """Make `n` optimizer steps, then halt; starts a training that is not under way.

        Args:
            n: Number of steps, at least 1.
            wait: Return only when they are made; a button passes False.

        Raises:
            TrainingError: `n` is no positive number.
        """
        require_count("n", n)
        self._shared.release()
        if self._control.alive:
            self._control.allow(n)
        else:
            self._launch(n)
        self._settle(wait)

    def stop(self, *, wait: bool = True) -> None:
        """End after the running step; `start` goes on from there.

        Args:
            wait: Return only when training has ended; a button passes False.
        """
        self._control.stop()
        self._settle(wait)

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the end of training; an interrupt ends the waiting, not the training.

        Args:
            timeout: Seconds at most; None waits for ever.

        Returns:
            Whether training has ended.

        Raises:
            TrainingError: Training was never started, or the loss became NaN or infinite.
            BaseException: Whatever made the training fail, as it was raised.
        """
        if self.state == "idle":
            raise TrainingError("There is nothing to wait for: call start() first.")
        if self._control.in_training_thread():
            raise TrainingError("The training thread cannot wait for itself: do not call wait() in a callback.")
        self._shared.release()
        until = None if timeout is None else time.monotonic() + timeout
        while not self._control.ended(_slice(until)):
            if until is not None and time.monotonic() >= until:
                return False
        if self.error is not None:
            raise self.error
        return True

    def __await__(self) -> Generator[Any, None, None]:
        return self._ended().__await__()

    async def _ended(self) -> None:
        loop = asyncio.get_running_loop()
        ended = asyncio.Event()

        def tell(frame: StateFrame) -> None:
            if frame.state in ENDED:
                loop.call_soon_threadsafe(ended.set)

        remove = self.on("state", tell)
        try:
            if self._control.alive:
                await ended.wait()
        finally:
            remove()
        self.wait()

    @contextmanager
    def paused(self) -> Iterator[nn.Module]:
        """A block with the model to itself, to look at or to change: ``with engine.paused() as model: ...``.

        Training waits between two steps meanwhile; its state stays what it is.
        """
        with self._control.visit("a block that looks at the model"):
            yield self._model
            self._shared.edited()

    def set_learning_rate(self, rate: float) -> None:
        """Set the learning rate of every parameter group, from the next step on."""
        self.set_optimizer(lr=rate)

    def set_optimizer(self, **options: float) -> None:
        """Set options such as ``lr`` or ``weight_decay`` in every parameter group, from the next step on.

        Raises:
            TrainingError: The optimizer has no such option.
        """
        groups = self.optimizer.param_groups
        known = [name for name in groups[0] if name != "params"]
        for name in options:
            if name not in known:
                raise TrainingError(
                    f"{type(self.optimizer).__name__} has no option {name!r}; it has {', '.join(known)}."
                )
        with self.paused():
            for group in groups:
                group.update(options)

    # Who watches

    def on(self, event: str, function: Callable[[Any], object]) -> Callable[[], None]:
        """Call `function` with the frame at each ``"step"``, ``"epoch"``, ``"state"`` or ``"anomaly"``.

        It runs in the training thread, between two steps; what it raises fails the training.

        Returns:
            A function that ends this.

        Raises:
            TrainingError: There is no such event.
        """
        return self._listeners.add(event, function)

    def add_probe(self, probe: Probe, cadence: Cadence | None = None) -> Callable[[], None]:
        """Let `probe` observe steps at `cadence` (ten a second unless told otherwise).

        Its frames go to `channel`. Returns a function that removes it.
        """
        return self._observers.add(probe, cadence or Cadence())

    # The training thread

    def _settle(self, wait: bool) -> None:
        if wait:
            while not self._control.settled(_SLICE):
                if self._control.in_training_thread():
                    return

    def _launch(self, steps: int | None) -> None:
        if not self._control.launch(steps):
            return
        self.error = None
        if self._loop.epoch > self._last_epoch:
            self._last_epoch = self._loop.epoch - 1 + self.epochs
        start_training_thread(self._train, self._control.stop, self._control.ended)

    def _train(self) -> None:
        self._control.enter()
        state: TrainingState = "failed"
        try:
            self._shared.open()
            state = self._run()
        except BaseException as error:
            error.add_note(f"While {self._loop.doing}.")
            self.error = error
            if isinstance(error, NotFiniteError):
                self._announce(AnomalyFrame(step=self._loop.steps + 1, kind=error.kind, message=str(error)))
        finally:
            self._shared.close()
            self.channel.put(self.progress)
            self._control.end(state)

    def _run(self) -> TrainingState:
        events = self._loop.run(self._last_epoch)
        try:
            while self._control.boundary() == "go":
                event = next(events, None)
                if event is None:
                    return "finished"
                self._tell(event)
            return "stopped"
        finally:
            events.close()

    def _tell(self, event: Stepped | Validated | EpochEnded) -> None:
        match event:
            case Stepped(frame=frame):
                self._control.stepped()
                self._announce(frame)
            case EpochEnded(frame=epoch):
                self._announce(epoch)
            case Validated():
                pass
        if self._progress.due(time.monotonic(), self._loop.steps):
            self.channel.put(self.progress)

    def _announce(self, frame: StepFrame | EpochFrame | AnomalyFrame) -> None:
        self.history.record(frame)
        self.channel.put(frame)
        self._listeners.tell(frame)

    def _state_changed(self, state: TrainingState) -> None:
        failed = state == "failed"
        frame = StateFrame(
            state=state,
            error=_said(self.error) if failed else None,
            node=node_of(self.error, self._model) if failed else None,
        )
        self.channel.put(frame)
        self._listeners.tell(frame)


_SLICE = 0.2
"""Seconds between two looks for an interrupt while waiting: a wait without end cannot be interrupted everywhere."""


def _slice(until: float | None) -> float:
    return _SLICE if until is None else max(0.0, min(_SLICE, until - time.monotonic()))


def _said(error: BaseException | None) -> str | None:
    return None if error is None else f"{type(error).__name__}: {error}"
