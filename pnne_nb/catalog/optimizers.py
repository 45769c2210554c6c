"""Makes specs of ``torch.optim`` optimizers and learning rate schedulers."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType

import msgspec
from torch import optim
from torch.optim import lr_scheduler

from pnne_nb.catalog.introspection import docstrings, signatures
from pnne_nb.catalog.introspection.arguments import Argument, property_of
from pnne_nb.catalog.layers import URL
from pnne_nb.catalog.tables import overrides
from pnne_nb.graph.schema.property_types import EnumType
from pnne_nb.graph.schema.spec import NodeSpec, Port, Property

_PARAMETERS = Port(
    "parameters",
    kind="parameters",
    optional=True,
    variadic=True,
    doc="Groups of parameters with settings of their own; without any, all parameters of the model.",
)
_LOSS = Port(
    "loss",
    kind="loss",
    optional=True,
    variadic=True,
    doc="What the optimizer makes smaller: a scalar tensor, such as a loss layer gives, or the sum of several.",
)
_OPTIMIZER = Port("optimizer", kind="optimizer", doc="The optimizer whose learning rate is scheduled.")
_SCHEDULERS = Port("schedulers", kind="scheduler", variadic=True, doc="The schedulers that are combined, in order.")
_OWN_DOCS = {"lr_lambda": "Name of a function that register_node knows: from the epoch to the factor of the rate."}
_COMBINING = frozenset(("SequentialLR", "ChainedScheduler"))
_BASES = frozenset(("Optimizer", "LRScheduler", "_LRScheduler"))

PER_STEP = frozenset(("OneCycleLR", "CyclicLR"))
"""Schedulers that are made to move after every step; the others move after every epoch unless told otherwise."""

_INTERVAL = Property(
    "interval",
    EnumType(("epoch", "step")),
    default="epoch",
    role="node",
    doc="Whether it moves after every epoch or after every optimizer step; one that combines others moves them all.",
)


def specs() -> Iterator[NodeSpec]:
    """Yield the spec of every optimizer and every scheduler."""
    for optimizer in _classes(optim, optim.Optimizer):
        yield _spec(optimizer, "Optimizer", "torch.optim", (_LOSS, _PARAMETERS), Port("optimizer", kind="optimizer"))
    for scheduler in _classes(lr_scheduler, lr_scheduler.LRScheduler):
        inputs = (_OPTIMIZER, _SCHEDULERS) if scheduler.__name__ in _COMBINING else (_OPTIMIZER,)
        output = Port("scheduler", kind="scheduler")
        spec = _spec(scheduler, "Scheduler", "torch.optim.lr_scheduler", inputs, output)
        interval = msgspec.structs.replace(_INTERVAL, default="step" if spec.type in PER_STEP else "epoch")
        yield msgspec.structs.replace(spec, properties=(*spec.properties, interval))


def _classes(module: ModuleType, base: type[object]) -> Iterator[type[object]]:
    """Yield every public optimizer or learning rate scheduler of a module."""
    for name, value in vars(module).items():
        if isinstance(value, type) and issubclass(value, base) and name not in _BASES:
            yield value


def _spec(cls: type[object], category: str, home: str, inputs: tuple[Port, ...], output: Port) -> NodeSpec:
    name = cls.__name__
    arguments = [_declared(name, a) for a in signatures.arguments(cls.__init__, method=True)]
    arguments = [argument for argument in arguments if _is_shown(argument)]
    about = {**docstrings.arguments(cls.__doc__, {argument.name for argument in arguments}), **_OWN_DOCS}
    target = f"{home}.{name}"
    return NodeSpec(
        type=name,
        category=category,
        kind="training",
        target=target,
        inputs=inputs,
        outputs=(output,),
        properties=tuple(property_of(name, a, "init", about.get(a.name, "")) for a in arguments),
        doc=docstrings.summary(cls.__doc__),
        url=URL.format(target),
        torch=cls,
    )


def _declared(name: str, argument: Argument) -> Argument:
    kind = overrides.lookup(overrides.TYPES, name, argument.name)
    return argument if kind is None else msgspec.structs.replace(argument, type=kind)


def _is_shown(argument: Argument) -> bool:
    # last_epoch is for resuming, which the engine does; a scale_fn cannot be typed in.
    hidden = argument.name in overrides.SKIPPED or argument.name in ("last_epoch", "schedulers")
    return argument.type is not None and not hidden
