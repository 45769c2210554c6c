"""The node types of training graphs for data and metrics.

Losses are layers (``CrossEntropyLoss``), optimizers and schedulers are those of torch; these are the rest::

    Dataset ─ dataset → DataLoader ┬ input ──→ the model's input
                                   └ target ─→ CrossEntropyLoss.target
                     the model's output ─────→ CrossEntropyLoss.input → AdamW.loss, AdamW.optimizer → StepLR
    Dataset ─ dataset → DataLoader ─ loader ─→ Validation
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from torch.utils.data import DataLoader

from pnne_nb.catalog.introspection import docstrings, signatures
from pnne_nb.catalog.introspection.arguments import property_of
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
    """Yield the specs of Dataset, DataLoader, Validation, ParameterGroup, Loss and Metric."""
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
        ),
        properties=tuple(
            property_of("DataLoader", arguments[name], "init", about.get(name, "")) for name in _LOADER_SETTINGS
        ),
        doc=docstrings.summary(DataLoader.__doc__),
        url="https://docs.pytorch.org/docs/stable/data.html",
        torch=DataLoader,
    )
