"""The best weights are put back when a training is over, and nothing else is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from pnne_nb.errors import TrainingError
from pnne_nb.graph.document import NodeGraph
from pnne_nb.runtime.checkpointing.files import read
from pnne_nb.runtime.engine import TrainingEngine
from tests.runtime.tasks import engine, images, network, picture_graph

WORSE: dict[str, Any] = {"monitor": ("train_loss", "max"), "restore_best_weights": True}
"""As long as the loss becomes less, the first epoch is the best."""


def weights(trained: TrainingEngine) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in trained.module.state_dict().items()}


def equal(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(value, other[name]) for name, value in one.items())


def finished(trained: TrainingEngine) -> dict[str, Tensor]:
    assert trained.start().wait(60)
    return weights(trained)


def told(trained: TrainingEngine) -> list[str]:
    return [f"{found.kind}: {found.message}" for found in trained.history.anomalies]


@pytest.mark.parametrize(
    "options", [{"epochs": 3}, {"epochs": 9, "early_stopping": 2}, {"epochs": 3, "checkpoint_every": None}]
)
def test_the_model_ends_with_the_weights_of_the_best_checkpoint(options: dict[str, Any], tmp_path: Path) -> None:
    trained = engine(**WORSE, **options, checkpoint_dir=tmp_path)
    live = dict(trained.module.named_parameters())
    found = finished(trained)
    assert len(trained.history["train_loss"]) == 3
    assert equal(found, read(tmp_path / "best.ckpt").state["loop"]["model"])
    assert equal(found, finished(engine(epochs=1)))
    assert all(parameter is live[name] for name, parameter in trained.module.named_parameters())
    best = trained.history["train_loss"][0]
    assert told(trained) == [
        f"best-restored: The model has the weights of epoch 1 back: train_loss was best then, {best:g}."
    ]
    again = TrainingEngine.resume_from(tmp_path, network(), images())
    assert equal(weights(again), found)
    assert equal(finished(again), found)
    assert len(told(again)) == 1, "they are put back once"


def test_the_best_in_the_middle_of_an_epoch_are_put_back() -> None:
    def trained(**options: Any) -> TrainingEngine:
        return engine(val_data=images(2), validate_every=(4, "steps"), optimizer=("SGD", {"lr": 0.3}), **options)

    reference = trained(epochs=1)
    reference.step(4)
    before = weights(reference)
    reference.stop()
    one = trained(epochs=2, monitor=("val_loss", "max"), min_delta=1e9, restore_best_weights=True)
    # The first one that is judged is better than nothing by any measure.
    assert equal(finished(one), before)


def test_without_an_option_or_after_a_stop_the_last_weights_stay() -> None:
    plain = engine(epochs=2)
    last = finished(plain)
    stopped = engine(epochs=3, **WORSE)
    stopped.on("epoch", lambda frame: stopped.stop(wait=False) if frame.epoch == 2 else None)
    assert equal(finished(stopped), last)
    assert stopped.state == "stopped"
    best = finished(stopped)
    assert not equal(best, last)
    assert equal(best, finished(engine(epochs=1)))


def test_a_killed_training_that_is_resumed_ends_with_the_same_weights(tmp_path: Path) -> None:
    undisturbed = engine(epochs=3, **WORSE)
    found = finished(undisturbed)
    killed = engine(epochs=3, **WORSE)
    killed.step(9)
    killed.save_checkpoint(tmp_path / "mine.ckpt")
    killed.stop()
    resumed = TrainingEngine.resume_from(tmp_path / "mine.ckpt", network(), images())
    assert equal(finished(resumed), found)
    assert resumed.history["loss"].tolist() == undisturbed.history["loss"].tolist()
    assert told(resumed) == told(undisturbed)


def test_more_epochs_go_on_from_the_best_weights_in_this_process_as_from_a_file(tmp_path: Path) -> None:
    trained = engine(epochs=2, **WORSE, checkpoint_dir=tmp_path / "run")
    finished(trained)
    resumed = TrainingEngine.resume_from(tmp_path / "run", network(), images(), epochs=4)
    finished(trained)
    finished(resumed)
    assert trained.history["loss"].tolist() == resumed.history["loss"].tolist()
    assert len(trained.history["loss"]) == 24
    assert equal(weights(trained), weights(resumed))


def test_an_option_that_comes_too_late_is_told(tmp_path: Path) -> None:
    finished(engine(epochs=1, monitor=("train_loss", "max"), checkpoint_dir=tmp_path))
    late = TrainingEngine.resume_from(tmp_path, network(), images(), epochs=2, **WORSE)
    assert equal(finished(late), finished(engine(epochs=2)))
    assert told(late)[-1].startswith("best-not-kept: The model has the weights of the last epoch: those of epoch 1")


def deepen(graph: NodeGraph) -> None:
    graph.disconnect("flat.output", "fc.input")
    graph.add("Linear", name="hidden", in_features="auto", out_features=64)
    graph.connect("flat", "hidden")
    graph.connect("hidden", "fc")


@pytest.mark.parametrize(
    ("edit", "epoch"), [(lambda graph: graph.rename("fc", "head"), 1), (deepen, 2)], ids=["renamed", "deepened"]
)
def test_after_an_edit_the_best_is_one_of_the_model_that_there_is(edit: Callable[[NodeGraph], Any], epoch: int) -> None:
    graph = picture_graph()
    trained = engine(graph, epochs=3, **WORSE)
    trained.step(6)
    first = weights(trained)
    # The epoch ends, and is judged, before the next step.
    trained.step()
    edit(graph)
    found = finished(trained)
    assert told(trained)[-1].startswith(f"best-restored: The model has the weights of epoch {epoch} back")
    if epoch == 1:
        assert equal(found, {name.replace("fc.", "head."): value for name, value in first.items()})
    assert found.keys() >= {"hidden.weight"} if epoch == 2 else "head.weight" in found


def test_as_many_checkpoints_are_kept_as_asked(tmp_path: Path) -> None:
    for keep, left in ((1, 1), (4, 4), (None, 6)):
        finished(engine(epochs=6, checkpoint_dir=tmp_path / str(keep), max_to_keep=keep))
        assert len(list((tmp_path / str(keep)).glob("0*.ckpt"))) == left


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"restore_best_weights": "yes"}, "restore_best_weights must be True or False, not 'yes'"),
        ({"max_to_keep": 0}, "max_to_keep must be"),
    ],
)
def test_what_cannot_be_asked_for(options: dict[str, Any], message: str) -> None:
    with pytest.raises(TrainingError, match=message):
        engine(**options)
