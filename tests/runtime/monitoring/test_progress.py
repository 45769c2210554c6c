"""The speed, the time left, and the line that shows them."""

from __future__ import annotations

import io
from collections.abc import Callable

import msgspec
import pytest

from pnne_nb.runtime.monitoring.progress import Progress, ProgressBar, line
from pnne_nb.telemetry.frames import ProgressFrame

HALF = ProgressFrame(epoch=2, epochs=4, batch=0, batches=10, step=10, steps_per_second=2.5, seconds_left=68.4)


def test_a_line_says_how_far_it_is() -> None:
    assert line(HALF, lambda: 0.5) == "epoch 2/4 [######                  ] 25%, step 10, 2.5/s, loss 0.5, 1:08 left"
    unknown = ProgressFrame(epoch=1, epochs=4, batch=3, batches=None, step=0, steps_per_second=0.0, seconds_left=None)
    assert line(unknown, lambda: 1 / 0) == "epoch 1/4, step 0"


def test_where_nothing_moves_no_time_is_promised() -> None:
    stands = msgspec.structs.replace(HALF, steps_per_second=0.02, seconds_left=55_000.0)
    assert line(stands, lambda: 0.5).endswith("25%, step 10, loss 0.5")


def ending_after(looks: int) -> Callable[[float | None], bool]:
    asked: list[float | None] = []

    def wait(timeout: float | None) -> bool:
        asked.append(timeout)
        return len(asked) > looks

    return wait


def test_it_is_written_over_and_the_last_one_stays() -> None:
    stream, losses = io.StringIO(), iter([0.25, 0.5, 0.5])
    with ProgressBar(stream, lambda: HALF, lambda: next(losses)) as bar:
        assert bar.while_waiting(ending_after(2), None)
    # What stays the same is not written again.
    assert stream.getvalue().count("\r") == 2
    assert stream.getvalue().endswith("loss 0.5, 1:08 left \n")


def test_what_is_over_at_once_leaves_nothing() -> None:
    stream = io.StringIO()
    with ProgressBar(stream, lambda: HALF, lambda: 0.5) as bar:
        assert bar.while_waiting(ending_after(0), None)
    assert stream.getvalue() == ""


def test_it_waits_no_longer_than_it_may() -> None:
    with ProgressBar(io.StringIO(), lambda: HALF, lambda: 0.5) as bar:
        assert not bar.while_waiting(lambda _: False, 0.0)


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
