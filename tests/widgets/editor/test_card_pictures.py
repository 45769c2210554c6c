"""Small pictures of what nodes give: which there are, that they follow the training, and that they change nothing."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import pnne_nb as pn
from pnne_nb.widgets.editor.card_pictures import HIGH, WIDE, CardPictures
from tests.inspector.models import hooks_on

POINTS = torch.randn(200, 2, generator=torch.Generator().manual_seed(0))
SIDES = (POINTS.prod(1) > 0).long()


def moons() -> pn.NodeGraph:
    return pn.sequential(("Linear", 2, 4), "ReLU", ("Linear", 4, 2), input=("N", 2), name="moons")


def eye() -> pn.NodeGraph:
    layers = ("Conv2d", 1, 9, 3), "relu", "Flatten", ("Linear", 324, 2)
    return pn.sequential(*layers, input=("N", 1, 8, 8), name="eye")


def train(graph: Any, x: Tensor = POINTS, y: Tensor = SIDES, epochs: int = 20) -> pn.TrainingEngine:
    return pn.TrainingEngine(graph, (x, y), epochs=epochs, batch_size=20, seed=0, device="cpu")


def pictures_of(editor: pn.GraphEditor) -> dict[str, str]:
    return {} if editor._picture is None else editor._picture.pictures


def test_units_of_two_inputs_are_pictures_that_follow_the_training_and_stay() -> None:
    graph = moons()
    engine, editor = train(graph), pn.GraphEditor(graph, pictures=True)
    assert pictures_of(editor) == {}
    editor.training = engine
    first = pictures_of(editor)
    assert list(first) == ["linear1", "relu1", "linear2"]
    engine.start()
    engine.wait()
    assert editor._overlay is not None
    assert editor._overlay._pump.join(60.0)
    last = pictures_of(editor)
    assert list(last) == list(first)
    assert all(last[path] != first[path] for path in first)
    kept = editor._kept._draw()
    assert all(f'alt="What {path} gives" src="{address}"' in kept for path, address in last.items())
    assert hooks_on(engine.module) == 0
    editor.close()
    assert pictures_of(editor) == {}
    assert not [thread for thread in threading.enumerate() if thread.name == "pnne-pump"]


@pytest.mark.parametrize(
    "make", [eye, lambda: nn.Sequential(nn.Conv2d(1, 9, 3), nn.ReLU(), nn.Flatten(), nn.Linear(324, 2))]
)
def test_channels_of_an_image_are_pictures_of_layers_and_functions(make: Callable[[], Any]) -> None:
    net, x = make(), torch.rand(40, 1, 8, 8)
    graph = net if isinstance(net, pn.NodeGraph) else pn.from_module(net, args=(x[:2],))
    engine = train(net, x, torch.arange(40) % 2)
    found = CardPictures(engine.paused, engine.examples(40), graph, "").draw()
    spatial = [path for path, node in graph.nodes.items() if node.type in ("Input", "Conv2d", "relu", "ReLU")]
    assert list(found) == spatial
    assert len(spatial) == 3


def test_a_tile_is_a_unit_over_the_plane_of_the_examples() -> None:
    graph = moons()
    engine = train(graph)
    artist = CardPictures(engine.paused, engine.examples(200), graph, "")
    tiles = artist._tiles(artist._args[0])
    assert tiles is not None
    (right, up), (low, high) = tiles, (POINTS.amin(0), POINTS.amax(0))
    assert right.shape == (HIGH, WIDE)
    assert (np.diff(right, axis=1) > 0).all(), "the first input grows to the right"
    assert (np.diff(up, axis=0) < 0).all(), "and the second one upwards"
    assert right[0, 0] == pytest.approx(float(low[0] - 0.05 * (high[0] - low[0])))
    assert up[0, 0] == pytest.approx(float(high[1] + 0.05 * (high[1] - low[1])))


class Noisy(nn.Module):
    """Draws random numbers in both modes, and keeps statistics."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(2, 4)
        self.norm = nn.BatchNorm1d(4)
        self.last = nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.norm(self.first(x))
        noisy: Tensor = self.last(torch.dropout(hidden + 0.1 * torch.randn_like(hidden), 0.5, self.training))
        return noisy


def test_a_training_is_the_same_with_pictures() -> None:
    losses = []
    for pictures in (False, True):
        torch.manual_seed(0)
        net = Noisy()
        engine = train(net)
        editor = pn.GraphEditor(pn.from_module(net, args=(POINTS[:4],)), pictures=pictures)
        editor.training = engine
        for _ in range(3):
            engine.step(5)
            if editor._overlay is not None and editor._overlay._artist is not None:
                assert set(editor._overlay._artist.draw()) >= {"first", "norm", "last"}
        editor.close()
        losses.append(engine.history["loss"])
        engine.stop()
    assert losses[0].tolist() == losses[1].tolist()


def test_pictures_can_be_switched_on_and_off_while_a_training_is_shown() -> None:
    graph = moons()
    engine, editor = train(graph), pn.GraphEditor(graph)
    editor.training = engine
    assert pictures_of(editor) == {}
    editor.pictures = True
    assert len(pictures_of(editor)) == 3
    editor.pictures = False
    assert pictures_of(editor) == {}
    editor.close()


def test_a_network_without_pictures_says_why() -> None:
    graph = pn.sequential(("Linear", 5, 2), input=("N", 5))
    editor = pn.GraphEditor(graph, pictures=True)
    with pytest.warns(UserWarning, match=r"No card of '.*' shows a picture\. The network takes \[N, 5\], and none"):
        editor.training = train(graph, torch.rand(20, 5), torch.arange(20) % 2)
    assert pictures_of(editor) == {}
    editor.close()


class Small(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.last = nn.Linear(2, 2)

    def forward(self, x: Tensor) -> Tensor:
        if len(x) > 100:
            raise ValueError("At most a hundred.")
        scores: Tensor = self.last(x)
        return scores


def test_a_network_that_does_not_take_the_plane_is_shown_without_pictures() -> None:
    net = Small()
    editor = pn.GraphEditor(pn.from_module(net, args=(POINTS[:4],)), pictures=True)
    engine = train(net)
    with pytest.warns(UserWarning, match="shows a picture. .*At most a hundred"):
        editor.training = engine
    assert editor.training is engine
    editor.close()


def test_a_stream_has_no_example_to_draw() -> None:
    with pytest.raises(pn.InspectionError, match="data is a stream, which has no first examples"):
        CardPictures(train(moons()).paused, None, moons(), "")


def test_nodes_of_a_block_have_pictures_by_their_paths() -> None:
    graph = moons()
    graph.group(["linear1", "relu1"], name="hidden")
    engine = train(graph)
    found = CardPictures(engine.paused, engine.examples(20), graph, "").draw()
    assert set(found) == {"hidden.linear1", "hidden.relu1", "hidden", "linear2"}
