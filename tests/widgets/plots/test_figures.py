"""The common look: readable colours, honest axes, headings that cannot be injected into."""

from __future__ import annotations

import bqplot
import numpy as np
import pytest

from pnne_nb.widgets.plots.figures import Figure, NumberAxis, drawable, heading_html, positive
from pnne_nb.widgets.plots.svg_chart import PALETTE

pytestmark = pytest.mark.usefixtures("own_widgets")

LIGHT, DARK = "#ffffff", "#111111"


def luminance(colour: str) -> float:
    """Relative luminance as WCAG 2 defines it, 0 to 1."""
    channels = (int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5))
    linear = [channel / 12.92 if channel <= 0.03928 else ((channel + 0.055) / 1.055) ** 2.4 for channel in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("background", [LIGHT, DARK])
@pytest.mark.parametrize("colour", PALETTE)
def test_every_colour_stands_out_from_both_backgrounds(colour: str, background: str) -> None:
    lighter, darker = sorted((luminance(colour), luminance(background)), reverse=True)
    assert (lighter + 0.05) / (darker + 0.05) >= 3.0


def test_an_axis_moves_in_round_steps_only() -> None:
    axis = NumberAxis("step", whole=True)
    sent: list[object] = []
    axis.fit(np.array([0.0, 83.0]))
    axis.axis.observe(sent.append, "tick_values")
    for last in (84.0, 90.0, 100.0):
        axis.fit(np.array([0.0, last]))
    assert sent == []
    assert (axis.scale.min, axis.scale.max) == (0.0, 100.0)
    axis.fit(np.array([0.0, 101.0]))
    assert len(sent) == 1
    assert axis.scale.max == 125.0


@pytest.mark.parametrize(("log", "power"), [(False, 1), (True, 10)])
def test_an_axis_stays_while_the_data_fill_most_of_it(log: bool, power: int) -> None:
    def ends() -> tuple[float, float]:
        return axis.scale.min, axis.scale.max

    axis = NumberAxis("elements", log=log)
    values = np.array([1.0, 100.0])
    axis.fit(values**power)
    first = ends()
    for highest in (80.0, 95.0, 61.0):
        axis.fit(np.array([1.0, highest]) ** power)
        assert ends() == first
    axis.fit(np.array([1.0, 140.0]) ** power)
    assert ends()[1] > first[1]
    axis.fit(np.array([1.0, 4.0]) ** power)
    assert ends()[1] < first[1]


@pytest.mark.parametrize("values", [[], [np.nan, np.inf], [-1.0, 0.0]])
def test_a_log_axis_without_anything_to_draw_stays_as_it_is(values: list[float]) -> None:
    axis = NumberAxis("norm", log=True)
    axis.fit(np.array(values))
    assert (axis.scale.min, axis.scale.max) == (0.1, 1.0)


def test_an_axis_from_zero_begins_there() -> None:
    axis = NumberAxis("count", zero=True)
    axis.fit(np.array([40.0, 95.0]))
    assert (axis.scale.min, axis.scale.max) == (0.0, 100.0)


def test_headings_escape_names_and_show_the_legend() -> None:
    html = heading_html("Loss <b>", [("<script>", "#123456")])
    assert "<script>" not in html
    assert "&lt;script&gt;" in html
    assert "Loss &lt;b&gt;" in html
    assert "#123456" in html


def test_a_single_point_is_drawn_twice() -> None:
    assert drawable(np.ones((3, 1), np.float32)).shape == (3, 2)
    assert drawable(np.ones((3, 5), np.float32)).shape == (3, 5)
    assert drawable(np.ones(0, np.float32)).shape == (0,)


def test_a_logarithmic_scale_has_gaps_where_there_is_no_logarithm() -> None:
    kept = positive(np.array([1.0, 0.0, -1.0], np.float32))
    assert np.isnan(kept).tolist() == [False, True, True]
    assert kept.dtype == np.float32


def test_a_figure_is_as_wide_as_its_place_and_has_no_legend_on_the_data() -> None:
    axis = NumberAxis("x")
    drawn = Figure([bqplot.Lines(x=[], y=[], scales={"x": axis.scale, "y": axis.scale})], [axis.axis])
    assert drawn.layout.width == "100%"
    assert not any(mark.display_legend for mark in drawn.marks)
