"""A sweep trains each combination with each seed, and nothing before every value was tried."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import pnne_nb as pn
from pnne_nb.process.progress_line import ProgressLine
from pnne_nb.runtime import runs
from pnne_nb.runtime import sweep as sweeping
from tests.runtime.test_runs import _ended, data, graph  # noqa: F401  # the fixture ends what each test begins

GRID: dict[str, Any] = {"optimizer.lr": [1e-3, 1e-1], "linear1.out_features": [8, 16]}


def wired(width: Any = 8) -> pn.NodeGraph:
    return pn.sequential(
        ("Linear", {"out_features": width}), "ReLU", ("Linear", {"out_features": 3}), input=("N", 4), name="tiny"
    )


def test_each_combination_is_trained_with_each_seed_and_leaves_the_graph_alone(tmp_path: Path) -> None:
    pn.runs.keep(tmp_path)
    document = wired()
    before = document.to_json()
    result = pn.sweep(document, GRID, data=data(), val_data=data(), seeds=2, epochs=1)
    assert document.to_json() == before
    assert [dict(row.settings) for row in result.rows] == [
        {"optimizer.lr": rate, "linear1.out_features": width} for rate in (1e-3, 1e-1) for width in (8, 16)
    ]
    kept, _ = runs.read_folder(tmp_path)
    assert len(kept) == 8
    assert sorted(run.result["val_loss"] or 0.0 for run in kept) == sorted(
        score for row in result.rows for score in row.scores.values()
    )
    assert {run.settings["optimizer"][1]["lr"] for run in kept} == {1e-3, 1e-1}
    assert {run.parameters for run in kept} == {67, 131}
    best = result.best
    assert best is not None
    assert best.mean == min(row.mean for row in result.rows) == (best.scores[0] + best.scores[1]) / 2
    assert best.spread == pytest.approx(abs(best.scores[0] - best.scores[1]) / math.sqrt(2))
    frame = result.to_frame()
    assert frame.columns.tolist() == ["optimizer.lr", "linear1.out_features", "mean", "spread", "seed 0", "seed 1"]
    assert repr(result).startswith("val_loss is best with optimizer.lr=")
    assert "<svg" in result._repr_html_()


def test_a_named_size_of_the_graph_is_tried() -> None:
    document = wired()
    document.sizes["hidden"] = 4
    document.set("linear1", out_features="2*hidden")
    x = data()
    result = pn.sweep(document, {"sizes.hidden": [2, 4]}, data=x, seeds=1, epochs=1)
    same = pn.sweep(wired(), {"linear1.out_features": [4, 8]}, data=x, seeds=1, epochs=1)
    assert [row.scores for row in result.rows] == [row.scores for row in same.rows]
    assert document.sizes["hidden"] == 4


def test_the_same_seed_gives_the_same_number() -> None:
    x = data()
    first, second = (pn.sweep(wired(), {"batch_size": [8, 40]}, data=x, seeds=[3], epochs=1) for _ in range(2))
    assert [row.scores for row in first.rows] == [row.scores for row in second.rows]
    assert first.metric == "train_loss"
    assert "One seed says little" in repr(first)


def test_a_module_keeps_its_weights_and_more_can_be_better() -> None:
    module = nn.Linear(4, 3)
    before = module.weight.detach().clone()
    result = pn.sweep(
        module,
        {"optimizer": ["SGD", "AdamW"], "optimizer.lr": [0.0, 0.1]},
        data=data(),
        val_data=data(),
        seeds=1,
        epochs=2,
        monitor=("val_accuracy", "max"),
    )
    assert torch.equal(module.weight, before)
    assert (result.metric, result.more) == ("val_accuracy", True)
    assert result.best is not None
    assert result.best.mean == max(row.mean for row in result.rows)


def test_every_training_has_a_folder_of_its_own_for_checkpoints(tmp_path: Path) -> None:
    pn.sweep(wired(), {"epochs": [1]}, data=data(), seeds=2, checkpoint_dir=tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0001-seed-0", "0002-seed-1"]


@pytest.mark.parametrize(
    ("grid", "error", "message"),
    [
        ({"optimiser.lr": [1]}, pn.ArgumentError, "'optimiser.lr', which is neither.*Did you mean 'optimizer'"),
        ({"linear9.out_features": [1]}, pn.ArgumentError, "neither a property of a node.*Did you mean"),
        ({"linear1.out_feature": [1]}, pn.GraphError, "out_feature"),
        ({"linear1.out_features": [8, -1]}, pn.GraphError, "out_features"),
        ({"optimizer.rate": [1]}, pn.TrainingError, "AdamW has no argument 'rate'"),
        ({"batch_size": [8, 0]}, pn.TrainingError, "batch_size must be a whole number"),
        (
            {"loss.label_smoothing": [0.1]},
            pn.ArgumentError,
            r'the loss must be given by name: loss=\("CrossEntropyLoss"',
        ),
        ({"epochs": 3}, pn.ArgumentError, r"grid\['epochs'\] must be a list of values, not 3. Write \[3\]"),
        ({"epochs": []}, pn.ArgumentError, "has no values"),
        ({3: [1]}, pn.ArgumentError, "A key of grid must be a name"),
        ({}, pn.ArgumentError, "grid is empty"),
    ],
)
def test_wrong_keys_and_values_are_told_before_the_first_training(
    grid: Any, error: type[Exception], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pn.TrainingEngine, "start", lambda _self: pytest.fail("A training began."))
    with pytest.raises(error, match=message):
        pn.sweep(wired(), grid, data=data())


def test_a_training_that_fails_is_told_in_its_row() -> None:
    def loss(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        if output.shape[0] == 8:
            raise ValueError("not eight")
        return nn.functional.cross_entropy(output, target)

    result = pn.sweep(wired(), {"batch_size": [8, 40]}, data=data(), seeds=1, epochs=1, loss=loss)
    assert "not eight" in result.rows[0].errors[0]
    assert result.best is result.rows[1]
    assert "not eight" in repr(result)
    assert "not eight" in result._repr_html_()
    with pytest.raises(pn.TrainingError, match=r"Every training of the sweep has failed: .*not eight"):
        pn.sweep(wired(), {"batch_size": [8]}, data=data(), seeds=1, epochs=1, loss=loss)


def test_values_that_do_not_fit_together_fail_in_their_row() -> None:
    grid: dict[str, Any] = {"linear1.out_features": [8, 16], "linear2.in_features": ["auto", 8]}
    result = pn.sweep(graph(), grid, data=data(), seeds=1, epochs=1)
    failed = [dict(row.settings) for row in result.rows if row.errors]
    assert failed == [{"linear1.out_features": 16, "linear2.in_features": 8}]


def test_an_interrupt_returns_what_was_done(monkeypatch: pytest.MonkeyPatch) -> None:
    engines: list[pn.TrainingEngine] = []
    start = pn.TrainingEngine.start

    def interrupted(engine: pn.TrainingEngine) -> Any:
        started = start(engine)
        engines.append(engine)
        if len(engines) == 2:
            raise KeyboardInterrupt
        return started

    monkeypatch.setattr(pn.TrainingEngine, "start", interrupted)
    result = pn.sweep(wired(), {"epochs": [1, 100_000]}, data=data(), seeds=1)
    assert result.interrupted
    assert len(result.rows) == 1
    assert repr(result).startswith("Interrupted: train_loss is best with epochs=1")
    assert engines[1].state == "stopped"


def test_progress_is_told_where_somebody_looks(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sweeping, "is_watched", lambda _stream: True)
    monkeypatch.setattr(ProgressLine, "is_due", lambda _line: True)
    monkeypatch.setattr(sweeping, "_LOOK", 0.0)
    pn.sweep(wired(), {"epochs": [20]}, data=data(), seeds=1)
    assert "training 1 of 1, epochs=20, seed 0: epoch" in capsys.readouterr().err


def test_a_sweep_of_an_imported_graph_says_whose_weights_it_began_with() -> None:
    net = nn.Linear(4, 3)
    document = pn.from_module(net, args=(data()[0],))
    again = pn.sweep(document, {"epochs": [1]}, data=data(), seeds=1)
    assert "Each began with the weights of the imported Linear; reuse=None begins afresh." in repr(again)
