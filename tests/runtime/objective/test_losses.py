from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import OneCycleLR, ReduceLROnPlateau, StepLR

from pnne_nb.errors import ArgumentError, TargetError, TrainingError
from pnne_nb.runtime.engine import TrainingEngine
from pnne_nb.runtime.objective.losses import LOSSES, make_loss, scores_for_loss
from pnne_nb.runtime.optim.optimizers import OPTIMIZERS, make_optimizer, needs_closure
from pnne_nb.runtime.optim.schedules import SCHEDULERS, make_schedule
from tests.runtime.tasks import engine, images, network

NET = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))


def test_the_names_are_torch_s_own() -> None:
    assert {"CrossEntropyLoss", "MSELoss", "BCEWithLogitsLoss"} <= set(LOSSES)
    assert {"AdamW", "SGD"} <= set(OPTIMIZERS)
    assert {"StepLR", "OneCycleLR", "ReduceLROnPlateau"} <= set(SCHEDULERS)
    assert not {"Optimizer", "LRScheduler"} & {*OPTIMIZERS, *SCHEDULERS}


def test_losses_by_name_by_arguments_by_class_and_ready_made() -> None:
    ready = nn.L1Loss()
    assert isinstance(make_loss("MSELoss"), nn.MSELoss)
    smoothed = make_loss(("CrossEntropyLoss", {"label_smoothing": 0.1}))
    assert isinstance(smoothed, nn.CrossEntropyLoss)
    assert smoothed.label_smoothing == 0.1
    assert isinstance(make_loss(nn.MSELoss), nn.MSELoss)
    summed = make_loss((nn.MSELoss, {"reduction": "sum"}))
    assert isinstance(summed, nn.MSELoss)
    assert summed.reduction == "sum"
    assert make_loss(ready) is ready
    assert make_loss(nn.functional.mse_loss) is nn.functional.mse_loss
    assert make_loss(None) is None


def test_weights_of_classes_are_numbers_that_a_checkpoint_can_hold() -> None:
    loss = make_loss(("CrossEntropyLoss", {"weight": [1, 2, 3], "label_smoothing": 0.1}))
    assert isinstance(loss, nn.CrossEntropyLoss)
    assert torch.equal(loss.get_buffer("weight"), torch.tensor([1.0, 2.0, 3.0]))


class Weighed(nn.Module):
    """A loss with something to learn, and something to remember."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(4))
        self.register_buffer("mean", torch.zeros(4))

    def forward(self, output: Tensor, target: Tensor) -> Tensor:
        mean = self.get_buffer("mean")
        loss = nn.functional.cross_entropy(output * self.scale - mean, target)
        mean.lerp_(output.detach().mean(0), 0.1)
        return loss


def test_a_loss_that_nobody_would_train_is_refused() -> None:
    with pytest.raises(
        TrainingError, match=r"The loss Weighed has parameters of its own \(scale\), which the optimizer"
    ):
        engine(loss=Weighed())


def test_what_a_loss_learns_and_remembers_is_in_the_checkpoint(tmp_path: Path) -> None:
    def given() -> dict[str, Any]:
        loss = Weighed()
        return {"loss": loss, "optimizer": lambda found: torch.optim.SGD([*found, *loss.parameters()], lr=0.1)}

    whole = engine(**given())
    whole.step(5)
    whole.save_checkpoint(tmp_path / "a.ckpt")
    whole.resume()
    assert whole.wait(60)
    resumed = TrainingEngine.resume_from(tmp_path / "a.ckpt", network(), images(), **given())
    assert resumed.start().wait(60)
    assert resumed.history["loss"].tolist() == whole.history["loss"].tolist()


def test_which_optimizers_compute_the_loss_themselves() -> None:
    assert needs_closure(make_optimizer("LBFGS", NET))
    assert not needs_closure(make_optimizer("AdamW", NET))


def test_optimizers_by_name_by_arguments_by_factory_and_ready_made() -> None:
    ready = torch.optim.SGD(NET.parameters())
    assert isinstance(make_optimizer("Adam", NET), torch.optim.Adam)
    assert make_optimizer(("SGD", {"lr": 0.5}), NET).param_groups[0]["lr"] == 0.5
    assert isinstance(make_optimizer(torch.optim.RMSprop, NET), torch.optim.RMSprop)
    assert make_optimizer((torch.optim.SGD, {"lr": 0.5}), NET).param_groups[0]["lr"] == 0.5
    assert make_optimizer(lambda parameters: torch.optim.SGD(parameters, lr=3), NET).param_groups[0]["lr"] == 3
    assert make_optimizer(ready, NET) is ready


def test_parameter_groups_by_pattern() -> None:
    optimizer = make_optimizer("AdamW", NET, {"*.bias": {"weight_decay": 0.0}})
    assert [(len(group["params"]), group["weight_decay"]) for group in optimizer.param_groups] == [(2, 0.01), (2, 0.0)]


def test_schedulers_and_when_they_move() -> None:
    optimizer = torch.optim.SGD(NET.parameters(), lr=0.1)
    by_epoch = make_schedule(("StepLR", {"step_size": 2}), optimizer, total_steps=10)
    by_step = make_schedule(("StepLR", {"step_size": 2}, "step"), optimizer, total_steps=10)
    one_cycle = make_schedule(("OneCycleLR", {"max_lr": 1.0}), optimizer, total_steps=10)
    plateau = make_schedule("ReduceLROnPlateau", optimizer, total_steps=10)
    assert by_epoch is not None
    assert by_epoch.every == "epoch"
    assert by_step is not None
    assert by_step.every == "step"
    assert one_cycle is not None
    assert one_cycle.every == "step"
    assert one_cycle.scheduler.state_dict()["total_steps"] == 10
    assert plateau is not None
    assert isinstance(plateau.scheduler, ReduceLROnPlateau)
    assert make_schedule(None, optimizer, total_steps=10) is None
    ready = StepLR(optimizer, 1)
    made = make_schedule(ready, optimizer, total_steps=10)
    assert made is not None
    assert made.scheduler is ready
    assert make_schedule(lambda o: StepLR(o, 1), optimizer, total_steps=None) is not None
    of_class = make_schedule((OneCycleLR, {"max_lr": 1.0}), optimizer, total_steps=10)
    assert of_class is not None
    assert of_class.every == "step"


@pytest.mark.parametrize(
    ("loss", "message"),
    [
        ("CrossEntropy", "There is no loss called 'CrossEntropy'. Did you mean 'CrossEntropyLoss'"),
        (
            ("MSELoss", {"reducton": "sum"}),
            "MSELoss has no argument 'reducton'; it has .*reduction.* Did you mean 'reduction'",
        ),
        (nn.Module, "loss cannot be|returned|has no argument"),
        (3, r"loss cannot be 3. Give a name such as \"CrossEntropyLoss\""),
    ],
)
def test_losses_that_cannot_be(loss: Any, message: str) -> None:
    if loss is nn.Module:
        assert isinstance(make_loss(loss), nn.Module)
        return
    with pytest.raises(TrainingError, match=message):
        make_loss(loss)


@pytest.mark.parametrize(
    ("optimizer", "message"),
    [
        ("AdamV", "There is no optimizer called 'AdamV'. Did you mean 'Adam"),
        (
            ("AdamW", {"learning_rate": 1.0}),
            "AdamW has no argument 'learning_rate'; it has lr, betas, eps, weight_decay",
        ),
        (("AdamW", {"lr": -1.0}), r"The optimizer AdamW refuses its arguments \{'lr': -1.0\}: Invalid learning rate"),
        (lambda parameters: None, "The optimizer's function returned a NoneType, not an optimizer"),
        (7, r"optimizer cannot be 7. Give a name such as \"AdamW\""),
        (("SGD", {"lr": float("nan")}), "lr must be a finite number, not nan"),
    ],
)
def test_optimizers_that_cannot_be(optimizer: Any, message: str) -> None:
    with pytest.raises(TrainingError, match=message):
        make_optimizer(optimizer, NET)


def test_nothing_to_train() -> None:
    with pytest.raises(TrainingError, match="The model has no trainable parameters: add a layer with weights"):
        make_optimizer("SGD", nn.ReLU())


def test_a_pattern_that_fits_nothing() -> None:
    with pytest.raises(TrainingError, match=r"No trainable parameter has a name like '0.wait'. Did you mean '0.weight"):
        make_optimizer("SGD", NET, {"0.wait": {"lr": 1.0}})


def test_a_pattern_that_comes_too_late() -> None:
    with pytest.raises(
        TrainingError, match=r"No parameter is left for '\*.bias': parameters with such a name match an earlier pattern"
    ):
        make_optimizer("SGD", NET, {"*": {"lr": 1.0}, "*.bias": {"lr": 2.0}})


def test_options_of_a_pattern_are_by_name() -> None:
    with pytest.raises(ArgumentError, match=r"parameter_groups\['\*.bias'\] must be options by name"):
        make_optimizer("SGD", NET, {"*.bias": 3})  # type: ignore[dict-item]  # wrong on purpose


@pytest.mark.parametrize(
    ("scheduler", "message"),
    [
        ("StepRL", "There is no scheduler called 'StepRL'. Did you mean 'StepLR'"),
        ("StepLR", r'The scheduler StepLR needs step_size. Write scheduler=\("StepLR", {"step_size": \.\.\.}\)'),
        (StepLR(torch.optim.SGD(NET.parameters()), 1), "StepLR moves the rates of another optimizer than the one"),
        (("StepLR", {"step_size": 1}, "batch"), "scheduler cannot be"),
        (lambda optimizer: optimizer, "The scheduler's function returned a SGD, not a scheduler"),
    ],
)
def test_schedulers_that_cannot_be(scheduler: Any, message: str) -> None:
    with pytest.raises(TrainingError, match=message):
        make_schedule(scheduler, torch.optim.SGD(NET.parameters(), lr=0.1), total_steps=10)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"weigth_decay": 0.0}, "AdamW has no argument 'weigth_decay'; .* Did you mean 'weight_decay'"),
        ({"lr": -1.0}, "The optimizer AdamW refuses its arguments .*Invalid learning rate"),
    ],
)
def test_options_of_groups_are_those_of_the_optimizer(options: dict[str, float], message: str) -> None:
    with pytest.raises(TrainingError, match=message):
        engine(optimizer="AdamW", parameter_groups={"*.bias": options})


def test_a_ready_optimizer_has_its_groups() -> None:
    model = network()
    with pytest.raises(TrainingError, match="has its groups already: give parameter_groups with a name"):
        engine(model=model, optimizer=torch.optim.SGD(model.parameters()), parameter_groups={"*.bias": {"lr": 1.0}})


def test_a_rate_that_cannot_be_is_refused_while_training() -> None:
    trained = engine()
    with pytest.raises(TrainingError, match=r"The optimizer AdamW refuses its arguments .*Invalid learning rate"):
        trained.set_optimizer(lr=-0.1)
    assert trained.optimizer.param_groups[0]["lr"] == 1e-3


def test_options_of_one_group_change_alone() -> None:
    trained = engine(optimizer=("SGD", {"lr": 0.1}), parameter_groups={"*.bias": {"lr": 0.2}})
    trained.set_optimizer(group=1, lr=0.4, weight_decay=0.5)
    assert [(group["lr"], group["weight_decay"]) for group in trained.optimizer.param_groups] == [(0.1, 0), (0.4, 0.5)]
    with pytest.raises(TrainingError, match="There is no parameter group 2; there are 2, numbered from 0"):
        trained.set_optimizer(group=2, lr=0.4)
    with pytest.raises(TrainingError, match="lr must be a finite number, not nan"):
        trained.set_optimizer(lr=float("nan"))


def _from_nothing(made: Any) -> Any:
    return torch.optim.lr_scheduler.LambdaLR(made, lambda step: step / 10)


@pytest.mark.parametrize(
    ("optimizer", "scheduler", "options", "message"),
    [
        (
            "SGD",
            ("OneCycleLR", {"max_lr": 0.1}),
            {"momentum": 0.5},
            r"OneCycleLR sets momentum itself after every step",
        ),
        (
            "AdamW",
            ("OneCycleLR", {"max_lr": 0.1}),
            {"betas": (0.5, 0.9)},
            r"betas .* with cycle_momentum=False for OneC",
        ),
        (
            "SGD",
            ("CyclicLR", {"base_lr": 0.01, "max_lr": 0.1}),
            {"momentum": 0.5},
            "0.5 would soon be gone: make a new",
        ),
        (
            "SGD",
            (_from_nothing, "step"),
            {"lr": 0.5},
            r"LambdaLR sets lr itself .*: the rate is 0 now, or the schedule does not multiply it",
        ),
    ],
)
def test_what_a_schedule_would_replace_is_refused(
    optimizer: str, scheduler: Any, options: dict[str, Any], message: str
) -> None:
    momentum = {"momentum": 0.9} if optimizer == "SGD" else {}
    trained = engine(scheduler=scheduler, optimizer=(optimizer, {"lr": 0.1, **momentum}))

    def settings() -> list[Any]:
        rates = trained.optimizer.param_groups[0]
        schedule = trained._loop.recipe.schedule
        assert schedule is not None
        return [{name: rates[name] for name in rates if name != "params"}, schedule.scheduler.state_dict()]

    before = repr(settings())
    with pytest.raises(TrainingError, match=message):
        trained.set_optimizer(**options)
    assert repr(settings()) == before
    trained.step(2)
    with pytest.raises(TrainingError) if "lr" not in options else contextlib.nullcontext():
        trained.set_optimizer(**options)
    trained.stop()


@pytest.mark.parametrize(
    ("scheduler", "options"),
    [
        (("OneCycleLR", {"max_lr": 0.1}), {"lr": 0.3, "weight_decay": 0.1}),
        (("OneCycleLR", {"max_lr": 0.1, "cycle_momentum": False}), {"momentum": 0.5}),
        (("CyclicLR", {"base_lr": 0.01, "max_lr": 0.1}), {"lr": 0.3}),
        (("ReduceLROnPlateau", {}), {"lr": 0.3}),
        (("PolynomialLR", {"total_iters": 3}, "step"), {"lr": 0.3}),
    ],
)
def test_what_a_schedule_goes_on_from_is_set(scheduler: Any, options: dict[str, Any]) -> None:
    trained = engine(scheduler=scheduler, optimizer=("SGD", {"lr": 0.1, "momentum": 0.9}), epochs=1)
    trained.step(2)
    trained.set_optimizer(**options)
    assert {name: trained.optimizer.param_groups[0][name] for name in options} == pytest.approx(options)
    trained.resume()
    assert trained.wait(60)
    # Some schedules have come to their end.
    again: dict[str, Any] = dict.fromkeys(options, 0.1)
    trained.set_optimizer(**again)


FALLING: dict[str, Any] = {
    "in proportion to the rate it began with": lambda made: torch.optim.lr_scheduler.LambdaLR(made, lambda n: 0.5**n),
    "from the rate before": ("ExponentialLR", {"gamma": 0.5}),
    "several": lambda made: torch.optim.lr_scheduler.SequentialLR(
        made,
        [torch.optim.lr_scheduler.LambdaLR(made, lambda n: 0.5**n), torch.optim.lr_scheduler.ExponentialLR(made, 0.5)],
        [9],
    ),
}


@pytest.mark.parametrize("kind", FALLING)
def test_a_schedule_goes_on_from_a_rate_that_is_set_live(kind: str) -> None:
    trained = engine(scheduler=FALLING[kind], optimizer=("SGD", {"lr": 1e-3}), epochs=3)
    trained.step()
    trained.set_optimizer(lr=1e-2)
    trained.resume()
    assert trained.wait(60)
    assert trained.history["learning_rate"][[0, 1, 6, 12]].tolist() == pytest.approx([1e-3, 1e-2, 5e-3, 2.5e-3])


SCORES, WORDS = torch.randn(6, 5, 7), torch.randint(0, 7, (6, 5))


@pytest.mark.parametrize("loss", [nn.CrossEntropyLoss(), nn.NLLLoss(), nn.functional.cross_entropy])
def test_scores_along_the_last_dimension_are_found_where_they_alone_fit(loss: Any) -> None:
    moved = scores_for_loss(loss, SCORES, WORDS)
    assert moved.shape == (6, 7, 5)
    assert torch.equal(loss(moved, WORDS), loss(SCORES.flatten(0, 1), WORDS.flatten()))
    # As torch has them, or of no matter.
    for output, target in (
        (SCORES.movedim(-1, 1), WORDS),
        (torch.randn(6, 5, 5), torch.randint(0, 5, (6, 5))),
        (SCORES, torch.rand(6, 5)),
        (SCORES[:, 0], WORDS[:, 0]),
        (SCORES, WORDS[:, :3]),
        ((SCORES,), WORDS),
    ):
        assert scores_for_loss(loss, output, target) is output
    assert scores_for_loss(nn.MSELoss(), SCORES, WORDS) is SCORES


class Language(nn.Module):
    """Scores of seven words at each place."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.head = nn.Embedding(7, 8), nn.Linear(8, 7)

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.head(self.embed(x))
        return scores


@pytest.mark.parametrize("loss", ["auto", "CrossEntropyLoss", nn.CrossEntropyLoss(ignore_index=0)])
def test_a_model_of_sequences_trains_on_the_scores_of_each_place(loss: Any) -> None:
    words = torch.randint(0, 7, (16, 5))
    trained = TrainingEngine(
        Language(), (words, words), (words, words), loss=loss, epochs=2, device="cpu", shuffle=False
    )
    assert "CrossEntropyLoss over the last dimension of the output, 7 classes" in repr(trained)
    ignored = getattr(loss, "ignore_index", -100)
    with torch.no_grad():
        scores = trained.module(words).flatten(0, 1)
        expected = nn.functional.cross_entropy(scores, words.flatten(), ignore_index=ignored).item()
    trained.start().wait(60)
    assert trained.history["loss"][0] == pytest.approx(expected, rel=1e-5)
    assert {"val_loss", "val_accuracy"} <= set(trained.history)
    assert trained.evaluate((words, words))["loss"] == pytest.approx(trained.history["val_loss"][-1], rel=1e-5)


@pytest.mark.parametrize(
    ("target", "told"),
    [
        (torch.randint(0, 7, (16, 5)) + 3, r"an output with 7 columns knows the classes 0 to 6: give the last layer"),
        (
            torch.randint(0, 7, (16, 4)),
            r"The targets must have the shape \(16, 5\) if the last dimension has the scores of",
        ),
        (
            torch.randint(0, 7, (16,)),
            r"There is one class for each example, and the model gives \(5, 7\) numbers for one",
        ),
    ],
)
def test_targets_of_sequences_that_do_not_fit_are_told_what_would(target: Tensor, told: str) -> None:
    words = torch.randint(0, 7, (16, 5))
    trained = TrainingEngine(Language(), (words, target), loss="CrossEntropyLoss", metrics=(), epochs=1, device="cpu")
    trained.start()
    with pytest.raises(TargetError, match=told):
        trained.wait(60)
