"""One line around a loader records the loop, which stays as it was."""

from __future__ import annotations

from collections.abc import Iterator

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


def test_arguments_are_looked_at() -> None:
    model = tasks.network()
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
