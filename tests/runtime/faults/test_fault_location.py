"""A NaN of a drawn model is blamed on the node that makes it, a function too, not on the layer that it comes to."""

from __future__ import annotations

import gc
import math
import re
import traceback
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from pnne_nb.errors import TrainingError
from pnne_nb.graph.document import NodeGraph
from pnne_nb.runtime.engine import TrainingEngine
from pnne_nb.runtime.loop import fault_replay
from pnne_nb.telemetry.frames import StateFrame
from pnne_nb.widgets.dashboard.engine_view import past_frames

X = torch.randn(32, 4, generator=torch.Generator().manual_seed(0))
Y = torch.arange(32) % 3


def chain(*nodes: tuple[str, str, dict[str, Any]], width: int = 4) -> NodeGraph:
    graph = NodeGraph(name="net")
    last = graph.add("Input", name="x", shape=("N", width))
    for kind, name, properties in nodes:
        node = graph.add(kind, name=name, **properties)
        graph.connect(last, node)
        last = node
    graph.connect(last, graph.add("Output", name="y"))
    return graph


FIRST = ("Linear", "first", {"out_features": 8})
LAST = ("Linear", "last", {"out_features": 3})


def logarithm() -> NodeGraph:
    return chain(FIRST, ("log", "logs", {}), ("BatchNorm1d", "norm", {}), ("Dropout", "drop", {}), LAST)


def grouped() -> NodeGraph:
    graph = logarithm()
    graph.group(["first", "logs"], name="block")
    return graph


def root() -> NodeGraph:
    """The root of 0 is a number, and its slope is none."""
    return chain(FIRST, ("mul", "nothing", {"other": 0.0}), ("sqrt", "root", {}), LAST)


def failed(model: nn.Module | NodeGraph, x: Tensor = X, **options: Any) -> TrainingEngine:
    options = {"epochs": 1, "batch_size": 8, "device": "cpu", "metrics": (), **options}
    trained = TrainingEngine(model, (x, Y[: len(x)]), **options)
    trained.start()
    with pytest.raises(TrainingError, match="became"):
        trained.wait(60)
    return trained


@pytest.mark.parametrize(
    ("draw", "options", "node", "note"),
    [
        (logarithm, {}, "logs", "log in node 'logs' made .* NaN of 64 values in the forward pass.*\n.*from -"),
        (logarithm, {"accumulate": 3}, "logs", "log in node 'logs' made"),
        (logarithm, {"optimizer": "LBFGS"}, "logs", "log in node 'logs' made"),
        (logarithm, {"step_function": lambda model, batch: model(batch[0]).mean()}, "logs", "log in node 'logs' made"),
        (grouped, {}, "block.logs", "log in node 'block.logs' made"),
        (root, {}, "root", "sqrt in node 'root' made .* in the backward pass"),
        (root, {"accumulate": 2}, "root", "sqrt in node 'root' made"),
    ],
)
def test_the_node_that_makes_it_is_named(
    draw: Callable[[], NodeGraph], options: dict[str, Any], node: str, note: str
) -> None:
    trained = failed(draw(), **options)
    (anomaly,) = trained.history.anomalies
    assert anomaly.node == node
    assert f"first at node '{node}'" in anomaly.message
    end = trained.channel.drain()[-1]
    assert isinstance(end, StateFrame)
    assert end.node == node
    assert trained.error is not None
    assert re.search(note, "\n".join(trained.error.__notes__), re.DOTALL)
    # The model is as it was: statistics of batches, modes, hooks.
    tracked = [tensor.item() for name, tensor in trained.module.named_buffers() if name.endswith("tracked")]
    assert set(tracked) <= {0}
    assert trained.module.training
    assert not any(layer._forward_hooks for layer in trained.module.modules())


def test_what_was_not_finite_before_is_blamed_on_the_input() -> None:
    x = X.clone()
    x[20] = torch.inf
    trained = failed(chain(FIRST, LAST), x, shuffle=False)
    assert [(each.step, each.node) for each in trained.history.anomalies] == [(3, "x")]


@pytest.mark.parametrize("seed", range(6))
def test_the_pass_is_made_again_with_the_same_random_numbers(seed: int) -> None:
    # One number, which dropout makes 0 or leaves: another mask would find nothing.
    graph = chain(("Dropout", "drop", {"p": 0.5}), ("log", "logs", {}), LAST, width=1)
    trained = failed(graph, torch.ones(32, 1), batch_size=1, seed=seed)
    assert [each.node for each in trained.history.anomalies if each.kind != "constant-input"] == ["logs"]


def test_as_long_as_all_is_finite_nothing_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    def looked(*_: object) -> None:
        raise AssertionError("Nothing is wrong.")

    monkeypatch.setattr(fault_replay, "OriginTrace", looked)
    trained = TrainingEngine(chain(FIRST, LAST), (X, Y), epochs=2, device="cpu")
    assert trained.start().wait(60)


class Large(nn.Module):
    """Makes a large tensor, and fails where it is told to."""

    def __init__(self, place: str) -> None:
        super().__init__()
        self.place = place
        self.fc = nn.Linear(4, 3)
        self.made: list[weakref.ref[Tensor]] = []

    def forward(self, x: Tensor) -> Tensor:
        large = torch.zeros(len(x), 1000)
        self.made.append(weakref.ref(large))
        if self.place == "model":
            raise KeyError(self.place)
        if self.place == "layer":
            self.fc(large)
        scores: Tensor = self.fc(x) + large.sum() * (math.nan if self.place == "nan" else 0)
        return scores


def raising(output: Tensor, target: Tensor) -> Tensor:
    try:
        raise OSError("first")
    except OSError as error:
        del target
        raise ExceptionGroup("several", [ValueError("second")]) from error


@pytest.mark.parametrize(
    ("place", "options"),
    [
        ("model", {}),
        ("layer", {}),
        ("nan", {}),
        ("loss", {"loss": raising}),
        ("step", {"loss": None, "step_function": lambda model, batch: raising(model(batch[0]), batch[1])}),
    ],
)
def test_the_tensors_of_a_failed_step_go_with_it_and_the_traceback_stays(place: str, options: dict[str, Any]) -> None:
    model = Large(place)
    trained = TrainingEngine(
        model, (X, Y), **{"loss": "CrossEntropyLoss", "epochs": 1, "batch_size": 8, "device": "cpu", **options}
    )
    trained.start()
    with pytest.raises(Exception, match=r"\w") as raised:
        trained.wait(60)
    shown = "".join(traceback.format_exception(raised.value))
    del raised
    gc.collect()
    assert trained.error is not None
    assert model.made
    assert all(made() is None for made in model.made)
    assert "in _differentiate" in shown
    assert ("in raising" in shown) == (place in {"loss", "step"})


def test_a_failed_training_knows_the_node_after_its_variables_are_gone() -> None:
    class Fails(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            raise KeyError("nothing")

    trained = TrainingEngine(nn.Sequential(nn.Linear(4, 3), Fails()), (X, Y), loss="CrossEntropyLoss", epochs=1)
    told: list[StateFrame] = []
    trained.on("state", told.append)
    places = [trained.failed_at]
    trained.start()
    with pytest.raises(KeyError, match="nothing"):
        trained.wait(60)
    assert [*places, trained.failed_at, told[-1].node] == [None, "1", "1"]
    [state] = [frame for frame in past_frames(trained) if isinstance(frame, StateFrame)]
    assert state.node == "1"
