"""One line around a loader records the loop, which stays as it was."""

from __future__ import annotations

import builtins
import sys
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import pnne_nb as pn
from tests.debugging.test_training_monitor import batches
from tests.runtime import tasks


def optimizer_of(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.05)


def loss_of(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    return nn.functional.cross_entropy(model(x), y)


def test_the_losses_of_an_unchanged_loop_are_recorded() -> None:
    model = tasks.network()
    optimizer = optimizer_of(model)
    loader = pn.track(batches(), model=model, optimizer=optimizer)
    losses = []
    for _ in range(2):
        for x, y in loader:
            loss = loss_of(model, x, y)
            optimizer.zero_grad()
            torch.autograd.backward(loss)
            optimizer.step()
            losses.append(loss.item())
    assert len(loader) == 6
    assert loader.history["loss"].tolist() == losses
    assert len(loader.history["train_loss"]) == 2
    assert repr(loader) == "TrackedLoader(TrainingMonitor(12 steps, 2 epochs))"
    assert not any(layer._forward_hooks for layer in model.modules())
    assert not optimizer._optimizer_step_post_hooks
    assert loader.diagnose() == []


def test_a_loss_is_found_under_another_name_in_a_function_and_behind_a_wrapper() -> None:
    model = tasks.network()
    optimizer = optimizer_of(model)

    def made(x: Tensor, y: Tensor) -> float:
        total = loss_of(model, x, y)
        optimizer.zero_grad()
        torch.autograd.backward(total)
        optimizer.step()
        return total.item()

    tracked = pn.track(batches(), model=model, optimizer=optimizer, loss="total")
    losses = [made(x, y) for x, y in iter(tracked)]
    assert tracked.history["loss"].tolist() == losses


def test_a_missing_loss_is_told_once_and_the_same_tensor_is_not_taken_twice() -> None:
    model = tasks.network()
    optimizer = optimizer_of(model)
    loss = torch.tensor(7.0)  # of a cell before
    tracked = pn.track(batches(), model=model, optimizer=optimizer)

    def run() -> None:
        for x, y in tracked:
            torch.autograd.backward(loss_of(model, x, y))
            optimizer.step()

    with pytest.warns(UserWarning, match=r"no tensor 'loss' with the loss of the step.*loss=\"total\"") as told:
        run()
    assert len(told) == 1
    assert tracked.monitor.steps == 6
    assert tracked.history["loss"].tolist() == [loss.item()]


def test_a_step_that_the_loop_tells_counts_once() -> None:
    model = tasks.network()
    optimizer = optimizer_of(model)
    tracked = pn.track(batches(), model=model, optimizer=optimizer)
    for x, y in tracked:
        loss = loss_of(model, x, y)
        torch.autograd.backward(loss)
        optimizer.step()
        tracked.monitor.step(2 * loss, accuracy=0.5)
    assert tracked.monitor.steps == len(tracked.history["accuracy"]) == 6


def test_the_step_before_a_break_is_recorded() -> None:
    model = tasks.network()
    optimizer = optimizer_of(model)
    tracked = pn.track(batches(), model=model, optimizer=optimizer)
    for x, y in tracked:
        loss = loss_of(model, x, y)
        torch.autograd.backward(loss)
        optimizer.step()
        break
    assert tracked.history["loss"].tolist() == [loss.item()]
    assert not any(layer._forward_hooks for layer in model.modules())


def test_arguments_are_looked_at_and_a_loop_without_a_step_is_told() -> None:
    model = tasks.network()
    with pytest.warns(
        UserWarning, match=r"Nothing was recorded of .*optimizer.step\(\) alone is enough, and was not called"
    ):
        list(pn.track(batches(), model=model, optimizer=optimizer_of(model)))
    with pytest.raises(pn.ArgumentError, match="loader must be what gives the batches"):
        pn.track(3, model=model, optimizer=optimizer_of(model))  # type: ignore[arg-type]  # the point of the test
    with pytest.raises(pn.ArgumentError, match="model must be a module"):
        pn.track([], model=3, optimizer=optimizer_of(model))  # type: ignore[arg-type]  # likewise
    with pytest.raises(pn.ArgumentError, match="optimizer must be an optimizer"):
        pn.track([], model=model, optimizer="SGD")  # type: ignore[arg-type]  # likewise
    with pytest.raises(pn.ArgumentError, match="loss must be the name of a variable"):
        pn.track([], model=model, optimizer=optimizer_of(model), loss=3)  # type: ignore[arg-type]  # likewise

    def endless() -> Iterator[int]:
        yield 1

    with pytest.raises(TypeError, match="A generator does not know the number of its batches"):
        len(pn.track(endless(), model=model, optimizer=optimizer_of(model)))


def test_without_the_libraries_the_extras_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = builtins.__import__

    def without(name: str, *arguments: Any, **more: Any) -> Any:
        if name.partition(".")[0] in {"lightning", "transformers"}:
            raise ImportError(name)
        return usual(name, *arguments, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(pn.TrainingError, match=r"pip install 'pnne_nb\[lightning\]'"):
        pn.lightning_callback(pn.TrainingMonitor())
    with pytest.raises(pn.TrainingError, match=r"pip install 'pnne_nb\[transformers\]'"):
        pn.hugging_face_callback(pn.TrainingMonitor())


def library(monkeypatch: pytest.MonkeyPatch, name: str, **members: Any) -> None:
    """Let `name` be imported, with its packages; it holds `members`."""
    module = ModuleType(name)
    vars(module).update(members)
    parts = name.split(".")
    for count in range(1, len(parts)):
        package = ModuleType(".".join(parts[:count]))
        monkeypatch.setitem(sys.modules, package.__name__, package)
    monkeypatch.setitem(sys.modules, name, module)


def made_step(model: nn.Module, optimizer: torch.optim.Optimizer, at: int) -> torch.Tensor:
    pictures, classes = tasks.images()
    loss = nn.functional.cross_entropy(model(pictures[at : at + 16]), classes[at : at + 16])
    optimizer.zero_grad()
    torch.autograd.backward(loss)
    optimizer.step()
    return loss.detach()


def test_steps_and_epochs_of_lightning_are_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    library(monkeypatch, "lightning.pytorch.callbacks", Callback=object)
    monitor, model = pn.TrainingMonitor(), tasks.network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    trainer = SimpleNamespace(
        global_step=0,
        optimizers=[optimizer],
        accumulate_grad_batches=1,
        callback_metrics={"val_loss": torch.tensor(0.5)},
    )
    callback = pn.lightning_callback(monitor)
    losses = []
    for batch in range(3):
        callback.on_train_batch_start(trainer, model, None, batch)
        loss = made_step(model, optimizer, 16 * batch)
        trainer.global_step += 1
        callback.on_train_batch_end(trainer, model, {"loss": loss}, None, batch)
        losses.append(loss.item())
    callback.on_train_epoch_end(trainer, model)
    callback.on_train_end(trainer, model)
    assert monitor.history["loss"].tolist() == losses
    assert monitor.history["val_loss"].tolist() == [0.5]
    assert not any(layer._forward_hooks for layer in model.modules())


def test_the_first_step_and_the_data_of_lightning_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    library(monkeypatch, "lightning.pytorch.callbacks", Callback=object)
    monitor, model = pn.TrainingMonitor(), nn.Sequential(tasks.network(), nn.Softmax(1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    pictures, classes = tasks.images()
    data = torch.utils.data.TensorDataset(1000 * pictures, classes)
    trainer = SimpleNamespace(
        global_step=0,
        optimizers=[optimizer],
        accumulate_grad_batches=1,
        callback_metrics={},
        train_dataloader=torch.utils.data.DataLoader(data, 16),
        val_dataloaders=[torch.utils.data.DataLoader(data, 16)],
    )
    callback = pn.lightning_callback(monitor)
    callback.on_train_start(trainer, model)
    loss = nn.functional.cross_entropy(model(pictures[:16]), classes[:16])
    callback.on_before_backward(trainer, model, loss)
    torch.autograd.backward(loss)
    optimizer.step()
    trainer.global_step += 1
    callback.on_train_batch_end(trainer, model, {"loss": loss.detach()}, None, 0)
    callback.on_train_end(trainer, model)
    assert [finding.kind for finding in monitor.diagnose()] == [
        "softmax-before-loss",
        "large-input",
        "validation-in-training",
    ]


def test_batches_that_lightning_accumulates_are_one_step(monkeypatch: pytest.MonkeyPatch) -> None:
    library(monkeypatch, "lightning.pytorch.callbacks", Callback=object)
    monitor, model = pn.TrainingMonitor(), tasks.network()
    trainer = SimpleNamespace(global_step=0, optimizers=[], accumulate_grad_batches=2, callback_metrics={})
    callback = pn.lightning_callback(monitor)
    for batch in range(4):
        callback.on_train_batch_start(trainer, model, None, batch)
        trainer.global_step = (batch + 1) // 2
        callback.on_train_batch_end(trainer, model, {"loss": torch.tensor(0.5)}, None, batch)
    callback.on_exception(trainer, model, KeyboardInterrupt())
    assert monitor.history["loss"].tolist() == [1.0, 1.0]


def test_steps_and_logs_of_transformers_are_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    library(monkeypatch, "transformers", TrainerCallback=object)
    monitor, model = pn.TrainingMonitor(), tasks.network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    callback = pn.hugging_face_callback(monitor)
    callback.on_train_begin(None, None, None, model=model, optimizer=SimpleNamespace(optimizer=optimizer))
    losses = []
    for batch in range(3):
        losses.append(made_step(model, optimizer, 16 * batch).item())
        callback.on_step_end(None, None, SimpleNamespace())
        callback.on_log(None, None, None, logs={"loss": losses[-1], "learning_rate": 0.05})
    callback.on_log(None, None, None, logs={"eval_loss": 0.5, "epoch": 1.0})
    callback.on_train_end(None, None, None)
    assert monitor.history["loss"].tolist() == losses
    assert monitor.history["val_loss"].tolist() == [0.5]
    assert monitor.steps == 3
    assert not any(layer._forward_hooks for layer in model.modules())
