"""A training on the nodes of its graph: what is told, for how long, and what is left behind."""

from __future__ import annotations

import gc
import json
import threading
import weakref
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
import torch
from torch import nn

import pnne_nb as pn
from pnne_nb.telemetry.frames import Frame, NormsFrame, StepFrame
from pnne_nb.widgets.editor.training_overlay import place_of
from tests.inspector.models import hooks_on

PATIENCE = 60.0


class Browser:
    """What a page sees of an editor's training, and that it has painted it."""

    def __init__(self, editor: pn.GraphEditor) -> None:
        self.editor = editor
        self.pictures: list[dict[str, Any]] = []
        self.arrived = threading.Condition()
        editor.send = self._receive

    def _receive(self, content: dict[str, Any], buffers: object = None) -> None:
        if content["message"] != "training":
            return
        with self.arrived:
            self.pictures.append(json.loads(json.dumps(content)))
            self.arrived.notify_all()
        self.say("painted", tick=content["tick"])

    def say(self, message: str, **fields: Any) -> None:
        self.editor._handle_custom_msg({"message": message, "id": 1, "client": "page", **fields}, [])

    def wait_for_layers(self, more_than: int = 0) -> dict[str, Any]:
        def seen() -> list[dict[str, Any]]:
            return [picture for picture in self.pictures[more_than:] if picture["layers"]]

        with self.arrived:
            assert self.arrived.wait_for(lambda: bool(seen()), PATIENCE), "no picture came"
            return seen()[-1]

    def wait_until_hidden(self) -> None:
        with self.arrived:
            hidden = self.arrived.wait_for(lambda: bool(self.pictures) and not self.pictures[-1]["layers"], PATIENCE)
            assert hidden, "the last picture still shows layers"


def shown_in(editor: pn.GraphEditor) -> object:
    """The training that an editor shows, asked anew: a type checker believes what was set."""
    return editor.training


def network() -> pn.NodeGraph:
    graph = pn.NodeGraph("net")
    graph.add("Input", name="x", shape=("N", 4))
    graph.add("Linear", name="fc1", in_features=4, out_features=8)
    graph.add("ReLU", name="relu1")
    graph.add("Linear", name="fc2", in_features=8, out_features=3)
    graph.add("Output", name="y")
    for source, target in (("x", "fc1"), ("fc1", "relu1"), ("relu1", "fc2"), ("fc2", "y")):
        graph.connect(source, target)
    return graph


def train(model: nn.Module | pn.NodeGraph, epochs: int = 10**6) -> pn.TrainingEngine:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(60, 4, generator=generator)
    y = torch.randint(0, 3, (60,), generator=generator)
    return pn.TrainingEngine(model, (x, y), epochs=epochs, batch_size=20, device="cpu")


@pytest.fixture
def graph() -> pn.NodeGraph:
    return network()


@pytest.fixture
def engine(graph: pn.NodeGraph) -> Iterator[pn.TrainingEngine]:
    engine = train(graph)
    yield engine
    engine.stop()


@pytest.fixture
def editor(graph: pn.NodeGraph) -> Iterator[pn.GraphEditor]:
    editor = pn.GraphEditor(graph)
    yield editor
    editor.close()


def test_layers_show_what_they_give_and_what_comes_back(engine: pn.TrainingEngine, editor: pn.GraphEditor) -> None:
    browser = Browser(editor)
    editor.training = engine
    assert shown_in(editor) is engine
    engine.start()
    picture = browser.wait_for_layers()
    assert picture["step"] > 0
    assert set(picture["layers"]) == {"fc1", "relu1", "fc2"}, "an Input is no layer"
    for name, layer in picture["layers"].items():
        assert layer["std"] > 0, name
        assert layer["flow"] > 0, name
        assert ("weights" in layer) == name.startswith("fc")
    assert 0 < picture["layers"]["relu1"]["zeros"] < 1
    engine.stop()
    browser.wait_until_hidden()
    assert hooks_on(engine.module) == 0


def test_functions_show_numbers_too(graph: pn.NodeGraph) -> None:
    graph.remove("relu1")
    graph.add("relu", name="fire")
    graph.add("add", name="skip")
    for source, target in (("fc1", "fire"), ("fire.output", "skip.input"), ("fc1.output", "skip.other")):
        graph.connect(source, target)
    graph.connect("skip", "fc2")
    engine, editor = train(graph), pn.GraphEditor(graph)
    browser = Browser(editor)
    editor.training = engine
    engine.start()
    picture = browser.wait_for_layers()
    assert set(picture["layers"]) == {"fc1", "fire", "skip", "fc2"}
    assert 0 < picture["layers"]["fire"]["zeros"] < 1
    assert picture["layers"]["skip"]["flow"] > 0
    engine.stop()
    editor.close()


def test_pictures_keep_coming_once_they_are_painted(engine: pn.TrainingEngine, editor: pn.GraphEditor) -> None:
    browser = Browser(editor)
    editor.training = engine
    engine.start()
    first = browser.wait_for_layers()
    later = browser.wait_for_layers(len(browser.pictures))
    assert later["tick"] > first["tick"]
    assert later["step"] > first["step"]


def test_the_training_comes_back_when_it_is_started_again(engine: pn.TrainingEngine, editor: pn.GraphEditor) -> None:
    browser = Browser(editor)
    editor.training = engine
    for _ in range(2):
        count = len(browser.pictures)
        engine.start()
        browser.wait_for_layers(count)
        engine.stop()
        browser.wait_until_hidden()


def test_a_pause_keeps_the_picture(engine: pn.TrainingEngine, editor: pn.GraphEditor) -> None:
    browser = Browser(editor)
    editor.training = engine
    engine.start()
    browser.wait_for_layers()
    engine.pause()
    browser.say("sync")
    assert browser.pictures[-1]["layers"], "a page that opens meanwhile sees it too"


def test_the_browser_and_python_switch_it_off(engine: pn.TrainingEngine, editor: pn.GraphEditor) -> None:
    browser = Browser(editor)

    def from_python() -> None:
        editor.training = None

    for switch_off in (partial(browser.say, "hideTraining"), from_python):
        editor.training = engine
        engine.start()
        browser.wait_for_layers(len(browser.pictures))
        switch_off()
        assert shown_in(editor) is None
        browser.wait_until_hidden()
        count = len(browser.pictures)
        engine.step()
        assert len(browser.pictures) == count


def test_dead_and_exploding_layers_are_named_with_the_reason() -> None:
    graph = network()
    engine = train(graph)
    with torch.no_grad():
        engine.module.get_parameter("fc1.bias").fill_(-100.0)
        engine.module.get_parameter("fc2.weight").fill_(1e6)
    editor = pn.GraphEditor(graph)
    browser = Browser(editor)
    editor.training = engine
    engine.step()
    layers = browser.wait_for_layers()["layers"]
    assert layers["relu1"]["fault"]["kind"] == "dead"
    assert "100.0% of its outputs are 0" in layers["relu1"]["fault"]["reason"]
    assert layers["fc1"]["fault"]["kind"] == "vanishing"
    engine.stop()
    editor.close()


def test_small_gradients_of_a_converged_training_are_no_fault() -> None:
    graph = network()
    engine = train(graph)
    editor = pn.GraphEditor(graph)
    editor.training = engine
    overlay = editor._overlay
    assert overlay is not None
    kinds = [name for name in overlay._evidence.kinds if name]
    small: list[Frame] = [NormsFrame(step, dict.fromkeys(kinds, 1e-8), 1e-8) for step in range(5)]
    losses: list[Frame] = [StepFrame(step, 1, loss, 0.1, 8, 0.0) for step, loss in enumerate([2.0] + [1e-5] * 30, 1)]
    overlay.take(small)
    assert {state.fault.kind for state in overlay._layers().values() if state.fault} == {"vanishing"}
    overlay.take(losses)
    assert not any(state.fault for state in overlay._layers().values())
    editor.close()


def test_values_that_are_not_finite_are_named_and_leave_no_number(graph: pn.NodeGraph) -> None:
    graph.remove("relu1")
    graph.add("nan_to_num", name="mended")  # so that the training goes on
    graph.connect("fc1", "mended")
    graph.connect("mended", "fc2")
    engine = train(graph)
    with torch.no_grad():
        engine.module.get_parameter("fc1.weight").fill_(float("nan"))
    editor = pn.GraphEditor(graph)
    browser = Browser(editor)
    editor.training = engine
    engine.step()
    shown = browser.wait_for_layers()["layers"]
    assert shown["fc1"]["fault"]["kind"] == "notFinite"
    assert "std" not in shown["fc1"]
    assert shown["mended"]["std"] == 0
    engine.stop()
    editor.close()


def test_a_graph_that_is_edited_between_two_runs_is_followed(
    graph: pn.NodeGraph, engine: pn.TrainingEngine, editor: pn.GraphEditor
) -> None:
    browser = Browser(editor)
    editor.training = engine
    engine.start()
    browser.wait_for_layers()
    engine.pause()
    graph.rename("relu1", "rectifier")
    count = len(browser.pictures)
    engine.resume()
    with browser.arrived:
        assert browser.arrived.wait_for(
            lambda: any("rectifier" in picture["layers"] for picture in browser.pictures[count:]), PATIENCE
        )


def test_a_model_inside_a_training_graph_is_found_by_its_names() -> None:
    inner, outer = network(), network()
    outer.group(["fc1", "relu1", "fc2"], name="model")
    module = pn.compile(inner)
    assert place_of(module, inner) == ""
    assert place_of(module, outer) == "model."


def test_another_model_is_refused_with_its_layers_named(editor: pn.GraphEditor) -> None:
    other = train(nn.Sequential(nn.Linear(4, 3)))
    with pytest.raises(pn.InspectionError, match=r"of a Sequential, whose layers \(0\) are not the nodes of 'net'"):
        editor.training = other
    assert shown_in(editor) is None
    with pytest.raises(pn.ArgumentError, match="training must be a TrainingEngine or None"):
        editor.training = "engine"  # type: ignore[assignment]  # what the test is about


def test_the_dashboard_switches_it_on_and_off(
    graph: pn.NodeGraph, engine: pn.TrainingEngine, editor: pn.GraphEditor
) -> None:
    dashboard = pn.TrainingDashboard(engine)
    bar: Any = dashboard.children[0]
    dashboard._bar._handle_custom_msg({"kind": "show", "id": 1, "on": True}, [])
    assert shown_in(editor) is engine
    assert bar.shown
    dashboard.show_on_graph(False)
    assert shown_in(editor) is None
    assert not bar.shown
    editor.close()
    with pytest.raises(pn.InspectionError, match=r"Open (one|an editor) of the graph that is trained"):
        dashboard.show_on_graph()
    dashboard.close()


def test_nothing_keeps_a_dropped_editor_alive(graph: pn.NodeGraph, engine: pn.TrainingEngine) -> None:
    editor = pn.GraphEditor(graph)
    Browser(editor)
    editor.training = engine
    engine.start()
    overlay = weakref.ref(editor._overlay)
    editor.close()
    assert shown_in(editor) is None
    del editor
    gc.collect()
    assert overlay() is None
    engine.stop()
    assert hooks_on(engine.module) == 0
