"""The dashboard follows its engine, obeys its buttons, and leaves nothing behind."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import ipywidgets
import numpy as np
import pytest
import torch
from ipywidgets.widgets import widget as registry
from torch import nn
from torch.optim.lr_scheduler import LambdaLR, LRScheduler

import pnne_nb as pn
from pnne_nb.errors import InspectionError
from pnne_nb.graph.document import NodeGraph
from pnne_nb.inspector.inspector import Inspector
from pnne_nb.runtime.engine import TrainingEngine
from pnne_nb.runtime.session.next_steps import NextSteps, Step
from pnne_nb.telemetry.frames import EpochFrame, StepFrame
from pnne_nb.widgets.dashboard.controls import ControlBar
from pnne_nb.widgets.dashboard.dashboard import UNWATCHED_HZ, WATCHED_HZ, NextStepsPanel, TrainingDashboard
from pnne_nb.widgets.editor.background_tasks import lent_model
from pnne_nb.widgets.editor.editor import GraphEditor
from pnne_nb.widgets.host.displays import widget_tree
from pnne_nb.widgets.host.live_result import LiveResult
from pnne_nb.widgets.host.pump import IN_FLIGHT

PATIENCE = 60.0

OFFERED = [
    *("fc1", "relu1", "fc2"),
    *(f"{layer} (gradients)" for layer in ("fc1", "relu1", "fc2")),
    *("fc1 (parameters)", "fc2 (parameters)"),
]
"""What the histogram can be of."""


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.relu1, self.fc2 = nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.fc2(self.relu1(self.fc1(x)))
        return y


def make_engine(
    model: nn.Module | NodeGraph | None = None,
    epochs: int = 3,
    precision: str = "32",
    scheduler: Callable[[Any], LRScheduler] | None = None,
) -> TrainingEngine:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(60, 4, generator=generator)
    y = torch.randint(0, 3, (60,), generator=generator)
    return TrainingEngine(
        model or Net(),
        (x, y),
        (x, y),
        scheduler=scheduler,
        epochs=epochs,
        batch_size=20,
        device="cpu",
        precision=precision,
    )


@pytest.fixture
def engine() -> Iterator[TrainingEngine]:
    engine = make_engine()
    yield engine
    engine.stop()


@pytest.fixture
def dashboard(engine: TrainingEngine) -> Iterator[TrainingDashboard]:
    dashboard = TrainingDashboard(engine)
    yield dashboard
    engine.stop()
    dashboard.close()


def bar_of(dashboard: TrainingDashboard) -> ControlBar:
    bar = dashboard.children[0]
    assert isinstance(bar, ControlBar)
    return bar


class Awaited:
    """Waits until the control bar shows something."""

    def __init__(self, bar: ControlBar) -> None:
        self._bar = bar
        self._changed = threading.Condition()
        bar.observe(self._tell, ["status", "tick"])

    def _tell(self, _change: object) -> None:
        with self._changed:
            self._changed.notify_all()

    def until(self, shown: Callable[[dict[str, object]], bool]) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: shown(self._bar.status), PATIENCE), self._bar.status


def press(dashboard: TrainingDashboard, command: str) -> None:
    bar_of(dashboard)._handle_custom_msg({"kind": "command", "id": 1, "command": command}, [])


def loss_points(dashboard: TrainingDashboard) -> int:
    return len(dashboard._plots[0].figure.marks[0].x)  # type: ignore[attr-defined]  # the first plot is the loss


def test_the_loss_is_named_above_its_plot_and_the_reason_below(dashboard: TrainingDashboard) -> None:
    choice = dashboard.engine.loss_choice
    shown = [widget.value for widget in widget_tree(dashboard._plots[0].view) if isinstance(widget, ipywidgets.HTML)]
    assert any("<strong>Loss: CrossEntropyLoss</strong>" in text for text in shown)
    assert f"CrossEntropyLoss was chosen: {choice.reason}." in shown
    assert f"Loss: {choice}." in dashboard.to_html()


def test_a_training_from_the_first_click_to_the_end(dashboard: TrainingDashboard) -> None:
    awaited = Awaited(bar_of(dashboard))
    assert bar_of(dashboard).status["state"] == "idle"
    press(dashboard, "start")
    awaited.until(lambda status: status["state"] == "finished")
    status = bar_of(dashboard).status
    assert (status["epoch"], status["epochs"], status["step"]) == (3, 3, 9)
    assert dashboard._pump.join(PATIENCE)
    assert loss_points(dashboard) == 9
    norms = dashboard._plots[2].figure.marks[0].y  # type: ignore[attr-defined]  # the test knows its type
    assert norms.shape[0] == 2
    assert dashboard._histogram.latest is not None
    assert dashboard._histogram.latest.layer == "fc1"
    assert dashboard._chooser.caption == ""


@pytest.mark.parametrize("trained", [False, True])
def test_what_a_button_asks_for_is_shown_when_nothing_trains(
    dashboard: TrainingDashboard, engine: TrainingEngine, tmp_path: Path, trained: bool
) -> None:
    if trained:
        engine.start().wait()
        assert dashboard._pump.join(PATIENCE)
    awaited = Awaited(bar_of(dashboard))
    engine.save_checkpoint(tmp_path / "now.ckpt", wait=False)
    awaited.until(lambda status: status["saved"] == {"step": 9 if trained else 0, "path": str(tmp_path / "now.ckpt")})
    assert dashboard._pump.join(PATIENCE)
    validated = dashboard._plots[0].figure.marks[1]  # type: ignore[attr-defined]  # on the loss
    before = len(validated.x)
    press(dashboard, "validate")
    awaited.until(lambda _: len(validated.x) > before)


def test_scaled_gradients_are_told_of_while_they_are_and_afterwards() -> None:
    engine = make_engine(precision="16")
    engine.step()
    for trained in (False, True):
        with closing(TrainingDashboard(engine)) as dashboard:
            awaited = Awaited(bar_of(dashboard))
            if not trained:
                engine.resume()
            awaited.until(lambda status: status["state"] == "finished")
            status = bar_of(dashboard).status
            assert status["lossScale"] == engine.history["loss_scale"][-1]
            assert status["skippedSteps"] == engine.history.skipped_steps


def test_a_refused_command_is_explained(dashboard: TrainingDashboard, monkeypatch: pytest.MonkeyPatch) -> None:
    answers: list[dict[str, object]] = []
    monkeypatch.setattr(bar_of(dashboard), "send", answers.append)
    press(dashboard, "resume")
    assert "nothing to resume" in str(answers[0]["error"])


def test_the_learning_rate_can_be_typed_at_any_time(dashboard: TrainingDashboard, engine: TrainingEngine) -> None:
    assert bar_of(dashboard).status["learningRate"] == engine.optimizer.param_groups[0]["lr"] > 0
    awaited = Awaited(bar_of(dashboard))
    bar_of(dashboard)._handle_custom_msg({"kind": "rate", "id": 1, "rate": 0.5}, [])
    awaited.until(lambda status: status["learningRate"] == 0.5)
    engine.step(2)
    assert engine.history["learning_rate"].tolist() == [0.5, 0.5]


def test_a_learning_rate_that_a_schedule_would_replace_is_refused_where_it_was_typed() -> None:
    engine = make_engine(scheduler=lambda made: LambdaLR(made, lambda epoch: epoch / 10))
    with closing(TrainingDashboard(engine)) as dashboard:
        awaited = Awaited(bar_of(dashboard))
        bar_of(dashboard)._handle_custom_msg({"kind": "rate", "id": 1, "rate": 0.5}, [])
        awaited.until(lambda status: bool(status["notices"]))
        assert "LambdaLR sets lr itself after every epoch" in str(bar_of(dashboard).status["notices"])
        assert bar_of(dashboard).status["learningRate"] == 0.0


def test_who_edits_while_it_trains_is_told_what_becomes_of_it() -> None:
    graph = NodeGraph("net")
    graph.add("Input", name="x", shape=("N", 4))
    graph.add("Linear", name="fc", out_features=3)
    graph.add("Output", name="y")
    graph.connect("x", "fc")
    graph.connect("fc", "y")
    engine = make_engine(graph)
    engine.step(1)
    with closing(TrainingDashboard(engine)) as dashboard:
        bar = bar_of(dashboard)
        assert bar.status["edited"] is False
        awaited = Awaited(bar)
        graph.set("fc", bias=False)
        awaited.until(lambda status: status["edited"] is True)
        engine.step(1)
        awaited.until(lambda status: status["edited"] is False)
    engine.stop()


@pytest.mark.parametrize("rate", [-1.0, "fast", None])
def test_what_is_no_learning_rate_is_refused(
    dashboard: TrainingDashboard, engine: TrainingEngine, monkeypatch: pytest.MonkeyPatch, rate: object
) -> None:
    answers: list[dict[str, object]] = []
    monkeypatch.setattr(bar_of(dashboard), "send", answers.append)
    before = engine.optimizer.param_groups[0]["lr"]
    bar_of(dashboard)._handle_custom_msg({"kind": "rate", "id": 1, "rate": rate}, [])
    assert "rate" in str(answers[0]["error"])
    assert engine.optimizer.param_groups[0]["lr"] == before


def test_a_failure_shows_what_and_where() -> None:
    class Broken(Net):
        def __init__(self) -> None:
            super().__init__()
            self.fc2 = nn.Linear(7, 3)

    engine = make_engine(Broken())
    dashboard = TrainingDashboard(engine)
    awaited = Awaited(bar_of(dashboard))
    press(dashboard, "start")
    awaited.until(lambda status: status["state"] == "failed")
    assert bar_of(dashboard).status["node"] == "fc2"
    assert "shapes cannot be multiplied" in str(bar_of(dashboard).status["error"])
    dashboard.close()
    later = TrainingDashboard(engine)
    assert bar_of(later).status["node"] == "fc2"
    assert bar_of(later).status["state"] == "failed"
    later.close()


def test_a_dashboard_made_after_training_shows_all_of_it(engine: TrainingEngine) -> None:
    assert engine.start().wait(PATIENCE)
    dashboard = TrainingDashboard(engine)
    assert loss_points(dashboard) == 9
    assert bar_of(dashboard).status["state"] == "finished"
    assert bar_of(dashboard).status["step"] == 9
    assert not dashboard._pump.running
    assert engine.start().wait(PATIENCE)
    assert dashboard._pump.join(PATIENCE)
    assert loss_points(dashboard) == 18, "frames of before are not counted twice"
    dashboard.close()


def test_another_dashboard_in_the_middle_knows_what_was_before(engine: TrainingEngine) -> None:
    first = TrainingDashboard(engine)
    engine.step(4)
    first.close()
    second = TrainingDashboard(engine)
    assert loss_points(second) == 4
    awaited = Awaited(bar_of(second))
    engine.resume()
    awaited.until(lambda status: status["state"] == "finished")
    assert second._pump.join(PATIENCE)
    assert loss_points(second) == 9
    second.close()


def test_there_is_one_dashboard_for_an_engine(engine: TrainingEngine) -> None:
    dashboard = TrainingDashboard(engine)
    before = len(registry._instances)
    assert all(TrainingDashboard(engine) is dashboard for _ in range(50))
    assert len(registry._instances) == before
    dashboard.close()
    another = TrainingDashboard(engine)
    assert another is not dashboard
    another.close()


def test_fifty_dashboards_come_and_go_without_a_trace() -> None:
    before = len(registry._instances)
    models: list[weakref.ref[nn.Module]] = []
    for _ in range(50):
        engine = make_engine(epochs=1)
        dashboard = TrainingDashboard(engine)
        assert engine.start().wait(PATIENCE)
        models.append(weakref.ref(engine.module))
        dashboard.close()
        dashboard.close()
    assert len(registry._instances) == before
    del engine
    gc.collect()
    assert [model for model in models if model() is not None] == []
    with pytest.raises(RuntimeError, match="The dashboard was closed"):
        _ = dashboard.engine


def test_the_plots_of_further_metrics_are_part_of_a_picture_and_go_with_the_dashboard(engine: TrainingEngine) -> None:
    before = len(registry._instances)
    dashboard = TrainingDashboard(engine)
    few = len(registry._instances)
    dashboard.take([EpochFrame(1, 3, {"train_accuracy": 0.5, "train_f1": 0.4, "train_recall": 0.3})])
    assert len(registry._instances) > few
    drawn = [widget for part in dashboard.children[:2] for widget in widget_tree(part)]
    assert {widget.comm.comm_id for widget in drawn} <= dashboard._picture._included
    dashboard.close()
    assert len(registry._instances) == before


def test_the_engine_goes_on_without_its_dashboard(engine: TrainingEngine) -> None:
    dashboard = TrainingDashboard(engine)
    engine.step(1)
    dashboard.close()
    engine.resume()
    assert engine.wait(PATIENCE)
    assert len(engine.history["loss"]) == 9


@pytest.mark.parametrize(("layer", "quantity"), [("relu1", "activations"), ("fc2", "gradients"), ("fc2", "parameters")])
def test_another_layer_or_quantity_is_chosen_and_drawn(
    dashboard: TrainingDashboard, engine: TrainingEngine, layer: str, quantity: str
) -> None:
    assert dashboard._chooser.layers == OFFERED
    chosen = layer if quantity == "activations" else f"{layer} ({quantity})"
    dashboard._chooser._handle_custom_msg({"kind": "choose", "id": 1, "layer": chosen}, [])
    awaited = Awaited(bar_of(dashboard))
    engine.step(1)
    awaited.until(lambda status: status["step"] == 1)
    assert dashboard._histogram.latest is not None
    assert (dashboard._histogram.latest.layer, dashboard._histogram.latest.quantity) == (layer, quantity)


def test_counts_are_shown_logarithmically_also_when_nothing_runs(
    dashboard: TrainingDashboard, engine: TrainingEngine
) -> None:
    awaited = Awaited(bar_of(dashboard))
    engine.step(1)
    awaited.until(lambda status: status["step"] == 1)
    engine.stop()
    assert dashboard._pump.join(PATIENCE)
    (bars,) = dashboard._histogram.figure.marks
    counts = bars.y.copy()
    for log in (True, False):
        dashboard._chooser._handle_custom_msg({"kind": "scale", "id": 1, "log": log}, [])
        assert dashboard._chooser.log is log
        np.testing.assert_allclose(bars.y, np.log10(1 + counts) if log else counts, rtol=1e-6)


def test_the_loss_is_switched_to_a_logarithmic_axis_also_when_nothing_runs(
    dashboard: TrainingDashboard, engine: TrainingEngine
) -> None:
    assert engine.start().wait(PATIENCE)
    assert dashboard._pump.join(PATIENCE)
    linear, _, _, log, _ = dashboard._loss.figure.marks
    for wanted in (True, False):
        dashboard._loss_switch._handle_custom_msg({"kind": "scale", "id": 1, "log": wanted}, [])
        assert dashboard._loss_switch.log is wanted
        assert (linear.visible, log.visible) == (not wanted, wanted)
    assert log.y.tolist() == linear.y.tolist()


def test_what_an_attached_inspector_sends_can_be_chosen(dashboard: TrainingDashboard, engine: TrainingEngine) -> None:
    inspector = Inspector(engine.module)
    inspector.watch("*", ("activations", "inputs"))
    inspector.attach(engine, budget="100%", hz=1e9)
    awaited = Awaited(bar_of(dashboard))
    engine.step(1)
    awaited.until(lambda status: status["step"] == 1)
    chooser = dashboard._chooser
    assert chooser.layers == [*OFFERED, *(f"{layer} (inputs)" for layer in ("fc1", "relu1", "fc2"))]
    assert dashboard._histogram.latest is not None
    assert (dashboard._histogram.latest.layer, dashboard._histogram.latest.quantity) == ("fc1", "activations")
    assert chooser.caption == ""
    chooser._handle_custom_msg({"kind": "choose", "id": 1, "layer": "relu1 (inputs)"}, [])
    awaited = Awaited(bar_of(dashboard))
    engine.step(1)
    awaited.until(lambda status: status["step"] == 2)
    assert (dashboard._histogram.latest.layer, dashboard._histogram.latest.quantity) == ("relu1", "inputs")
    assert chooser.caption == ""


def test_an_unknown_layer_is_refused(dashboard: TrainingDashboard, monkeypatch: pytest.MonkeyPatch) -> None:
    answers: list[dict[str, object]] = []
    monkeypatch.setattr(dashboard._chooser, "send", answers.append)
    dashboard._chooser._handle_custom_msg({"kind": "choose", "id": 1, "layer": "relu9"}, [])
    assert "relu" in str(answers[0]["error"])
    assert dashboard._chooser.layer == "fc1"


def test_detail_is_measured_only_while_somebody_watches(dashboard: TrainingDashboard) -> None:
    dashboard.draw(5, watched=True)
    assert dashboard._cadence.hz == WATCHED_HZ
    dashboard.draw(6, watched=False)
    assert dashboard._cadence.hz == UNWATCHED_HZ


def test_until_a_browser_could_have_answered_it_is_watched(dashboard: TrainingDashboard) -> None:
    for tick in range(1, IN_FLIGHT + 1):
        dashboard.draw(tick, watched=False)
        assert dashboard._cadence.hz == WATCHED_HZ
    dashboard.draw(IN_FLIGHT + 1, watched=False)
    assert dashboard._cadence.hz == UNWATCHED_HZ


def test_it_reads_the_same_in_every_run(dashboard: TrainingDashboard) -> None:
    assert repr(dashboard) == "TrainingDashboard()"
    assert dashboard._repr_mimebundle_()["text/plain"] == "TrainingDashboard()"
    assert "pnne-dashboard" in dashboard._dom_classes
    assert isinstance(dashboard, ipywidgets.VBox)


def test_a_million_steps_stay_small(dashboard: TrainingDashboard) -> None:
    frames = [StepFrame(1, 1, 0.5, 0.1, 20, 0.0)] * 1000
    for _ in range(1000):
        dashboard.take(frames)
    dashboard.draw(1, watched=True)
    assert loss_points(dashboard) <= 1000


def test_the_dialog_for_exporting_opens_under_the_bar() -> None:
    graph = NodeGraph("net")
    graph.chain(
        ("Input", {"name": "x", "shape": ("N", 4)}), ("Linear", {"in_features": 4, "out_features": 3}), ("Output", {})
    )
    engine = make_engine(graph)
    with closing(TrainingDashboard(engine)) as dashboard:
        bar: Any = dashboard.children[0]
        bar._handle_custom_msg({"kind": "export", "id": 1, "on": True}, [])
        children: Any = dashboard.children
        _, editor, *_ = children
        assert isinstance(editor, GraphEditor)
        assert (editor.panel, editor.training, bar.exporting, bar.shown) == ("export", engine, True, False)
        assert list(editor.graph.nodes) == list(graph.nodes)
        with lent_model(weakref.ref(editor)) as lent:
            assert lent.model is engine.module
            assert [tuple(part.shape) for part in lent.data] == [(16, 4), (16,)]  # type: ignore[attr-defined]  # a tuple here
        bar._handle_custom_msg({"kind": "export", "id": 2, "on": False}, [])
        assert len(dashboard.children) == 3
        assert editor.comm is None
        dashboard.show_export()
    assert not GraphEditor.opened()


def test_a_model_without_a_graph_has_no_dialog_for_exporting(engine: TrainingEngine) -> None:
    refused = pytest.raises(InspectionError, match=r"Net was not compiled from a graph.*pn\.export\(engine, path\)")
    with closing(TrainingDashboard(engine)) as dashboard, refused:
        dashboard.show_export()


STEPS = {step.button: step for steps in NextSteps("finished").steps.values() for step in steps if step.button}


def trained(*, graph: bool = True) -> pn.TrainingEngine:
    generator = torch.Generator().manual_seed(0)
    data = torch.randn(80, 4, generator=generator), torch.arange(80) % 3
    model: Any = pn.sequential(
        ("Linear", {"out_features": 8}), "ReLU", ("Linear", {"out_features": 3}), input=("N", 4), name="tiny"
    )
    engine = pn.TrainingEngine(model if graph else nn.Linear(4, 3), data, data, epochs=1, device="cpu")
    engine.start().wait()
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
        ("Find a rate", "LearningRateFinder"),
        ("Quantise", "QuantizationEditor"),
        ("Compare forms", "TargetDashboard"),
    ],
)
def test_a_widget_opens_below_and_closes_with_the_next_one(panel: NextStepsPanel, name: str, kind: str) -> None:
    buttons(panel)[name].click()
    opened = result(panel)
    assert type(opened).__name__ == kind
    if isinstance(opened, LiveResult):
        opened.stop()
        with suppress(pn.TrainingError):
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
