"""The node types of training graphs: data, metrics, optimizers and schedulers.

Losses are layers (``CrossEntropyLoss``), optimizers and schedulers are those of torch; these are the rest::

    Dataset ─ dataset → DataLoader ┬ input ──→ the model's input
                                   └ target ─→ CrossEntropyLoss.target
                     the model's output ─────→ CrossEntropyLoss.input → AdamW.loss, AdamW.optimizer → StepLR
    Dataset ─ dataset → DataLoader ─ loader ─→ Validation
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from types import ModuleType

import msgspec
from torch import optim
from torch.optim import lr_scheduler
from torch.utils.data import DataLoader

from pnne_nb.catalog.introspection import docstrings, signatures
from pnne_nb.catalog.introspection.arguments import Argument, property_of
from pnne_nb.catalog.layers import URL
from pnne_nb.catalog.tables import overrides
from pnne_nb.graph.schema.property_types import (
    BoolType,
    ConstantType,
    EnumType,
    FloatType,
    IntType,
    OptionalType,
    StringType,
)
from pnne_nb.graph.schema.spec import NodeSpec, Port, Property

_node = partial(NodeSpec, category="Training", kind="training")

SOURCES = (
    "digits", "iris", "wine", "breast_cancer", "diabetes", "variable", "images", "csv", "parquet", "registered",
)  # fmt: skip
"""Where a Dataset comes from: packaged with scikit-learn, a variable of the notebook, files, or registered."""

_SHORT = ("accuracy", "precision", "recall", "f1", "auroc", "mae", "mse", "r2", "perplexity")

METRICS: dict[str, str] = {
    **{name: name for name in _SHORT},
    "mean_absolute_error": "mae", "mean_squared_error": "mse",
    "Accuracy": "accuracy", "Precision": "precision", "Recall": "recall", "F1Score": "f1", "AUROC": "auroc",
    "MeanAbsoluteError": "mae", "MeanSquaredError": "mse", "R2Score": "r2", "Perplexity": "perplexity",
}  # fmt: skip
"""Metrics by every name that an engine and a Metric node know: a short one, and that of torchmetrics."""

_LOADER_SETTINGS = ("batch_size", "shuffle", "num_workers", "pin_memory", "drop_last")


def specs() -> Iterator[NodeSpec]:
    """Yield the specs of Dataset, DataLoader, Validation, ParameterGroup, Loss and Metric, of optimizers and schedulers."""
    yield from optimizer_specs()
    yield _node(
        type="Dataset",
        outputs=(Port("dataset", kind="dataset", doc="Samples and their targets."),),
        properties=(
            Property("source", EnumType(SOURCES), default="digits", doc="Where the samples come from."),
            Property(
                "data",
                StringType(),
                default="",
                doc="The variable of the notebook, the path of the files, or the name it was registered under.",
            ),
            Property(
                "target",
                OptionalType(StringType()),
                default=None,
                doc="The column or variable that holds the targets; None: the last column, or the dataset's own.",
            ),
            Property(
                "split", EnumType(("all", "train", "validation")), default="all", doc="Which part of the samples."
            ),
            Property("fraction", FloatType(0, 1), default=0.8, doc="Share of the samples in the train split, 0 to 1."),
            Property("seed", IntType(0), default=0, doc="Seed of the split."),
            Property(
                "standardize",
                BoolType(),
                default=False,
                doc="Whether arrays are brought to mean 0 and deviation 1, column by column, by the train split.",
            ),
        ),
        doc="Samples to train or validate on.",
    )
    yield _loader()
    yield _node(
        type="Validation",
        inputs=(Port("loader", kind="loader", doc="Loads what the model is measured on after each epoch."),),
        doc="Declares a DataLoader to be for validation: the same model, loss and metrics, without learning.",
    )
    yield _node(
        type="ParameterGroup",
        outputs=(Port("parameters", kind="parameters", doc="The parameters that match."),),
        properties=(
            Property("pattern", StringType(), default="*", doc="Name pattern of parameters, such as '*.bias'."),
            Property("lr", OptionalType(FloatType(0)), default=None, doc="Learning rate; None: the optimizer's."),
            Property("weight_decay", OptionalType(FloatType(0)), default=None, doc="None: the optimizer's."),
            Property("options", ConstantType(), default=None, doc="Further settings of the group, as a dict by name."),
        ),
        doc="Parameters by name pattern, with optimizer settings of their own.",
    )
    yield _node(
        type="Loss",
        inputs=(Port("input", doc="A scalar tensor: the output of a loss layer, or a sum of several."),),
        outputs=(Port("loss", kind="loss", doc="What the optimizer makes smaller."),),
        properties=(Property("weight", FloatType(), default=1.0, doc="Factor of this loss, if there are several."),),
        doc="Weighs a scalar tensor as part of what training makes smaller; a single loss needs no such node.",
    )
    yield _node(
        type="Metric",
        inputs=(Port("input", doc="What the model predicts."), Port("target", doc="What it should predict.")),
        outputs=(Port("metric", kind="metric"),),
        properties=(Property("metric", EnumType(tuple(METRICS)), default="accuracy", doc="What is computed."),),
        doc="A number shown while training, from predictions and targets.",
    )


def _loader() -> NodeSpec:
    about = docstrings.arguments(DataLoader.__doc__, _LOADER_SETTINGS)
    arguments = {argument.name: argument for argument in signatures.arguments(DataLoader.__init__, method=True)}
    return _node(
        type="DataLoader",
        target="torch.utils.data.DataLoader",
        inputs=(Port("dataset", kind="dataset"),),
        outputs=(
            Port("input", doc="The samples of a batch."),
            Port("target", doc="The targets of a batch."),
            Port("loader", kind="loader", doc="The loader itself."),
            Port("mask", doc="1 where the samples are data, 0 where they were filled up: `[N, T]`.", when="mask"),
        ),
        properties=(
            *(property_of("DataLoader", arguments[name], "init", about.get(name, "")) for name in _LOADER_SETTINGS),
            Property("mask", BoolType(), default=False, doc="Whether there is a mask of sequences that are filled up."),
        ),
        doc=docstrings.summary(DataLoader.__doc__),
        url="https://docs.pytorch.org/docs/stable/data.html",
        torch=DataLoader,
    )


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


def optimizer_specs() -> Iterator[NodeSpec]:
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
