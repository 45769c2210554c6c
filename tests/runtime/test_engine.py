from __future__ import annotations

import gc
import itertools
import random
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import Dataset, IterableDataset

from pnne_nb.compiler import compile as compile_graph
from pnne_nb.errors import ArgumentError, CheckpointError, TrainingError
from pnne_nb.graph.document import NodeGraph
from pnne_nb.runtime.engine import TrainingEngine
from pnne_nb.runtime.faults import fault_location
from pnne_nb.telemetry.frames import AnomalyFrame, EpochFrame, Frame, NormsFrame, ProgressFrame, StateFrame, StepFrame
from pnne_nb.telemetry.probe import Cadence
from tests.runtime.tasks import CLASSES, engine, images, network, picture_graph

STEPS = 12  # 96 examples, 16 a batch, 2 epochs


def losses(trained: TrainingEngine) -> list[float]:
    values: list[float] = trained.history["loss"].tolist()
    return values


def run(**options: Any) -> TrainingEngine:
    made = engine(**options)
    assert made.start().wait(60)
    return made


class Watcher:
    """A probe that counts how it is called."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def open(self, step: int) -> None:
        self.calls.append(f"open {step}")

    def gradients_ready(self) -> None:
        self.calls.append("gradients")

    def updated(self) -> None:
        self.calls.append("updated")

    def close(self) -> Sequence[Frame]:
        self.calls.append("close")
        return [NormsFrame(step=1, norms={}, total=0.0)]


# A whole training


def test_a_training_learns_and_tells_of_it() -> None:
    trained = run(val_data=images(seed=2), epochs=8, optimizer=("Adam", {"lr": 0.02}))
    assert trained.state == "finished"
    assert trained.error is None
    history = trained.history
    assert len(history["loss"]) == 48
    assert set(history) == {
        "loss",
        "learning_rate",
        "gradient_norm",
        "memory",
        "train_loss",
        "train_accuracy",
        "val_loss",
        "val_accuracy",
    }
    assert history["val_accuracy"][-1] > 0.8
    assert history["train_loss"][-1] < history["train_loss"][0]


def test_frames_arrive_in_the_order_of_events() -> None:
    trained = run()
    frames = trained.channel.drain()
    assert frames[0] == StateFrame("running")
    assert frames[-1] == StateFrame("finished")
    steps = [frame for frame in frames if isinstance(frame, StepFrame)]
    assert [frame.step for frame in steps] == list(range(1, STEPS + 1))
    assert [frame.epoch for frame in steps] == [1] * 6 + [2] * 6
    assert all(a.seconds < b.seconds for a, b in itertools.pairwise(steps))
    assert [frame.epoch for frame in frames if isinstance(frame, EpochFrame)] == [1, 2]
    progress = [frame for frame in frames if isinstance(frame, ProgressFrame)]
    assert (progress[-1].epoch, progress[-1].batch, progress[-1].batches, progress[-1].step) == (2, 6, 6, STEPS)


def test_the_epoch_s_loss_is_the_mean_over_its_examples() -> None:
    trained = run(epochs=1, batch_size=36)
    weights = np.array([36, 36, 24])
    assert trained.history["train_loss"][0] == pytest.approx((trained.history["loss"] * weights).sum() / 96)


def test_a_seed_decides_everything() -> None:
    assert losses(run()) == losses(run())
    assert losses(run(seed=1)) != losses(run())


def test_a_graph_s_weights_depend_on_the_seed_only() -> None:
    first = run(model=picture_graph())
    torch.manual_seed(123)
    assert losses(run(model=picture_graph())) == losses(first)
    assert type(first.model).__name__ == "Lenet"


def test_training_leaves_the_random_numbers_of_others_alone() -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    run()
    assert torch.equal(torch.rand(3), expected)


def test_accumulated_batches_make_the_step_of_the_large_batch() -> None:
    def plain() -> nn.Module:
        torch.manual_seed(0)
        return nn.Sequential(nn.Flatten(), nn.Linear(36, CLASSES))

    options: dict[str, Any] = {"shuffle": False, "optimizer": ("SGD", {"lr": 0.1}), "metrics": ()}
    large = run(model=plain(), batch_size=40, **options)
    small = run(model=plain(), batch_size=10, accumulate=4, **options)
    assert losses(small) == pytest.approx(losses(large), rel=1e-5)


def test_gradients_are_clipped() -> None:
    trained = engine(grad_clip=1e-3, optimizer=("SGD", {"lr": 1.0}))
    before = [parameter.detach().clone() for parameter in trained.model.parameters()]
    trained.step()
    moved = [p - q for p, q in zip(trained.model.parameters(), before, strict=True)]
    assert nn.utils.get_total_norm(moved).item() == pytest.approx(1e-3, rel=1e-2)
    trained.stop()


@pytest.mark.parametrize(
    ("scheduler", "rates"),
    [
        (("StepLR", {"step_size": 1, "gamma": 0.1}), [0.1] * 6 + [0.01] * 6),
        (("StepLR", {"step_size": 6, "gamma": 0.1}, "step"), [0.1] * 6 + [0.01] * 6),
        (("ReduceLROnPlateau", {"patience": 0, "threshold": 1e9, "factor": 0.1}), [0.1] * 6 + [0.01] * 6),
    ],
)
def test_learning_rates_follow_the_scheduler(scheduler: Any, rates: list[float]) -> None:
    trained = run(scheduler=scheduler, optimizer=("SGD", {"lr": 0.1}))
    assert trained.history["learning_rate"].tolist() == pytest.approx(rates)


def test_early_stopping_ends_a_training_that_no_longer_learns() -> None:
    trained = run(epochs=50, early_stopping=2, optimizer=("SGD", {"lr": 0.0}), shuffle=False)
    assert trained.state == "finished"
    assert len(trained.history.epochs) < 50


def test_bf16_runs_and_learns() -> None:
    trained = run(precision="bf16", epochs=4)
    assert trained.history["train_loss"][-1] < trained.history["train_loss"][0]


def test_a_model_may_return_its_own_loss() -> None:
    class WithLoss(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = network()

        def forward(self, x: Tensor, y: Tensor) -> Tensor:
            return nn.functional.cross_entropy(self.net(x), y)

    trained = run(model=WithLoss(), loss=None, val_data=images(2))
    assert "train_accuracy" not in trained.history
    assert trained.history["val_loss"][-1] > 0


def test_a_step_function_replaces_forward_pass_and_loss() -> None:
    def step(model: nn.Module, batch: Any) -> Tensor:
        pictures, classes = batch
        loss: Tensor = nn.functional.cross_entropy(model(pictures), classes) * 2
        return loss

    assert losses(run(step_function=step, metrics=()))[0] == pytest.approx(2 * losses(run())[0])


def test_a_step_function_records_numbers_and_gives_metrics_what_they_compare() -> None:
    def step(model: nn.Module, batch: Any) -> dict[str, Any]:
        pictures, classes = batch
        scores = model(pictures)
        loss = nn.functional.cross_entropy(scores, classes)
        return {"loss": loss, "half": loss / 2, "two": 2, "output": scores, "target": classes, "more": [scores]}

    plain, told = (run(val_data=images(2), batch_size=20, **options) for options in ({}, {"step_function": step}))
    for name in ("loss", "val_loss", "train_accuracy", "val_accuracy"):
        assert told.history[name].tolist() == plain.history[name].tolist()
    assert told.history["half"] == pytest.approx(plain.history["loss"] / 2)
    assert told.history["train_half"] == pytest.approx(plain.history["train_loss"] / 2)
    assert told.history["val_half"] == pytest.approx(plain.history["val_loss"] / 2)
    assert set(told.history["two"]) == set(told.history["val_two"]) == {2.0}
    assert "more" not in told.history


def mixing(model: nn.Module, batch: Any) -> Tensor:
    """Mixes its pictures, by numbers of a generator that is everybody's."""
    share, (pictures, classes) = float(np.random.beta(0.2, 0.2)) + random.random(), batch  # noqa: NPY002  people do
    return nn.functional.cross_entropy(model(share * pictures), classes)


def test_a_step_function_draws_private_numbers(tmp_path: Path) -> None:
    whole = engine(step_function=mixing)
    whole.step(5)
    whole.save_checkpoint(tmp_path / "a.ckpt")
    random.random()
    np.random.rand()  # noqa: NPY002  what cells do
    whole.resume()
    assert whole.wait(60)
    resumed = TrainingEngine.resume_from(tmp_path / "a.ckpt", network(), images(), step_function=mixing)
    assert resumed.start().wait(60)
    assert resumed.history["loss"].tolist() == whole.history["loss"].tolist()


class Adversaries(nn.Module):
    """A generator and who tells its pictures from true ones."""

    def __init__(self) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(7)
            self.makes = nn.Linear(4, 36)
            self.tells = nn.Sequential(nn.Linear(36, 8), nn.ReLU(), nn.Linear(8, 1))


def adversarial() -> dict[str, Any]:
    """Arguments of a training with two optimizers, one of which the step function moves itself."""
    model = Adversaries()
    judging = torch.optim.Adam(model.tells.parameters(), 1e-2)

    def step(net: Any, batch: Any) -> dict[str, Tensor]:
        made = net.makes(torch.randn(len(batch[0]), 4))
        judging.zero_grad()
        told = net.tells(made.detach()).sigmoid().mean() - net.tells(batch[0].flatten(1)).sigmoid().mean()
        told.backward()
        judging.step()
        return {"loss": -net.tells(made).sigmoid().mean(), "judge_loss": told}

    options = {"optimizer": torch.optim.Adam(model.makes.parameters(), 1e-2), "step_function": step}
    return {"model": model, **options, "stateful": {"judging": judging}}


def test_a_second_optimizer_goes_on_from_a_checkpoint(tmp_path: Path) -> None:
    whole = engine(**adversarial())
    whole.step(5)
    whole.save_checkpoint(tmp_path / "a.ckpt")
    whole.resume()
    assert whole.wait(60)
    with pytest.raises(CheckpointError, match="cannot hold optimizer, step_function, stateful: give them"):
        TrainingEngine.resume_from(tmp_path / "a.ckpt", Adversaries(), images())
    resumed = TrainingEngine.resume_from(tmp_path / "a.ckpt", train_data=images(), **adversarial())
    assert resumed.start().wait(60)
    for name in ("loss", "judge_loss"):
        assert resumed.history[name].tolist() == whole.history[name].tolist()


def test_what_cannot_be_kept_in_a_checkpoint() -> None:
    with pytest.raises(TrainingError, match=r"stateful\['ema'\] is a int, which has no state_dict and load_state_dict"):
        engine(stateful={"ema": 3})


def test_what_a_step_function_has_told_goes_on_from_a_checkpoint(tmp_path: Path) -> None:
    def step(model: nn.Module, batch: Any) -> dict[str, Any]:
        scores = model(batch[0])
        return {"loss": nn.functional.cross_entropy(scores, batch[1]), "size": scores.abs().mean()}

    expected = run(step_function=step, epochs=1)
    halted = engine(step_function=step, epochs=1)
    halted.step(4)
    halted.save_checkpoint(tmp_path / "c.ckpt")
    halted.stop()
    resumed = TrainingEngine.resume_from(tmp_path / "c.ckpt", network(), images(), step_function=step)
    assert resumed.start().wait(60)
    for name in ("size", "train_size"):
        assert resumed.history[name].tolist() == expected.history[name].tolist()
    assert "train_accuracy" not in resumed.history


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        ({"hits": 3}, """The step function returned a mapping with 'hits', and no "loss" in it"""),
        ({"loss": 3}, "The step function returned a int, not a tensor with the loss"),
        ({"loss": torch.zeros(()), "val_x": 1}, "cannot record a number as 'val_x'.*Choose another name"),
        ({"loss": torch.zeros(()), "memory": 1}, "cannot record a number as 'memory'"),
    ],
)
def test_mappings_that_say_nothing(returned: dict[str, Any], message: str) -> None:
    trained = engine(step_function=lambda model, batch: returned)
    trained.start()
    with pytest.raises(TrainingError, match=message):
        trained.wait(60)


def test_a_model_may_return_its_own_loss_in_a_mapping() -> None:
    class Told(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = network()

        def forward(self, pictures: Tensor, classes: Tensor) -> dict[str, Tensor]:
            scores = self.net(pictures)
            return {"loss": nn.functional.cross_entropy(scores, classes), "logits": scores}

    assert losses(run(model=Told(), loss=None)) == losses(run())


class Mapped(Dataset[dict[str, Tensor]]):
    def __len__(self) -> int:
        return 96

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        pictures, classes = images()
        return {"input": pictures[index], "label": classes[index]}


def test_a_step_function_takes_what_it_likes_from_a_batch_for_a_graph() -> None:
    trained = engine(
        model=picture_graph(),
        step_function=lambda model, batch: nn.functional.cross_entropy(model(batch[0]), batch[1]),
        optimizer=("AdamW", {"lr": 0.01}),
    )
    assert trained.start().wait(60)
    assert trained.history["train_loss"][-1] < trained.history["train_loss"][0]


def test_a_mapping_feeds_the_model_by_name() -> None:
    assert run(train_data=Mapped(), epochs=1).state == "finished"


# Commands


def test_pausing_halts_between_two_steps_and_resuming_changes_nothing() -> None:
    undisturbed = run(epochs=4)
    trained = engine(epochs=4)
    reached = threading.Event()
    trained.on("step", lambda frame: reached.set() if frame.step == 5 else None)
    trained.start()
    assert reached.wait(60)
    trained.pause()
    assert trained.state in ("paused", "finished")
    steps = trained.progress.step
    assert len(losses(trained)) == steps
    if trained.state == "paused":
        trained.resume()
    assert trained.wait(60)
    assert losses(trained) == losses(undisturbed)


def test_stepping_makes_exactly_so_many_steps() -> None:
    trained = engine()
    trained.step()
    assert (trained.state, trained.progress.step) == ("paused", 1)
    trained.step(4)
    assert (trained.state, trained.progress.step) == ("paused", 5)
    trained.resume()
    assert trained.wait(60)
    assert losses(trained) == losses(run())


def test_stepping_past_the_end_finishes() -> None:
    trained = engine()
    trained.step(100)
    assert (trained.state, trained.progress.step) == ("finished", STEPS)


@pytest.mark.parametrize("stop_at", [1, 6, 7, 11])
def test_a_stopped_training_goes_on_where_it_was(stop_at: int) -> None:
    trained = engine(val_data=images(2))
    trained.step(stop_at)
    trained.stop()
    assert (trained.state, trained.progress.step) == ("stopped", stop_at)
    assert trained.start().wait(60)
    assert losses(trained) == losses(run(val_data=images(2)))


def test_a_finished_training_makes_its_epochs_again() -> None:
    trained = run()
    assert trained.start().wait(60)
    assert len(losses(trained)) == 2 * STEPS
    assert losses(trained) == losses(run(epochs=4))
    assert trained.epochs == 4


def test_starting_twice_is_starting_once() -> None:
    trained = engine(epochs=10**6)
    trained.start()
    trained.pause()
    trained.stop()
    assert [f.state for f in trained.channel.drain() if isinstance(f, StateFrame)] == ["running", "paused", "stopped"]


def test_buttons_only_ask() -> None:
    trained = engine(epochs=10**6)
    paused, stopped = threading.Event(), threading.Event()
    trained.on("state", lambda frame: {"paused": paused, "stopped": stopped}.get(frame.state, threading.Event()).set())
    trained.start()
    trained.pause(wait=False)
    assert paused.wait(60)
    trained.step(3, wait=False)
    trained.stop(wait=False)
    assert stopped.wait(60)
    assert trained.wait(60)


def test_commands_without_a_training() -> None:
    idle = engine()
    idle.pause()
    idle.stop()
    assert idle.state == "idle"
    with pytest.raises(TrainingError, match=r"There is nothing to wait for: call start\(\) first"):
        idle.wait()
    with pytest.raises(TrainingError, match=r"There is nothing to resume: the training is idle. Call start\(\)"):
        idle.resume()
    with pytest.raises(TrainingError, match="n must be a whole number, at least 1, not 0"):
        idle.step(0)


def test_waiting_has_a_time_limit() -> None:
    trained = engine()
    trained.step()
    assert not trained.wait(0.01)
    trained.stop()
    assert trained.wait(0)


def test_optimizer_settings_change_while_it_runs() -> None:
    trained = engine(optimizer=("SGD", {"lr": 0.1}))
    trained.step(2)
    trained.set_optimizer(lr=0.5)
    trained.resume()
    trained.wait(60)
    assert trained.history["learning_rate"].tolist() == [0.1] * 2 + [0.5] * 10
    with pytest.raises(TrainingError, match="SGD has no option 'rate'; it has lr, momentum"):
        trained.set_optimizer(rate=1.0)


def test_a_paused_block_has_the_model_to_itself() -> None:
    trained = engine(epochs=10**6)
    trained.start()
    with trained.paused() as model:
        before = [parameter.detach().clone() for parameter in model.parameters()]
        assert trained.state == "running"
        assert trained.waiting_for == "a block that looks at the model"
        assert all(torch.equal(a, b) for a, b in zip(model.parameters(), before, strict=True))
    trained.stop()


# Those who watch


def test_listeners_are_called_until_they_leave() -> None:
    trained = engine()
    seen: list[Any] = []
    leave = trained.on("step", seen.append)
    trained.on("epoch", seen.append)
    trained.on("state", seen.append)
    trained.step()
    leave()
    trained.resume()
    trained.wait(60)
    assert [type(frame).__name__ for frame in seen] == [
        "StateFrame",
        "StepFrame",
        *(["StateFrame"] * 1),
        "EpochFrame",
        "EpochFrame",
        "StateFrame",
    ]


def test_an_event_that_does_not_exist() -> None:
    with pytest.raises(TrainingError, match=r"There is no event 'epochs'; there are 'step'.* Did you mean 'epoch'"):
        engine().on("epochs", print)


def test_a_listener_may_stop_the_training() -> None:
    trained = engine()
    trained.on("step", lambda frame: trained.stop() if frame.step == 3 else None)
    assert trained.start().wait(60)
    assert (trained.state, trained.progress.step) == ("stopped", 3)


def test_a_start_while_listeners_are_told_of_the_stop_is_not_lost() -> None:
    trained = engine(epochs=500)
    told, released = threading.Event(), threading.Event()

    def hear(frame: StateFrame) -> None:
        if frame.state == "stopped" and not told.is_set():
            told.set()
            assert released.wait(60)

    trained.on("state", hear)
    trained.start()
    trained.stop(wait=False)
    assert told.wait(60)
    starter = threading.Thread(target=trained.start)
    starter.start()
    starter.join(0.05)  # it waits for the listener
    released.set()
    starter.join(60)
    assert trained.state == "running"
    trained.stop()


def test_a_listener_cannot_wait_for_its_own_training() -> None:
    trained = engine()
    trained.on("step", lambda frame: trained.wait())
    trained.start()
    with pytest.raises(TrainingError, match=r"wait\(\) would never return"):
        trained.wait(60)


def test_probes_see_the_steps_that_are_due() -> None:
    trained = engine()
    probe = Watcher()
    remove = trained.add_probe(probe, Cadence(hz=1e9, budget=1.0))
    trained.step(2)
    remove()
    trained.resume()
    trained.wait(60)
    assert probe.calls == ["open 1", "gradients", "updated", "close", "open 2", "gradients", "updated", "close"]
    assert sum(isinstance(frame, NormsFrame) for frame in trained.channel.drain()) == 2


def test_a_probe_that_fails_does_not_end_the_training() -> None:
    class Broken(Watcher):
        def gradients_ready(self) -> None:
            raise ValueError("no gradients here")

    trained = engine()
    trained.add_probe(Broken())
    assert trained.start().wait(60)
    assert [(a.kind, a.message) for a in trained.history.anomalies] == [
        ("probe-failed", "Broken failed and was removed: ValueError: no gradients here")
    ]


# What goes wrong


def test_a_failing_node_is_named_and_the_error_raised_by_wait() -> None:
    trained = engine(model=nn.Sequential(nn.Flatten(), nn.Linear(35, CLASSES)))
    trained.start()
    with pytest.raises(RuntimeError, match="mat1 and mat2 shapes cannot be multiplied"):
        trained.wait(60)
    assert trained.state == "failed"
    assert isinstance(trained.error, RuntimeError)
    assert trained.error.__notes__ == ['pn.explain("model-failed") says more.', "While training on batch 1 of epoch 1."]
    frame = trained.channel.drain()[-1]
    assert isinstance(frame, StateFrame)
    assert (frame.state, frame.node) == ("failed", "1")
    assert frame.error is not None
    assert "mat1 and mat2" in frame.error


class FailingDataset(Dataset[tuple[Tensor, Tensor]]):
    def __init__(self) -> None:
        self.pictures, self.classes = images()
        self.broken = True

    def __len__(self) -> int:
        return 96

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        if self.broken and index == 40:
            raise ValueError("picture 40 is damaged")
        return self.pictures[index], self.classes[index]


def test_a_failing_dataset_is_told_with_its_batch_and_can_be_repaired() -> None:
    data = FailingDataset()
    trained = engine(train_data=data, shuffle=False)
    trained.start()
    with pytest.raises(ValueError, match="picture 40 is damaged"):
        trained.wait(60)
    assert trained.error is not None
    assert trained.error.__notes__ == ["While reading example 40.", "While fetching batch 3 of epoch 1."]
    data.broken = False
    assert trained.start().wait(60)
    assert losses(trained) == losses(run(train_data=data, shuffle=False))


def test_a_step_that_fails_raises_what_has_failed() -> None:
    data = FailingDataset()
    trained = engine(train_data=data, shuffle=False)
    trained.step(2)
    with pytest.raises(ValueError, match="picture 40 is damaged") as found:
        trained.step()
    assert found.value is trained.error
    assert trained.state == "failed"
    trained.step(wait=False)
    trained.stop()
    data.broken = False
    trained.step()
    assert trained.progress.step == 3
    trained.stop()


def test_a_loss_that_is_no_number_keeps_the_last_good_model() -> None:
    pictures, classes = images()
    pictures[50] = float("nan")
    trained = engine(train_data=(pictures, classes), shuffle=False)
    seen: list[AnomalyFrame] = []
    trained.on("anomaly", seen.append)
    trained.start()
    with pytest.raises(TrainingError, match=r"nan at step 4 .*as it was before .* In 'input', row 2 of batch 4 is NaN"):
        trained.wait(60)
    assert [(frame.kind, frame.step, frame.node) for frame in seen] == [("nan-loss", 4, None)]
    assert trained.history.anomalies == seen
    assert all(tensor.isfinite().all() for tensor in trained.model.state_dict().values())
    frame = trained.channel.drain()[-1]
    assert isinstance(frame, StateFrame)
    assert frame.node is None


class Root(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        return gradients[0] * float("inf")


class Exploding(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(36, 8)
        self.second = nn.Linear(8, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        hidden: Tensor = Root.apply(self.first(x.flatten(1)))  # type: ignore[no-untyped-call]  # torch leaves it untyped
        output: Tensor = self.second(hidden)
        return output


@pytest.mark.parametrize("clip", [None, 1.0])
def test_gradients_that_are_no_numbers_are_noticed_before_the_update(clip: float | None) -> None:
    trained = engine(model=Exploding(), grad_clip=clip)
    trained.start()
    with pytest.raises(
        TrainingError, match=r"A gradient became NaN or infinite at step 1 .* first in Root at .*gradients"
    ):
        trained.wait(60)
    assert [anomaly.kind for anomaly in trained.history.anomalies] == ["nan-gradient"]
    assert trained.model.get_parameter("first.weight").isfinite().all()


def test_a_parameter_that_makes_a_gradient_infinite_is_named_as_the_node_it_is() -> None:
    graph = picture_graph()
    graph.add("Parameter", name="bend", shape=(CLASSES,))
    graph.add("sqrt", name="root")
    graph.add("add", name="sum")
    graph.disconnect("fc.output", "y.input")
    for source, target in [("bend", "root.input"), ("fc", "sum.input"), ("root", "sum.other"), ("sum", "y")]:
        graph.connect(source, target)
    for path in ("bend", "ends.bend"):
        model = compile_graph(graph)
        model(images()[0]).sum().backward()
        assert fault_location.gradient_not_finite(model) == path
        if path == "bend":
            graph.group(["bend", "root", "sum"], name="ends")


def test_parameters_that_are_no_numbers_already_are_told_of() -> None:
    model = network()
    trained = engine(model)
    trained.step(2)
    with trained.paused(), torch.no_grad():
        model.get_parameter("5.weight")[0] = torch.nan
    trained.resume()
    with pytest.raises(TrainingError, match=r"'5.weight' held it before the step: the update before"):
        trained.wait(60)


def test_scaled_gradients_need_parameters_in_full() -> None:
    with pytest.raises(TrainingError, match=r"the parameters stay float32, .* the model as it was before half\(\)"):
        engine(network().half(), precision="16")


@pytest.mark.parametrize(
    ("loss", "message"),
    [
        (lambda output, target: output, r"The loss function returned shape \(16, 4\), not one number"),
        (lambda output, target: 1.0, "The loss function returned a float, not a tensor with the loss"),
        (None, r"Without a loss, the model must return its own: it returned shape"),
    ],
)
def test_losses_that_are_none(loss: Any, message: str) -> None:
    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = network()

        def forward(self, x: Tensor, y: Tensor | None = None) -> Tensor:
            result: Tensor = self.net(x)
            return result

    trained = engine(model=Two(), loss=loss)
    trained.start()
    with pytest.raises(TrainingError, match=message):
        trained.wait(60)


def test_data_that_does_not_fit_the_input_node() -> None:
    pictures, classes = images()
    with pytest.raises(
        TrainingError, match=r"Input node 'x': the node expects shape \(N, 1, 6, 6\), the data has"
    ) as e:
        engine(model=picture_graph(), train_data=(pictures.squeeze(1), classes))
    assert e.value.diagnostics[0].node == "x"


class Unfit(FailingDataset):
    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return self.pictures[index][0], self.classes[index]


def test_data_that_comes_late_and_does_not_fit_names_the_node() -> None:
    trained = engine(model=picture_graph(), train_data=Unfit())
    trained.start()
    with pytest.raises(TrainingError, match=r"Input node 'x'.*the data has \(16, 6, 6\)"):
        trained.wait(60)
    frame = trained.channel.drain()[-1]
    assert isinstance(frame, StateFrame)
    assert frame.node == "x"


def test_a_scripted_module_is_refused_at_once() -> None:
    with pytest.warns(DeprecationWarning, match=r"torch\.jit\.script"):
        scripted: nn.Module = torch.jit.script(network())
    with pytest.raises(TrainingError, match=r"takes no hooks.*train the module that it was made from"):
        engine(model=scripted)


class NoData(IterableDataset[Any]):
    def __iter__(self) -> Iterator[Any]:
        return iter(())


def test_data_without_a_batch() -> None:
    trained = engine(train_data=torch.utils.data.DataLoader(NoData(), 16))
    trained.start()
    with pytest.raises(TrainingError, match="The training data gave no batch at all"):
        trained.wait(60)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"epochs": 0}, "epochs must be a whole number, at least 1, not 0"),
        ({"batch_size": 1.5}, "batch_size must be a whole number, at least 1, not 1.5"),
        ({"accumulate": 0}, "accumulate must be a whole number"),
        ({"num_workers": -1}, "num_workers must be a whole number, at least 0, not -1"),
        ({"early_stopping": 0}, "early_stopping must be a whole number"),
        ({"seed": "a"}, "seed must be a whole number of at most 64 bits, not 'a'"),
        ({"grad_clip": -1.0}, "grad_clip must be a positive norm or None, not -1.0"),
        ({"device": "tpu:9"}, "There is no device 'tpu:9' here; there is cpu"),
        ({"device": "cuda:99"}, "There is no device 'cuda:99' here; there is cpu"),
        ({"step_function": 3}, "step_function must be a function of model and batch that returns the loss, not 3"),
        ({"precision": "8"}, "precision must be one of '32', 'bf16', '16', not '8'"),
        ({"loss": "Cross"}, "There is no loss called 'Cross'"),
        ({"optimizer": "SDG"}, "There is no optimizer called 'SDG'. Did you mean 'SGD'"),
    ],
)
def test_arguments_that_cannot_be(options: dict[str, Any], message: str) -> None:
    with pytest.raises(TrainingError, match=message):
        engine(**options)


@pytest.mark.parametrize("model", [network, picture_graph])
def test_without_data_it_says_what_to_give(model: Callable[[], nn.Module | NodeGraph]) -> None:
    with pytest.raises(
        ArgumentError,
        match=r"There is no train_data: TrainingEngine\(model, train_data\) needs .* such as \(X, y\).*from_graph\(graph\)",
    ):
        TrainingEngine(model())


def test_something_else_than_a_model() -> None:
    with pytest.raises(TrainingError, match=r"Give a NodeGraph or an nn.Module, not a str"):
        TrainingEngine("resnet", images())  # type: ignore[arg-type]  # wrong on purpose


def test_one_model_is_trained_by_one_engine_at_a_time() -> None:
    model = network()
    first, second = engine(model=model, epochs=10**6), engine(model=model)
    first.step()
    second.start()
    with pytest.raises(TrainingError, match="Another engine is training this model: stop it first"):
        second.wait(60)
    first.stop()
    assert second.start().wait(60)


# Ends


def test_an_engine_and_its_model_die_when_nobody_needs_them() -> None:
    trained = run(val_data=images(2))
    trained.add_probe(Watcher())
    references: list[weakref.ref[Any]] = [weakref.ref(owned) for owned in (trained, trained.model, trained.optimizer)]
    del trained
    for thread in threading.enumerate():
        # They may still be on their way out of the functions that work for the engine.
        if thread.name.startswith("pnne-"):
            thread.join(60)
    gc.collect()
    assert [reference() for reference in references] == [None, None, None]


def test_a_trained_model_is_as_plain_as_before() -> None:
    model = network()
    before = dict(model.__dict__)
    run(model=model)
    assert {name for name, value in model.__dict__.items() if value != before.get(name)} <= {"training"}
    assert not model._forward_hooks
    assert not model._forward_pre_hooks


def test_the_repr_is_stable() -> None:
    assert repr(engine()) == "TrainingEngine(Sequential, loss=CrossEntropyLoss, state='idle')"


@pytest.mark.parametrize("event", ["step", "epoch"])
def test_a_callback_that_raises_is_named_and_the_data_is_not_blamed(event: Literal["step", "epoch"]) -> None:
    trained = engine()

    def mine(frame: object) -> None:
        raise KeyError("mine")

    trained.on(event, mine)
    trained.start()
    with pytest.raises(KeyError, match="mine") as caught:
        trained.wait(60)
    (where, when) = caught.value.__notes__
    assert where.endswith(f"mine, which on('{event}', ...) has registered.")
    assert when == "Between two steps."
    assert trained.history.anomalies == []


class Ending(torch.optim.lr_scheduler.LRScheduler):
    def get_lr(self) -> list[Any]:
        if self.last_epoch:
            raise KeyError("mine")
        return list(self.base_lrs)


class Silent:
    def update(self, output: Any, target: Any) -> None:
        """Take nothing into account."""

    def reset(self) -> None:
        """There is nothing to forget."""

    def compute(self) -> float:
        raise KeyError("mine")


@pytest.mark.parametrize("where", ["scheduler", "metrics"])
def test_what_fails_at_the_end_of_an_epoch_is_not_the_data(where: str) -> None:
    trained = engine(scheduler=Ending) if where == "scheduler" else engine(metrics=(Silent(),))
    trained.start()
    with pytest.raises(KeyError, match="mine") as caught:
        trained.wait(60)
    place = [] if where == "scheduler" else ["In the metric 'Silent', computing its value."]
    assert caught.value.__notes__ == [*place, "While ending epoch 1."]
    assert trained.history.anomalies == []


def test_a_callback_that_raises_when_the_training_starts_leaves_it_as_it_was() -> None:
    trained = engine(epochs=1)
    seen: list[str] = []

    def mine(frame: StateFrame) -> None:
        seen.append(frame.state)
        raise KeyError("mine")

    remove = trained.on("state", mine)
    with pytest.raises(KeyError, match="mine"):
        trained.start()
    assert (trained.state, seen) == ("idle", ["running", "idle"])
    remove()
    assert trained.start().wait(60)
    assert trained.state == "finished"


def test_a_callback_that_raises_at_the_end_fails_the_training() -> None:
    trained = engine(epochs=1)

    def mine(frame: StateFrame) -> None:
        if frame.state == "finished":
            raise KeyError("mine")

    trained.on("state", mine)
    trained.start()
    with pytest.raises(KeyError, match="mine"):
        trained.wait(60)
    assert (trained.state, trained.progress.step) == ("failed", STEPS // 2)


def test_a_callback_that_raises_when_it_hears_of_a_failure_does_not_hide_it() -> None:
    trained = engine(loss=lambda output, target: output.sum() * float("nan"))

    def mine(frame: AnomalyFrame) -> None:
        raise KeyError("mine")

    trained.on("anomaly", mine)
    trained.start()
    with pytest.raises(TrainingError, match="The loss became nan at step 1") as caught:
        trained.wait(60)
    assert caught.value.__notes__[-1].startswith("And then: KeyError: 'mine'")
    assert trained.state == "failed"


def test_a_schedule_that_is_over_says_so_when_training_goes_on() -> None:
    trained = engine(scheduler=("OneCycleLR", {"max_lr": 0.1}), epochs=1)
    assert trained.start().wait(60)
    trained.start()
    message = "The scheduler OneCycleLR cannot move: Tried to step .* make a new engine, with more epochs"
    with pytest.raises(TrainingError, match=message):
        trained.wait(60)


def test_batches_with_more_parts_than_the_model_takes_are_explained() -> None:
    pictures, classes = images()
    trained = engine(train_data=(pictures, pictures, classes))
    trained.start()
    with pytest.raises(
        TrainingError, match=r"The model cannot be called with a batch of inputs .* too many positional"
    ):
        trained.wait(60)
