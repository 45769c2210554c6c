"""What a training is judged by."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from torch import nn
from torch.optim.lr_scheduler import ReduceLROnPlateau

from pnne_nb.errors import TrainingError
from pnne_nb.runtime.engine import TrainingEngine
from pnne_nb.runtime.objective.objective import Goal
from pnne_nb.telemetry.frames import AnomalyFrame
from tests.runtime.tasks import engine, images, network

EPOCH = {"train_loss": 2.0, "val_loss": 3.0, "val_accuracy": 0.5}


def test_the_validation_loss_counts_or_else_the_training_loss() -> None:
    assert Goal().cost(EPOCH, validates=True) == 3.0
    assert Goal().cost({"train_loss": 2.0}, validates=False) == 2.0
    assert Goal().cost({"train_loss": 2.0}, validates=True) is None
    assert Goal("val_accuracy", more=True).cost(EPOCH, validates=True) == -0.5
    assert Goal("train_loss").cost({"val_loss": 3.0}, validates=True) is None
    with pytest.raises(
        TrainingError, match=r"monitor is 'val_acuracy', which is not measured: .* Did you mean 'val_acc"
    ):
        Goal("val_acuracy").cost(EPOCH, validates=True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"val_data": images(2)}, r"an epoch has train_loss, train_accuracy, val_loss, val_accuracy\. Did you mean 'val_acc"),
        ({}, r"an epoch has train_loss, train_accuracy\. .*There is no validation data"),
        ({"val_data": images(2), "monitor": ("psnr", "max"), "step_function": lambda model, batch: model(batch[0]).sum()},
         r"an epoch has train_loss, val_loss\. The names of other metrics begin with train_ or val_"),
        ({"monitor": "val_loss"}, r"an epoch has train_loss, train_accuracy\..* There is no validation data"),
    ],
)  # fmt: skip
def test_a_name_that_no_epoch_can_have_is_refused_at_once(options: dict[str, Any], message: str) -> None:
    with pytest.raises(TrainingError, match=r"monitor is '.*', which is not measured: " + message):
        engine(**{"monitor": ("val_acuracy", "max")} | options)


def with_psnr(model: nn.Module, batch: Any) -> dict[str, Any]:
    loss = nn.functional.cross_entropy(model(batch[0]), batch[1])
    return {"loss": loss, "psnr": -loss}


def test_of_what_a_step_function_tells_an_unknown_name_is_told_after_the_first_step() -> None:
    made = engine(step_function=with_psnr, monitor=("train_psnrr", "max"))
    told: list[AnomalyFrame] = []
    made.on("anomaly", told.append)
    made.step()
    assert [frame.kind for frame in told] == ["monitor-unknown"]
    assert "Did you mean 'train_psnr' or" in told[0].message
    assert told[0].hint is not None
    assert "by the end of the epoch" in told[0].hint
    made.start()
    with pytest.raises(TrainingError, match="monitor is 'train_psnrr', which is not measured"):
        made.wait(60)
    assert len(told) == 1
    fine = engine(step_function=with_psnr, monitor=("train_psnr", "max"), epochs=1)
    assert fine.start().wait(60)
    assert not fine.history.anomalies


def test_of_a_validation_in_the_middle_of_an_epoch_an_unknown_name_is_told() -> None:
    made = engine(
        step_function=with_psnr, val_data=images(2), monitor=("val_psnrr", "max"), validate_every=(2, "steps")
    )
    made.start()
    with pytest.raises(TrainingError, match=r"monitor is 'val_psnrr', which is not measured: .* mean 'val_psnr'"):
        made.wait(60)
    assert made.progress.step == 2


def trained(**options: Any) -> TrainingEngine:
    made = engine(val_data=images(2), **options)
    assert made.start().wait(60)
    return made


def test_what_is_best_is_kept_and_ends_the_training(tmp_path: Path) -> None:
    by_accuracy = trained(
        epochs=40,
        monitor=("val_accuracy", "max"),
        early_stopping=3,
        checkpoint_dir=tmp_path,
        optimizer=("AdamW", {"lr": 0.02}),
    )
    accuracies = by_accuracy.history["val_accuracy"].tolist()
    best = accuracies.index(max(accuracies))
    assert len(accuracies) == best + 4 < 40
    kept = TrainingEngine.resume_from(tmp_path / "best.ckpt", network(), images(), images(2))
    assert kept.history["val_accuracy"].tolist() == accuracies[: best + 1]


def test_less_than_min_delta_is_no_improvement() -> None:
    assert len(trained(epochs=9, early_stopping=2, min_delta=100.0).history["val_loss"]) == 3


def test_a_plateau_is_one_of_what_is_monitored() -> None:
    def plateau(optimizer: Any) -> ReduceLROnPlateau:
        return ReduceLROnPlateau(optimizer, mode="max", patience=0, threshold=100.0, threshold_mode="abs", factor=0.5)

    rates = trained(epochs=3, scheduler=plateau, monitor=("val_accuracy", "max")).history["learning_rate"]
    assert rates[[0, 6, 12]].tolist() == [1e-3, 1e-3, 5e-4]


@pytest.mark.parametrize(
    ("scheduler", "monitor", "mode"),
    [
        ("ReduceLROnPlateau", ("val_accuracy", "max"), "max"),
        ((ReduceLROnPlateau, {"patience": 1}), ("val_accuracy", "max"), "max"),
        (("ReduceLROnPlateau", {"mode": "min"}), ("val_accuracy", "max"), "min"),
        ("ReduceLROnPlateau", None, "min"),
        # After a step, only its loss is known.
        (("ReduceLROnPlateau", "step"), ("val_accuracy", "max"), "min"),
    ],
)
def test_a_plateau_waits_for_more_where_more_is_better(scheduler: Any, monitor: Any, mode: str) -> None:
    made = engine(val_data=images(2), scheduler=scheduler, monitor=monitor)
    schedule = made._loop.recipe.schedule
    assert schedule is not None
    assert isinstance(schedule.scheduler, ReduceLROnPlateau)
    assert schedule.scheduler.mode == mode


def test_a_training_that_has_stopped_early_goes_on_if_somebody_wants_that(tmp_path: Path) -> None:
    still = trained(epochs=9, early_stopping=2, optimizer=("SGD", {"lr": 0.0}), checkpoint_dir=tmp_path)
    steps = still.progress.step
    again = TrainingEngine.resume_from(tmp_path, network(), images(), images(2))
    assert again.start().wait(60)
    assert again.progress.step == steps
    for resumed in (still, again):
        assert resumed.start().wait(60)
        assert resumed.progress.step > steps


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"monitor": "val_accuracy"},
            r"Say whether more of 'val_accuracy' is better: monitor=\('val_accuracy', \"max\"\)",
        ),
        ({"monitor": 3}, "monitor must be a name such as"),
        ({"monitor": ("val_loss", "less")}, "monitor must be a name such as"),
        ({"min_delta": -1}, "min_delta must be a number, at least 0, not -1"),
    ],
)
def test_what_nothing_can_be_judged_by(options: dict[str, Any], message: str) -> None:
    with pytest.raises(TrainingError, match=message):
        engine(**options)
