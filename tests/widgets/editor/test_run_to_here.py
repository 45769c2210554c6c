"""Run to here, as a view asks for it: the example, the tensor, and what is refused."""

from __future__ import annotations

import base64
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import pnne_nb as pn
from pnne_nb.protocol.messages import SeenTensor
from pnne_nb.widgets.editor.run_to_here import described
from tests.widgets.editor.test_editor import View


@pytest.fixture
def graph() -> pn.NodeGraph:
    return pn.sequential(nn.Conv2d(3, 6, 3), nn.ReLU(), input=("N", 3, 8, 8))


@pytest.fixture
def editor(graph: pn.NodeGraph) -> Iterator[pn.GraphEditor]:
    editor = pn.GraphEditor(graph)
    yield editor
    editor.close()


def run_to(editor: pn.GraphEditor, port: str) -> dict[str, Any]:
    """Ask as a view does, and wait for the answer."""
    view = View(editor)
    view.say({"message": "runToHere", "id": 1, "client": "view", "port": port})

    def answers() -> list[dict[str, Any]]:
        return [event for event in view.events if event.get("id") == 1]

    with view.arrived:
        assert view.arrived.wait_for(lambda: bool(answers()), 60), "no answer came"
        return answers()[0]


def test_a_made_up_example_shows_shape_values_and_picture(editor: pn.GraphEditor) -> None:
    model = editor.model
    assert model is not None
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    seen = run_to(editor, "conv2d1.output")
    assert (seen["message"], seen["shape"], seen["dtype"]) == ("seenTensor", [3, 6, 6, 6], "float32")
    assert seen["facts"] == ["A made-up example of the shapes that the Inputs have, in eval mode."]
    assert sum(seen["histogram"]["counts"]) == 3 * 6 * 6 * 6
    assert seen["statistics"]["min"] < seen["statistics"]["mean"] < seen["statistics"]["max"]
    assert seen["caption"] == "The first example, 6 channels"
    assert base64.b64decode(seen["picture"].removeprefix("data:image/png;base64,")).startswith(b"\x89PNG")
    assert model.training
    torch.testing.assert_close(model.state_dict(), before, rtol=0, atol=0)


def test_the_example_of_a_module_is_the_one_that_it_was_imported_with() -> None:
    class Twice(nn.Module):
        def forward(self, x: Tensor, *, y: Tensor) -> Tensor:
            return x * 2 + y

    x, y = torch.tensor([[1.0, 2.0]]), torch.tensor([[10.0, 20.0]])
    editor = pn.GraphEditor(Twice(), args=(x,), kwargs={"y": y})
    assert editor.example is not None
    seen = run_to(editor, "add.output")
    assert seen["text"] == "12, 24"
    assert seen["facts"] == ["The example that the editor was given, in eval mode."]
    editor.close()


def test_an_example_can_be_given_and_taken_back(editor: pn.GraphEditor) -> None:
    x = torch.zeros(1, 3, 4, 4)
    editor.example = (x,)
    assert run_to(editor, "x.output")["shape"] == [1, 3, 4, 4]
    editor.example = None
    assert run_to(editor, "x.output")["shape"] == [3, 3, 8, 8]
    with pytest.raises(pn.ArgumentError, match="args must be a tuple of the arguments of a call"):
        editor.example = "x"


def test_while_a_training_is_shown_its_data_is_run(graph: pn.NodeGraph) -> None:
    graph = pn.sequential(nn.Linear(4, 3), nn.ReLU(), input=("N", 4))
    data = torch.arange(80.0).reshape(20, 4), torch.zeros(20, dtype=torch.long)
    engine = pn.TrainingEngine(graph, data, epochs=1, batch_size=4)
    editor = pn.GraphEditor(graph)
    editor.training = engine
    engine.start()
    seen = run_to(editor, "x.output")
    assert seen["facts"] == ["The first examples of the training's data, in eval mode."]
    assert seen["statistics"]["min"] == 0
    engine.wait()
    assert run_to(editor, "linear1.output")["shape"] == [16, 3]
    editor.close()


def test_weights_that_no_model_has_are_told(graph: pn.NodeGraph) -> None:
    graph.add("Linear", name="wrong", in_features=99, out_features=2)
    graph.connect("relu1", "wrong")
    editor = pn.GraphEditor(graph)
    assert editor.model is None
    seen = run_to(editor, "relu1.output")
    assert seen["shape"] == [3, 6, 6, 6]
    assert seen["facts"][1] == "The weights are as initialised."
    editor.close()


def test_without_an_example_it_is_refused_in_words() -> None:
    graph = pn.NodeGraph()
    graph.add("Input", name="x")
    graph.add("ReLU", name="act")
    graph.connect("x", "act")
    editor = pn.GraphEditor(graph)
    refused = run_to(editor, "act.output")
    assert refused["message"] == "rejected"
    assert "There is no example to run. Give every Input a shape" in refused["error"]
    assert "editor.example = (x,)" in refused["error"]
    assert [each["node"] for each in refused["diagnostics"]] == ["x"]
    editor.example = (torch.ones(2, 2),)
    assert run_to(editor, "act.output")["text"] == "1, 1, 1, 1"
    editor.close()


def test_a_run_that_fails_names_the_node(editor: pn.GraphEditor) -> None:
    editor.example = (torch.zeros(2, 5, 8, 8),)
    refused = run_to(editor, "relu1.output")
    assert refused["message"] == "rejected"
    assert "conv2d1" in refused["error"]


def test_one_run_at_a_time(editor: pn.GraphEditor, monkeypatch: pytest.MonkeyPatch) -> None:
    may_end = threading.Event()

    def slowly(*_: object) -> Tensor:
        assert may_end.wait(60)
        return torch.zeros(2)

    monkeypatch.setattr("pnne_nb.widgets.editor.run_to_here.run_fragment", slowly)
    view = View(editor)
    view.say({"message": "runToHere", "id": 1, "client": "view", "port": "relu1.output"})
    view.say({"message": "runToHere", "id": 2, "client": "view", "port": "relu1.output"})
    assert "An example is running already" in view.wait_for("rejected")["error"]
    may_end.set()
    assert view.wait_for("seenTensor")["text"] == "0, 0"


NOTHING = SeenTensor(1, "view", 0, None, "", "", ())


def test_what_is_no_tensor_or_not_finite_is_said() -> None:
    assert described((1, 2), NOTHING).text == "(1, 2)"
    assert described((1, 2), NOTHING).dtype == "tuple"
    odd = described(torch.tensor([1.0, float("nan"), float("inf"), 3.0]), NOTHING)
    assert odd.statistics["not finite"] == 2
    assert odd.statistics["mean"] == 2
    assert odd.histogram is not None
    assert odd.histogram.left_out == 2
    assert described(torch.empty(0, 3), NOTHING).histogram is None
    assert described(torch.tensor([True, False]), NOTHING).text == "True, False"
    assert described(torch.randn(4, 4, dtype=torch.complex64), NOTHING).dtype == "complex64"


@pytest.mark.parametrize(
    ("shape", "caption"),
    [
        ((2, 3, 8, 8), "The first example in colour"),
        ((2, 1, 8, 8), "The first example"),
        ((2, 32, 300, 300), "The first example, 16 of 32 channels"),
        ((2, 10, 16), "The first example, blue below 0 and red above"),
        ((2, 10, 3), ""),
        ((20, 16), ""),
    ],
)
def test_what_has_rows_and_columns_is_a_picture(shape: tuple[int, ...], caption: str) -> None:
    seen = described(torch.randn(shape), NOTHING)
    assert seen.caption == caption
    assert bool(seen.picture) == bool(caption)
    assert len(seen.picture) < 400_000
