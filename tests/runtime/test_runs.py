"""Trainings leave records in a folder, which are data only and are read back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import pnne_nb as pn
from pnne_nb.runtime import runs
from pnne_nb.runtime.session import training_registry


@pytest.fixture(autouse=True)
def _ended() -> Iterator[None]:
    yield
    pn.runs.keep(None)
    training_registry._watching.clear()


def data() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(40, 4), torch.arange(40) % 3


def graph(width: int = 8) -> pn.NodeGraph:
    return pn.sequential(("Linear", 4, width), "ReLU", ("Linear", width, 3), input=("N", 4), name="tiny")


def trained(model: nn.Module | pn.NodeGraph | None = None, epochs: int = 2, seed: int = 0) -> pn.TrainingEngine:
    engine = pn.TrainingEngine(graph() if model is None else model, data(), data(), epochs=epochs, seed=seed)
    engine.start().wait()
    return engine


def test_each_training_leaves_a_record_and_its_history(tmp_path: Path) -> None:
    pn.runs.keep(tmp_path / "runs")
    assert runs.folder() == tmp_path / "runs"
    engine = trained(seed=7)
    [run], damaged = runs.read_folder(tmp_path / "runs")
    assert damaged == []
    assert (run.state, run.model, run.settings["seed"], run.settings["epochs"]) == ("finished", "tiny", 7, 2)
    assert run.settings["optimizer"] == ["AdamW", {"lr": 1e-3}]
    assert run.parameters == 4 * 8 + 8 + 8 * 3 + 3
    assert run.graph is not None
    assert not pn.diff(pn.NodeGraph.from_json(run.graph), graph())
    assert run.result["val_loss"] == engine.history["val_loss"][-1]
    assert run.versions["torch"] == torch.__version__
    assert np.array_equal(run.history["loss"], engine.history["loss"])
    assert run.history["val_loss"].tolist() == engine.history["val_loss"].tolist()
    plain = json.loads((tmp_path / "runs" / f"{run.name}.run.json").read_text())
    assert (plain["name"], plain["folder"], plain["format"]) == (run.name, "", 1)


def test_a_training_that_goes_on_replaces_its_record_and_one_that_was_there_is_kept_too(tmp_path: Path) -> None:
    engine = pn.TrainingEngine(graph(), data(), epochs=1)
    pn.runs.keep(tmp_path)
    for steps in (1, 2):
        engine.start().wait()
        [run], _ = runs.read_folder(tmp_path)
        assert run.result["steps"] == steps
    assert len(list(tmp_path.iterdir())) == 2


def test_a_failed_training_of_a_module_says_why_and_functions_are_named(tmp_path: Path) -> None:
    pn.runs.keep(tmp_path)

    def broken(_output: torch.Tensor, _target: torch.Tensor) -> torch.Tensor:
        raise ValueError("no loss today")

    engine = pn.TrainingEngine(nn.Linear(4, 3), data(), loss=broken, epochs=1)
    engine.start()
    with pytest.raises(ValueError, match="no loss today"):
        engine.wait()
    [run], _ = runs.read_folder(tmp_path)
    assert (run.state, run.graph, run.model) == ("failed", None, "Linear")
    assert run.error is not None
    assert "no loss today" in run.error
    assert "broken" in run.settings["loss"]


def test_nothing_is_kept_before_and_after(tmp_path: Path) -> None:
    pn.runs.keep(tmp_path)
    pn.runs.keep(None)
    trained(epochs=1)
    assert list(tmp_path.iterdir()) == []


def test_a_record_that_cannot_be_written_does_not_end_the_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(runs, "replace_file", full)
    pn.runs.keep(tmp_path)
    assert trained(epochs=1).state == "finished"
    assert "The record of the training was not written" in caplog.text


def test_damaged_records_are_named(tmp_path: Path) -> None:
    pn.runs.keep(tmp_path)
    trained(epochs=1)
    [run], _ = runs.read_folder(tmp_path)
    (tmp_path / "half.run.json").write_text("{")
    (tmp_path / "later.run.json").write_text(json.dumps({"format": 2}))
    (tmp_path / "other.run.json").write_text("[]")
    found, damaged = runs.read_folder(tmp_path)
    assert [each.name for each in found] == [run.name]
    assert ["half" in damaged[0], "is of a later version" in damaged[1], "other" in damaged[2]] == [True] * 3
    (tmp_path / f"{run.name}.history").write_bytes(b"nothing")
    with pytest.raises(pn.TrainingError, match=r"The history of the run tiny-.* cannot be read"):
        run.history  # noqa: B018  # what is tested


def test_what_is_no_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        pn.ArgumentError, match=r'folder must be the path of a folder, not 3. Write pn.runs.keep\("runs"\)'
    ):
        pn.runs.keep(3)  # type: ignore[arg-type]  # what is tested
    (tmp_path / "file").touch()
    with pytest.raises(pn.ArgumentError, match="cannot be made"):
        pn.runs.keep(tmp_path / "file")
