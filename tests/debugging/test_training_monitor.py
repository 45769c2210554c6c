"""A hand-written loop is recorded as the engine records its own, and its faults are found."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import pnne_nb as pn
from pnne_nb.debugging.training_monitor import TrainingMonitor
from tests.runtime import tasks


def batches(size: int = 16) -> list[tuple[Tensor, Tensor]]:
    pictures, classes = tasks.images()
    return [(pictures[at : at + size], classes[at : at + size]) for at in range(0, len(pictures), size)]


def train(monitor: TrainingMonitor, model: nn.Module, *, epochs: int, rate: float = 0.05) -> list[float]:
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    losses = []
    for _ in range(epochs):
        for x, y in monitor.track(batches(), model, optimizer):
            loss = nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
            optimizer.step()
            monitor.step(loss)
            losses.append(loss.item())
    return losses


def test_losses_rates_and_epochs_are_recorded() -> None:
    monitor, model = TrainingMonitor(), tasks.network()
    losses = train(monitor, model, epochs=3)
    assert monitor.history["loss"].tolist() == losses
    assert set(monitor.history["learning_rate"].tolist()) == {0.05}
    assert monitor.history["train_loss"].tolist() == pytest.approx(
        [sum(losses[at : at + 6]) / 6 for at in range(0, 18, 6)]
    )
    assert repr(monitor) == "TrainingMonitor(18 steps, 3 epochs)"
    assert "18 steps" in monitor._repr_html_()
    monitor.epoch(val_loss=0.5)
    assert monitor.history["val_loss"][-1] == 0.5


def test_a_loop_is_the_same_with_and_without_it() -> None:
    watched, alone = tasks.network(), tasks.network()
    torch.manual_seed(3)
    losses = train(TrainingMonitor(budget=1.0, hz=1e6), watched, epochs=2)
    torch.manual_seed(3)
    optimizer = torch.optim.SGD(alone.parameters(), lr=0.05)
    for step, (x, y) in enumerate([*batches(), *batches()]):
        loss = nn.functional.cross_entropy(alone(x), y)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        optimizer.step()
        assert loss.item() == losses[step]
    assert not any(layer._forward_hooks for layer in watched.modules())


def test_layers_in_trouble_are_found() -> None:
    model = nn.Sequential(nn.Flatten(), nn.Linear(36, 16), nn.ReLU(), nn.Linear(16, 4))
    with torch.no_grad():
        model[1].get_parameter("bias").fill_(-100.0)
    told: list[str] = []
    monitor = TrainingMonitor(budget=1.0, hz=1e6)
    monitor.on("anomaly", lambda frame: told.append(frame.kind))
    train(monitor, model, epochs=10)
    assert ("dead-relu", "2") in {(finding.kind, finding.layer) for finding in monitor.diagnose()}
    assert "dead-relu" in told
    assert told.count("dead-relu") == 1


def softmaxed(model: nn.Module) -> nn.Module:
    return nn.Sequential(model, nn.Softmax(1))


def frozen(model: nn.Module) -> nn.Module:
    layers = [layer for layer in model.modules() if [*layer.parameters(recurse=False)]]
    layers[-1].requires_grad_(False)
    return model


def too_large(model: nn.Module) -> nn.Module:
    with torch.no_grad():
        [layer for layer in model.modules() if isinstance(layer, nn.Linear)][-1].weight.mul_(200.0)
    return model


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        (lambda model: model, None),
        (softmaxed, "softmax-before-loss"),
        (frozen, "frozen-layer"),
        (too_large, "first-loss-high"),
    ],
)
def test_the_first_step_is_looked_at_as_the_engine_looks_at_it(
    change: Callable[[nn.Module], nn.Module], kind: str | None
) -> None:
    monitor, model = TrainingMonitor(), change(tasks.network())
    train(monitor, model, epochs=1, rate=1e-3)
    assert [finding.kind for finding in monitor.diagnose()] == ([] if kind is None else [kind])
    assert not any(layer._forward_hooks for layer in model.modules())


def test_data_in_memory_are_looked_at() -> None:
    x, y = torch.randn(200, 6), torch.arange(200) % 3
    model = nn.Linear(6, 3)
    loader = DataLoader(TensorDataset(x * 1000, y), 50)
    monitor = TrainingMonitor()
    with pytest.warns(UserWarning, match=r"Nothing was recorded of 4 batches: call monitor.step\(loss\)"):
        list(monitor.track(loader, model, val_data=TensorDataset(x, y)))
    assert [finding.kind for finding in monitor.diagnose()] == ["large-input", "validation-scaled-otherwise"]
    batched = TrainingMonitor()
    with pytest.warns(UserWarning, match="Nothing was recorded of 2 batches"):
        list(batched.track([(x[:100], y[:100] * 0), (x[100:], y[100:] * 0)], nn.Linear(6, 3)))
    assert [finding.kind for finding in batched.diagnose()] == ["constant-target"]


def test_a_loss_that_the_model_returns_is_recognised() -> None:
    class Scored(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = nn.Linear(4, 3)

        def forward(self, x: Tensor, y: Tensor) -> dict[str, Tensor]:
            scores = self.net(x).softmax(1)
            return {"loss": nn.functional.cross_entropy(scores, y), "logits": scores}

    monitor, model = TrainingMonitor(), Scored()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    monitor.watch(model, optimizer)
    torch.autograd.backward(model(torch.randn(9, 4), torch.arange(9) % 3)["loss"])
    optimizer.step()
    monitor.observed(None)
    monitor.close()
    assert [finding.kind for finding in monitor.diagnose()] == ["softmax-before-loss"]


def test_a_validation_told_after_its_epoch_belongs_to_it() -> None:
    monitor = TrainingMonitor()
    for epoch in range(1, 7):
        for _ in monitor.track(range(3)):
            monitor.step(1.0 / epoch)
        monitor.epoch(val_loss=float(epoch))
    assert monitor.history["val_loss"].tolist() == [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    assert [finding.kind for finding in monitor.diagnose()] == ["overfitting"]


def test_a_loss_that_is_no_number_is_found() -> None:
    with pn.TrainingMonitor() as monitor:
        for step in range(5):
            monitor.step(float("nan") if step == 3 else 1.0)
    [finding] = [each for each in monitor.diagnose() if each.kind == "not-finite"]
    assert "from step 4 on" in finding.reason


def test_arguments_are_looked_at() -> None:
    monitor = TrainingMonitor()
    with pytest.raises(pn.ArgumentError, match="loss must be a number or a tensor with one"):
        monitor.step("high")  # type: ignore[arg-type]  # the point of the test
    with pytest.raises(pn.ArgumentError, match="model must be a module"):
        monitor.step(1.0, "net")  # type: ignore[arg-type]  # likewise
    with pytest.raises(pn.ArgumentError, match="budget must be a share"):
        TrainingMonitor(budget="much")
    monitor.step(1.0, nn.Linear(1, 1))
    with pytest.raises(pn.InspectionError, match="This monitor watches a Linear already"):
        monitor.step(1.0, nn.Linear(1, 1))
    monitor.close()


def test_numbers_of_a_step_are_recorded_by_name() -> None:
    monitor = TrainingMonitor()
    monitor.step(1.0, accuracy=0.5)
    monitor.step(0.5, accuracy=torch.tensor(0.75))
    assert monitor.history["accuracy"].tolist() == [0.5, 0.75]
    with pytest.raises(
        pn.ArgumentError, match=r"accuracy must be a number, not 'high'. Write monitor.step\(loss, accuracy=0.9\)"
    ):
        monitor.step(0.5, accuracy="high")  # type: ignore[arg-type]  # the point of the test
    with pytest.raises(
        pn.ArgumentError, match=r"val_loss must be a number, not \[1\]. Write monitor.epoch\(val_loss=0.5\)"
    ):
        monitor.epoch(val_loss=[1])  # type: ignore[arg-type]  # likewise
    with pytest.raises(pn.TrainingError, match=r"monitor\.step cannot record a number as 'memory'"):
        monitor.step(0.5, memory=1.0)
    assert monitor.steps == 2


def test_a_loop_that_asks_is_stopped_and_goes_on() -> None:
    monitor, states = TrainingMonitor(), list[str]()
    monitor.on("state", lambda frame: states.append(frame.state))
    seen = []
    for batch in monitor.track(range(5)):
        monitor.step(1.0)
        seen.append(batch)
        if batch == 1:
            monitor.stop()
    assert seen == [0, 1]
    with pytest.warns(UserWarning, match=r"no batches before monitor.resume\(\)"):
        assert list(monitor.track(range(5))) == []
    monitor.resume()
    for _ in monitor.track(range(5)):
        monitor.step(1.0)
    monitor.close()
    assert monitor.steps == 7
    assert states == ["running", "stopped", "running", "finished"]


def test_a_loop_that_asks_waits_during_a_pause() -> None:
    monitor, paused = TrainingMonitor(), threading.Event()
    monitor.on("state", lambda frame: paused.set() if frame.state == "paused" else None)
    monitor.pause()

    def run() -> None:
        for _ in monitor.track(range(3)):
            monitor.step(1.0)

    loop = threading.Thread(target=run)
    loop.start()
    assert paused.wait(60)
    assert (monitor.state, monitor.steps) == ("paused", 1)
    monitor.resume()
    loop.join(60)
    assert (monitor.state, monitor.steps) == ("running", 3)


def test_the_last_of_the_expected_epochs_ends_the_training() -> None:
    monitor = TrainingMonitor(epochs=2)
    for state in ("running", "finished"):
        for _ in monitor.track(range(2)):
            monitor.step(1.0)
        assert monitor.state == state
    with pytest.raises(pn.TrainingError, match="epochs must be a whole number, at least 1, not 0"):
        TrainingMonitor(epochs=0)
