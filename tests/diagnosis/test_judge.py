"""The engine judges itself while it trains: nobody watches, each finding comes once, and the lists are the same."""

from __future__ import annotations

import math
import os
import signal
from typing import Any, cast

import pytest
import torch
from sklearn.datasets import load_diabetes
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

import pnne_nb as pn
from pnne_nb.diagnosis.evidence import Evidence
from pnne_nb.diagnosis.finding import KINDS, Finding, found_by, is_finding, ranked
from pnne_nb.diagnosis.judge import GradientTrend, Judge, LossTrend, Trends, diagnose
from pnne_nb.errors import ArgumentError, TrainingError
from pnne_nb.runtime.monitoring.reporter import Reports
from pnne_nb.telemetry.frames import AnomalyFrame, EpochFrame, StepFrame
from tests.runtime.tasks import engine, images, network

DRAWS = torch.Generator().manual_seed(0)
CENTRES = torch.randn(4, 16, generator=DRAWS)
Y = torch.randint(0, 4, (640,), generator=DRAWS)
X = CENTRES[Y] + 0.7 * torch.randn(640, 16, generator=DRAWS)


def net(outputs: int = 4, inputs: int = 16) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(inputs, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, outputs))


def judged(model: nn.Module, data: Any = (X, Y), **options: Any) -> tuple[list[str], list[str], pn.TrainingEngine]:
    """Kinds told while it trained, and kinds of the list at the end."""
    options = {"batch_size": 32, "epochs": 10, "optimizer": ("SGD", {"lr": 0.05}), "metrics": (), **options}
    engine = pn.TrainingEngine(model, data, device="cpu", **options)
    told: list[str] = []
    engine.on("anomaly", lambda frame: told.append(frame.kind))
    assert engine.start().wait(60)
    return told, [finding.kind for finding in pn.diagnose(engine)], engine


def test_a_healthy_training_is_left_alone() -> None:
    told, listed, engine = judged(net())
    assert (told, listed, engine.judge.verdict) == ([], [], "")


def test_a_rate_that_is_far_too_high_is_told_while_it_trains_and_no_other_rate_is_advised() -> None:
    told, listed, engine = judged(net(), optimizer=("SGD", {"lr": 3.0}))
    assert KINDS[listed[0]].rate == "lower"
    assert listed[0] in told
    assert "raise" not in {KINDS[kind].rate for kind in listed}
    assert engine.judge.verdict.startswith(f"{len(listed)} findings, the most probable cause first: ")
    assert engine.judge.verdict.split("first: ")[1][:40] in engine._repr_html_()


def test_small_updates_of_what_has_learned_are_natural() -> None:
    # The first update overshoots by far, and it learns all the same: its loss ends at a hundredth of the first one.
    _, listed, engine = judged(net(), optimizer=("Adam", {"lr": 1.0}))
    assert engine.history["loss"][-20:].mean() < 0.05
    assert not {"update-ratio-low", "unchanged-weights", "vanishing-gradients"} & set(listed)


def test_dead_units_are_told_from_a_look_at_step_ten() -> None:
    model = net()
    for index in (0, 2):
        nn.init.constant_(model[index].bias, -10.0)  # type: ignore[arg-type]  # a part of a Sequential is typed as any module
    told, listed, engine = judged(model)
    assert listed[:2] == ["dead-relu", "dead-relu"]
    assert [frame.step for frame in engine.history.anomalies if frame.kind == "dead-relu"] == [10, 10]
    assert told.count("dead-relu") == 2


def test_raw_targets_of_a_regression_are_told() -> None:
    x, y = (torch.tensor(part, dtype=torch.float32) for part in load_diabetes(return_X_y=True))
    told, listed, _ = judged(net(1, 10), (x * 20, y[:, None]), optimizer=("AdamW", {"lr": 1e-3}), epochs=5)
    assert listed[0] == "targets-not-scaled"
    assert "targets-not-scaled" in told


def test_a_loader_that_gives_class_after_class_is_told() -> None:
    order = Y.argsort()
    told, listed, _ = judged(net(), DataLoader(TensorDataset(X[order], Y[order]), batch_size=32), epochs=3)
    assert listed[0] == "sorted-batches"
    assert "sorted-batches" in told


def test_overfitting_is_told_while_it_trains() -> None:
    few = (X[:32], torch.randint(0, 4, (32,), generator=torch.Generator().manual_seed(1)))
    told, _, _ = judged(
        net(), few, val_data=(X[32:], Y[32:]), optimizer=("Adam", {"lr": 0.02}), epochs=40, batch_size=16
    )
    assert "overfitting" in told


def test_outputs_spread_over_other_targets_are_told_before_the_first_step_and_once() -> None:
    with pytest.warns(UserWarning, match="target size"):
        told, listed, engine = judged(net(1), (X, X[:, 0]), loss="MSELoss", epochs=1)
    assert engine.history.anomalies[0].kind == "spread-targets"
    assert engine.history.anomalies[0].step == 0
    assert told.count("spread-targets") == listed.count("spread-targets") == 1


def test_a_process_of_its_own_is_judged_by_the_same_looks() -> None:
    model = net()
    nn.init.constant_(model[0].bias, -10.0)  # type: ignore[arg-type]  # a part of a Sequential is typed as any module
    engine = pn.TrainingEngine(model, (X, Y), epochs=1, batch_size=32, device="cpu", metrics=())
    assert engine.start(process=True).wait(120)
    assert pn.diagnose(engine)[0].kind == "dead-relu"


def test_a_checkpoint_keeps_what_was_found(tmp_path: Any) -> None:
    model = net()
    nn.init.constant_(model[0].bias, -10.0)  # type: ignore[arg-type]  # a part of a Sequential is typed as any module
    _, listed, engine = judged(model, epochs=1)
    engine.save_checkpoint(tmp_path / "a.ckpt")
    again = pn.TrainingEngine.resume_from(tmp_path / "a.ckpt", net(), (X, Y))
    assert [finding.kind for finding in pn.diagnose(again)] == listed


def step(number: int, loss: float) -> StepFrame:
    return StepFrame(number, 1, loss, 0.1, 8, 0.0)


def test_a_training_that_goes_back_is_judged_by_what_is_left() -> None:
    judge = Judge()
    for number in range(1, 30):
        judge.steps(step(number, 1.0))
    assert judge.returns_to(10)
    assert not judge.returns_to(30)
    judge.recall([step(number, 2.0) for number in range(1, 10)])
    assert judge.evidence.losses == [2.0] * 9
    assert not judge.returns_to(10)


def test_an_event_is_listed_with_its_hint_and_is_no_verdict() -> None:
    judge = Judge()
    judge.hear(AnomalyFrame(1, "out-of-memory", "Too large.", hint="A smaller batch."))
    judge.hear(AnomalyFrame(1, "rewound", "It went back."))
    assert [finding.kind for finding in judge.findings()] == ["out-of-memory"]
    assert judge.verdict == ""


def test_of_two_findings_with_opposite_advice_the_more_probable_one_is_kept() -> None:
    high, low, dead = (Finding(kind, None, "It is.", "Do.") for kind in ("divergence", "slow-progress", "dead-relu"))
    assert ranked([low, dead, high]) == [high, dead]
    assert ranked([low, dead]) == [dead, low]
    assert all(is_finding(finding.kind) for finding in (high, low, dead))


class Odd:
    """A rule whose kind nobody has declared."""

    def find(self, evidence: Evidence) -> list[Finding]:
        """It always finds it."""
        del evidence
        return [Finding("odd-kind", None, "It is odd.", "Look.")]


def test_a_rule_without_a_declared_kind_is_refused() -> None:
    with pytest.raises(ArgumentError, match="A rule found 'odd-kind', which has no place among the kinds of findings"):
        found_by([Odd()], Evidence.of(None))


def test_an_explosion_is_said_once_and_again_after_a_recovery() -> None:
    trend = LossTrend()
    losses = [1.0] * 20 + [9.0] * 200 + [0.5] * 200 + [9.0] * 200
    said = [frame for step, loss in enumerate(losses, 1) if (frame := trend.observe(step, loss, 8)) is not None]
    assert [frame.kind for frame in said] == ["divergence"] * 2
    assert "The loss has exploded: about 3.12 at step 26, after 1 in the first 20 steps." in said[0].message


def test_a_validation_that_is_no_number_is_said_once_until_it_is_one_again() -> None:
    trends = Trends()
    judged = [1.0, math.nan, None, math.inf, 1.0, math.nan]
    frames = [EpochFrame(epoch, epoch, {} if loss is None else {"val_loss": loss}) for epoch, loss in enumerate(judged)]
    said = [trends.judge(frame) for frame in frames]
    assert [None if one is None else one.kind for one in said] == [
        None,
        "nan-validation",
        *[None] * 3,
        "nan-validation",
    ]


def test_what_only_the_validation_meets_is_told() -> None:
    model = network()
    model.get_buffer("1.running_mean")[0] = torch.nan
    trained = engine(model, val_data=images(2), epochs=1)
    assert trained.start().wait(60)
    (said,) = trained.history.anomalies
    assert "The validation loss after step 6 is nan" in said.message
    assert "running statistics of batch normalisation" in (said.hint or "")


def test_a_noisy_loss_and_a_negative_one_are_no_explosion() -> None:
    trend, negative = LossTrend(), LossTrend()
    assert all(trend.observe(step, 1.0 + step % 2, 1) is None for step in range(500))
    assert all(negative.observe(step, -1000.0 + step, 8) is None for step in range(500))


@pytest.mark.parametrize("rate", [30.0, 100.0, 300.0, 1e5])
def test_an_explosion_from_the_first_update_on_is_told(rate: float) -> None:
    # Batch norm keeps the loss finite: it leaps to 1e15, and stays at a hundred times what it was.
    trained = engine(optimizer=("SGD", {"lr": rate}), epochs=20)
    assert trained.start().wait(60)
    [found] = [frame for frame in trained.history.anomalies if frame.kind == "divergence"]
    assert 11 <= found.step <= 60
    assert "after 1.51 at first" in found.message
    assert diagnose(trained)[0].kind == "divergence"


def chance(seed: int, batch: int) -> list[float]:
    """Losses of a model that has nothing to learn: single ones scatter over several orders of magnitude."""
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.empty(400, batch).exponential_(generator=generator)
    return [float(loss) for loss in drawn.mean(1)]


@pytest.mark.parametrize("batch", [2, 8, 64])
def test_what_scatters_by_chance_is_no_explosion(batch: int) -> None:
    for seed in range(100):
        trend = LossTrend()
        assert all(trend.observe(step, loss, batch) is None for step, loss in enumerate(chance(seed, batch), 1))


@pytest.mark.parametrize("optimizer", [("SGD", {"lr": 1.0}), ("AdamW", {"lr": 0.1}), ("RMSprop", {"lr": 0.03})])
@pytest.mark.parametrize("batch_size", [1, 16])
def test_a_training_that_learns_with_large_steps_is_no_explosion(optimizer: Any, batch_size: int) -> None:
    trained = engine(optimizer=optimizer, batch_size=batch_size, epochs=3, model=network().eval())
    assert trained.start().wait(60)
    assert "divergence" not in {frame.kind for frame in trained.history.anomalies}


def said(norms: list[float], *, learned: bool = False) -> list[str]:
    trend = GradientTrend()
    found = [trend.observe(step, norm, learned=learned) for step, norm in enumerate(norms, 1)]
    return [frame.kind for frame in found if frame is not None]


def test_gradients_that_explode_or_vanish_are_told_once() -> None:
    assert said([1.0] * 20 + [1e5] * 50) == ["exploding-gradients"]
    assert said([1.0] * 20 + [1e-9] * 500) == ["vanishing-gradients"]
    assert said([0.0] * 30) == ["vanishing-gradients"]
    assert said([1.0] * 20 + [1e-9] * 500, learned=True) == []
    assert said([1.0 + step % 3 for step in range(500)]) == []


def test_a_network_that_died_is_told_of() -> None:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        dead = nn.Sequential(nn.Flatten(), nn.Linear(36, 8), nn.ReLU(), nn.Linear(8, 4, bias=False))
    with torch.no_grad():
        cast("nn.Linear", dead[1]).bias.fill_(-100.0)
    trained = engine(model=dead, epochs=5)
    assert trained.start().wait(60)
    died, vanished = trained.history.anomalies
    assert (died.kind, died.node, died.step) == ("dead-relu", "2", 10)
    assert (vanished.kind, vanished.step) == ("vanishing-gradients", 10)
    assert trained.history.summary()["anomalies"][0] == f"step 10: {died.message}"
    assert [finding.kind for finding in diagnose(trained)] == ["dead-relu", "vanishing-gradients"]


def test_a_training_tells_of_it() -> None:
    # The gradient points the wrong way.
    trained = engine(optimizer=("SGD", {"lr": 0.1, "maximize": True}), epochs=8)
    assert trained.start().wait(60)
    assert "divergence" in {frame.kind for frame in trained.history.anomalies}
    assert diagnose(trained)[0].kind == "divergence"


def test_a_divergence_that_a_probe_has_found_is_not_told_again() -> None:
    reports = Reports()
    found = AnomalyFrame(step=10, kind="divergence", message="The loss has grown from 1 to 2.")
    for step in range(1, 200):
        if step == 10:
            reports.publish([found])
        reports.stepped(StepFrame(step, 1, 10.0 + step, 0.1, 8, 0.0))
    assert [frame for frame in reports.history.anomalies if frame.kind == "divergence"] == [found]


class Killed(Dataset[tuple[Tensor, int]]):
    """Its worker process dies far into the data, as one does that needs too much memory."""

    def __len__(self) -> int:
        return 400

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        if index == 300:
            os.kill(os.getpid(), signal.SIGKILL)
        return torch.ones(1, 6, 6), index % 4


def test_a_worker_that_dies_is_told_of_and_the_kernel_lives_on() -> None:
    trained = engine(train_data=Killed(), shuffle=False, batch_size=50, num_workers=1, epochs=1)
    trained.start()
    with pytest.raises(TrainingError, match=r"A worker process that loads the data has died \(killed by SIGKILL\)"):
        trained.wait(60)
    assert trained.state == "failed"
    found = trained.history.anomalies[-1]
    assert (found.kind, found.step) == ("data-failed", trained.progress.step + 1)
    assert "A worker process that loads the data has died" in found.message


class Torn(Dataset[tuple[Tensor, int]]):
    """One unreadable item far into the data."""

    def __len__(self) -> int:
        return 5000

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        if index == 4711:
            raise OSError("item 4711 cannot be read")
        return torch.ones(1, 6, 6), index % 4


@pytest.mark.parametrize("workers", [0, 2])
def test_data_that_fails_at_item_4711_is_told_and_the_training_can_go_on_elsewhere(workers: int) -> None:
    trained = engine(train_data=Torn(), shuffle=False, batch_size=500, num_workers=workers, epochs=1)
    trained.start()
    with pytest.raises(OSError, match="item 4711 cannot be read"):
        trained.wait(60)
    assert trained.progress.step == 9
    found = trained.history.anomalies[-1]
    assert (found.kind, found.step) == ("data-failed", 10)
    assert found.message.startswith("The data failed while fetching batch 10 of epoch 1: OSError:")
