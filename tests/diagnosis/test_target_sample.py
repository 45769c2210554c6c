"""What the targets alone tell: the cost of the best constant answer, and batches that are sorted."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from pnne_nb.diagnosis.target_sample import BATCHES, TargetSample, baseline_of

DRAWS = torch.Generator().manual_seed(0)
CLASSES = torch.randint(0, 5, (640,), generator=DRAWS)
QUANTITIES = 150 + 77 * torch.randn(640, 1, generator=DRAWS)


def test_a_constant_answer_costs_what_it_costs_with_the_loss_itself() -> None:
    classes = baseline_of(nn.CrossEntropyLoss(), CLASSES)
    shares = CLASSES.bincount() / len(CLASSES)
    assert classes is not None
    assert classes.loss == pytest.approx(float(nn.functional.cross_entropy(shares.log().expand(640, 5), CLASSES)))
    assert classes.share == pytest.approx(float(shares.max()))
    quantities = baseline_of(nn.MSELoss(), QUANTITIES)
    assert quantities is not None
    assert quantities.loss == pytest.approx(
        float(nn.functional.mse_loss(QUANTITIES.mean().expand(640, 1), QUANTITIES)), rel=1e-4
    )
    assert quantities.mean == pytest.approx(150, abs=10)
    bits = baseline_of(nn.BCEWithLogitsLoss(), (CLASSES > 3).float())
    assert bits is not None
    assert bits.loss < math.log(2)


@pytest.mark.parametrize(
    ("loss", "target"),
    [
        (nn.CrossEntropyLoss(label_smoothing=0.1), CLASSES),
        (nn.CrossEntropyLoss(reduction="sum"), CLASSES),
        (nn.CrossEntropyLoss(), CLASSES * 0),
        (nn.MSELoss(), QUANTITIES * 0),
        (nn.KLDivLoss(), QUANTITIES),
        (None, "a text"),
    ],
)
def test_what_is_not_known_is_not_said(loss: nn.Module | None, target: object) -> None:
    assert baseline_of(loss, target) is None


def sampled(target: Tensor, loss: nn.Module, size: int = 32) -> list[str]:
    sample = TargetSample()
    for batch in target.unflatten(0, (-1, size))[:BATCHES]:  # type: ignore[no-untyped-call]  # torch leaves it untyped
        complete = sample.add(batch)
    assert complete
    found, baseline = sample.conclude(loss)
    assert (baseline is None) == bool(found), "batches that are sorted are not all of the data"
    assert not sample.wants
    return [finding.kind for finding in found]


def test_sorted_batches_are_told_and_shuffled_ones_are_not() -> None:
    assert sampled(CLASSES.sort().values, nn.CrossEntropyLoss()) == ["sorted-batches"]
    assert sampled(CLASSES, nn.CrossEntropyLoss()) == []
    assert sampled(QUANTITIES.sort(0).values, nn.MSELoss()) == ["sorted-batches"]
    assert sampled(QUANTITIES, nn.MSELoss()) == []


def test_targets_that_are_no_single_numbers_are_left_alone() -> None:
    sample = TargetSample()
    assert not sample.add(torch.zeros(8, 4, 4))
    assert not sample.wants
