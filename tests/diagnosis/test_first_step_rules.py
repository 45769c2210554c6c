from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from pnne_nb.diagnosis.finding import Finding
from pnne_nb.diagnosis.first_step_rules import first_step_faults
from pnne_nb.runtime.engine import TrainingEngine

SCORES = torch.randn(16, 4, generator=torch.Generator().manual_seed(0))
CLASSES = torch.arange(16) % 4


def found(
    loss: Any = None,
    output: Tensor = SCORES,
    target: Tensor = CLASSES,
    value: float = 1.4,
    *,
    model: nn.Module | None = None,
    clip: tuple[float, float] | None = None,
    **options: Any,
) -> list[Finding]:
    model = nn.Linear(2, 2) if model is None else model
    optimizer = torch.optim.SGD([each for each in model.parameters() if each.requires_grad], **{"lr": 0.1, **options})
    return first_step_faults(
        model, nn.CrossEntropyLoss() if loss is None else loss, output, target, value, optimizer, clip
    )


def kinds(*arguments: Any, **options: Any) -> list[str]:
    return [frame.kind for frame in found(*arguments, **options)]


def test_a_usual_step_is_not_accused() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 4))
    assert not found(model=model, clip=(3.0, 1.0), weight_decay=0.01, momentum=0.9)
    assert not found(nn.MSELoss(), SCORES[:, 0], torch.randn(16))
    assert not found(nn.NLLLoss(), SCORES.log_softmax(1))
    assert not found(nn.CrossEntropyLoss(reduction="sum"), value=100.0)


def test_outputs_that_are_probabilities_are_told() -> None:
    [one] = found(output=SCORES.softmax(1))
    assert one.kind == "softmax-before-loss"
    assert one.reason.startswith(
        "The outputs are probabilities already: they went through a softmax and the loss applies"
    )
    [other] = found(nn.functional.cross_entropy, SCORES.softmax(0))
    assert "over dimension 0, which counts examples" in other.reason
    assert kinds(output=torch.randn(8, 3, 5, 5).softmax(1), target=torch.zeros(8, 5, 5).long()) == [
        "softmax-before-loss"
    ]


def test_a_first_loss_far_above_guessing_is_told() -> None:
    assert kinds(value=4 * math.log(4) + 0.9) == []
    [frame] = found(value=40.0)
    assert frame.reason == "The first loss is 40, and guessing among 4 classes costs 1.39."


def test_classes_under_a_distance_are_told() -> None:
    assert kinds(nn.MSELoss(), SCORES[:, 0], CLASSES) == ["classes-under-distance"]
    assert kinds(nn.MSELoss(), SCORES[:0, 0], CLASSES[:0]) == ["classes-under-distance"]
    assert not kinds(nn.MSELoss(), SCORES[:, 0], CLASSES.float())


def test_batch_norm_is_looked_at() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
    [few] = found(model=model, output=SCORES[:3], target=CLASSES[:3])
    assert (few.kind, few.layer) == ("tiny-batch-norm", "1")
    assert "over 3 examples" in few.reason
    model[1].eval()
    [still] = found(model=model)
    assert (still.kind, still.layer) == ("batch-norm-in-eval", "1")


def test_a_frozen_layer_behind_a_trained_one_is_told() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2), nn.Linear(2, 2), nn.Linear(2, 2))
    model[0].requires_grad_(False)
    assert not found(model=model), "fine-tuning freezes the beginning"
    model[2].requires_grad_(False)
    [frame] = found(model=model)
    assert (frame.kind, frame.layer) == ("frozen-layer", "2")


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        ({"weight_decay": 1.0}, "weight-decay-dominates"),
        ({"momentum": 0.999}, "momentum-dominates"),
        ({"clip": (10.0, 1e-3)}, "clipping-dominates"),
    ],
)
def test_options_that_dominate_are_told(options: dict[str, Any], kind: str) -> None:
    [frame] = found(**options)
    assert frame.kind == kind
    assert frame.hint


def test_weight_decay_within_the_gradient_is_large_sooner() -> None:
    assert kinds(weight_decay=0.2) == ["weight-decay-dominates"]
    model = nn.Linear(2, 2)
    apart = torch.optim.AdamW(model.parameters(), weight_decay=0.2)
    assert not first_step_faults(model, nn.CrossEntropyLoss(), SCORES, CLASSES, 1.4, apart, None)
    assert not first_step_faults(model, None, None, None, 0.0, None, None)


def test_targets_of_another_range_than_the_loss_takes_are_told() -> None:
    bits = (CLASSES > 1).float()
    assert not kinds(nn.BCEWithLogitsLoss(), SCORES[:, 0], bits)
    [frame] = found(nn.BCEWithLogitsLoss(), SCORES[:, 0], 2 * bits - 1)
    assert (frame.kind, frame.reason) == (
        "targets-out-of-range",
        "BCEWithLogitsLoss takes targets between 0 and 1, and these go from -1 to 1.",
    )


@pytest.mark.parametrize("last", [nn.Sigmoid(), nn.Identity()])
def test_a_sigmoid_in_front_of_a_loss_that_has_one_is_told(last: nn.Module) -> None:
    x = torch.randn(64, 4, generator=torch.Generator().manual_seed(1))
    y = (x[:, :1] > 0).float()
    model = nn.Sequential(nn.Linear(4, 1), last)
    trained = TrainingEngine(model, (x, y), loss="BCEWithLogitsLoss", epochs=1, batch_size=16, device="cpu", metrics=())
    assert trained.start().wait(60)
    wanted = ["sigmoid-before-loss"] if isinstance(last, nn.Sigmoid) else []
    assert [frame.kind for frame in trained.history.anomalies] == wanted


def test_layers_of_zeros_that_get_no_gradient_are_told() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    nn.init.zeros_(model[1].weight)  # type: ignore[arg-type]  # a part of a Sequential is typed as any module
    x = torch.randn(8, 4)
    model(x).sum().backward()
    assert "zero-weights" not in kinds(model=model), "the last of a residual branch begins so"
    nn.init.zeros_(model[0].weight)  # type: ignore[arg-type]  # likewise
    model.zero_grad()
    model(x * 0).sum().backward()
    assert [frame.layer for frame in found(model=model) if frame.kind == "zero-weights"] == ["0"]


def test_an_engine_tells_it_once() -> None:
    x = torch.randn(64, 4, generator=torch.Generator().manual_seed(1))
    model = nn.Sequential(nn.Linear(4, 3), nn.Softmax(1))
    trained = TrainingEngine(model, (x, torch.arange(64) % 3), epochs=3, batch_size=16, device="cpu", metrics=())
    assert trained.start().wait(60)
    assert [(frame.step, frame.kind) for frame in trained.history.anomalies] == [(1, "softmax-before-loss")]
