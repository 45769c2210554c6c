"""An inspector attached to an engine: the only place where the two meet."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch
from torch import Tensor, nn

from pnne_nb.inspector.inspector import Inspector
from pnne_nb.runtime.engine import TrainingEngine
from pnne_nb.telemetry.frames import AnomalyFrame, CostFrame, StatisticsFrame
from tests.inspector.models import hooks_on, mlp


def engine_of(net: nn.Module, **options: object) -> TrainingEngine:
    data = torch.randn(256, 5), torch.randint(0, 3, (256,))
    return TrainingEngine(net, data, epochs=10**6, batch_size=16, device="cpu", **options)  # type: ignore[arg-type]  # the test knows its type


def watch(engine: TrainingEngine) -> None:
    """What a cell does that is run again and again."""
    inspector = Inspector(engine.module)
    inspector.watch("*", ("activations", "gradients"))
    inspector.attach(engine, budget="1%")


def live_objects() -> tuple[int, int]:
    gc.collect()
    objects = gc.get_objects()
    return len(objects), sum(issubclass(type(value), Tensor) for value in objects)


def test_a_thousand_runs_of_a_watching_cell_leave_one_watcher() -> None:
    engine = engine_of(mlp())
    watch(engine)
    engine.step()
    before = live_objects()
    for _ in range(1000):
        watch(engine)
    after = live_objects()
    assert after[1] <= before[1]  # what earlier tests left may go meanwhile
    assert after[0] - before[0] < 100
    engine.step()
    engine.stop()
    frames = engine.channel.drain()
    observed = [frame for frame in frames if isinstance(frame, StatisticsFrame) and frame.layer == "0"]
    assert len({frame.step for frame in observed}) == len(observed) / 2, "each step was observed once"
    assert hooks_on(engine.module) == 0


def test_what_is_attached_does_not_keep_a_training_alive() -> None:
    net = mlp()
    engine = engine_of(net)
    watch(engine)
    gone = weakref.ref(engine), weakref.ref(net)
    del engine, net
    gc.collect()
    assert [reference() for reference in gone] == [None, None]


def test_other_watch_lists_are_watched_beside() -> None:
    engine = engine_of(mlp())
    watch(engine)
    inspector = Inspector(engine.module)
    inspector.watch("2", "updates")
    detach = inspector.attach(engine, budget="100%")
    engine.step()
    detach()
    watch(engine)
    engine.step()
    engine.stop()
    steps: dict[str, set[int]] = {}
    for frame in engine.channel.drain():
        if isinstance(frame, StatisticsFrame):
            steps.setdefault(frame.quantity, set()).add(frame.step)
    assert steps == {"activations": {1, 2}, "gradients": {1, 2}, "updates": {1}}


@pytest.mark.parametrize("budget", ["1%", 0.05])
def test_the_budget_is_kept_and_told(budget: str | float) -> None:
    engine = engine_of(mlp())
    inspector = Inspector(engine.module)
    inspector.attach(engine, budget=budget, hz=1e9)
    told: list[CostFrame] = []
    while len(told) < 3:
        engine.step(200)
        told += [frame for frame in engine.channel.drain() if isinstance(frame, CostFrame)]
    engine.stop()
    share = 0.01 if budget == "1%" else 0.05
    # The last frame of a report is not paid off yet.
    assert 0 < told[-1].share <= 1.5 * share
    assert told[-1].frames_per_second > 0


def test_gradients_of_a_scaled_loss_are_those_of_the_loss() -> None:
    norms = []
    for precision in ("32", "16"):
        torch.manual_seed(0)
        engine = engine_of(mlp(), precision=precision)
        assert engine.gradient_scale == (1.0 if precision == "32" else 65536.0)
        watch(engine)
        engine.step()
        engine.stop()
        [norm] = [
            frame.values["norm"]
            for frame in engine.channel.drain()
            if isinstance(frame, StatisticsFrame) and (frame.layer, frame.quantity) == ("2", "gradients")
        ]
        norms.append(norm)
    assert norms[1] == pytest.approx(norms[0], rel=0.02)


def test_findings_of_a_broken_training_are_anomalies_of_it() -> None:
    net = mlp()
    nn.init.constant_(net[0].bias, -100.0)  # type: ignore[arg-type]  # a part of a Sequential is typed as any module
    engine = engine_of(net)
    inspector = Inspector(net)
    inspector.attach(engine, budget="100%", hz=1e9)
    told: list[AnomalyFrame] = []
    engine.on("anomaly", told.append)
    engine.step(200)
    engine.stop()
    assert ("dead-relu", "1") in {(frame.kind, frame.node) for frame in told}
    assert ("loss-not-decreasing", None) in {(frame.kind, frame.node) for frame in told}
    assert all(frame.hint for frame in told)
