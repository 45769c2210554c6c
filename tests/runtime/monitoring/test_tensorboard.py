"""Event files for TensorBoard, read again by TensorBoard."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from pnne_nb.errors import TrainingError
from pnne_nb.runtime.monitoring.history import History
from pnne_nb.runtime.monitoring.tensorboard import write_scalars
from pnne_nb.telemetry.frames import EpochFrame, StepFrame


def scalars(directory: Path) -> dict[str, list[tuple[int, float]]]:
    """Steps and values by tag, as TensorBoard shows those of a run."""
    run: Any = EventAccumulator(str(directory), size_guidance={"scalars": 0})
    run.Reload()
    return {tag: [(event.step, event.value) for event in run.Scalars(tag)] for tag in run.Tags()["scalars"]}


def test_a_run_holds_each_scalar(tmp_path: Path) -> None:
    path = write_scalars(tmp_path / "run", [("loss", 1, 0.5), ("loss", 300, -2.0), ("lr", 1, math.inf)])
    assert path.parent == tmp_path / "run"
    assert path.name.startswith("events.out.tfevents.")
    assert scalars(path.parent) == {"loss": [(1, 0.5), (300, -2.0)], "lr": [(1, math.inf)]}


def test_a_number_that_is_too_large_for_the_format_is_infinite(tmp_path: Path) -> None:
    write_scalars(tmp_path, [("loss", 1, 1e300), ("loss", 2, -1e300)])
    assert scalars(tmp_path) == {"loss": [(1, math.inf), (2, -math.inf)]}


def test_nothing_is_overwritten_and_the_latest_file_is_shown(tmp_path: Path) -> None:
    paths = [write_scalars(tmp_path, [("loss", step, last) for step in (1, 2)]) for last in (0.5, 0.25)]
    assert len(set(paths)) == 2
    assert sorted(tmp_path.iterdir()) == sorted(paths)
    assert scalars(tmp_path) == {"loss": [(1, 0.25), (2, 0.25)]}


def test_a_history_is_written_whole_without_what_was_not_measured(tmp_path: Path) -> None:
    history = History()
    history.record(StepFrame(1, 1, 0.5, 1e-3, 16, 0.1))
    history.record(EpochFrame(1, 1, {"train_loss": 0.5}))
    history.record(EpochFrame(1, 2, {"val_loss": 0.25}))
    history.to_tensorboard(tmp_path)
    assert scalars(tmp_path) == {
        "loss": [(1, 0.5)],
        "learning_rate": [(1, pytest.approx(1e-3))],
        "train_loss": [(1, 0.5)],
        "val_loss": [(2, 0.25)],
    }


def test_without_tensorboard_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(TrainingError, match=r"is not installed: pip install 'pnne_nb\[tensorboard\]'"):
        History().to_tensorboard(tmp_path / "run")
    assert not list(tmp_path.iterdir())
