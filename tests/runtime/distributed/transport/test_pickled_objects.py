"""Objects that know a model know another copy of it, where they are tied to that."""

from __future__ import annotations

import copy
import threading
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.optim import LBFGS, SGD, Adam, Optimizer
from torch.optim.lr_scheduler import LambdaLR, LRScheduler, SequentialLR, StepLR

from pnne_nb.errors import TrainingError
from pnne_nb.runtime.distributed.transport.pickled_objects import Tied, packed_arguments, tie
from tests.runtime import tasks


class _Slowing(SGD):
    """Keeps what it needs beside its groups."""

    def __init__(self, parameters: Any, slowness: float) -> None:
        super().__init__(parameters, lr=0.1, momentum=0.5)
        self.slowness = slowness

    def step(self, closure: Any = None) -> Any:
        for group in self.param_groups:
            group["lr"] *= self.slowness
        return super().step(closure)


def _groups(model: nn.Sequential) -> list[dict[str, Any]]:
    return [{"params": model[0].parameters(), "lr": 0.3}, {"params": model[5].weight}]


_OPTIMIZERS: list[Callable[[nn.Sequential], Optimizer]] = [
    lambda model: SGD(_groups(model), lr=0.1, momentum=0.9),
    lambda model: Adam(model.named_parameters(), lr=0.01, amsgrad=True),
    lambda model: LBFGS(model.parameters(), max_iter=2),
    lambda model: _Slowing(model.parameters(), slowness=0.9),
]


def _halved(optimizer: Optimizer) -> LRScheduler:
    parts: list[LRScheduler] = [LambdaLR(optimizer, lambda epoch: 0.5**epoch), StepLR(optimizer, 1)]
    return SequentialLR(optimizer, parts, [1])


def _train(model: nn.Module, optimizer: Optimizer, scheduler: LRScheduler, steps: int) -> None:
    pictures, classes = tasks.images()

    def loss() -> float:
        optimizer.zero_grad()
        value = nn.functional.cross_entropy(model(pictures), classes)
        value.backward()  # type: ignore[no-untyped-call]  # torch's own
        return value.item()

    for _ in range(steps):
        optimizer.step(loss)
        scheduler.step()


@pytest.mark.parametrize("make", _OPTIMIZERS)
def test_an_optimizer_and_its_scheduler_do_to_a_copy_what_they_do_to_the_model(
    make: Callable[[nn.Sequential], Optimizer],
) -> None:
    model = tasks.network().eval()
    optimizer = make(model)
    scheduler = _halved(optimizer)
    _train(model, optimizer, scheduler, steps=2)
    other = copy.deepcopy(model)
    tied = Tied({"scheduler": scheduler, "optimizer": optimizer}, model)
    assert not tied.knows_layers
    with warnings.catch_warnings():
        found = tie(tied.packed, other)
        assert found["scheduler"].optimizer is found["optimizer"]
        # As when a group begins: what has gathered so far comes with the checkpoint.
        assert not found["optimizer"].state
        found["optimizer"].load_state_dict(copy.deepcopy(optimizer.state_dict()))
        _train(other, found["optimizer"], found["scheduler"], steps=2)
    _train(model, optimizer, scheduler, steps=2)
    for name, value in model.state_dict().items():
        assert torch.equal(value, other.state_dict()[name]), name


def test_what_a_function_mentions_of_the_model_is_the_other_s() -> None:
    model = tasks.network()
    others, mean, seen = torch.ones(1), model[1].running_mean, model[0].weight

    def parts() -> list[Any]:
        return [model, model[0], seen, mean, others]

    tied = Tied({"step_function": parts}, model)
    assert tied.knows_layers
    other = copy.deepcopy(model)
    found: list[Any] = tie(tied.packed, other)["step_function"]()
    expected = [other, other[0], other[0].weight, other[1].running_mean]
    assert all(one is another for one, another in zip(found, expected, strict=False))
    assert torch.equal(found[4], others)
    assert found[4] is not others


def test_optimizers_that_no_group_knows() -> None:
    model = tasks.network()
    own, second = (SGD(model.parameters(), lr=0.1) for _ in range(2))

    def step(net: nn.Module, batch: Any) -> Tensor:
        second.step()
        loss: Tensor = net(batch[0]).sum()
        return loss

    with pytest.raises(TrainingError, match="A SGD that is not the engine's optimizer is used by its arguments"):
        packed_arguments({"optimizer": own, "step_function": step}, model)


def test_the_argument_that_cannot_be_pickled_is_named() -> None:
    model, lock = tasks.network(), threading.Lock()
    objects: dict[str, Any] = {"optimizer": SGD(model.parameters(), lr=0.1), "loss": lambda _output, _target: lock}
    with pytest.raises(TrainingError, match=r"loss cannot be handed to the processes of a group: TypeError: .*lock"):
        packed_arguments(objects, model)
