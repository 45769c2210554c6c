"""What a page without ipywidgets is told: controls whose words cannot be injected into, and points in shares of the axes."""

from __future__ import annotations

import bqplot
import ipywidgets
import numpy as np
import pytest

from pnne_nb.widgets.host.views import Buffers, View, view_of

pytestmark = pytest.mark.usefixtures("own_widgets")


def shown(mark: bqplot.Mark, *axes: bqplot.Axis) -> tuple[View, list[list[list[float]]]]:
    buffers: Buffers = []
    figure = bqplot.Figure(marks=[mark], axes=list(axes))
    view = view_of(figure, buffers)
    return view, [np.frombuffer(each, np.float32).reshape(-1, 2).round(3).tolist() for each in buffers]


def test_a_control_is_html_and_its_value_comes_apart() -> None:
    chosen = ipywidgets.Dropdown(options=["a<b>", "c"], description="Order & more", index=1, disabled=True)
    view = view_of(chosen, [])
    assert view["value"] == 1
    assert "<option>a&lt;b&gt;</option>" in view["html"]
    assert "Order &amp; more" in view["html"]
    assert " disabled>" in view["html"]
    before = view["html"]
    chosen.index = 0
    assert view_of(chosen, [])["html"] == before


@pytest.mark.parametrize(
    ("kind", "traits", "part"),
    [
        ("FloatText", {"value": 2.5}, 'type="number" data-set="value" data-on="change"'),
        ("Text", {"placeholder": "Search"}, 'data-on="input" title="" placeholder="Search"'),
        ("Checkbox", {"value": True}, 'type="checkbox"'),
        ("SelectionSlider", {"options": ["now", "then"]}, 'data-set="index" data-on="input"'),
        ("ToggleButtons", {"options": ["one", "two"]}, 'data-index="1">two</button>'),
        ("Button", {"icon": "chevron-left", "tooltip": "Previous"}, 'aria-label="Previous">‹</button>'),
        ("Image", {"value": b"\x01", "format": "png"}, 'src="data:image/png;base64,AQ=="'),
        ("Play", {}, "<p>Play cannot be shown here.</p>"),
    ],
)
def test_each_kind_of_control_has_its_element(kind: str, traits: dict[str, object], part: str) -> None:
    assert part in view_of(getattr(ipywidgets, kind)(**traits), [])["html"]


def test_a_box_names_its_children_and_keeps_its_layout() -> None:
    inner = ipywidgets.HTML("<b>x</b>")
    view = view_of(ipywidgets.VBox([inner], layout=ipywidgets.Layout(grid_area="a", width="5px")), [])
    assert view["children"] == [inner.model_id]
    assert view["style"]["grid-area"] == "a"
    assert view["style"]["flex-direction"] == "column"


def test_points_are_shares_of_linear_and_logarithmic_axes_and_what_cannot_be_shown_is_a_gap() -> None:
    scales = {"x": bqplot.LinearScale(min=0.0, max=10.0), "y": bqplot.LogScale(min=0.1, max=10.0)}
    lines = bqplot.Lines(x=[0, 5, 10], y=[[1.0, 0.0, 10.0], [0.1, np.nan, 1.0]], scales=scales)
    axis = bqplot.Axis(
        scale=scales["y"], side="left", label="loss", grid_lines="none", tick_values=[0.1, 1.0, 10.0, 100.0]
    )
    view, points = shown(lines, axis)
    assert str(points) == str(
        [[[0.0, 0.5], [0.5, float("nan")], [1.0, 1.0]], [[0.0, 0.0], [0.5, float("nan")], [1.0, 0.5]]]
    )
    assert 'aria-label="loss"' in view["html"]
    assert ">10</span>" in view["html"]
    assert ">100</span>" not in view["html"]  # beyond the end of the axis


def test_bars_stand_on_their_ground_and_names_go_down_where_the_scale_is_reversed() -> None:
    names = bqplot.OrdinalScale(domain=["first", "second"], reverse=True)
    scales = {"x": names, "y": bqplot.LinearScale(min=0.0, max=4.0)}
    bars = bqplot.Bars(x=["first", "second"], y=[1.0, 2.0], scales=scales, orientation="horizontal", padding=0.0)
    view, [points] = shown(bars, bqplot.Axis(scale=names, side="left", grid_lines="none"))
    assert points[:4] == [[0.0, 0.5], [0.25, 0.5], [0.25, 1.0], [0.0, 1.0]]
    assert view["html"].index("top:25.00%") < view["html"].index(">first<") < view["html"].index(">second<")


def test_a_dot_says_which_it_is_and_a_line_that_is_half_changed_is_drawn_as_far_as_it_goes() -> None:
    scales = {"x": bqplot.LinearScale(min=0.0, max=1.0), "y": bqplot.LinearScale(min=0.0, max=1.0)}
    dots = bqplot.Scatter(x=[0.5], y=[0.25], scales=scales)
    view, _ = shown(dots)
    assert f'd="M0.5000 0.7500h0" stroke-linecap="round" data-dot="0" data-model="{dots.model_id}"' in view["html"]
    _, points = shown(bqplot.Lines(x=[0.0, 0.5, 1.0], y=[0.0, 1.0], scales=scales))
    assert points == [[[0.0, 0.0], [0.5, 1.0]]]
