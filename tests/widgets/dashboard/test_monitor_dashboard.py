"""A dashboard shows the loop of a person's own, and several trainings over each other."""

from __future__ import annotations

import threading
from contextlib import closing
from typing import Any

import pytest
import torch
from torch import nn

import pnne_nb as pn
from pnne_nb.protocol.control_messages import ChooseMessage, RateMessage
from pnne_nb.widgets.dashboard.monitor_dashboard import MonitorDashboard, OverlaidTrainings
from tests.widgets.dashboard.test_dashboard import Awaited, Net, bar_of, loss_points, make_engine, press

PATIENCE = 60.0


def train(monitor: pn.TrainingMonitor, model: nn.Module, epochs: int = 2) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.125)
    x, y = torch.randn(60, 4), torch.randint(0, 3, (60,))
    for _ in range(epochs):
        for at in monitor.track(range(0, 60, 20), model, optimizer):
            loss = nn.functional.cross_entropy(model(x[at : at + 20]), y[at : at + 20])
            optimizer.zero_grad()
            torch.autograd.backward(loss)
            optimizer.step()
            monitor.step(loss, margin=0.5)
        monitor.epoch(f1=0.25)


def dashboard_of(runs: Any, **options: Any) -> Any:
    return pn.TrainingDashboard(runs, **options)


def test_a_loop_is_shown_from_its_first_step_to_its_end() -> None:
    monitor = pn.TrainingMonitor(budget=1.0, hz=1e6, epochs=2)
    with closing(dashboard_of(monitor)) as dashboard:
        kind: type = type(dashboard)
        assert kind is MonitorDashboard
        assert bar_of(dashboard).offers == []
        train(monitor, Net())
        assert dashboard._pump.join(PATIENCE)
        status = bar_of(dashboard).status
        assert (status["state"], status["step"], status["learningRate"]) == ("finished", 6, 0.125)
        assert bar_of(dashboard).offers == ["pause", "resume", "stop"]
        assert loss_points(dashboard) == 6
        norms = dashboard._plots[2].view.children[0].children[-1].marks[0].y
        assert norms.shape[0] == 2
        assert dashboard._histogram.latest.layer == "fc1"
        assert dashboard._chooser.layers == ["fc1", "relu1", "fc2", "fc1 (updates)"]
        assert list(dashboard._recorded._curves) == ["margin"]
        assert "F1 by epoch" in dashboard._plots[1]._plots[-1]._heading.value
        assert "Training finished: 6 steps" in dashboard.to_html()
        assert repr(dashboard) == "TrainingDashboard(TrainingMonitor(6 steps, 2 epochs))"


def test_a_dashboard_that_comes_later_shows_what_there_was() -> None:
    monitor = pn.TrainingMonitor(epochs=2)
    train(monitor, Net())
    with closing(dashboard_of(monitor, loss_scale="log")) as dashboard:
        assert dashboard._loss.log
        assert loss_points(dashboard) == 6


def test_another_layer_can_be_chosen() -> None:
    monitor = pn.TrainingMonitor(budget=1.0, hz=1e6)
    with closing(dashboard_of(monitor)) as dashboard:
        dashboard._answer(ChooseMessage(1, "relu1"))
        dashboard._answer(RateMessage(1, 0.5))  # belongs to the loop: nothing happens
        train(monitor, Net())
        monitor.close()
        assert dashboard._pump.join(PATIENCE)
        assert dashboard._histogram.latest.layer == "relu1"


def test_the_buttons_halt_a_loop_that_asks() -> None:
    monitor = pn.TrainingMonitor()

    def run() -> None:
        for _ in monitor.track(range(10**9)):
            monitor.step(1.0)

    with closing(dashboard_of(monitor)) as dashboard:
        awaited = Awaited(bar_of(dashboard))
        loop = threading.Thread(target=run)
        loop.start()
        awaited.until(lambda status: status["state"] == "running")
        press(dashboard, "pause")
        awaited.until(lambda status: status["state"] == "paused")
        press(dashboard, "stop")
        loop.join(PATIENCE)
        awaited.until(lambda status: status["state"] == "stopped")
    assert not loop.is_alive()


def test_a_cell_that_ends_ends_its_loop() -> None:
    monitor = pn.TrainingMonitor()
    with closing(dashboard_of(monitor)) as dashboard:
        train(monitor, Net())
        assert monitor.state == "running"
        dashboard._cell_ended(None)
        assert repr(monitor.state) == "'finished'"


def test_a_tracked_loader_is_shown_by_its_monitor() -> None:
    model = Net()
    loader = pn.track(list[int](), model=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1))
    with closing(dashboard_of(loader)) as dashboard:
        assert dashboard._monitor is loader.monitor


def test_several_trainings_are_laid_over_each_other_while_they_run() -> None:
    engine, monitor = make_engine(), pn.TrainingMonitor(epochs=1)
    with closing(dashboard_of([engine, monitor], labels=["the engine", "a loop"])) as overlay:
        kind: type = type(overlay)
        assert kind is OverlaidTrainings
        drawn = threading.Event()

        def look(change: Any) -> None:
            if "a loop: 3 steps" in change["new"]:
                drawn.set()

        overlay._curves.observe(look, "value")
        train(monitor, Net(), 1)
        engine.start().wait()
        assert drawn.wait(PATIENCE)
        assert "the engine: 9 steps" in overlay.to_html()
        assert repr(overlay) == "TrainingDashboard(2 trainings)"
    with closing(dashboard_of([engine.history])) as alone:
        assert "9 steps" in alone.to_html()


def test_what_is_no_training_is_refused() -> None:
    with pytest.raises(pn.ArgumentError, match="must be a TrainingEngine, a TrainingMonitor, or a list of them"):
        dashboard_of(3)
    with pytest.raises(pn.ArgumentError, match="The list of trainings is empty"):
        dashboard_of([])
    with pytest.raises(pn.ArgumentError, match="must be an engine, a monitor or a history, not 3"):
        dashboard_of([make_engine(), 3])
    with pytest.raises(pn.ArgumentError, match="labels must name each of the 1 trainings"):
        dashboard_of([make_engine()], labels=["a", "b"])
