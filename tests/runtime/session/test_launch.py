"""Packing a training for other processes, and then training it, is one new run."""

from __future__ import annotations

from pathlib import Path

from tests.runtime import tasks
from tests.runtime.distributed import groups


def test_a_resumed_training_that_was_complete_stays_so_once_it_was_packed(tmp_path: Path) -> None:
    whole = groups.engine(checkpoint_dir=tmp_path / "checkpoints")
    whole.start().wait()
    resumed = type(whole).resume_from(
        tmp_path / "checkpoints", tasks.picture_graph(), tasks.images(), tasks.images(2), batch_size=19
    )
    resumed.launch_command(nproc=2, directory=tmp_path / "run")
    resumed.start().wait()
    assert resumed.epochs == whole.epochs
    assert len(resumed.history["loss"]) == len(whole.history["loss"])


def test_a_training_that_is_complete_makes_its_epochs_once_more_however_often_it_is_packed(tmp_path: Path) -> None:
    engine = groups.engine()
    engine.start().wait()
    epochs = engine.epochs
    for name in ("one", "two"):
        engine.launch_command(nproc=2, directory=tmp_path / name)
    engine.start().wait()
    assert engine.epochs == 2 * epochs
