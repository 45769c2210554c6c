from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import pnne_nb as pn
from pnne_nb.inference.held_out import CALIBRATION, Examples, HeldOutCriterion, read_examples


def drawn() -> pn.NodeGraph:
    return pn.sequential(nn.Linear(4, 3), input=("N", 4))


def data(count: int) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.arange(count * 4, dtype=torch.float32).reshape(count, 4), torch.arange(count) % 3


def firsts(examples: Examples) -> tuple[list[float], list[float]]:
    """The first number of each example that calibrates, and of each that judges."""
    parts = (examples.calibration, examples.held_out)
    calibration, held_out = ([float(row[0]) for batch in part for row in batch.inputs[0]] for part in parts)
    return calibration, held_out


@pytest.mark.parametrize("count", [8, 65, 400, 3000])
def test_each_example_calibrates_or_judges_and_none_does_both(count: int) -> None:
    found = read_examples(drawn(), data(count), None, None)
    calibration, held_out = firsts(found)
    assert not set(calibration) & set(held_out)
    assert len(calibration) <= CALIBRATION
    assert found.count == len(held_out)
    if count <= 400:
        assert len(calibration) + len(held_out) == count
    assert "others judge; val_data= gives others" in found.notes[0]


def test_other_data_judges_if_there_is_any() -> None:
    x, y = data(100)
    found = read_examples(drawn(), (x, y), (x[:10] + 1, y[:10]), None)
    calibration, held_out = firsts(found)
    assert (len(calibration), len(held_out)) == (100, 10)
    assert found.notes == ()


@pytest.mark.parametrize("kind", ["tuple", "numpy", "loader", "dataset", "mapping", "inputs"])
def test_data_comes_in_many_forms(kind: str) -> None:
    x, y = data(96)
    forms: dict[str, Any] = {
        "tuple": (x, y),
        "numpy": (x.numpy(), y.numpy()),
        "loader": DataLoader(TensorDataset(x, y), batch_size=16),
        "dataset": TensorDataset(x, y),
        "mapping": {"x": x, "target": y},
        "inputs": np.asarray(x),
    }
    found = read_examples(drawn(), forms[kind], None, None)
    assert found.held_out[0].inputs[0].shape[1:] == (4,)
    assert (found.held_out[0].target is None) == (kind == "inputs")


def test_what_a_metric_loses_is_told_in_percent() -> None:
    found = read_examples(drawn(), data(96), None, None)
    accuracy = HeldOutCriterion(("val_accuracy", 0.5), found)
    assert accuracy.lost(0.95, 0.94) == pytest.approx(1.0)
    assert accuracy.lost(0.94, 0.95) == pytest.approx(-1.0)
    loss = HeldOutCriterion(("val_loss", 0.5), found)
    assert loss.lost(2.0, 2.2) == pytest.approx(10.0)
    assert loss.lost(2.0, float("nan")) == float("inf")


def test_the_criterion_is_chosen_by_the_targets() -> None:
    x, y = data(96)
    assert HeldOutCriterion(None, read_examples(drawn(), (x, y), None, None)).name == "val_accuracy"
    assert HeldOutCriterion(None, read_examples(drawn(), (x, torch.randn(96, 3)), None, None)).name == "val_loss"
    assert HeldOutCriterion(None, read_examples(drawn(), x, None, None)).name == ""


def test_values_are_those_of_all_examples() -> None:
    x, y = data(100)
    found = read_examples(drawn(), (x, y), (x, y), None)
    model = found.subject.model
    with torch.no_grad():
        right = (model(x).argmax(1) == y).float().mean()
        loss = nn.functional.cross_entropy(model(x), y)
    assert HeldOutCriterion(("val_accuracy", 1), found).value(model, found.held_out) == pytest.approx(float(right))
    assert HeldOutCriterion(("val_loss", 1), found).value(model, found.held_out) == pytest.approx(float(loss), rel=1e-4)


def test_missing_inputs_and_other_things_are_told() -> None:
    x, y = data(96)
    with pytest.raises(pn.ExportError, match="The data has no 'x'; it has 'input', 'target'"):
        read_examples(drawn(), {"input": x, "target": y}, None, None)
    with pytest.raises(pn.ArgumentError, match=r"Give a NodeGraph, an nn\.Module or a TrainingEngine, not 3"):
        read_examples(3, (x, y), None, None)
