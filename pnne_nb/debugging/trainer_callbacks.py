"""Callbacks that let a `TrainingMonitor` watch trainings of Lightning and of Hugging Face's Trainer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from pnne_nb.debugging.training_monitor import TrainingMonitor
from pnne_nb.errors import TrainingError


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
