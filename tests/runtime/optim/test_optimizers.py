"""An optimizer has what there was of the model when it was made."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from pnne_nb.errors import TrainingError
from pnne_nb.runtime.engine import TrainingEngine
from pnne_nb.runtime.optim.optimizers import update
from tests.runtime.tasks import engine, network


def told(trained: TrainingEngine) -> list[str]:
    assert trained.start().wait(60)
    return [found.message for found in trained.history.anomalies if found.kind == "not-trained"]


def test_a_layer_that_is_unfrozen_later_is_not_trained_and_that_is_said_once() -> None:
    model = network()
    first = model[0].requires_grad_(False)
    assert isinstance(first, nn.Conv2d)
    trained = engine(model=model)
    assert told(trained) == []
    with trained.paused():
        first.requires_grad_(True)
    before = first.weight.detach().clone()
    (message,) = told(trained)
    assert message.startswith("0.weight, 0.bias of the model are not trained: since the optimizer was made")
    assert torch.equal(first.weight, before)
    # As it is hinted.
    with trained.paused():
        trained.optimizer.add_param_group({"params": list(first.parameters())})
    assert told(trained) == [message]
    assert not torch.equal(first.weight, before)


def test_a_layer_that_is_exchanged_after_the_engine_was_made_is_not_trained() -> None:
    model = network()
    trained = engine(model=model)
    model[5] = nn.Linear(64, 4, bias=False)
    (message,) = told(trained)
    assert message.startswith("5.weight of the model is not trained")


def test_a_pattern_for_a_frozen_or_a_shared_parameter_says_why_it_fits_none() -> None:
    model = network()
    model[0].requires_grad_(False)
    model.append(model[5])
    with pytest.raises(
        TrainingError, match=r"like '0\.\*'\. 0.weight is frozen: graph.unfreeze or requires_grad_\(True\) before"
    ):
        engine(model=model, parameter_groups={"0.*": {"lr": 0.1}})
    with pytest.raises(TrainingError, match=r"6.weight is shared, and known as 5.weight: use that name"):
        engine(model=model, parameter_groups={"6.weight": {"lr": 0.1}})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"betas": (0.5,)}, r"AdamW refuses its arguments {'betas': \(0.5,\)}: tuple index out of range"),
        ({"betas": 0.5}, "AdamW refuses its arguments"),
        ({"foreach": True, "fused": True}, "AdamW refuses its arguments .*cannot be"),
    ],
)
def test_options_that_an_optimizer_stumbles_over_are_refused(options: dict[str, Any], message: str) -> None:
    trained = engine()
    before = dict(trained.optimizer.param_groups[0])
    with pytest.raises(TrainingError, match=message):
        trained.set_optimizer(**options)
    assert trained.optimizer.param_groups[0] == before
    with pytest.raises(TrainingError, match=message):
        engine(optimizer=("AdamW", options))


@pytest.mark.parametrize("name", ["SequentialLR", "ChainedScheduler"])
def test_a_scheduler_that_is_made_of_others_shows_how(name: str) -> None:
    with pytest.raises(TrainingError, match=rf"{name} is made of other schedulers.*lambda optimizer: {name}\("):
        engine(scheduler=name)


@pytest.mark.parametrize("ready", [False, True])
def test_whoever_chooses_what_is_trained_is_not_told_of_the_rest(ready: bool) -> None:
    model = network()
    head = torch.optim.SGD(model[5].parameters(), lr=0.1)
    choice: Any = head if ready else lambda parameters: head
    assert told(engine(model=model, optimizer=choice)) == []


def test_what_another_optimizer_moves_is_trained() -> None:
    model = network()
    model[0].requires_grad_(False)
    trained = engine(model=model, stateful={"other": torch.optim.SGD(model[0].parameters(), lr=0.1)})
    model[0].requires_grad_(True)
    assert told(trained) == []


def moved(by: Any, model: nn.Module, optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    """The parameters after three updates that `by` makes."""
    for number in range(3):
        optimizer.zero_grad()
        model(torch.full((2, 4), float(number + 1))).square().sum().backward()
        by(optimizer)
    return [parameter.detach().clone() for parameter in model.parameters()]


@pytest.mark.parametrize("name", ["SGD", "AdamW", "RMSprop"])
def test_an_update_without_torch_s_label_is_the_same(name: str) -> None:
    models = [nn.Linear(4, 2) for _ in range(2)]
    models[1].load_state_dict(models[0].state_dict())
    made = [getattr(torch.optim, name)(model.parameters(), lr=0.1) for model in models]
    whole, plain = moved(lambda one: one.step(), models[0], made[0]), moved(update, models[1], made[1])
    assert all(map(torch.equal, whole, plain))


def test_an_update_calls_the_hooks_of_an_optimizer_and_of_all_optimizers() -> None:
    model, called = nn.Linear(4, 2), list[str]()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    ends = [
        optimizer.register_step_pre_hook(lambda *_: called.append("before")),
        optimizer.register_step_post_hook(lambda *_: called.append("after")),
        register_optimizer_step_pre_hook(lambda *_: called.append("before any")),
        register_optimizer_step_post_hook(lambda *_: called.append("after any")),
    ]
    for end in ends:
        update(optimizer)
        end.remove()
    update(optimizer)
    assert " > ".join(called) == (
        "before any > before > after > after any > before any > after > after any > before any > after any > after any"
    )


def test_an_update_calls_a_step_that_somebody_has_put_in_place_of_torch_s(monkeypatch: pytest.MonkeyPatch) -> None:
    optimizer, called = torch.optim.SGD(nn.Linear(4, 2).parameters(), lr=0.1), list[str]()
    with monkeypatch.context() as patch:
        patch.setattr(torch.optim.SGD, "step", lambda *_: called.append("of the class"))
        update(optimizer)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)  # it notes whether the optimizer was called first
    update(optimizer)
    scheduler.step()
    monkeypatch.setattr(optimizer, "step", lambda: called.append("of the object"))
    update(optimizer)
    assert called == ["of the class", "of the object"]


def test_whoever_profiles_sees_the_label_of_an_update() -> None:
    optimizer = torch.optim.SGD(nn.Linear(4, 2).parameters(), lr=0.1)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        update(optimizer)
    assert "Optimizer.step#SGD.step" in {event.key for event in profile.key_averages()}
