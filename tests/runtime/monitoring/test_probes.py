from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import nn

import pnne_nb as pn
from pnne_nb.runtime.engine import TrainingEngine
from pnne_nb.runtime.monitoring.probes import Observers, Watched
from pnne_nb.telemetry.frames import AnomalyFrame, CostFrame, Frame, NormsFrame
from pnne_nb.telemetry.probe import Cadence, Timed
from pnne_nb.widgets.dashboard.dashboard import TrainingDashboard
from pnne_nb.widgets.plots.plot import RecordedPlot


class Probe:
    """Notes its calls, and fails where it is told to."""

    def __init__(self, fails: str | None = None) -> None:
        self.calls: list[str] = []
        self._fails = fails

    def _note(self, call: str) -> None:
        self.calls.append(call)
        if call == self._fails:
            raise RuntimeError(f"{call} fails")

    def open(self, step: int) -> None:
        self._note("open")

    def gradients_ready(self) -> None:
        self._note("gradients")

    def updated(self) -> None:
        self._note("updated")

    def close(self) -> Sequence[Frame]:
        self._note("close")
        return [NormsFrame(step=1, norms={}, total=1.0)]


def always() -> Cadence:
    return Cadence(hz=1e9, budget=1.0)


def step(observers: Observers, number: int = 1) -> bool:
    with observers.watching(number) as watched:
        if watched is not None:
            watched.gradients_ready()
            watched.updated()
        return watched is not None


def test_a_probe_is_called_in_order_and_its_frames_are_published() -> None:
    published: list[Frame] = []
    observers = Observers(published.extend)
    probe = Probe()
    observers.add(probe, always())
    assert step(observers)
    assert probe.calls == ["open", "gradients", "updated", "close"]
    assert [type(frame) for frame in published] == [NormsFrame, CostFrame]
    assert isinstance(published[1], CostFrame)
    assert 0 <= published[1].share <= 1


def test_the_first_report_of_the_cost_has_a_rate() -> None:
    published: list[Frame] = []
    observers = Observers(published.extend)
    observers.add(Probe(), Cadence(hz=10, budget=1.0))
    assert step(observers)
    [report] = [frame for frame in published if isinstance(frame, CostFrame)]
    assert report.frames_per_second == pytest.approx(10)


def test_what_hooks_took_counts_as_known() -> None:
    class Hooked(Probe):
        hooked = 1.0

    probe = Hooked()
    watched = Watched([probe, Probe()], 1)
    assert isinstance(probe, Timed)
    watched.close()
    assert 1.0 <= watched.seconds < 2.0


def test_only_probes_that_are_due_are_called() -> None:
    observers = Observers(lambda frames: None)
    seldom, often = Probe(), Probe()
    observers.add(seldom, Cadence(hz=1e-6))
    observers.add(often, always())
    for number in range(3):
        step(observers, number)
    assert seldom.calls.count("open") == 1
    assert often.calls.count("open") > 1


def test_probes_share_one_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three who would each take a tenth of the time take a tenth together, and come as often as each other."""
    clock = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    monkeypatch.setattr("time.thread_time", lambda: clock[0])

    class Costly(Probe):
        def open(self, step: int) -> None:
            super().open(step)
            clock[0] += 0.01

    observers = Observers(lambda frames: None)
    probes = [Costly() for _ in range(3)]
    bare, steps = 0.005, 5_000
    for number in range(steps):
        if number % 10 == 0 and number < 30:
            # One after the other: their cadences begin at different times.
            observers.add(probes[number // 10], Cadence(hz=10, budget=0.1))
        with observers.watching(number):
            clock[0] += bare
    assert 1 - steps * bare / clock[0] == pytest.approx(0.1, rel=0.1)
    counts = [probe.calls.count("open") for probe in probes]
    assert min(counts) > 0.4 * max(counts)


def test_the_cost_is_reported_with_its_interval_and_anew_for_new_probes(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, published = [0.0], list[Frame]()
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    monkeypatch.setattr("time.thread_time", lambda: clock[0])

    class Costly(Probe):
        def open(self, step: int) -> None:
            clock[0] += 0.001

    observers, draw, spent = Observers(published.extend), random.Random(0), 0.0  # the same steps each time
    remove = observers.add(Costly(), Cadence(hz=10, budget=0.5))
    for number in range(2_000):
        with observers.watching(number) as watched:
            # Hooks make a step longer, and the probe does not know by how much.
            clock[0] += 0.010 * draw.uniform(0.9, 1.1) + (0.002 if watched else 0.0)
            spent += 0.003 if watched else 0.0
    reports = [frame for frame in published if isinstance(frame, CostFrame)]
    assert reports[0].margin is None
    assert reports[-1].margin is not None
    assert 0 < reports[-1].margin < 0.003
    assert abs(reports[-1].share - spent / clock[0]) <= reports[-1].margin
    remove()
    observers.add(Costly(), Cadence(hz=10, budget=0.5))
    assert step(observers)
    assert isinstance(published[-1], CostFrame)
    assert published[-1].margin is None
    assert published[-1].share < 1.0


def test_nothing_happens_without_probes_and_after_the_last_has_left() -> None:
    observers = Observers(lambda frames: None)
    assert not step(observers)
    remove = observers.add(Probe(), always())
    assert step(observers)
    remove()
    remove()
    assert not step(observers)


def test_the_same_probe_added_twice_is_removed_once() -> None:
    observers = Observers(lambda frames: None)
    probe = Probe()
    remove = observers.add(probe, always())
    observers.add(probe, always())
    remove()
    assert step(observers)
    assert probe.calls.count("open") == 1


@pytest.mark.parametrize("fails", ["open", "gradients", "updated", "close"])
def test_a_probe_that_fails_is_reported_and_removed_and_the_others_go_on(fails: str) -> None:
    published: list[Frame] = []
    observers = Observers(published.extend)
    good, bad = Probe(), Probe(fails)
    observers.add(bad, always())
    observers.add(good, always())
    assert step(observers)
    assert step(observers)
    assert bad.calls.count("open") == 1
    assert bad.calls[-1] == "close"
    assert good.calls == ["open", "gradients", "updated", "close"] * 2
    reports = [frame for frame in published if isinstance(frame, AnomalyFrame)]
    assert [(report.kind, report.message) for report in reports] == [
        ("probe-failed", f"Probe failed and was removed: RuntimeError: {fails} fails")
    ]


def test_probes_are_closed_when_the_step_fails() -> None:
    observers = Observers(lambda frames: None)
    probe = Probe()
    observers.add(probe, always())
    with pytest.raises(KeyError, match="step"), observers.watching(1):
        raise KeyError("step")
    assert probe.calls == ["open", "close"]


pytestmark = pytest.mark.usefixtures("own_widgets")


def trained(*, shown: bool) -> tuple[TrainingEngine, TrainingDashboard | None]:
    torch.manual_seed(0)
    x = torch.randn(64, 4)
    model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 1))
    engine = TrainingEngine(model, (x, x.sum(1, keepdim=True)), epochs=4, batch_size=8, loss="MSELoss", seed=1)
    dashboard = TrainingDashboard(engine) if shown else None
    assert engine.start().wait(60)
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
