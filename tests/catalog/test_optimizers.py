"""Every optimizer and scheduler: made from its spec, stepped, and wired by kind."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
import torch
from torch import optim
from torch.optim import lr_scheduler

from pnne_nb.catalog import training_nodes
from pnne_nb.graph.schema.property_types import EnumType, FloatType, check
from pnne_nb.graph.schema.spec import kinds_fit
from tests.catalog.calling import resolve

SPECS = {spec.type: spec for spec in training_nodes.optimizer_specs()}
OPTIMIZERS = [name for name, spec in SPECS.items() if spec.category == "Optimizer"]
SCHEDULERS = [name for name, spec in SPECS.items() if spec.category == "Scheduler"]

SETTINGS: dict[str, dict[str, object]] = {
    "StepLR": {"step_size": 2},
    "MultiStepLR": {"milestones": (2, 4)},
    "ExponentialLR": {"gamma": 0.9},
    "CosineAnnealingLR": {"T_max": 5},
    "CosineAnnealingWarmRestarts": {"T_0": 5},
    "CyclicLR": {"base_lr": 0.01, "max_lr": 0.1, "cycle_momentum": False},
    "OneCycleLR": {"max_lr": 0.1, "total_steps": 10, "cycle_momentum": False},
    "SequentialLR": {"milestones": (2,)},
    "LambdaLR": {"lr_lambda": "decay"},
    "MultiplicativeLR": {"lr_lambda": "decay"},
}


def _made(name: str, *positional: Any, **live: Any) -> Any:
    given = SETTINGS.get(name, {})
    settings = {
        prop.name: check(prop.type, given[prop.name]) if prop.name in given else prop.default
        for prop in SPECS[name].properties
        if prop.role != "node"
    }
    return resolve(SPECS[name].target)(*positional, **{**settings, **live})


def test_all_of_torch_is_there() -> None:
    own = {name for name in dir(optim) if _is_subclass(getattr(optim, name), optim.Optimizer)}
    schedulers = {
        name for name in dir(lr_scheduler) if _is_subclass(getattr(lr_scheduler, name), lr_scheduler.LRScheduler)
    }

    assert set(OPTIMIZERS) == own - {"Optimizer"}
    assert set(SCHEDULERS) == schedulers - {"LRScheduler", "_LRScheduler"}
    assert (len(OPTIMIZERS), len(SCHEDULERS)) >= (15, 15)


def _is_subclass(value: object, base: type) -> bool:
    return isinstance(value, type) and issubclass(value, base)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizer_is_made_from_its_spec_and_steps(name: str) -> None:
    weight = torch.nn.Parameter(torch.ones(3, 3))
    optimizer = _made(name, [weight])
    weight.grad = torch.eye(3).to_sparse() if name == "SparseAdam" else torch.eye(3)

    optimizer.step(lambda: 0.0) if name == "LBFGS" else optimizer.step()

    assert type(optimizer) is SPECS[name].torch
    assert not torch.equal(weight.detach(), torch.ones(3, 3))


@pytest.mark.parametrize("name", SCHEDULERS)
def test_scheduler_is_made_from_its_spec_and_steps(name: str) -> None:
    optimizer = optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.1)
    parts = [lr_scheduler.ConstantLR(optimizer), lr_scheduler.StepLR(optimizer, 1)]
    live: dict[str, Any] = {"lr_lambda": lambda epoch: 0.5} if "lr_lambda" in SETTINGS.get(name, {}) else {}
    positional: list[Any] = [optimizer, parts] if name == "SequentialLR" else [optimizer]
    scheduler = _made(name, *([parts] if name == "ChainedScheduler" else positional), **live)

    optimizer.step()
    scheduler.step(1.0) if name == "ReduceLROnPlateau" else scheduler.step()

    assert type(scheduler) is SPECS[name].torch


@pytest.mark.parametrize("name", SPECS)
def test_properties_are_the_constructors_arguments(name: str) -> None:
    cls: Any = SPECS[name].torch
    parameters = dict(inspect.signature(cls.__init__).parameters)
    properties = {prop.name: prop for prop in SPECS[name].properties if prop.role != "node"}
    left_out = parameters.keys() - properties.keys()

    assert left_out <= {"self", "params", "optimizer", "schedulers", "last_epoch", "scale_fn"}
    for key, prop in properties.items():
        default = parameters[key].default
        assert prop.required if default is inspect.Parameter.empty else prop.default == default
        assert prop.doc


def test_schedulers_move_after_each_epoch_or_step_as_they_are_made_for() -> None:
    intervals = {name: SPECS[name].property_named("interval") for name in SCHEDULERS}
    per_step = {name for name, interval in intervals.items() if interval is not None and interval.default == "step"}
    assert per_step == {"OneCycleLR", "CyclicLR"}
    assert {interval is not None and interval.role for interval in intervals.values()} == {"node"}
    assert {SPECS[name].property_named("interval") for name in OPTIMIZERS} == {None}


def test_ports_have_kinds() -> None:
    adam, step = SPECS["AdamW"], SPECS["StepLR"]

    assert [(port.name, port.kind) for port in adam.inputs] == [("loss", "loss"), ("parameters", "parameters")]
    assert kinds_fit(adam.outputs[0].kind, step.inputs[0].kind)
    assert not kinds_fit("tensor", step.inputs[0].kind)
    assert [port.kind for port in step.outputs] == ["scheduler"]
    assert SPECS["SequentialLR"].inputs[1].variadic


def test_types_are_narrow() -> None:
    betas = SPECS["Adam"].property_named("betas")
    mode = SPECS["ReduceLROnPlateau"].property_named("mode")
    lr = SPECS["SGD"].property_named("lr")
    assert betas is not None
    assert mode is not None
    assert lr is not None

    assert check(betas.type, (0.5, 0.9)) == (0.5, 0.9)
    with pytest.raises(ValueError, match="a tuple of 2 values, each a number from 0 to 1"):
        check(betas.type, (0.5, 1.9))
    assert mode.type == EnumType(("min", "max"))
    assert lr.type == FloatType(0)
