from __future__ import annotations

import pytest

from pnne_nb.runtime.progress import Progress


def test_speed_and_time_left() -> None:
    progress = Progress(batches=100, accumulate=1)
    assert progress.due(0.0, 0)
    assert not progress.due(0.05, 5)
    assert progress.due(0.1, 10)
    frame = progress.frame(epoch=1, epochs=2, batch=10, steps=10)
    assert frame.steps_per_second == pytest.approx(100)
    assert frame.seconds_left == pytest.approx(1.9)


def test_batches_that_make_one_step_count_together() -> None:
    progress = Progress(batches=100, accumulate=4)
    progress.due(0.0, 0)
    progress.due(1.0, 10)
    left = progress.frame(1, 1, 40, 10).seconds_left
    assert left == pytest.approx(60 / 4 / 10)


def test_a_halt_does_not_slow_training_down() -> None:
    progress = Progress(batches=100, accumulate=1)
    progress.due(0.0, 0)
    progress.due(1.0, 10)
    progress.rest()
    progress.due(1000.0, 10)
    progress.due(1001.0, 20)
    assert progress.frame(1, 1, 20, 20).steps_per_second == pytest.approx(10)


def test_before_the_first_step_nothing_is_known() -> None:
    frame = Progress(batches=None, accumulate=1).frame(1, 5, 0, 0)
    assert (frame.steps_per_second, frame.seconds_left, frame.batches) == (0.0, None, None)


def test_the_end_is_the_end_of_the_last_epoch() -> None:
    frame = Progress(batches=10, accumulate=1).frame(epoch=3, epochs=2, batch=0, steps=20)
    assert (frame.epoch, frame.batch) == (2, 10)
