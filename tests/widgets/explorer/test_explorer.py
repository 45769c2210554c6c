"""The explorer: what it shows is in the model, what it opens it closes, and errors teach."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import ipywidgets
import numpy as np
import pytest
import torch
from torch import Tensor, nn

from pnne_nb.errors import ArgumentError, InspectionError, LayerNotFoundError
from pnne_nb.inspector.inspector import Inspector
from pnne_nb.inspector.tools.dataflow import follow
from pnne_nb.runtime.engine import TrainingEngine
from pnne_nb.runtime.session.training_registry import trainings_of
from pnne_nb.runtime.thread.cells import cells
from pnne_nb.widgets.explorer.explorer import ModuleExplorer
from pnne_nb.widgets.explorer.view import MAX_CHILDREN, MAX_ELEMENTS, draw
from pnne_nb.widgets.host.images import GAP, grid
from tests.inspector.models import Encoder, hooks_on


def square(output: Tensor) -> Tensor:
    return output.square().sum()


@pytest.fixture
def explorer() -> Iterator[ModuleExplorer]:
    shown = ModuleExplorer(Encoder(), args=torch.randn(2, 4, 8), loss_fn=square)
    yield shown
    shown.close()


def html(explorer: ModuleExplorer) -> str:
    return " ".join(child.value for child in explorer._panel.children if isinstance(child, ipywidgets.HTML))


def click(explorer: ModuleExplorer, key: str) -> None:
    explorer._clicked(key)


def test_shows_the_structure(explorer: ModuleExplorer) -> None:
    assert repr(explorer) == "ModuleExplorer()"
    assert "pnne-explorer" in explorer._dom_classes
    assert {"blocks", "head", "unused"} <= set(explorer.shown)
    assert "Encoder" in html(explorer)
    assert hooks_on(explorer._alive().net) == 0


def test_a_click_shows_a_layer_and_a_second_one_opens_it(explorer: ModuleExplorer) -> None:
    explorer._close_all()
    assert set(explorer.shown) == {"blocks", "head", "unused"}
    click(explorer, "blocks")
    assert explorer.selected == "blocks"
    click(explorer, "blocks")
    assert "blocks.0" in explorer.shown
    click(explorer, "blocks")
    assert "blocks.0" not in explorer.shown
    click(explorer, "head")
    shown = html(explorer)
    assert all(word in shown for word in ("head", "in_features=8", "output gradient", "weight gradient", "2×8"))
    assert hooks_on(explorer._alive().net) == 0


def test_selecting_opens_what_is_around(explorer: ModuleExplorer) -> None:
    explorer._close_all()
    explorer.select("blocks.1.ffn.1")
    assert {"blocks.1.ffn.1", "blocks.0", "head"} <= set(explorer.shown)
    with pytest.raises(LayerNotFoundError, match=r"no layer 'hed'.*'head'"):
        explorer.select("hed")


def test_search_lists_names_and_types(explorer: ModuleExplorer) -> None:
    explorer._search.value = "layernorm"
    assert [value for _, value in explorer._search.hits.options] == ["blocks.0.norm", "blocks.1.norm"]
    explorer._search.hits.value = "blocks.1.norm"
    assert explorer.selected == "blocks.1.norm"
    explorer._search.value = "nothing <b>"
    assert "No layer's name or type contains “nothing &lt;b&gt;”" in explorer._said.value


def test_close_releases_the_model_and_every_widget() -> None:
    widgets: Any = ipywidgets.widgets.widget._instances
    ModuleExplorer(nn.Linear(2, 2)).close()
    before = set(widgets)
    net = Encoder()
    explorer = ModuleExplorer(net, args=torch.randn(2, 4, 8))
    explorer.select("blocks.0.norm")
    explorer.toggle("blocks.0")
    explorer.close()
    explorer.close()
    gc.collect()
    assert len(set(widgets) - before) == 0
    reference = weakref.ref(net)
    del net
    gc.collect()
    assert reference() is None
    with pytest.raises(InspectionError, match="was closed"):
        explorer.select("head")


def test_an_error_of_the_model_is_shown_at_the_layer() -> None:
    class Moody(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer, self.fails = nn.Linear(2, 2), False

        def forward(self, x: Tensor) -> Tensor:
            if self.fails:
                raise RuntimeError("not <today>")
            return self.layer(x)  # type: ignore[no-any-return]  # torch types the call of a module as Any

    net = Moody()
    explorer = ModuleExplorer(net, args=torch.randn(2, 2))
    net.fails = True
    explorer.select("layer")
    assert "The model failed on this input: RuntimeError: not &lt;today&gt;" in html(explorer)
    explorer.close()


def test_an_inspector_brings_its_captures_and_findings() -> None:
    first = nn.Linear(4, 4)
    net = nn.Sequential(first, nn.ReLU(), nn.Linear(4, 2))
    nn.init.constant_(first.bias, -100.0)
    inspector = Inspector(net)
    inspector.run_inspection(torch.randn(8, 4))
    explorer = ModuleExplorer(net, inspector)
    explorer.select("1")
    assert "dead relu" in html(explorer)
    assert "100% of its units never fire" in html(explorer)
    explorer.close()
    with pytest.raises(InspectionError, match="about another module"):
        ModuleExplorer(nn.Linear(2, 2), inspector)


def test_pictures_of_filters_feature_maps_and_attention() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.attend = nn.Conv2d(1, 4, 3), nn.MultiheadAttention(4, 2, batch_first=True)

        def forward(self, x: Tensor) -> Tensor:
            x = self.conv(x).flatten(2).mT
            return self.attend(x, x, x)[0]  # type: ignore[no-any-return]  # torch types the call of a module as Any

    explorer = ModuleExplorer(Net(), args=torch.randn(2, 1, 6, 6))
    explorer.select("conv")
    assert all(words in html(explorer) for words in ("Filters", "Feature maps", "data:image/png;base64"))
    explorer.example = 1
    explorer.select("attend")
    assert "Attention by head" in html(explorer)
    explorer.close()


def test_pictures_have_a_gap_that_shows_the_page() -> None:
    pixels = grid(np.array([[[-1.0, 1.0]], [[0.0, np.nan]]]), signed=True, width=23)
    colours = {(33, 102, 172, 255), (178, 24, 43, 255), (33, 102, 172, 0), (255, 0, 255, 255), (0, 0, 0, 0)}
    assert {tuple(pixel) for pixel in pixels.reshape(-1, 4).tolist()} == colours
    assert pixels.shape == (11 * 2 + GAP, 22, 4), "elements are equal squares, side by side or one above the other"


def test_colours_tell_time_and_parameters(explorer: ModuleExplorer) -> None:
    explorer._close_all()
    explorer._map.colour.value = "parameters"
    boxes = {box.key: box for box in explorer._map.picture.boxes}
    assert boxes["blocks"].label.endswith("592 · 87%")
    assert boxes["blocks"].heat == 1.0
    assert boxes["head"].heat == pytest.approx((18 / 592) ** 0.5)
    explorer._map.colour.value = "time"
    boxes = {box.key: box for box in explorer._map.picture.boxes}
    assert boxes["unused"].label == "unused · Linear\nnot called"
    assert boxes["blocks"].heat == 1.0, "of a list of layers, what those take"
    assert " ms · " in boxes["blocks"].label
    explorer._map.colour.value = "type"
    assert all(box.heat is None for box in explorer._map.picture.boxes)


def test_nothing_took_time_where_nothing_ran() -> None:
    explorer = ModuleExplorer(Encoder())
    assert [value for _, value in explorer._map.colour.options] == ["type", "parameters"]
    assert "Where the parameters are" in html(explorer)
    explorer.show_input(torch.randn(2, 4, 8))
    assert [value for _, value in explorer._map.colour.options] == ["type", "time", "parameters"]
    explorer.select("")
    assert "Where the time goes" in html(explorer)
    explorer.close()


def test_an_input_that_does_not_fit_leaves_no_half_made_widget() -> None:
    before = len(ipywidgets.widgets.widget._instances)
    with pytest.raises(RuntimeError, match="shape") as caught:
        ModuleExplorer(nn.Sequential(nn.Linear(3, 2)), args=torch.zeros(2, 9))
    assert "in layer '0' (Linear), which received [2, 9]" in caught.value.__notes__[0]
    del caught
    assert len(ipywidgets.widgets.widget._instances) == before
    with pytest.raises(ArgumentError, match=r"inspector must be an Inspector, or None, not 3"):
        ModuleExplorer(nn.Linear(2, 2), inspector=3)  # type: ignore[arg-type]  # wrong on purpose


def test_never_more_than_the_browser_can_show() -> None:
    net = nn.Sequential(*[nn.Sequential(*[nn.Linear(1, 1) for _ in range(70)]) for _ in range(5)])
    explorer = ModuleExplorer(net)
    for path in "01234":
        explorer.toggle(path)
    assert "the limit is 200. Close other layers" in explorer._said.value
    explorer.select("4.69")
    assert "4.69" in explorer.shown
    flow = follow(net)
    assert len(draw(flow, explorer._map.opened, "4.69")) <= MAX_ELEMENTS
    assert len([key for key in explorer.shown if key.startswith("4.")]) == MAX_CHILDREN
    explorer.close()


def test_boxes_lie_inside_their_layer_and_apart() -> None:
    flow = follow(Encoder(), torch.randn(2, 4, 8))
    picture = draw(flow, {path for path, layer in flow.layers.items() if layer.children})
    boxes = {box.key: box for box in picture.boxes}
    for box in boxes.values():
        if box.parent:
            around = boxes[box.parent]
            for axis in (0, 1):
                assert abs(box.center[axis] - around.center[axis]) + box.size[axis] / 2 <= around.size[axis] / 2
        for other in boxes.values():
            if other.key > box.key and other.parent == box.parent:
                apart = [
                    abs(box.center[axis] - other.center[axis]) >= (box.size[axis] + other.size[axis]) / 2
                    for axis in (0, 1)
                ]
                assert any(apart), (box, other)
    assert ("join:blocks.0", "blocks.1.norm") in picture.edges
    closed = draw(flow, {""})
    assert set(closed.edges) == {("input:", "blocks"), ("blocks", "head"), ("head", "output:")}


def test_the_theme_repaints_without_rebuilding(explorer: ModuleExplorer) -> None:
    graph = explorer._map._graph
    assert graph is not None
    explorer._page.theme = "dark"
    assert graph is explorer._map._graph
    assert graph.cytoscape_style[0]["css"]["color"] == "#e8eaed"


def test_another_input(explorer: ModuleExplorer) -> None:
    explorer.select("head")
    explorer.show_input(torch.randn(5, 3, 8))
    assert "5×2" in html(explorer)
    assert explorer._strip.number.max == 4


def press(explorer: ModuleExplorer, *moves: str) -> str:
    """Press keys; what a screen reader says last."""
    for move in moves:
        explorer._page._handle_custom_msg({"kind": "move", "move": move}, [])
    told: str = explorer._page.told
    return told


def test_keys_walk_through_the_layers_and_open_them(explorer: ModuleExplorer) -> None:
    explorer._close_all()
    assert press(explorer, "next") == "blocks, ModuleList, closed, 1 of 3"
    assert explorer.selected == "blocks"
    assert press(explorer, "toggle").startswith("blocks, ModuleList, open, 1 of")
    assert press(explorer, "in").startswith("blocks.0, Block, closed")
    assert press(explorer, "in", "in").startswith("blocks.0.")
    press(explorer, "out", "out", "out")
    assert explorer.selected == "blocks"
    assert press(explorer, "out") == "blocks, ModuleList, closed, 1 of 3"
    assert press(explorer, "previous") == "blocks, ModuleList, closed, 1 of 3"
    assert press(explorer, "next", "next", "next", "next").endswith("3 of 3")
    assert press(explorer, "jump", "toggle").endswith("3 of 3")


def test_keys_of_a_closed_explorer_do_nothing() -> None:
    explorer = ModuleExplorer(Encoder())
    explorer.close()
    explorer._move("next")
    press(explorer, "next")


def test_a_module_that_a_cell_may_use_is_run_when_the_cell_has_ended(explorer: ModuleExplorer) -> None:
    began, ends = threading.Event(), threading.Event()

    def cell() -> None:
        cells.began()
        began.set()
        ends.wait()
        cells.ended()

    busy = threading.Thread(target=cell)
    busy.start()
    try:
        assert began.wait(60)
        click(explorer, "head")
        assert explorer.selected == "head"
        assert "A cell is running and may use the model" in html(explorer)
        assert "zeros" not in html(explorer)
        with pytest.raises(InspectionError, match="The input runs when the cell has ended"):
            explorer._alive().captures("head")
    finally:
        ends.set()
        busy.join()
    assert "A cell is running" not in html(explorer)
    assert "zeros" in html(explorer)


def test_a_training_of_the_module_waits_between_two_steps_while_it_is_run() -> None:
    net = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))
    engine = TrainingEngine(net, (torch.randn(64, 4), torch.randint(0, 2, (64,))), epochs=10**6, device="cpu")
    visits: list[str] = []

    def loss(output: Tensor) -> Tensor:
        visits.append(engine._control.waiting_for or "")
        return square(output)

    engine.start()
    try:
        assert trainings_of(net[0]) == [engine]
        explorer = ModuleExplorer(net, args=torch.randn(2, 4), loss_fn=loss)
        click(explorer, "0")
        explorer.close()
    finally:
        engine.stop()
    assert visits == ["a block that looks at the model"]
    assert trainings_of(net) == []


def test_a_training_brings_its_model_its_data_and_its_classes() -> None:
    x, names = torch.randn(24, 4), np.array(["cat", "dog", "owl"])[np.arange(24) % 3]
    engine = TrainingEngine(nn.Linear(4, 3), (x, names), (x[:9], names[:9]), epochs=1, device="cpu")
    assert engine.start().wait(60)
    with closing(ModuleExplorer(engine)) as explorer:
        said = explorer.describe()
        assert "Example 0 of 9" in said
        assert "Target: cat" in said
    with closing(ModuleExplorer(engine, x)) as explorer:
        assert "Example 0 of 24" in explorer.describe()
