"""What no cell shows any more is closed, and nothing else."""

from __future__ import annotations

from collections.abc import Callable

import ipywidgets
import pytest
import torch
from ipywidgets.widgets.widget import _instances as open_widgets
from torch import nn

import pnne_nb as pn
from pnne_nb.widgets.host.displays import Closable, Displays, close_parts, widget_tree


class Widget:
    def __init__(self) -> None:
        self.closed = False
        self.views = 0

    def close(self) -> None:
        self.closed = True

    @staticmethod
    def is_in_view(widget: Closable) -> bool:
        assert isinstance(widget, Widget)
        return widget.views > 0


def test_a_cell_that_runs_again_closes_what_it_showed() -> None:
    displays, old, new = Displays(), Widget(), Widget()
    displays.record("a", 1, old)
    displays.record("a", 2, new)
    assert (old.closed, new.closed) == (True, False)


def test_what_the_cell_shows_again_stays() -> None:
    displays, widget = Displays(), Widget()
    displays.record("a", 1, widget)
    displays.record("a", 2, widget)
    assert not widget.closed


def test_what_another_cell_shows_stays_until_that_one_runs_again() -> None:
    displays, old, new = Displays(), Widget(), Widget()
    displays.record("a", 1, old)
    displays.record("b", 2, old)
    displays.record("a", 3, new)
    assert [old.closed, new.closed] == [False, False]
    displays.record("b", 4, new)
    assert [old.closed, new.closed] == [True, False]


def test_a_cell_may_show_several() -> None:
    displays, first, second = Displays(), Widget(), Widget()
    displays.record("a", 1, first)
    displays.record("a", 1, second)
    assert [first.closed, second.closed] == [False, False]
    displays.record("a", 2, Widget())
    assert [first.closed, second.closed] == [True, True]


def test_outside_a_notebook_nothing_is_recorded() -> None:
    displays = Displays()
    displays.shown(Widget())
    assert displays._cells == {}
    assert Displays.here() is Displays.here()


class Cell:
    """The shell, as a front end without cell ids has it run some code."""

    def __init__(self) -> None:
        self.execution_count = 0
        self.code = ""

    def run(self, code: str) -> None:
        self.execution_count += 1
        self.code = code

    def get_parent(self) -> dict[str, object]:
        return {"metadata": {}, "content": {"code": self.code}}


@pytest.fixture
def cell(monkeypatch: pytest.MonkeyPatch) -> Cell:
    cell = Cell()
    monkeypatch.setattr("pnne_nb.widgets.host.displays.get_ipython", lambda: cell)
    return cell


def test_without_cell_ids_what_the_page_has_let_go_of_is_closed(cell: Cell) -> None:
    displays, old, new = Displays(), Widget(), Widget()
    cell.run("show()")
    displays.shown(old, Widget.is_in_view)
    cell.run("show()")
    displays.shown(new, Widget.is_in_view)
    assert (old.closed, new.closed) == (True, False)


def test_without_cell_ids_what_another_cell_of_the_same_code_shows_stays_as_long_as_it_is_seen(cell: Cell) -> None:
    displays, first, second = Displays(), Widget(), Widget()
    cell.run("show()")
    displays.shown(first, Widget.is_in_view)
    first.views = 1
    cell.run("show()")
    displays.shown(second, Widget.is_in_view)
    assert not first.closed
    first.views = 0
    displays.left(first)
    displays.left(second)
    assert (first.closed, second.closed) == (True, False)


def test_without_cell_ids_nothing_is_closed_that_cannot_be_asked(cell: Cell) -> None:
    displays, old = Displays(), Widget()
    for widget in (old, Widget()):
        cell.run("show()")
        displays.shown(widget)
    assert not old.closed


def _editor() -> ipywidgets.Widget:
    graph = pn.NodeGraph()
    graph.add("Input", name="x", shape=("N", 4))
    editor = pn.GraphEditor(graph, height=300)
    graph.add("ReLU", name="relu")
    return editor


def _training(epochs: int) -> pn.TrainingEngine:
    data = torch.randn(16, 4), torch.randint(0, 3, (16,))
    return pn.TrainingEngine(nn.Sequential(nn.Linear(4, 3)), data, data, epochs=epochs, batch_size=8, device="cpu")


def _idle_dashboard() -> ipywidgets.Widget:
    return pn.TrainingDashboard(_training(1))


def _used_dashboard() -> ipywidgets.Widget:
    engine = _training(2)
    dashboard = pn.TrainingDashboard(engine, loss_scale="log")
    engine.start().wait()
    dashboard._pump.join()
    dashboard._chooser._handle_custom_msg({"kind": "scale", "id": 1, "log": True}, [])
    dashboard._chooser._handle_custom_msg({"kind": "choose", "id": 2, "layer": "0 (gradients)"}, [])
    dashboard.draw(1, watched=True)
    return dashboard


def _explorer() -> ipywidgets.Widget:
    explorer = pn.ModuleExplorer(nn.Sequential(nn.Sequential(nn.Linear(4, 3), nn.ReLU()), nn.Linear(3, 2)))
    explorer.show_input(torch.randn(2, 4))
    explorer.toggle("0")
    explorer.select("0.0")
    return explorer


def _layer_plot() -> ipywidgets.Widget:
    inspector = pn.Inspector(nn.Linear(4, 3))
    inspector.run_inspection(torch.randn(2, 4))
    figure = inspector.plot("")
    assert isinstance(figure, ipywidgets.Widget)
    return figure


def _quantization() -> ipywidgets.Widget:
    return pn.QuantizationEditor(nn.Linear(3, 2), (torch.ones(8, 3), torch.zeros(8, 2)), kind="bfloat16")


def _targets() -> ipywidgets.Widget:
    data = (torch.ones(8, 3), torch.zeros(8, 2))
    dashboard = pn.TargetDashboard(nn.Linear(3, 2), data, targets=["eager"])
    dashboard.wait(60)
    return dashboard


def _monitor() -> ipywidgets.Widget:
    monitor = pn.TrainingMonitor()
    dashboard: ipywidgets.Widget = pn.TrainingDashboard(monitor)  # type: ignore[arg-type]  # one of its own
    monitor.step(1.0, margin=0.5)
    monitor.close()
    return dashboard


def _surface() -> ipywidgets.Widget:
    engine = _training(1)
    return pn.DecisionSurface(engine, (torch.randn(16, 4), torch.randint(0, 3, (16,))))


def _finder() -> ipywidgets.Widget:
    finder = pn.LearningRateFinder(_training(1), steps=20)
    finder.wait(60)
    return finder


WIDGETS = [
    _finder,
    _editor,
    _idle_dashboard,
    _used_dashboard,
    _monitor,
    _surface,
    _explorer,
    _layer_plot,
    _quantization,
    _targets,
]


@pytest.mark.parametrize("make", WIDGETS)
def test_a_closed_widget_leaves_none_of_its_parts_open(make: Callable[[], ipywidgets.Widget]) -> None:
    before = set(open_widgets)
    widget = make()
    made = [open_widgets[model] for model in set(open_widgets) - before]
    assert len(made) > 1
    widget.close()
    assert [open_widgets[model] for model in set(open_widgets) - before] == []
    assert [part for part in made if part.comm is not None] == []


def test_the_widgets_are_all_those_that_are_public() -> None:
    public = [one for one in (getattr(pn, name) for name in pn.__all__) if isinstance(one, type)]
    made = [make() for make in WIDGETS]
    for kind in public:
        assert not issubclass(kind, ipywidgets.Widget) or any(isinstance(widget, kind) for widget in made), kind
    for widget in made:
        widget.close()


def test_an_editor_that_is_displayed_once_more_has_its_layout_again() -> None:
    editor = _editor()
    editor.layout.width = "50%"
    editor.close()
    editor._ipython_display_()
    assert {part.comm is None for part in widget_tree(editor)} == {False}
    assert editor.get_state("layout")["layout"] == f"IPY_MODEL_{editor.layout.model_id}"
    editor.close()


def test_parts_are_found_once_and_whatever_holds_them() -> None:
    shared = ipywidgets.Layout()
    inner = ipywidgets.HBox([ipywidgets.HTML("a", layout=shared), ipywidgets.HTML("b", layout=shared)])
    root = ipywidgets.VBox([inner])
    found = widget_tree(root)
    assert found[0] is root
    assert [found.count(part) for part in (shared, inner, root.layout, *inner.children)] == [1] * 5
    close_parts(root)
    assert root.comm is not None
    assert inner.comm is shared.comm is None
    root.close()
