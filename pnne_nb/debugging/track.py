"""Watches a training loop by one line: `track` around its loader, or a callback for Lightning or a Trainer."""

from __future__ import annotations

import sys
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from contextlib import closing
from types import FrameType
from typing import Any, Generic, TypeVar, final

import torch
from torch import Tensor, nn

from pnne_nb.debugging.training_monitor import TrainingMonitor
from pnne_nb.diagnosis.finding import Finding
from pnne_nb.errors import TrainingError, expect
from pnne_nb.runtime.monitoring.history import History
from pnne_nb.runtime.objective.step_logs import is_number
from pnne_nb.telemetry.plot_hook import installed_plots

Batch = TypeVar("Batch")

_FRAMES = 20
"""Most callers of ``optimizer.step()`` among which the loss is looked for."""


@final
class TrackedLoader(Generic[Batch]):
    """A loader whose epochs a `TrainingMonitor` watches; see `track`.

    Attributes:
        monitor: Records the training.
        history: What was measured.
    """

    def __init__(
        self,
        loader: Iterable[Batch],
        monitor: TrainingMonitor,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        loss: str,
        val_data: object,
    ) -> None:
        self.monitor = monitor
        self._loader, self._val_data = loader, val_data
        self._model, self._optimizer, self._loss = model, optimizer, loss
        self._pending: tuple[Tensor | None, int] | None = None
        self._last: Callable[[], Tensor | None] = lambda: None
        self._shown = self._seen = False

    def __repr__(self) -> str:
        return f"TrackedLoader({self.monitor!r})"

    def __len__(self) -> int:
        if not isinstance(self._loader, Sized):
            raise TypeError(f"A {type(self._loader).__name__} does not know the number of its batches.")
        return len(self._loader)

    @property
    def history(self) -> History:
        """What was measured."""
        return self.monitor.history

    def diagnose(self) -> list[Finding]:
        """Return what is wrong with the training; see `TrainingMonitor.diagnose`."""
        return self.monitor.diagnose()

    def __iter__(self) -> Iterator[Batch]:
        """Yield the batches of one epoch, and record its steps."""
        if not self._shown:
            self._shown = True
            installed_plots().live(self.monitor)
        handle = self._optimizer.register_step_post_hook(self._stepped)
        self._seen = False
        with closing(
            self.monitor.track(self._loader, self._model, self._optimizer, val_data=self._val_data)
        ) as batches:
            try:
                for batch in batches:
                    yield batch
                    self._record()
            finally:
                handle.remove()
                self._record()  # the step of a batch after which the loop has ended

    def _stepped(self, *_: object) -> None:
        self._record()
        # Recorded later: others look at this update behind this hook.
        self._pending = self._value(sys._getframe(1)), self.monitor.steps

    def _record(self) -> None:
        pending, self._pending = self._pending, None
        if pending is None or self.monitor.steps > pending[1]:
            return  # the loop itself has told its step
        loss = pending[0]
        if loss is not None:
            self.monitor.step(loss)
            return
        self.monitor.observed(None)
        if not self._seen:
            self._seen = True
            warnings.warn(
                f"The code that calls optimizer.step() has no tensor {self._loss!r} with the loss of the step. Name the one "
                'that it has, as in pn.track(..., loss="total"), or tell it after each step: batches.monitor.step(value).',
                stacklevel=3,
            )

    def _value(self, frame: FrameType | None) -> Tensor | None:
        """Return the loss of the innermost caller outside of torch that has one; not that of the step before again."""
        for _ in range(_FRAMES):
            if frame is None:
                break
            if not str(frame.f_globals.get("__name__")).startswith("torch."):
                value = frame.f_locals.get(self._loss)
                if isinstance(value, Tensor) and is_number(value) and value is not self._last():
                    self._last = weakref.ref(value)
                    return value
            frame = frame.f_back
        return None


def track(
    loader: Iterable[Batch],
    *,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    loss: str = "loss",
    epochs: int | None = None,
    val_data: object = None,
) -> TrackedLoader[Batch]:
    """Watch a training loop of one's own; the loop stays as it is.

    ::

        loader = pn.track(loader, model=model, optimizer=optimizer)
        for epoch in range(5):
            for x, y in loader:
                loss = loss_fn(model(x), y)
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()

    In a notebook, the dashboard appears under the cell when the loop begins. Each call of ``optimizer.step()`` is a step.

    Args:
        loader: Gives the batches, again for each epoch.
        model: The module that is trained.
        optimizer: What moves it.
        loss: The name of the variable with the loss in the code that calls ``optimizer.step()``.
        epochs: How many there will be, if that is to be shown.
        val_data: A loader or a dataset of the validation, to be compared with that of the training.

    Returns:
        What stands for the loader: its ``monitor`` is the `TrainingMonitor`, with ``history`` and ``diagnose()``.

    Raises:
        ArgumentError: `model` is no module, `optimizer` no optimizer, or `loss` no name.
        TrainingError: `epochs` is no positive number.
    """
    expect(
        loader, Iterable, "loader", "what gives the batches", "Write pn.track(loader, model=net, optimizer=optimizer)."
    )
    expect(model, nn.Module, "model", "a module", "Write pn.track(loader, model=net, optimizer=optimizer).")
    expect(optimizer, torch.optim.Optimizer, "optimizer", "an optimizer of torch.optim")
    expect(loss, str, "loss", "the name of a variable", 'Write loss="loss".')
    return TrackedLoader(loader, TrainingMonitor(epochs=epochs), model, optimizer, loss, val_data)


def lightning_callback(monitor: TrainingMonitor) -> Any:
    """Return a callback for ``lightning.Trainer(callbacks=[...])``.

    Args:
        monitor: Records the training, and finds what is wrong with it.

    Raises:
        TrainingError: Lightning is not installed.
    """
    try:
        from lightning.pytorch.callbacks import Callback  # noqa: PLC0415  # an extra, which takes seconds
    except ImportError as error:
        raise _not_installed("Lightning", "lightning") from error

    class LightningMonitor(Callback):  # type: ignore[misc]  # an extra, which has no types here
        """Records the steps of Lightning."""

        def on_train_start(self, trainer: Any, module: Any) -> None:
            """Check the data, whose loaders are open now."""
            monitor.watch(module, trainer.optimizers[0] if trainer.optimizers else None)
            monitor.look_at_data(_one(trainer.train_dataloader), _one(trainer.val_dataloaders))

        def on_train_batch_start(self, trainer: Any, module: Any, *_: Any) -> None:
            """Watch the layers, starting before the forward pass."""
            if monitor.steps == 0 and trainer.global_step == 0:
                monitor.watch(module, trainer.optimizers[0] if trainer.optimizers else None)

        def on_before_backward(self, _trainer: Any, _module: Any, loss: Tensor) -> None:
            """Record the loss while it still has its autograd graph."""
            monitor.differentiates(loss)

        def on_train_batch_end(self, trainer: Any, module: Any, outputs: Any, *_: Any) -> None:
            """Record a step, which may consist of several accumulated batches."""
            del module
            if trainer.global_step > monitor.steps and isinstance(outputs, Mapping):
                monitor.step(outputs["loss"] * trainer.accumulate_grad_batches)
            if not monitor.goes_on():
                trainer.should_stop = True

        def on_train_epoch_end(self, trainer: Any, module: Any) -> None:
            """Record the epoch's metrics; its validation has run already."""
            del module
            monitor.epoch(**_numbers(trainer.callback_metrics))

        def on_train_end(self, *_: Any) -> None:
            """Remove everything from the model."""
            monitor.close()

        def on_exception(self, *_: Any) -> None:
            """Remove everything from the model."""
            monitor.close()

    return LightningMonitor()


def hugging_face_callback(monitor: TrainingMonitor) -> Any:
    """Return a callback for ``transformers.Trainer(callbacks=[...])``.

    The Trainer tells a loss, a mean, every ``logging_steps`` steps; these are what is recorded.

    Args:
        monitor: Records the training, and finds what is wrong with it.

    Raises:
        TrainingError: Transformers is not installed.
    """
    try:
        from transformers import TrainerCallback  # noqa: PLC0415  # an extra, imported late
    except ImportError as error:
        raise _not_installed("Hugging Face's transformers", "transformers") from error

    class TrainerMonitor(TrainerCallback):  # type: ignore[misc]  # an extra, which has no types here
        """Counts the steps of a Trainer, and records its losses."""

        def on_train_begin(self, *_: Any, model: Any = None, optimizer: Any = None, **_more: Any) -> None:
            """Watch the layers, starting before the first forward pass."""
            monitor.watch(model, getattr(optimizer, "optimizer", optimizer))

        def on_step_end(self, _arguments: Any, _state: Any, control: Any, **_more: Any) -> None:
            """Count an optimizer step, and end the training if Stop was pressed."""
            monitor.observed(None)
            if not monitor.goes_on():
                control.should_training_stop = True

        def on_log(self, _arguments: Any, _state: Any, _control: Any, logs: Any = None, **_more: Any) -> None:
            """Record a loss, or the metrics of an evaluation."""
            if logs and "loss" in logs:
                monitor.tell(float(logs["loss"]))
            measured = {f"val_{name[5:]}": value for name, value in (logs or {}).items() if name.startswith("eval_")}
            if "val_loss" in measured:
                monitor.epoch(**_numbers(measured))

        def on_train_end(self, *_: Any, **_more: Any) -> None:
            """Remove everything from the model."""
            monitor.close()

    return TrainerMonitor()


def _not_installed(library: str, extra: str) -> TrainingError:
    return TrainingError(
        f"{library} is not installed: pip install 'pnne_nb[{extra}]'. A loop of your own needs none: "
        "TrainingMonitor().step(loss, model, optimizer)."
    )


def _one(loaders: Any) -> Any:
    """Return the loader, if there is exactly one."""
    return loaders[0] if isinstance(loaders, list) and len(loaders) == 1 else loaders


def _numbers(metrics: Mapping[str, Any]) -> dict[str, float]:
    return {name: float(value) for name, value in metrics.items() if isinstance(value, int | float | Tensor)}
