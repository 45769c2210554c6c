"""Rules that compare a training with what needs no training: each is quiet below its threshold and right above it."""

from __future__ import annotations

from typing import Any

import pytest
from torch import nn

from pnne_nb.diagnosis.evidence import Evidence
from pnne_nb.diagnosis.level_rules import AtChance, EqualUnits, NoGradient, RateDecayed, SmallWeights, TargetsNotScaled
from pnne_nb.telemetry.frames import BaselineFrame, EpochFrame, LookFrame, Quantity, StatisticsFrame, StepFrame

CLASSES = BaselineFrame(2.3, "the frequencies of the classes", share=0.1)
RAW = BaselineFrame(6438.0, "the mean of the targets", mean=152.0, deviation=80.0)


def evidence(losses: list[float], baseline: BaselineFrame | None = None, rate: float = 0.1) -> Evidence:
    made = Evidence.of(nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 2)))
    for step, loss in enumerate(losses, 1):
        made.add(StepFrame(step, 1, loss, rate, 8, 0.0))
    made.baseline = baseline
    return made


def look(quantity: Quantity, **values: dict[str, float]) -> Evidence:
    made = evidence([1.0])
    seen = (StatisticsFrame(10, name.removeprefix("layer"), quantity, found) for name, found in values.items())
    made.add(LookFrame(10, tuple(seen)))
    return made


def validated(made: Evidence, losses: list[float]) -> Evidence:
    for epoch, loss in enumerate(losses, 1):
        made.add(EpochFrame(epoch, 40 * epoch, {"val_loss": loss}))
    return made


FALLING = [2.3 - 0.2 * step / 200 for step in range(200)]


def test_what_learns_its_examples_and_nothing_else_is_at_chance() -> None:
    [found] = AtChance().find(validated(evidence(FALLING, CLASSES), [2.31, 2.32, 2.33]))
    assert found.kind == "at-chance"
    assert found.reason == (
        "After 200 steps the validation loss is 2.31 at best, and always answering the frequencies of the classes costs 2.3."
    )
    assert not AtChance().find(validated(evidence(FALLING, CLASSES), [2.31, 2.2, 2.33])), "it was better once"
    assert not AtChance().find(validated(evidence(FALLING), [2.31, 2.32, 2.33])), "nothing to compare with"
    assert not AtChance().find(validated(evidence(FALLING[:100], CLASSES), [2.31, 2.32, 2.33])), "too early"


def test_what_does_not_learn_yet_has_time_to_begin() -> None:
    assert not AtChance().find(evidence([2.3] * 499, CLASSES))
    [found] = AtChance().find(evidence([2.3] * 500, CLASSES))
    assert "the training loss is 2.3, and" in found.reason
    slow = evidence([2.3] * 500, CLASSES)
    slow.add(LookFrame(100, (StatisticsFrame(100, "0", "updates", {"ratio": 1e-8}),)))
    assert not AtChance().find(slow), "tiny steps explain it"


def test_raw_targets_are_told_while_the_model_climbs_to_them() -> None:
    [found] = TargetsNotScaled().find(evidence([24_646.0] * 40, RAW))
    assert found.reason.startswith("The loss is 2.465e+04, where always answering the mean of the targets costs 6,438:")
    assert "Standardise the targets" in found.hint
    assert not TargetsNotScaled().find(evidence([24_646.0] * 39, RAW))
    assert not TargetsNotScaled().find(evidence([6000.0] * 40, RAW)), "it has arrived"
    early = evidence([24_646.0] * 3, RAW)
    early.not_finite = 4
    assert TargetsNotScaled().find(early), "a NaN has ended the training"


def test_a_schedule_that_ends_within_the_first_epoch_is_told() -> None:
    made = evidence([2.3] * 10)
    for step in range(11, 31):
        made.add(StepFrame(step, 1, 2.3, 1e-4, 8, 0.0))
    [found] = RateDecayed().find(made)
    assert found.reason.startswith("The learning rate has fallen from 0.1 to 0.0001 before the end of the first epoch")
    assert not RateDecayed().find(evidence([2.3] * 30))
    made.add(EpochFrame(1, 30, {}))
    assert not RateDecayed().find(made), "decay from epoch to epoch is usual"


def test_units_that_are_all_equal_are_told() -> None:
    [found] = EqualUnits().find(look("parameters", layer0={"equal": 1.0}, layer2={"equal": 1.0}))
    assert (found.layer, found.evidence) == ("0", (("layers of equal units", 2), ("layers", 2)))
    assert not EqualUnits().find(look("parameters", layer0={"equal": 0.0}, layer2={"equal": 1.0, "zeros": 1.0}))


def test_small_weights_are_told_where_there_are_several() -> None:
    [found] = SmallWeights().find(look("parameters", layer0={"scale": 1e-4}, layer2={"scale": 2e-4}))
    assert (found.kind, found.layer) == ("small-weights", "0")
    assert not SmallWeights().find(look("parameters", layer0={"scale": 0.5}, layer2={"scale": 1e-4})), (
        "a small head learns"
    )
    assert not SmallWeights().find(look("parameters", layer0={"scale": 0.0}, layer2={"scale": 0.0})), "another kind"


@pytest.mark.parametrize(("values", "layers"), [({"layer0": {"missing": 1.0}}, ["0"]), ({}, [])])
def test_layers_that_no_gradient_reaches_are_told(values: dict[str, Any], layers: list[str]) -> None:
    assert [found.layer for found in NoGradient().find(look("parameter_gradients", **values))] == layers
