"""What a step function records is drawn by name over the steps."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from pnne_nb.runtime.engine import TrainingEngine
from pnne_nb.telemetry.frames import StepFrame
from pnne_nb.widgets.dashboard.dashboard import TrainingDashboard
from pnne_nb.widgets.plots.plot import RecordedPlot
from pnne_nb.widgets.plots.svg_chart import PALETTE

pytestmark = pytest.mark.usefixtures("own_widgets")


def step(number: int, logged: dict[str, float] | None) -> StepFrame:
    return StepFrame(number, 1, 1.0, 0.1, 1, 0.0, logged=logged)


def test_a_line_for_each_name_from_where_it_is_first_recorded() -> None:
    plot = RecordedPlot()
    plot.take(step(1, None))
    plot.draw()
    assert plot.view.layout.display == "none"
    for frame in (step(2, {"d_loss": 1.0}), step(3, {"d_loss": 2.0, "g_loss": 5.0}), step(4, {"g_loss": 6.0})):
        plot.take(frame)
        plot.draw()
    assert plot.view.layout.display is None
    first, second = plot.figure.marks
    assert (first.x.tolist(), first.y.tolist()) == ([2, 3], [1, 2])
    assert (second.x.tolist(), second.y.tolist()) == ([3, 4], [5, 6])
    heading = plot.view.children[0].value
    assert "d_loss" in heading
    assert "g_loss" in heading


def test_of_very_many_the_first_are_drawn() -> None:
    plot = RecordedPlot()
    plot.take(step(1, {f"number{index}": float(index) for index in range(len(PALETTE) + 3)}))
    plot.draw()
    assert len(plot.figure.marks) == len(PALETTE)


def test_a_dashboard_that_comes_late_shows_what_was_recorded() -> None:
    def record(model: nn.Module, batch: Any) -> dict[str, Tensor]:
        loss = model(batch[0]).square().mean()
        return {"loss": loss, "half": loss / 2}

    engine = TrainingEngine(nn.Linear(3, 1), (torch.ones(8, 3),), step_function=record, batch_size=2, device="cpu")
    assert engine.start().wait(60)
    dashboard = TrainingDashboard(engine)
    (plot,) = [plot for plot in dashboard._plots if isinstance(plot, RecordedPlot)]
    (line,) = plot.figure.marks
    assert line.y.tolist() == engine.history["half"].astype("float32").tolist()
    dashboard.close()
