"""Trainings that a person starts in the page of an editor."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.utils.data import TensorDataset

import pnne_nb as pn
from pnne_nb.widgets.editor import train_form
from tests.widgets.editor.test_editor import View

X, Y = torch.randn(40, 4), torch.arange(40) % 3


@pytest.fixture
def variables(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The variables of a notebook."""
    found: dict[str, Any] = {
        "fits": (X, Y),
        "wide": (torch.randn(40, 5), Y),
        "uneven": (X, Y[:30]),
        "alone": X,
        "_hidden": (X, Y),
        "examples": TensorDataset(X, Y),
        "text": "fits",
    }
    monkeypatch.setattr(train_form, "_variables", lambda: found)
    return found


@pytest.fixture
def editor() -> Iterator[pn.GraphEditor]:
    editor = pn.GraphEditor(pn.sequential(torch.nn.Linear(4, 3), input=("N", 4)))
    yield editor
    if editor.engine is not None:
        editor.engine.stop()
        editor.engine.wait(60)
    editor.close()


def test_variables_that_fit_and_built_in_sets_are_offered(editor: pn.GraphEditor, variables: dict[str, Any]) -> None:
    offered = View(editor).ask("getTrainChoices")
    found = {(each["kind"], each["name"]): each["text"] for each in offered["data"]}
    assert [name for kind, name in found if kind == "variable"] == ["examples", "fits"]
    assert found["variable", "fits"] == "[40, 4], [40]"
    assert "handwritten digits" in found["dataset", "digits"]
    assert {"CrossEntropyLoss", "MSELoss"} <= set(offered["losses"])
    assert {"AdamW", "SGD"} <= set(offered["optimizers"])
    assert variables.keys() >= {"fits"}


def test_modules_are_offered_with_an_example_that_their_first_layer_takes(
    editor: pn.GraphEditor, variables: dict[str, Any]
) -> None:
    Conv, Linear = torch.nn.Conv1d, torch.nn.Linear
    variables |= {
        "a": Linear(4, 2),
        "b": torch.nn.Sequential(Conv(3, 2, 1)),
        "c": Linear(7, 2),
        "d": torch.nn.ReLU(),
        "_e": Conv,
    }
    offered = {
        each["name"]: each["line"].partition("GraphEditor")[2]
        for each in View(editor).ask("getTrainChoices")["modules"]
    }
    assert offered == {
        "a": "(a, args=(fits[0][:2],))",
        "b": "(b, input_size=(2, 3, 32))",
        "c": "(c, input_size=(2, 7))",
        "d": "(d, args=(x,))",
    }


def test_a_training_is_started_looked_at_and_is_the_engine_of_python(
    editor: pn.GraphEditor, variables: dict[str, Any]
) -> None:
    view = View(editor)
    assert view.ask("controlTraining", action="look")["state"] == ""
    asked = {"kind": "variable", "data": "fits", "loss": "CrossEntropyLoss", "optimizer": "SGD", "learningRate": 0.5}
    started = view.ask("startTraining", **asked, epochs=3)
    engine = editor.engine
    assert isinstance(engine, pn.TrainingEngine)
    assert editor.training is engine
    assert (started["epochs"], started["text"]) == (3, "Loss: CrossEntropyLoss.")
    engine.wait(60)
    seen = view.ask("controlTraining", action="look")
    assert (seen["state"], seen["step"], len(seen["losses"])) == ("finished", 3, 3)
    assert seen["loss"] == pytest.approx(float(engine.history["loss"][-1]), rel=1e-3)
    assert variables["fits"] == (X, Y)


def test_the_line_of_the_dashboard_has_the_names_of_the_notebook(
    editor: pn.GraphEditor, variables: dict[str, Any]
) -> None:
    view = View(editor)

    def line() -> str:
        told: str = view.ask("controlTraining", action="look")["line"]
        return told

    started = view.ask("startTraining", kind="variable", data="fits")
    assert (started["line"], started["widget"]) == ("", editor.model_id)
    variables |= {"_": editor, "_4": editor}
    assert line() == "import pnne_nb as pn\npn.TrainingDashboard(_4.engine)"
    variables |= {"mine": editor, "nets": pn}
    assert line() == "nets.TrainingDashboard(mine.engine)"


def test_a_training_is_paused_resumed_and_stopped(editor: pn.GraphEditor, variables: dict[str, Any]) -> None:
    view = View(editor)
    view.ask("startTraining", kind="variable", data="fits", epochs=100_000)
    assert view.ask("controlTraining", action="pause")["state"] == "paused"
    assert "A training is running already" in view.ask("startTraining", kind="variable", data="fits")["error"]
    assert editor.engine is not None
    runs = threading.Event()
    editor.engine.on("step", lambda _: runs.set())
    view.ask("controlTraining", action="resume")
    assert runs.wait(60)
    view.ask("controlTraining", action="stop")
    editor.engine.wait(60)
    assert view.ask("controlTraining", action="look")["state"] == "stopped"
    assert variables


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"kind": "variable", "data": "gone"}, r"no variable 'gone' any more.* Run the cell that makes it"),
        ({"kind": "variable", "data": "_hidden"}, r"no variable '_hidden' any more"),
        ({"kind": "variable", "data": "text"}, r"Give a DataLoader, a Dataset|train_data"),
        ({"kind": "dataset", "data": "__class__"}, r"no data set pn.datasets.__class__"),
        ({"kind": "dataset", "data": "digits"}, r"mat1|shape|4|takes"),
        ({"kind": "variable", "data": "fits", "loss": "system"}, r"There is no loss 'system'"),
        (
            {"kind": "variable", "data": "fits", "optimizer": "AdamV"},
            r"There is no optimizer 'AdamV'\. Did you mean 'Adam'",
        ),
        ({"kind": "variable", "data": "fits", "epochs": 0}, r"at least one epoch"),
        ({"kind": "variable", "data": "fits", "learningRate": -1.0}, r"a learning rate above 0"),
        ({"kind": "neither"}, r"cannot be read, at \$\.kind"),
    ],
)
def test_what_cannot_be_trained_is_told(
    editor: pn.GraphEditor, variables: dict[str, Any], asked: dict[str, Any], message: str
) -> None:
    assert re.search(message, View(editor).ask("startTraining", **asked)["error"])
    assert editor.engine is None
    assert variables


def test_a_graph_with_problems_names_them(editor: pn.GraphEditor, variables: dict[str, Any]) -> None:
    editor.graph.add("Linear", name="loose", out_features=3)
    answer = View(editor).ask("startTraining", kind="variable", data="fits")
    assert "loose" in answer["error"]
    assert variables


def test_a_drawn_dataset_is_the_data(variables: dict[str, Any]) -> None:
    graph = pn.sequential(torch.nn.Linear(4, 3), input=("N", 4))
    graph.add("Dataset", name="mine", source="variable", data="fits")
    editor = pn.GraphEditor(graph)
    offered = View(editor).ask("getTrainChoices")["data"]
    assert [each["kind"] for each in offered] == ["drawn"]
    assert "loss" in View(editor).ask("startTraining", kind="drawn")["error"].casefold()
    assert variables
    editor.close()
