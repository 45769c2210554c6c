"""The loop without engine and thread: a plain generator."""

from __future__ import annotations

from collections.abc import Generator
from itertools import islice
from typing import Any
from unittest.mock import patch

import pytest
import torch

from pnne_nb.runtime.data.open_data import open_source
from pnne_nb.runtime.loop import validation
from pnne_nb.runtime.loop.loop import TrainingLoop
from pnne_nb.runtime.loop.loop_events import Eased, EpochEnded, Judged, Stepped, Validated
from pnne_nb.runtime.monitoring.probes import Observers
from pnne_nb.runtime.setup.config import Config
from pnne_nb.runtime.thread.rng import PrivateRandomness
from tests.runtime.tasks import images, network


def loop(**changes: Any) -> TrainingLoop:
    settings: dict[str, Any] = dict.fromkeys(Config.__struct_fields__)
    settings |= {"loss": "CrossEntropyLoss", "optimizer": ("SGD", {"lr": 0.1}), "metrics": (), "epochs": 2}
    settings |= {"batch_size": 32, "shuffle": True, "device": "cpu", "precision": "32", "accumulate": 1, "seed": 0}
    settings |= {"validate_every": 1, "checkpoint_every": 1, "deterministic": False, "min_delta": 0.0}
    config = Config(**{**settings, "num_workers": 0, **changes})
    train, val = (
        open_source(images(seed), batch_size=32, shuffle=True, seed=0, num_workers=0, name="data") for seed in (1, 2)
    )
    recipe = config.recipe(network(), train, val, ())
    return TrainingLoop(recipe, PrivateRandomness(0, recipe.device), Observers(lambda frames: None))


def test_there_is_one_event_for_each_batch_and_one_for_each_epoch() -> None:
    events = [type(event) for event in loop().events(2)]
    assert events == [*[Stepped] * 3, *[Validated] * 3, EpochEnded] * 2


def test_accumulated_batches_are_one_event() -> None:
    trained = loop(accumulate=2)
    events = list(trained.events(1))
    assert [event.frame.examples for event in events if isinstance(event, Stepped)] == [64, 32]
    assert trained.steps == 2


@pytest.mark.parametrize("leave_after", range(1, 14))
def test_left_and_entered_again_anywhere_it_makes_the_same_steps(leave_after: int) -> None:
    def losses(events: list[Any]) -> list[float]:
        return [event.frame.loss for event in events if isinstance(event, Stepped)]

    def metrics(events: list[Any]) -> list[dict[str, float]]:
        return [event.frame.metrics for event in events if isinstance(event, EpochEnded)]

    whole = list(loop().events(2))
    interrupted = loop()
    generator = interrupted.events(2)
    first = [next(generator) for _ in range(leave_after)]
    generator.close()
    rest = list(interrupted.events(2))
    assert losses(first + rest) == losses(whole)
    assert metrics(first + rest) == metrics(whole)


def test_a_cell_between_two_steps_changes_nothing() -> None:
    expected = [event.frame.loss for event in loop().events(1) if isinstance(event, Stepped)]
    disturbed = loop()
    found = []
    for event in disturbed.events(1):
        disturbed.recipe.model.eval()
        torch.manual_seed(0)
        torch.rand(10)
        if isinstance(event, Stepped):
            found.append(event.frame.loss)
    assert found == expected


def validated(trained: TrainingLoop, last_epoch: int) -> list[tuple[int, bool]]:
    """Steps at which there are results of a validation, and whether in the middle of an epoch."""
    return [
        (event.frame.step, isinstance(event, Judged))
        for event in trained.events(last_epoch)
        if isinstance(event, Judged | EpochEnded) and "val_loss" in event.frame.metrics
    ]


@pytest.mark.parametrize(
    ("every", "expected"),
    [
        (1, [(3, False), (6, False), (9, False)]),
        (2, [(6, False), (9, False)]),
        ((2, "epochs"), [(6, False), (9, False)]),
        ((2, "steps"), [(2, True), (4, True), (6, True), (8, True), (9, False)]),
        ((3, "steps"), [(3, True), (6, True), (9, True)]),
        (None, [(9, False)]),
    ],
)
def test_validation_comes_as_often_as_asked_and_at_the_end(every: Any, expected: list[tuple[int, bool]]) -> None:
    assert validated(loop(validate_every=every), 3) == expected


def test_how_often_it_is_validated_changes_nothing_for_the_training() -> None:
    def losses(every: Any) -> list[float]:
        return [event.frame.loss for event in loop(validate_every=every).events(3) if isinstance(event, Stepped)]

    assert losses((1, "steps")) == losses(1) == losses(None)


@pytest.mark.parametrize("leave_after", range(1, 16))
def test_left_in_a_validation_between_two_steps_it_makes_the_same_one_again(leave_after: int) -> None:
    whole = validated(loop(validate_every=(2, "steps")), 2)
    interrupted = loop(validate_every=(2, "steps"))
    generator = interrupted.events(2)
    first = [
        (event.frame.step, isinstance(event, Judged))
        for event in (next(generator) for _ in range(leave_after))
        if isinstance(event, Judged | EpochEnded) and "val_loss" in event.frame.metrics
    ]
    generator.close()
    assert first + validated(interrupted, 2) == whole


@pytest.mark.parametrize("asked_after", range(1, 15))
@pytest.mark.parametrize("given_up_after", [None, 1])
def test_an_extra_validation_anywhere_changes_nothing(asked_after: int, given_up_after: int | None) -> None:
    def told(events: list[Any]) -> list[Any]:
        return [
            (event.frame.loss if isinstance(event, Stepped) else event.frame.metrics)
            for event in events
            if not isinstance(event, Validated)
        ]

    whole, trained = list(loop().events(2)), loop()
    events = trained.events(2)
    first = [next(events) for _ in range(asked_after)]
    extra = trained.validate()
    frames = list(islice(extra, given_up_after))
    extra.close()
    assert len(frames) <= 3
    assert told(first + list(events)) == told(whole)


@pytest.mark.parametrize("validated", [1, 2, 3])
def test_asked_for_in_the_middle_of_a_validation_it_makes_the_rest(validated: int) -> None:
    trained, found = loop(), []
    events = trained.events(1)
    before = [next(events) for _ in range(3 + validated)]

    def ask() -> Generator[Validated | Eased, None, None]:
        frame = yield from trained.validate()
        found.append(frame.metrics)

    assert [event.batch for event in ask() if isinstance(event, Validated)] == [1, 2, 3][validated:]
    assert isinstance(before[-1], Validated)
    assert isinstance(end := next(events), EpochEnded)
    assert found[0].items() <= end.frame.metrics.items()


def test_one_that_was_carried_on_and_failed_begins_anew() -> None:
    metrics = [event.frame.metrics for event in loop().events(1) if isinstance(event, EpochEnded)]
    trained = loop()
    events = trained.events(1)
    for _ in range(4):
        next(events)
    with patch.object(validation, "forward", side_effect=KeyboardInterrupt), pytest.raises(KeyboardInterrupt):
        next(trained.validate())
    rest = list(events)
    assert [event.batch for event in rest if isinstance(event, Validated)] == [1, 2, 3]
    assert [event.frame.metrics for event in rest if isinstance(event, EpochEnded)] == metrics


def test_an_epoch_that_was_not_validated_is_no_reason_to_stop_early() -> None:
    trained = loop(early_stopping=1, validate_every=2, optimizer=("SGD", {"lr": 0.0}))
    list(trained.events(50))
    assert trained.epoch == 5


def test_validation_leaves_the_model_in_train_mode() -> None:
    trained = loop()
    modes = [trained.recipe.model.training for event in trained.events(1) if not isinstance(event, Validated)]
    assert modes == [True] * 4


def test_early_stopping_ends_the_generator() -> None:
    trained = loop(early_stopping=1, optimizer=("SGD", {"lr": 0.0}))
    list(trained.events(50))
    assert trained.epoch < 50
