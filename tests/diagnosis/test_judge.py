"""The engine judges itself while it trains: nobody watches, each finding comes once, and the lists are the same."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from sklearn.datasets import load_diabetes
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import pnne_nb as pn
from pnne_nb.diagnosis.evidence import Evidence
from pnne_nb.diagnosis.finding import Finding, found_by, ranked
from pnne_nb.diagnosis.judge import Judge
from pnne_nb.diagnosis.kinds import KINDS, is_finding
from pnne_nb.errors import ArgumentError
from pnne_nb.telemetry.frames import AnomalyFrame, StepFrame

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
    engine.start()
    assert engine.wait(60)
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
    engine.start(process=True)
    assert engine.wait(120)
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
