"""Below a finished dashboard, each button runs the line of code that it shows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import ipywidgets
import pytest
import torch
from torch import nn

import pnne_nb as pn
from pnne_nb.runtime.session.next_steps import NextSteps, Step
from pnne_nb.widgets.dashboard.next_steps_panel import NextStepsPanel

PATIENCE = 60.0
STEPS = {step.button: step for steps in NextSteps("finished").steps.values() for step in steps if step.button}


def trained(*, graph: bool = True) -> pn.TrainingEngine:
    generator = torch.Generator().manual_seed(0)
    data = torch.randn(80, 4, generator=generator), torch.arange(80) % 3
    model: Any = pn.sequential(
        ("Linear", {"out_features": 8}), "ReLU", ("Linear", {"out_features": 3}), input=("N", 4), name="tiny"
    )
    engine = pn.TrainingEngine(model if graph else nn.Linear(4, 3), data, data, epochs=1, device="cpu")
    engine.start()
    engine.wait()
    return engine


@pytest.fixture
def panel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[NextStepsPanel]:
    monkeypatch.chdir(tmp_path)
    with closing(NextStepsPanel(trained())) as panel:
        panel.follow("finished")
        yield panel


def buttons(panel: NextStepsPanel) -> dict[str, ipywidgets.Button]:
    return {
        child.description: child
        for row in panel.children[0].children
        for child in row.children
        if isinstance(child, ipywidgets.Button)
    }


def is_hidden(panel: NextStepsPanel) -> bool:
    return bool(panel.layout.display == "none")


def result(panel: NextStepsPanel) -> Any:
    (shown,) = panel.children[2].children
    return shown


def test_the_buttons_are_those_of_the_lines_that_need_only_the_engine(panel: NextStepsPanel) -> None:
    assert list(buttons(panel)) == list(STEPS)
    assert not is_hidden(panel)
    for name, step in STEPS.items():
        assert step.line in buttons(panel)[name].tooltip
    panel.follow("running")
    assert is_hidden(panel)
    panel.follow("stopped")
    assert "Worst examples" in buttons(panel)
    assert "Script" not in buttons(panel)


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("Worst examples", "The worst examples"),
        ("Confusion", "accuracy"),
        ("Evaluate", "80 examples"),
        ("Find a rate", "Learning rate"),
        ("Script", "torch"),
    ],
)
def test_a_button_shows_its_line_and_what_it_gives(panel: NextStepsPanel, name: str, shown: str) -> None:
    buttons(panel)[name].click()
    assert STEPS[name].line.split("(")[0] in panel.children[1].value
    assert shown in result(panel).value


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("Explorer", "ModuleExplorer"),
        ("App", "ModelApp"),
        ("Quantise", "QuantizationEditor"),
        ("Compare forms", "TargetDashboard"),
    ],
)
def test_a_widget_opens_below_and_closes_with_the_next_one(panel: NextStepsPanel, name: str, kind: str) -> None:
    buttons(panel)[name].click()
    opened = result(panel)
    assert type(opened).__name__ == kind
    if kind == "TargetDashboard":
        opened.stop()
        opened.wait(PATIENCE)
    buttons(panel)["Evaluate"].click()
    assert opened.comm is None
    assert isinstance(result(panel), ipywidgets.HTML)


def test_files_are_written_by_the_line_that_is_shown(panel: NextStepsPanel, tmp_path: Path) -> None:
    buttons(panel)["Checkpoint"].click()
    assert (tmp_path / "net.ckpt").exists()
    assert not panel.children[2].children
    buttons(panel)["Script"].click()
    assert (tmp_path / "train.py").exists()


def test_going_on_trains_at_the_lower_rate() -> None:
    engine = trained()
    with closing(NextStepsPanel(engine)) as panel:
        panel.follow("finished")
        before = engine.optimizer.param_groups[0]["lr"]
        buttons(panel)["Lower rate"].click()
        assert engine.optimizer.param_groups[0]["lr"] == pytest.approx(0.1 * before)
        buttons(panel)["More epochs"].click()
        engine.wait()
        assert len(engine.history.epochs) == 2


def test_a_refusal_stands_where_the_result_would() -> None:
    with closing(NextStepsPanel(trained(graph=False))) as panel:
        panel.follow("finished")
        buttons(panel)["Script"].click()
        assert "TrainingError: Linear was not compiled from a graph" in result(panel).value
    panel.run(Step("pn.worst(engine)"))  # after it was closed, nothing happens


def test_a_dashboard_offers_them_once_the_training_is_over() -> None:
    engine = trained()
    with closing(pn.TrainingDashboard(engine)) as dashboard:
        panel = dashboard.children[-1]
        assert isinstance(panel, NextStepsPanel)
        assert panel.layout.display is None
        dashboard.show_export()
        assert dashboard.children[-1] is panel
        assert len(dashboard.children) == 4
        dashboard.show_export(False)
        assert len(dashboard.children) == 3
