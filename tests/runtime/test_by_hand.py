"""Optimizers and schedulers in the engine, interrupted and resumed, against the loop that everybody writes by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.optim import lr_scheduler
from torch.optim.lr_scheduler import LRScheduler, ReduceLROnPlateau

from pnne_nb.runtime.engine import TrainingEngine
from pnne_nb.runtime.optim.optimizers import OPTIMIZERS
from pnne_nb.runtime.optim.schedules import SCHEDULERS
from tests.runtime.tasks import images

EPOCHS, BATCH = 3, 32
PICTURES, CLASSES = images()
MakeScheduler = Callable[[torch.optim.Optimizer], LRScheduler]


@contextmanager
def one_thread() -> Iterator[None]:
    """The number of threads decides about the last bits of a sum."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def model() -> nn.Module:
    """Matrices only, which every optimizer takes."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(7)
        return nn.Sequential(nn.Flatten(), nn.Linear(36, 8, bias=False), nn.Tanh(), nn.Linear(8, 4, bias=False))


def by_hand(
    make: Callable[[Any], torch.optim.Optimizer], schedule: MakeScheduler | None = None, every: str = "epoch"
) -> tuple[list[float], list[float]]:
    """Losses and learning rates of all steps."""
    net = model()
    optimizer = make(net.parameters())
    scheduler: Any = None if schedule is None else schedule(optimizer)
    losses, rates = [], []

    def step(*loss: float) -> None:
        if scheduler is not None:
            scheduler.step(*loss if isinstance(scheduler, ReduceLROnPlateau) else ())

    for _ in range(EPOCHS):
        for inputs, targets in zip(torch.split(PICTURES, BATCH), torch.split(CLASSES, BATCH), strict=True):

            def closure(inputs: Tensor = inputs, targets: Tensor = targets) -> Tensor:
                optimizer.zero_grad()
                loss = nn.functional.cross_entropy(net(inputs), targets)
                loss.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
                return loss

            rates.append(float(optimizer.param_groups[0]["lr"]))
            if isinstance(optimizer, torch.optim.LBFGS):
                losses.append(optimizer.step(closure).item())  # type: ignore[no-untyped-call]  # torch leaves it untyped
            else:
                losses.append(closure().item())
                optimizer.step()
            if every == "step":
                step(losses[-1])
        if every == "epoch":
            step(sum(losses[-3:]) / 3)
    return losses, rates


def in_the_engine(path: Path, optimizer: Any, scheduler: Any = None) -> tuple[list[float], list[float]]:
    """The same of a training that is killed in the middle of the second epoch, and resumed in another engine."""
    options = {"optimizer": optimizer, "scheduler": scheduler}
    with one_thread():
        first = TrainingEngine(
            model(), images(), epochs=EPOCHS, batch_size=BATCH, shuffle=False, device="cpu", metrics=(), **options
        )
    first.step(4)
    first.save_checkpoint(path / "a.ckpt")
    first.stop()
    resumed = TrainingEngine.resume_from(path / "a.ckpt", model(), images(), **options)
    assert resumed.start().wait(60)
    return resumed.history["loss"].tolist(), resumed.history["learning_rate"].tolist()


OPTIONS: dict[str, list[dict[str, Any]]] = {
    "Adagrad": [{"lr_decay": 0.1, "initial_accumulator_value": 0.1}],
    "Adam": [{"amsgrad": True}, {"fused": True}, {"foreach": True}, {"lr": torch.tensor(0.01)}],
    "AdamW": [{"betas": (0.5, 0.9), "maximize": True}],
    "LBFGS": [{"line_search_fn": "strong_wolfe", "max_iter": 3}],
    "Muon": [{"momentum": 0.5, "nesterov": False}],
    "NAdam": [{"decoupled_weight_decay": True, "weight_decay": 0.1}],
    "RMSprop": [{"centered": True, "momentum": 0.9}],
    "SGD": [{"momentum": 0.9, "nesterov": True}, {"momentum": 0.9, "dampening": 0.1, "weight_decay": 0.1}],
}
"""Beside no options at all; whatever torch adds is tried without."""
CASES = [
    (name, options)
    for name in sorted(OPTIMIZERS)
    # Of sparse gradients only.
    if name != "SparseAdam"
    for options in [{"max_iter": 5} if name == "LBFGS" else {}, *OPTIONS.get(name, [])]
]


@pytest.mark.parametrize(("name", "options"), CASES, ids=str)
def test_an_optimizer_makes_the_steps_of_a_loop_by_hand(name: str, options: dict[str, Any], tmp_path: Path) -> None:
    def fresh() -> dict[str, Any]:
        return {key: value.clone() if isinstance(value, Tensor) else value for key, value in options.items()}

    with one_thread():
        expected = by_hand(lambda parameters: OPTIMIZERS[name](parameters, **fresh()))
    assert in_the_engine(tmp_path, (name, fresh())) == expected


def sequence(optimizer: torch.optim.Optimizer) -> LRScheduler:
    warm_up, then = lr_scheduler.LinearLR(optimizer, 0.1, total_iters=2), lr_scheduler.CosineAnnealingLR(optimizer, 3)
    return lr_scheduler.SequentialLR(optimizer, [warm_up, then], [2])


def chain(optimizer: torch.optim.Optimizer) -> LRScheduler:
    made = [lr_scheduler.ConstantLR(optimizer, 0.5, 2), lr_scheduler.ExponentialLR(optimizer, 0.9)]
    return lr_scheduler.ChainedScheduler(made, optimizer)


SETTINGS: dict[str, Any] = {
    "ChainedScheduler": chain,
    "CosineAnnealingLR": {"T_max": 4},
    "CosineAnnealingWarmRestarts": {"T_0": 2, "T_mult": 2},
    "CyclicLR": {"base_lr": 0.01, "max_lr": 0.1, "mode": "exp_range", "gamma": 0.9, "step_size_up": 2},
    "ExponentialLR": {"gamma": 0.7},
    "LambdaLR": {"lr_lambda": lambda count: 0.9**count},
    "MultiStepLR": {"milestones": [1, 3]},
    "MultiplicativeLR": {"lr_lambda": lambda _: 0.9},
    "OneCycleLR": {"max_lr": 0.1, "total_steps": 9},
    "ReduceLROnPlateau": {"patience": 0, "threshold": 0.5},
    "SequentialLR": sequence,
    "StepLR": {"step_size": 2},
}
"""What torch's schedulers cannot be made without, or a function that makes one."""


@pytest.mark.parametrize("every", ["epoch", "step"])
@pytest.mark.parametrize("name", sorted(SCHEDULERS))
def test_a_scheduler_moves_as_in_a_loop_by_hand(name: str, every: str, tmp_path: Path) -> None:
    given = SETTINGS.get(name, {})
    make: Any = given if callable(given) else lambda optimizer: SCHEDULERS[name](optimizer, **given)
    settings: dict[str, Any] = {"lr": 0.1, "momentum": 0.9}
    with one_thread():
        expected = by_hand(lambda parameters: torch.optim.SGD(parameters, **settings), make, every)
    scheduler = (given, every) if callable(given) else (name, given, every)
    assert in_the_engine(tmp_path, ("SGD", settings), scheduler) == expected
