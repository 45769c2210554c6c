"""The pictures that stay: one for each widget, the same for the same state, drawn again at rest."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree as ET

import pytest
import torch
from torch import nn

import pnne_nb as pn
from pnne_nb.process import idle
from pnne_nb.widgets.host.static_picture import KeptPicture, Pictured, Still
from tests.widgets.shown import Shown


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> Shown:
    return Shown(monkeypatch)


def data() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(40, 4), torch.randint(3, (40,))


def net() -> nn.Sequential:
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))


def dashboard() -> Pictured:
    engine = pn.TrainingEngine(net(), data(), data(), epochs=2, loss="CrossEntropyLoss")
    engine.start().wait()
    return pn.TrainingDashboard(engine)


def explorer() -> Pictured:
    found = pn.ModuleExplorer(net(), args=torch.randn(2, 4))
    found.select("2")
    return found


def layer_plot() -> Pictured:
    inspector = pn.Inspector(net())
    inspector.watch("1")
    inspector.run_inspection(torch.randn(5, 4))
    figure = inspector.plot("1")
    assert isinstance(figure, Pictured)
    return figure


@pytest.fixture(params=[dashboard, explorer, layer_plot])
def pictured(request: pytest.FixtureRequest) -> Iterator[Any]:
    widget = request.param()
    yield widget
    widget.close()


@pytest.fixture
def plot() -> Iterator[Any]:
    figure: Any = layer_plot()
    yield figure
    figure.close()


def test_each_widget_is_drawn_in_both_themes_and_said_in_words(pictured: Any) -> None:
    light, dark, auto = (pictured.to_svg(theme) for theme in ("light", "dark", "auto"))
    for drawn in (light, dark, auto):
        root = ET.fromstring(drawn)
        assert root.get("role") == "img"
        assert (root.findtext("{http://www.w3.org/2000/svg}title") or "") != ""
    assert light != dark
    assert "prefers-color-scheme" in auto
    assert "prefers-color-scheme" not in light
    assert "var(" not in light
    assert 'alt="' in pictured.to_html()
    assert "<li>" in pictured.to_html("dark")
    with pytest.raises(pn.ArgumentError, match=r"theme cannot be 'blue'\. It is one of 'auto', 'light', 'dark'\."):
        pictured.to_svg("blue")


def test_a_cell_gets_the_widget_and_the_picture_beneath(pictured: Any, shown: Shown) -> None:
    pictured._ipython_display_()
    widget, picture = shown.bundles
    assert "application/vnd.jupyter.widget-view+json" in widget
    assert picture["text/plain"].startswith("Picture of ")
    assert "<figure><img" in picture["text/html"]


def test_marimo_gets_the_widget_on_a_canvas(pictured: Any) -> None:
    canvas = pictured._display_()
    views = canvas.views([canvas], [])
    assert pictured.model_id in views
    assert not any("cannot be shown" in view.get("html", "") for view in views.values())
    canvas.close()


def test_the_explorers_picture_follows_what_is_opened(shown: Shown) -> None:
    widget = pn.ModuleExplorer(nn.Sequential(net(), nn.ReLU()), args=torch.randn(2, 4))
    widget._ipython_display_()
    widget.select("0.2")
    widget._close_all()
    shown.waiting.pop()()
    assert shown.updates == []  # it has changed again meanwhile
    shown.waiting.pop()()
    [update] = shown.updates
    assert "0.2: Linear(in_features=4" not in update["text/html"]
    assert "0.2: Linear(in_features=8, out_features=3" in update["text/html"]
    widget.select("1")
    widget.close()
    assert shown.waiting == []


def test_reports_stand_under_the_picture_and_a_closed_one_stays_as_it_is(shown: Shown) -> None:
    picture = KeptPicture(lambda: "it", lambda: "<b>drawn</b>")
    picture.changed()
    assert shown.waiting == []  # no cell shows it
    picture.show_under(SimpleNamespace(_repr_mimebundle_=lambda: None))
    picture.add_report("<i>report</i>")
    shown.waiting.pop()()
    assert "<b>drawn</b><i>report</i>" in shown.updates[0]["text/html"]
    picture.close()
    picture.redraw()
    assert len(shown.updates) == 1


def test_without_the_painter_a_png_names_the_extra(plot: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "resvg_py", None)
    with pytest.raises(pn.PnneError, match=r"not installed: pip install 'pnne_nb\[png\]'"):
        plot.to_png()


def test_a_png_is_painted_in_the_light_theme_unless_told(plot: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, float]] = []

    def paint(*, svg_string: str, zoom: float) -> list[int]:
        asked.append((svg_string, zoom))
        return [1, 2]

    monkeypatch.setitem(sys.modules, "resvg_py", SimpleNamespace(svg_to_bytes=paint))
    assert plot.to_png() == b"\1\2"
    plot.to_png("dark", scale=1)
    assert "#ffffff" in asked[0][0]
    assert "#1e1e1e" in asked[1][0]
    assert [zoom for _, zoom in asked] == [2.0, 1]


def test_what_can_be_drawn_says_what() -> None:
    with pytest.raises(NotImplementedError):
        Pictured().still()
    assert Still("a", "b", [], lambda _: "").title == "a"


def test_the_picture_of_something_large_comes_after_the_cell(shown: Shown) -> None:
    picture = KeptPicture(lambda: "it", lambda: "<b>drawn</b>", lambda: False)
    picture.show_under(SimpleNamespace(_repr_mimebundle_=lambda: None))
    assert "its picture is drawn as soon as nothing changes" in shown.bundles[-1]["text/html"]
    shown.waiting.pop()()
    assert "<b>drawn</b>" in shown.updates[0]["text/html"]


def test_a_change_stops_a_picture_that_is_being_drawn(shown: Shown, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(idle, "PIECE", 0.0)
    started = 0

    def draw() -> str:
        nonlocal started
        started += 1
        if started == 2:
            picture.changed()
        idle.breathe()
        return f"<b>{started}</b>"

    picture = KeptPicture(lambda: "it", draw)
    picture.show_under(SimpleNamespace(_repr_mimebundle_=lambda: None))
    picture.changed()
    shown.waiting.pop()()
    assert shown.updates == []
    shown.waiting.pop()()
    assert "<b>3</b>" in shown.updates[0]["text/html"]
