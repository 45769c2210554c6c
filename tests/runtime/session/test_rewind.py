"""A training goes back to an earlier step bit for bit, or on without a batch, or says why it cannot."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, IterableDataset, RandomSampler, TensorDataset

from pnne_nb.errors import TrainingError
from pnne_nb.runtime.engine import TrainingEngine
from pnne_nb.runtime.training_process.process_server import server
from pnne_nb.runtime.training_process.training_process import TrainingProcess
from pnne_nb.telemetry.frames import StepFrame
from pnne_nb.widgets.dashboard.engine_view import remedies
from tests.runtime import tasks
from tests.runtime.distributed import groups

States = dict[int, dict[str, Tensor]]


def watched(model: nn.Module | None = None, data: Any = None, **options: Any) -> tuple[TrainingEngine, States]:
    """A training, and the states of its model after each step, filled as it goes."""
    options = {"epochs": 20, "batch_size": 16, "device": "cpu", "metrics": ("accuracy",), **options}
    engine = TrainingEngine(
        tasks.network() if model is None else model, tasks.images() if data is None else data, **options
    )
    states: States = {}

    def keep(frame: StepFrame) -> None:
        states[frame.step] = state_of(engine)

    engine.on("step", keep)
    return engine, states


def state_of(engine: TrainingEngine) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in engine.module.state_dict().items()}


def same(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return all(torch.equal(one[name], other[name]) for name in other)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"optimizer": ("SGD", {"lr": 0.1, "momentum": 0.9}), "scheduler": ("StepLR", {"step_size": 1})},
        {"accumulate": 2, "grad_clip": 0.5, "shuffle": False},
        {"val_data": tasks.images(2), "scheduler": "ReduceLROnPlateau", "validate_every": (4, "steps")},
        {"precision": "bf16"},
    ],
)
def test_the_training_is_where_it_was_and_goes_on_as_it_did(options: dict[str, Any]) -> None:
    engine, states = watched(**options)
    engine.step(50)
    first, losses = dict(states), engine.history["loss"].tolist()
    engine.rewind(1)
    engine.rewind(19)
    assert engine.progress.step == 30
    assert engine.state == "stopped"
    assert same(state_of(engine), first[30])
    assert engine.history["loss"].tolist() == losses[:30]
    states.clear()
    engine.step(20)
    assert all(same(state, first[step]) for step, state in states.items())
    assert engine.history["loss"].tolist() == losses
    assert [frame.message for frame in engine.history.anomalies if frame.kind == "rewound"] == [
        "The training went back 1 step, to step 49.",
        "The training went back 19 steps, to step 30.",
    ]
    engine.stop()


class Read(IterableDataset[Any]):
    """A stream that is the same each time."""

    def __iter__(self) -> Iterator[Any]:
        return iter(zip(*tasks.images(), strict=True))


def drawn_anew() -> DataLoader[Any]:
    pictures = TensorDataset(*tasks.images())
    return DataLoader(pictures, 16, sampler=RandomSampler(pictures, replacement=True, num_samples=96))


@pytest.mark.parametrize("data", [lambda: DataLoader(Read(), 16), drawn_anew], ids=["stream", "sampler"])
@pytest.mark.parametrize("target", [1, 3, 7, 9])
def test_a_loader_that_draws_as_an_epoch_opens_draws_the_same_again(data: Callable[[], Any], target: int) -> None:
    model = nn.Sequential(nn.Flatten(), nn.Dropout(0.5), nn.Linear(36, 4))
    engine, states = watched(model, data(), loss="CrossEntropyLoss")
    engine.step(6)
    engine._loop.ring.touch()  # the next snapshot is of an epoch that was opened just now
    engine.step(6)
    assert [kept.step for kept in engine._loop.ring.snapshots] == [0, 6]
    first = dict(states)
    engine.rewind(12 - target)
    assert same(state_of(engine), first[target])
    engine.step(12 - target)
    assert same(state_of(engine), first[12])
    engine.stop()


def test_a_fault_in_the_first_batch_of_an_epoch_comes_again() -> None:
    pictures, classes = bad_row(tasks.images(), 3)
    everything = TensorDataset(pictures[:16], classes[:16])
    loader = DataLoader(everything, 8, sampler=RandomSampler(everything, replacement=True, num_samples=64))
    engine, _ = watched(data=loader, loss="CrossEntropyLoss")
    seen = []
    for _ in range(3):
        with pytest.raises(TrainingError, match="NaN"):
            engine.step(8)
        assert engine.fault is not None
        seen.append((engine.fault.step, engine.fault.examples))
    assert len(set(seen)) == 1


def test_epochs_that_come_again_are_recorded_once() -> None:
    engine, _ = watched(val_data=tasks.images(2))
    engine.step(40)
    before = engine.history.to_frame()
    engine.rewind(25)
    engine.step(25)
    assert engine.history.to_frame().equals(before)
    engine.stop()


def test_a_changed_rate_is_not_a_difference() -> None:
    engine, states = watched()
    engine.step(15)
    engine.set_optimizer(lr=0.5)
    engine.step(15)
    kept = dict(states)
    engine.rewind(10)
    assert same(state_of(engine), kept[20])
    engine.rewind(10)
    assert same(state_of(engine), kept[10])
    assert engine.optimizer.param_groups[0]["lr"] == pytest.approx(1e-3)
    engine.stop()


def test_too_far_is_refused_with_what_is_kept() -> None:
    engine, _ = watched()
    with pytest.raises(TrainingError, match="Nothing is kept to go back to: no step was made"):
        engine.rewind(1)
    engine.step(5)
    with pytest.raises(TrainingError, match=r"rewind\(6\) would go to step -1, .* since step 0 .* at most 5 can be"):
        engine.rewind(6)
    with pytest.raises(TrainingError, match="steps"):
        engine.rewind(0)
    engine.stop()


def test_a_snapshot_that_is_too_large_is_told() -> None:
    engine, _ = watched()
    engine.rewind_memory = 1000
    engine.step(5)
    with pytest.raises(TrainingError, match=r"a snapshot of this training takes 0 MB, and engine.rewind_memory allows"):
        engine.rewind(1)
    engine.stop()


class Drifting(nn.Module):
    """Its results depend on how often it was called."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(36, 4)
        self.calls = 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        scores: Tensor = self.fc(x.flatten(1)) + 0.01 * self.calls * x.flatten(1)[:, :4]
        return scores


def test_a_forward_pass_that_is_not_the_same_is_told_with_the_difference() -> None:
    engine, states = watched(Drifting())
    engine.step(12)
    with pytest.raises(
        TrainingError, match=r"Step 1 made again has the loss .* \(difference .*\): a forward pass that is"
    ):
        engine.rewind(2)
    assert engine.progress.step == 12
    assert same(state_of(engine), states[12])
    engine.stop()


class Once(IterableDataset[Any]):
    """Can be read a single time."""

    def __init__(self) -> None:
        pictures, classes = tasks.images()
        self._left = iter(list(zip(pictures, classes, strict=True)))

    def __iter__(self) -> Iterator[Any]:
        return self._left


def test_data_that_is_gone_is_told() -> None:
    engine, states = watched(data=DataLoader(Once(), batch_size=8), epochs=1, loss="CrossEntropyLoss")
    engine.step(6)
    with pytest.raises(TrainingError, match=r"is gone|cannot be read again"):
        engine.rewind(2)
    assert same(state_of(engine), states[6])
    engine.stop()


def bad_row(data: tuple[Tensor, Tensor], row: int) -> tuple[Tensor, Tensor]:
    pictures = data[0].clone()
    pictures[row, 0, 1, 2] = torch.nan
    return pictures, data[1]


def test_a_batch_that_is_to_blame_is_left_out() -> None:
    engine, states = watched(data=bad_row(tasks.images(), 37), shuffle=False, epochs=1)
    engine.start()
    with pytest.raises(TrainingError, match=r"In 'input', row 5 of batch 3 is NaN"):
        engine.wait(60)
    fault = engine.fault
    assert fault is not None
    assert (fault.step, fault.epoch, fault.batch, fault.stage, fault.kind) == (3, 1, 3, "data", "data")
    assert (fault.examples, fault.indices) == ((5,), (37,))
    assert "input[5]: " in fault.show_batch()
    assert same(state_of(engine), states[2])
    engine.skip_batch()
    assert engine.fault is None
    assert engine.state == "stopped"
    assert engine.start().wait(60)
    assert engine.progress.step == 5
    with pytest.raises(TrainingError, match="There is no batch to leave out"):
        engine.skip_batch()


class Cramped(nn.Module):
    """The task's network, with room for four examples."""

    def __init__(self) -> None:
        super().__init__()
        self.net = tasks.network()

    def forward(self, x: Tensor) -> Tensor:
        if len(x) > 4:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
        scores: Tensor = self.net(x)
        return scores


def test_of_a_batch_in_pieces_the_rows_are_those_of_the_batch() -> None:
    engine, _ = watched(Cramped(), data=bad_row(tasks.images(), 37), shuffle=False, epochs=1, metrics=())
    engine.start()
    with pytest.raises(TrainingError, match=r"In 'input', row 5 of batch 3 is NaN \(1 NaN\)"):
        engine.wait(60)
    fault = engine.fault
    assert fault is not None
    assert (fault.step, fault.batch, fault.batches) == (3, 3, 1)
    assert (fault.examples, fault.indices, fault.first) == ((5,), (37,), 4)
    assert fault.show_batch().startswith("Batch 3 of epoch 1 (37 of the training data):\ninput[5]: ")
    engine.skip_batch()
    assert engine.start().wait(60)
    assert engine.progress.step == 5


def _transient() -> Callable[[Tensor, Tensor], Tensor]:
    calls: list[int] = []

    def loss(output: Tensor, target: Tensor) -> Tensor:
        calls.append(1)
        found = nn.functional.cross_entropy(output, target)
        return found * torch.nan if len(calls) == 4 else found

    return loss


def test_a_fault_that_does_not_repeat_is_transient() -> None:
    engine, _ = watched(loss=_transient())
    engine.start()
    with pytest.raises(TrainingError, match="made again with the same numbers, was finite: it did not repeat"):
        engine.wait(60)
    assert engine.fault is not None
    assert (engine.fault.kind, engine.fault.stage, engine.fault.step) == ("transient", None, 4)


def _steep(output: Tensor, target: Tensor) -> Tensor:
    return 1000 * nn.functional.cross_entropy(output, target)


def test_weights_that_an_update_ruins_are_told_apart() -> None:
    engine, states = watched(optimizer=("SGD", {"lr": 3e38}), shuffle=False, loss=_steep)
    engine.start()
    with pytest.raises(TrainingError, match=r"held it before the step: the update before, with learning rate 3e\+38"):
        engine.wait(60)
    assert engine.fault is not None
    assert engine.fault.stage == "weights"
    count = engine.progress.step
    engine.rewind(count)
    assert all(tensor.isfinite().all() for tensor in engine.module.state_dict().values())
    assert count in states


def test_after_a_rewind_other_steps_can_be_taken_back_too() -> None:
    engine, states = watched()
    engine.step(30)
    engine.rewind(10)
    engine.set_optimizer(lr=0.5)
    engine.step(10)
    kept = dict(states)
    engine.rewind(5)
    assert same(state_of(engine), kept[25])
    assert engine._loop.ring.losses == engine.history["loss"].tolist()
    engine.stop()


def trained_in_a_process(engine: TrainingEngine, steps: int) -> None:
    engine._execution.choose(process=True)
    engine.step(steps)
    assert engine.in_process


@pytest.fixture(scope="module")
def processes() -> Iterator[None]:
    """They leave nothing behind."""
    yield
    left = groups.children()
    server.close()
    groups.assert_gone(left)


@pytest.mark.timeout(300)
@pytest.mark.usefixtures("processes")
def test_steps_of_a_process_come_back_bit_for_bit_and_go_on_anywhere() -> None:
    thread, states = watched()
    thread.step(60)
    losses = thread.history["loss"].tolist()
    engine, _ = watched()
    engine.step(10)  # in a thread
    engine.stop()
    trained_in_a_process(engine, 25)
    with engine.paused():
        pass
    engine.step(25)
    engine.rewind(15)
    assert engine.state == "stopped"
    assert engine.history["loss"].tolist() == losses[:45]
    assert same(state_of(engine), states[45])
    engine.rewind(40)  # through the process into the thread before it
    assert same(state_of(engine), states[5])
    trained_in_a_process(engine, 35)
    engine.rewind(8)
    assert same(state_of(engine), states[32])
    engine.start()
    engine.pause()
    at = engine.progress.step
    assert engine.history["loss"].tolist()[:60] == losses[:at]
    engine.stop()
    thread.stop()


@pytest.mark.timeout(300)
@pytest.mark.usefixtures("processes")
def test_what_is_changed_beside_a_process_is_taken_back_with_the_steps() -> None:
    engine, _ = watched()
    trained_in_a_process(engine, 12)
    engine.set_optimizer(lr=0.5)
    engine.step(12)
    losses = engine.history["loss"].tolist()
    engine.rewind(6)
    assert engine.optimizer.param_groups[0]["lr"] == 0.5
    engine.rewind(10)
    assert engine.optimizer.param_groups[0]["lr"] == pytest.approx(1e-3)
    assert engine.history["loss"].tolist() == losses[:8]
    engine.stop()


@pytest.mark.timeout(300)
@pytest.mark.usefixtures("processes")
def test_a_fault_in_a_process_can_be_gone_back_from_and_left_out() -> None:
    pictures, classes = tasks.images()
    pictures[37] = float("nan")
    engine, _ = watched(data=(pictures, classes), shuffle=False)
    engine.start(process=True)
    with pytest.raises(TrainingError):
        engine.wait(groups.SECONDS)
    assert engine.fault is not None
    assert engine.fault.step == 3
    assert remedies(engine) == ["rewind", "batch", "skip"]
    engine.rewind(1)
    assert engine.progress.step == 1
    engine.start(process=True)
    with pytest.raises(TrainingError):
        engine.wait(groups.SECONDS)
    engine.skip_batch()
    trained_in_a_process(engine, 3)
    assert engine.history.steps("loss").tolist() == [1, 2, 3, 4, 5]
    engine.stop()


@pytest.mark.timeout(300)
@pytest.mark.usefixtures("processes")
def test_of_a_process_that_dies_no_step_comes_back() -> None:
    engine, _ = watched()
    trained_in_a_process(engine, 5)
    with engine.paused():
        pass
    process = engine._execution.executor
    assert isinstance(process, TrainingProcess)
    assert process.pid is not None
    os.kill(process.pid, signal.SIGKILL)
    engine.start()
    with pytest.raises(TrainingError):
        engine.wait(groups.SECONDS)
    assert engine.progress.step == 5
    with pytest.raises(TrainingError, match=r"Nothing is kept .* or a process that was killed. Load a checkpoint."):
        engine.rewind(1)


@pytest.mark.timeout(300)
@pytest.mark.usefixtures("processes")
def test_of_a_group_no_step_comes_back() -> None:
    engine, _ = watched(epochs=1)
    engine.step(2)
    engine.stop()
    engine.launch(2)
    assert engine.wait(groups.SECONDS)
    assert engine.progress.step == 6
    with pytest.raises(TrainingError, match=r"Nothing is kept .* or a group of processes \(launch\(\)\)"):
        engine.rewind(1)


@pytest.mark.parametrize("seed", range(3))
def test_any_step_of_the_last_hundred_comes_back(seed: int) -> None:
    engine, states = watched(seed=seed, epochs=60)
    engine.step(150)
    draws = random.Random(seed)
    at = 150
    while at > 60:
        back = min(draws.randint(1, 40), at - 50)
        engine.rewind(back)
        at -= back
        assert same(state_of(engine), states[at])
    engine.stop()
