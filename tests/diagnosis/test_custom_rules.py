"""Rules of one's own judge trainings beside the others, and cannot end one."""

from __future__ import annotations

import logging

import pytest
import torch
from torch import nn

import pnne_nb as pn
from pnne_nb.diagnosis.finding import KINDS


def trained() -> pn.TrainingEngine:
    x = torch.randn(64, 2)
    engine = pn.TrainingEngine(nn.Linear(2, 1), (x, x.sum(1, keepdim=True)), epochs=5, batch_size=8, loss="MSELoss")
    engine.start().wait()
    return engine


def test_a_rule_is_asked_while_a_training_runs_and_afterwards() -> None:
    seen: list[int] = []

    @pn.register_rule("any-loss", before="overfitting")
    def any_loss(evidence):  # type: ignore[no-untyped-def]  # as a person writes it
        seen.append(evidence.steps)
        if evidence.losses:
            yield pn.Finding("any-loss", None, f"{evidence.steps} losses.", "Do nothing.")

    engine = trained()
    assert 20 in seen
    (found,) = [finding for finding in pn.diagnose(engine) if finding.kind == "any-loss"]
    said = 'Do nothing. False alarms: not measured yet. pn.explain("any-loss") says more.'
    assert str(found).endswith(said)
    assert pn.explain(found).startswith("any-loss\n  Why: A rule of your own finds it, and has no docstring")
    assert list(KINDS).index("any-loss") == list(KINDS).index("overfitting") - 1
    assert "any-loss" in [frame.kind for frame in engine.history.anomalies]


def test_a_rule_that_is_registered_again_replaces_the_one_before() -> None:
    pn.register_rule("mine", by_layer=True)(lambda _evidence: [pn.Finding("mine", "one", "First.", "")])
    engine = trained()
    pn.register_rule("mine", by_layer=True)(lambda _evidence: [pn.Finding("mine", "two", "Second.", "")])
    found = [finding.reason for finding in engine.judge.findings() if finding.kind == "mine"]
    assert found == ["First.", "Second."]
    assert list(KINDS)[-1] == "mine"


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        (lambda _evidence: 1 / 0, "division by zero"),
        (lambda _evidence: ["text"], "It yields 'text'"),
        (lambda _evidence: [pn.Finding("overfitting", None, "", "")], "not pn.Finding('mine', …)"),
    ],
)
def test_a_rule_that_fails_is_logged_and_ends_nothing(
    rule: object, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    pn.register_rule("mine")(rule)  # type: ignore[arg-type]  # which is the point
    with caplog.at_level(logging.ERROR):
        engine = trained()
    assert engine.state == "finished"
    assert "The rule 'mine' failed" in caplog.text
    (record,) = caplog.records
    assert record.exc_info is not None
    assert said in str(record.exc_info[1])


def test_what_cannot_be_a_rule_is_refused() -> None:
    with pytest.raises(pn.ArgumentError, match="'overfitting' is a kind that the package finds itself"):
        pn.register_rule("overfitting")
    with pytest.raises(
        pn.ArgumentError, match=r"before='overfittin' is no kind of finding. Did you mean 'overfitting'"
    ):
        pn.register_rule("mine", before="overfittin")
    with pytest.raises(pn.ArgumentError, match="advice cannot be 'up'"):
        pn.register_rule("mine", advice="up")  # type: ignore[arg-type]  # which is the point
    with pytest.raises(pn.ArgumentError, match="3 cannot be called"):
        pn.register_rule("mine")(3)  # type: ignore[arg-type]  # as above
