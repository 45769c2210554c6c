"""What a training will need, next to what it then takes."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
import torch
from torch import Tensor, nn

from pnne_nb.compiler.analysis.observe import Observer
from pnne_nb.errors import ArgumentError
from pnne_nb.runtime.engine import TrainingEngine
from pnne_nb.runtime.monitoring import memory_estimate as needs
from pnne_nb.runtime.monitoring.memory_estimate import MemoryNeeds, shortage
from pnne_nb.runtime.setup.devices import Device, DeviceManager
from tests.runtime.tasks import Noisy, engine, images, network

PICTURES, CLASSES = images()


def needed(trained: TrainingEngine) -> MemoryNeeds:
    return trained.memory_needs


def size(tensors: Any) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


@pytest.mark.parametrize("optimizer", ["SGD", "AdamW", ("SGD", {"momentum": 0.9}), "RMSprop", "Adagrad", "NAdam"])
def test_parameters_gradients_and_the_optimizer_s_state_are_told_exactly(optimizer: Any) -> None:
    model = network()
    trained = engine(model=model, optimizer=optimizer, scheduler=("StepLR", {"step_size": 1}))
    weights = [parameter.clone() for parameter in model.parameters()]
    found = needed(trained)
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), weights, strict=True))
    assert not any(parameter.is_meta for parameter in model.parameters())
    trained.step()
    trained.stop()
    assert found.parameters == size([*model.parameters(), *model.buffers()])
    assert found.gradients == size(parameter.grad for parameter in model.parameters())
    state = [t for entry in trained.optimizer.state.values() for t in entry.values() if isinstance(t, Tensor)]
    assert found.optimizer == size(state)


@pytest.mark.parametrize("data", [(PICTURES, CLASSES), Noisy()], ids=["tensors", "dataset"])
def test_what_is_needed_is_what_a_step_takes(data: Any) -> None:
    trained = engine(model=network(), train_data=data, batch_size=16, optimizer="Adam", metrics=())
    needs = needed(trained)
    model, batch = network(), (PICTURES[:16].clone(), CLASSES[:16].clone())
    optimizer = torch.optim.Adam(model.parameters())
    with Observer() as observer:
        for _ in range(2):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(batch[0]), batch[1]).backward()  # type: ignore[no-untyped-call]  # torch does not say
            optimizer.step()
    there = size([*model.parameters(), *model.buffers(), *batch])
    assert needs.peak == pytest.approx(there + max(observer.live()), rel=0.02)
    assert needs.peak == needs.parameters + needs.gradients + needs.optimizer + (needs.activations or 0)
    assert DeviceManager().choose(needs) == DeviceManager().choose(needs.peak)
    with pytest.raises(ArgumentError, match=r"needed must be bytes, engine.memory_needs or pn.plan_memory"):
        DeviceManager().choose("2 GB")  # type: ignore[arg-type]  # that is the point


class Reads(nn.Module):
    """Needs the numbers of its input."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(36, 4)

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.fc(x.flatten(1)) * x.max().item()
        return scores


def test_what_cannot_be_told_is_said_to_be_unknown() -> None:
    found = needed(engine(model=Reads()))
    assert found.activations is None
    assert "activations unknown" in str(found)
    assert needed(engine(step_function=lambda model, raw: model(raw[0]).sum())).activations is None


def test_half_precision_keeps_half() -> None:
    whole, half = needed(engine()).activations, needed(engine(precision="bf16")).activations
    assert whole is not None
    assert half is not None
    assert half < 0.8 * whole


@pytest.mark.parametrize("data", [(PICTURES, CLASSES), Noisy()])
def test_a_batch_is_no_larger_than_the_data(data: Any) -> None:
    everything = needed(engine(train_data=data, batch_size=len(PICTURES)))
    assert needed(engine(train_data=data, batch_size=10**9)).activations == everything.activations


def test_a_training_that_will_not_fit_says_so_before_its_first_step(monkeypatch: pytest.MonkeyPatch) -> None:
    trained = engine(epochs=1)
    assert shortage(trained._loop.recipe) is None
    monkeypatch.setattr(needs, "measured", lambda device: Device("cpu", "CPU", 2**20, 10 * 2**10, 0, 0, 0))
    assert trained.start().wait(60)
    (found,) = trained.history.anomalies
    assert (found.kind, found.step) == ("memory-short", 0)
    assert found.message.startswith(
        "The training probably does not fit into the memory of cpu: it needs parameters 1.2 KiB, gradients 1.2 KiB, "
    )
    assert found.message.endswith("; 10.0 KiB are free.")
    assert found.hint is not None
    assert "batch_size" in found.hint


def test_needs_in_words() -> None:
    needs = MemoryNeeds(parameters=2**30, gradients=2**30, optimizer=2**31, activations=3 * 2**20, free=2**30)
    assert str(needs).startswith("parameters 1.0 GiB, gradients 1.0 GiB, optimizer 2.0 GiB, activations 3.0 MiB; 1.0")
    assert not needs.fits
    assert msgspec.structs.replace(needs, free=2**40).fits


def test_an_optimizer_that_computes_the_loss_itself_is_not_counted() -> None:
    assert "without what LBFGS keeps" in str(needed(engine(optimizer="LBFGS")))
