"""A training graph that is edited while its training halts."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
import torch

import pnne_nb as pn
from pnne_nb.errors import TrainingError
from tests.runtime import tasks
from tests.runtime.training_graph.test_read import drawn


def graph_with_everything(*, grouped: bool) -> pn.NodeGraph:
    """With dropout, so that random numbers count, a metric, a scheduler and weight decay for some only."""
    graph = drawn(grouped=False)
    graph.disconnect("flat.output", "fc.input")
    graph.add("Dropout", "drop", p=0.3)
    graph.connect("flat", "drop")
    graph.connect("drop", "fc")
    graph.add("Metric", "right", metric="accuracy")
    graph.connect("fc", "right.input")
    graph.connect("loader.target", "right.target")
    graph.add("StepLR", "steps", step_size=1)
    graph.connect("optimizer", "steps")
    if grouped:
        graph.group(["conv", "relu", "flat", "drop", "fc"], "model")
    return graph


def halted(graph: pn.NodeGraph) -> pn.TrainingEngine:
    engine = pn.TrainingEngine.from_graph(graph, {"pictures": tasks.images()}, device="cpu", epochs=3)
    engine.step(4)
    return engine


def finished(engine: pn.TrainingEngine) -> tuple[dict[str, list[float]], dict[str, torch.Tensor]]:
    engine.resume()
    assert engine.wait(60)
    measured = {name: engine.history[name].tolist() for name in engine.history if name != "memory"}
    return measured, engine.module.state_dict()


def path(grouped: bool, name: str) -> str:
    return f"model.{name}" if grouped else name


@pytest.mark.parametrize("grouped", [True, False])
@pytest.mark.parametrize("looked", [True, False], ids=["followed in between", "undone at once"])
def test_undoing_an_edit_equals_never_having_edited(grouped: bool, looked: bool) -> None:
    expected, expected_state = finished(halted(graph_with_everything(grouped=grouped)))
    graph = graph_with_everything(grouped=grouped)
    engine = halted(graph)
    before = engine.module
    graph.set(path(grouped, "drop"), p=0.9)
    graph.set("optimizer", lr=0.5)
    if looked:
        engine._session.follow_edits()
        assert engine.optimizer.param_groups[0]["lr"] == 0.5
    graph.undo()
    graph.undo()
    measured, state = finished(engine)
    assert engine.module is before
    assert measured == expected
    assert all(torch.equal(state[name], tensor) for name, tensor in expected_state.items())
    # What was followed is told, there and back.
    assert engine.history.cuts.tolist() == [4, 4] * looked


@pytest.mark.parametrize("grouped", [True, False])
def test_a_new_layer_starts_fresh_and_the_others_train_on(grouped: bool) -> None:
    graph = graph_with_everything(grouped=grouped)
    engine = halted(graph)
    kernel = engine.module.get_parameter("conv.weight")
    drop, fc = path(grouped, "drop"), path(grouped, "fc")
    graph.disconnect(f"{drop}.output", f"{fc}.input")
    hidden = path(grouped, "hidden")
    graph.add("Linear", hidden, out_features=64)
    graph.connect(drop, hidden)
    graph.connect(hidden, fc)
    engine.step()
    assert engine.module.get_parameter("conv.weight") is kernel
    assert engine.optimizer.state[kernel]["step"].item() == 5
    assert engine.optimizer.state[engine.module.get_parameter("hidden.weight")]["step"].item() == 1
    assert engine.history.cuts.tolist() == [4]
    finished(engine)


def test_settings_of_optimizer_loss_and_metrics_are_followed() -> None:
    graph = graph_with_everything(grouped=True)
    engine = halted(graph)
    engine.set_optimizer(eps=1e-6)
    graph.set("optimizer", lr=0.5, weight_decay=0.25)
    graph.set("loss", label_smoothing=0.5)
    graph.add("Metric", "mean", metric="precision")
    graph.connect("model", "mean.input")
    graph.connect("loader.target", "mean.target")
    engine.step()
    (group,) = engine.optimizer.param_groups
    assert (group["lr"], group["weight_decay"], group["eps"]) == (0.5, 0.25, 1e-6)
    measured, _ = finished(engine)
    assert measured["loss"][4] > 0.8
    assert len(measured["train_precision"]) == 3
    assert engine.history.cuts.tolist() == []


def other_data(graph: pn.NodeGraph) -> None:
    graph.remove("steps")
    graph.set("data", data="others")


def other_optimizer(graph: pn.NodeGraph) -> None:
    graph.remove("optimizer")
    graph.add("SGD", "sgd")
    graph.connect("loss", "sgd")
    graph.connect("sgd", "steps")


EDITS: dict[str, tuple[Callable[[pn.NodeGraph], None], str]] = {
    "loader": (
        lambda graph: graph.set("loader", batch_size=4),
        "The data and the scheduler of a training under way cannot be edited, and loader was: undo that",
    ),
    "scheduler": (lambda graph: graph.set("steps", gamma=0.5), "and steps was: undo that, or make a new engine"),
    "data": (other_data, "and data, steps were: undo that"),
    "optimizer": (other_optimizer, "steps was: undo that"),
    "unfinished": (lambda graph: graph.remove("loss"), "has no loss"),
}


@pytest.mark.parametrize("edit", list(EDITS))
def test_what_cannot_be_followed_is_refused_and_the_training_stays(edit: str) -> None:
    change, message = EDITS[edit]
    expected, _ = finished(halted(graph_with_everything(grouped=True)))
    graph = graph_with_everything(grouped=True)
    engine = halted(graph)
    with graph.transaction("edit"):
        change(graph)
    with pytest.raises(TrainingError, match=message):
        engine.resume()
    assert engine.state == "paused"
    graph.undo()
    assert finished(engine)[0] == expected


def test_another_optimizer_is_refused() -> None:
    graph = drawn()
    engine = halted(graph)
    graph.remove("optimizer")
    graph.add("SGD", "sgd")
    graph.connect("loss", "sgd")
    with pytest.raises(TrainingError, match="The optimizer of a training under way cannot be another one"):
        engine.resume()
    engine.stop()


def test_checkpoints_hold_the_edited_drawing() -> None:
    graph = graph_with_everything(grouped=True)
    engine = halted(graph)
    graph.set("optimizer", lr=0.5)
    engine.step()
    state = engine._session.state_dict()
    assert json.loads(state["drawing"]) == json.loads(graph.to_json())
    engine.stop()


@pytest.mark.parametrize(
    ("kind", "settings"), [("CosineAnnealingWarmRestarts", {"T_0": 2}), ("StepLR", {"step_size": 1})]
)
def test_a_schedule_goes_on_from_the_rate_that_is_drawn(kind: str, settings: dict[str, int]) -> None:
    def rates(change: dict[str, float]) -> list[float]:
        graph = drawn()
        graph.add(kind, name="schedule", **settings)
        graph.connect("optimizer", "schedule")
        engine = pn.TrainingEngine.from_graph(graph, {"pictures": tasks.images()}, device="cpu", epochs=4)
        engine.step(7)
        graph.set("optimizer", **change)
        return finished(engine)[0]["learning_rate"]

    expected, doubled = rates({}), rates({"lr": 0.02})
    assert doubled[:7] == expected[:7]
    assert doubled[7:] == pytest.approx([2 * rate for rate in expected[7:]])


def test_an_option_that_is_no_longer_drawn_is_the_default_again() -> None:
    graph = drawn()
    engine = halted(graph)
    graph.set("optimizer", weight_decay=0.25)
    engine.step()
    assert engine.optimizer.param_groups[0]["weight_decay"] == 0.25
    graph.undo()
    engine.step()
    assert engine.optimizer.param_groups[0]["weight_decay"] == 0.01
    engine.stop()
