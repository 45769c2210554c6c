"""A curve is drawn as often as it looks different, and to the last point where it stands still."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import nn

from pnne_nb.runtime import TrainingEngine
from pnne_nb.runtime.monitoring.history import EDITED
from pnne_nb.telemetry.frames import AnomalyFrame, EpochFrame, Frame, NormsFrame, StateFrame, StepFrame
from pnne_nb.widgets.dashboard.dashboard import TrainingDashboard
from pnne_nb.widgets.plots.layer_plots import NormPlot
from pnne_nb.widgets.plots.loss_plot import LossPlot
from pnne_nb.widgets.plots.plot import LATEST, SEEN, Growth, Plot, RecordedPlot

pytestmark = pytest.mark.usefixtures("own_widgets")

LONG = 10_000


def step(number: int, *, recorded: float | None = None) -> StepFrame:
    logged = {} if recorded is None else {"reward": recorded}
    return StepFrame(number, 1, 1.0, 0.1, 1, 0.0, logged=logged)


def norms(number: int) -> NormsFrame:
    return NormsFrame(number, {"fc": 1.0}, 1.0)


def grown(growth: Growth, newest: int) -> bool:
    growth.newest = newest
    return growth.is_visible()


def drawn(newest: int) -> Growth:
    growth = Growth()
    growth.newest = newest
    growth.drawn()
    return growth


def test_a_young_curve_is_drawn_with_every_step() -> None:
    growth = Growth()
    for newest in range(1, round(1 / SEEN) + 1):
        assert grown(growth, newest)
        growth.drawn()


def test_a_long_curve_waits_until_it_has_grown_by_what_can_be_seen() -> None:
    growth = drawn(LONG)
    assert not grown(growth, LONG + 1)
    assert not grown(growth, round(LONG * (1 + SEEN)) - 1)
    assert grown(growth, round(LONG / (1 - SEEN)) + 1)


def test_it_never_waits_for_more_than_a_few_pictures() -> None:
    growth = drawn(LONG)
    for _ in range(3):
        assert [grown(growth, LONG + 1) for _ in range(LATEST)] == [*[False] * (LATEST - 1), True]
        growth.newest = LONG
        growth.drawn()


def test_steps_that_begin_anew_are_drawn() -> None:
    assert grown(drawn(LONG), 1)


@pytest.mark.parametrize(
    ("make", "first", "next_"),
    [
        (LossPlot, step(LONG), step(LONG + 1)),
        (partial(NormPlot, ["fc"]), norms(LONG), norms(LONG + 1)),
        (RecordedPlot, step(LONG, recorded=1.0), step(LONG + 1, recorded=2.0)),
    ],
    ids=["loss", "norms", "recorded"],
)
def test_curves_wait_for_each_other_picture(make: Callable[[], Plot], first: Frame, next_: Frame) -> None:
    plot = make()
    plot.take(first)
    assert plot.is_due()
    plot.draw()
    plot.take(next_)
    assert not plot.is_due()


@pytest.mark.parametrize(
    "news", [EpochFrame(1, LONG + 1, {"val_loss": 2.0}), AnomalyFrame(LONG + 1, EDITED, "Edited.")]
)
def test_a_validation_and_an_edit_are_drawn_at_once(news: Frame) -> None:
    plot = LossPlot()
    plot.take(step(LONG))
    plot.draw()
    plot.take(news)
    assert plot.is_due()
    plot.draw()
    assert not plot.is_due()


def test_dots_of_many_layers_move_with_every_picture() -> None:
    plot = NormPlot([f"fc{number}" for number in range(20)])
    plot.take(norms(LONG))
    plot.draw()
    assert plot.is_due()


def drawn_to(dashboard: TrainingDashboard) -> float:
    lines = dashboard._plots[0].view.children[1].marks[0]
    return float(lines.x[-1])


def test_a_dashboard_draws_to_the_last_point_what_stands_still() -> None:
    data = torch.zeros(8, 4), torch.zeros(8, dtype=torch.long)
    dashboard = TrainingDashboard(TrainingEngine(nn.Linear(4, 3), data, batch_size=4, device="cpu"))
    try:
        dashboard.take([StateFrame("running"), step(LONG)])
        dashboard.draw(1, watched=True)
        dashboard.take([step(LONG + 1)])
        dashboard.draw(2, watched=True)
        assert drawn_to(dashboard) == LONG
        dashboard.draw(3, watched=False)
        assert drawn_to(dashboard) == LONG + 1, "a page that opens later shows the present"
        dashboard.take([step(LONG + 2), StateFrame("paused")])
        dashboard.draw(4, watched=True)
        assert drawn_to(dashboard) == LONG + 2
    finally:
        dashboard.close()
