"""The node types of training graphs."""

from __future__ import annotations

import torch
from torch.utils.data import DataLoader, TensorDataset

from pnne_nb.catalog import training_nodes
from pnne_nb.graph.schema.property_types import BoolType, IntType, OptionalType, check
from pnne_nb.graph.schema.spec import kinds_fit

SPECS = {spec.type: spec for spec in training_nodes.specs() if spec.category == "Training"}


def test_types() -> None:
    assert list(SPECS) == ["Dataset", "DataLoader", "Validation", "ParameterGroup", "Loss", "Metric"]
    assert all(spec.kind == "training" and spec.category == "Training" and spec.doc for spec in SPECS.values())
    assert all(prop.doc for spec in SPECS.values() for prop in spec.properties)


def test_a_dataset_goes_into_a_loader_and_nothing_else() -> None:
    (dataset,) = SPECS["Dataset"].outputs
    (into,) = SPECS["DataLoader"].inputs

    assert kinds_fit(dataset.kind, into.kind)
    assert not kinds_fit(dataset.kind, SPECS["Loss"].inputs[0].kind)


def test_a_loader_gives_tensors_that_a_model_takes() -> None:
    kinds = {port.name: port.kind for port in SPECS["DataLoader"].outputs}

    assert kinds == {"input": "tensor", "target": "tensor", "loader": "loader", "mask": "tensor"}


def test_loader_properties_are_torchs() -> None:
    properties = {prop.name: prop.type for prop in SPECS["DataLoader"].properties}
    values = {prop.name: prop.default for prop in SPECS["DataLoader"].properties}

    assert properties == {
        "batch_size": OptionalType(IntType(1)),
        "shuffle": OptionalType(BoolType()),
        "num_workers": IntType(0),
        "pin_memory": BoolType(),
        "drop_last": BoolType(),
        "mask": BoolType(),  # of this package: whether there is an output of that name
    }
    assert values.pop("mask") is False
    loader = DataLoader(TensorDataset(torch.ones(3)), **values)  # type: ignore[arg-type]  # read from its signature
    assert len(loader) == 3


def test_every_default_is_a_legal_value() -> None:
    for spec in SPECS.values():
        for prop in spec.properties:
            assert check(prop.type, prop.default) == prop.default


def test_losses_are_what_a_forward_pass_gives() -> None:
    assert kinds_fit("tensor", "loss")
    assert kinds_fit("value", "loss"), "a Subgraph's output"
    assert not kinds_fit("loss", "tensor")
    assert not kinds_fit("dataset", "loss")
