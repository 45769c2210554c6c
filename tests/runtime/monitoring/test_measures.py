"""Measures of one's own are drawn by the dashboard, change no training, and cannot end one."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import pnne_nb as pn
from pnne_nb.runtime.engine import TrainingEngine
from pnne_nb.widgets.dashboard.dashboard import TrainingDashboard
from pnne_nb.widgets.plots.plot import RecordedPlot

pytestmark = pytest.mark.usefixtures("own_widgets")


def trained(*, shown: bool) -> tuple[TrainingEngine, TrainingDashboard | None]:
    torch.manual_seed(0)
    x = torch.randn(64, 4)
    model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 1))
    engine = TrainingEngine(model, (x, x.sum(1, keepdim=True)), epochs=4, batch_size=8, loss="MSELoss", seed=1)
    dashboard = TrainingDashboard(engine) if shown else None
    engine.start()
    assert engine.wait(60)
    if dashboard is not None:
        dashboard._pump.join(30)
    return engine, dashboard


def plots(dashboard: TrainingDashboard | None, title: str) -> list[RecordedPlot]:
    assert dashboard is not None
    return [plot for plot in dashboard._plots if isinstance(plot, RecordedPlot) and plot._title == title]


def test_a_measure_is_drawn_and_changes_no_training() -> None:
    @pn.register_probe("Norm of the weights")
    def norms(model: nn.Module) -> dict[str, torch.Tensor]:
        torch.rand(3)  # which the training must not notice
        assert not torch.is_grad_enabled()
        assert all(parameter.grad is not None for parameter in model.parameters())
        return {name: weight.norm() for name, weight in model.named_parameters() if weight.dim() > 1}

    engine, dashboard = trained(shown=True)
    twin, _ = trained(shown=False)
    assert engine.history["loss"].tolist() == twin.history["loss"].tolist()
    (plot,) = plots(dashboard, "Norm of the weights")
    assert plot.view.layout.display is None
    assert "0.weight" in plot.view.children[0].value
    assert len(plot.figure.marks) == 2


@pytest.mark.parametrize(
    ("measure", "said"),
    [
        (lambda model: {"norm": model.nothing}, "AttributeError"),
        (lambda _model: 3.0, "It returns 3.0, not numbers by name"),
        (lambda _model: {"norm": torch.ones(2)}, "only one element"),
    ],
)
def test_a_measure_that_fails_is_told_once_and_left_out(measure: Any, said: str) -> None:
    pn.register_probe("Mine")(measure)
    engine, dashboard = trained(shown=True)
    assert engine.state == "finished"
    assert dashboard is not None
    (notice,) = [each for each in dashboard._findings.shown() if "left out" in str(each)]
    assert said in str(notice)
    assert plots(dashboard, "Mine")[0].view.layout.display == "none"


def test_what_cannot_be_a_measure_is_refused() -> None:
    with pytest.raises(pn.ArgumentError, match="title"):
        pn.register_probe(lambda _model: {})  # type: ignore[arg-type]  # which is the point
    with pytest.raises(pn.ArgumentError, match="'norm' cannot be called"):
        pn.register_probe("Mine")("norm")  # type: ignore[type-var]  # as above
