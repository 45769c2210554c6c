"""One vocabulary of metrics for engines and Metric nodes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torchmetrics
from torch import Tensor, nn

import pnne_nb as pn
from pnne_nb.errors import TrainingError
from pnne_nb.runtime.objective.metric_choices import NAMES, NamedMetric

GENERATOR = torch.Generator().manual_seed(0)
SCORES, CLASSES = torch.randn(40, 3, generator=GENERATOR), torch.randint(0, 3, (40,), generator=GENERATOR)
LOGITS, YES = torch.randn(40, 1, generator=GENERATOR), torch.randint(0, 2, (40, 1), generator=GENERATOR).float()
GUESSES, AMOUNTS = torch.randn(40, 1, generator=GENERATOR), torch.randn(40, 1, generator=GENERATOR)


def said(name: str, output: Tensor, target: Tensor) -> float:
    metric = NamedMetric(name, name)
    for part in (slice(0, 15), slice(15, 40)):
        metric.update(output[part], target[part])
    value = metric.compute()
    assert value is not None
    return value


@pytest.mark.parametrize("name", ["precision", "recall", "f1", "auroc"])
def test_classification_is_what_torchmetrics_says(name: str) -> None:
    reference: Any = getattr(torchmetrics, next(long for long in NAMES if NAMES[long] == name and long != name))
    several = reference(task="multiclass", num_classes=3, average="macro")
    assert said(name, SCORES, CLASSES) == pytest.approx(float(several(SCORES, CLASSES)))
    assert said(name, LOGITS, YES) == pytest.approx(float(reference(task="binary")(LOGITS, YES.long())))


@pytest.mark.parametrize(
    ("short", "long"), [("mae", "MeanAbsoluteError"), ("mse", "MeanSquaredError"), ("r2", "R2Score")]
)
def test_regression_is_what_torchmetrics_says(short: str, long: str) -> None:
    reference = getattr(torchmetrics, long)()
    assert said(short, GUESSES, AMOUNTS) == pytest.approx(float(reference(GUESSES, AMOUNTS)))


def test_every_name_serves_the_engine_and_the_node() -> None:
    node = pn.catalog["Metric"].property_named("metric")
    assert node is not None
    assert set(NAMES) == set(getattr(node.type, "choices", ()))
    names = [name for name in NAMES if NAMES[name] not in {"mae", "mse", "r2"}]
    engine = pn.TrainingEngine(nn.Linear(3, 3), (SCORES, CLASSES), metrics=names, epochs=1, device="cpu")
    assert engine.start().wait(60)
    assert {f"train_{name}" for name in names} <= set(engine.history)
    assert engine.history["train_f1"] == engine.history["train_F1Score"]


def test_an_unknown_name_is_answered_with_a_near_one() -> None:
    with pytest.raises(TrainingError, match=r"There is no metric called 'F1'. Did you mean 'f1'\?"):
        pn.TrainingEngine(nn.Linear(3, 3), (SCORES, CLASSES), metrics=("F1",), device="cpu")
