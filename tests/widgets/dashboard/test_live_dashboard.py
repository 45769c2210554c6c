"""Findings are ordered, have something to draw, and can be dismissed."""

from __future__ import annotations

import json
import math

import msgspec

from pnne_nb.diagnosis.finding import false_alarms
from pnne_nb.protocol.control_messages import EvidenceBar
from pnne_nb.runtime.monitoring.history import History
from pnne_nb.telemetry.frames import AnomalyFrame, EpochFrame, StepFrame
from pnne_nb.widgets.dashboard.live_dashboard import NOTICES, POINTS, Findings


def history(values: list[float]) -> History:
    made = History()
    for step, value in enumerate(values, 1):
        made.record(StepFrame(step, 1, value, 0.01, 8, float(step)))
    return made


def test_the_most_probable_cause_comes_first_and_events_last() -> None:
    findings = Findings(History())
    for step, kind in enumerate(["dead-relu", "rewound", "divergence", "large-input", "best-restored"]):
        findings.take(AnomalyFrame(step, kind, kind))
    shown = [notice.message for notice in findings.shown()]
    assert shown == ["large-input", "divergence", "dead-relu", "rewound", "best-restored"]


def test_a_finding_says_how_often_its_kind_is_wrong_and_an_event_nothing() -> None:
    findings = Findings(History())
    for kind in ("large-input", "rewound"):
        findings.take(AnomalyFrame(1, kind, kind))
    finding, event = findings.shown()
    assert finding.alarms == false_alarms("large-input")
    assert finding.alarms is not None
    assert event.alarms is None


def test_only_the_latest_events_and_the_first_findings_are_shown() -> None:
    findings = Findings(History())
    for step in range(NOTICES + 3):
        findings.take(AnomalyFrame(step, "rewound", "The training went back."))
        findings.take(AnomalyFrame(step, "dead-relu", "It is dead.", node=f"relu{step}", hint="Look."))
        findings.take(AnomalyFrame(step, "nan-loss", "The loss is NaN.", node="fc", hint="Lower the learning rate."))
    steps = [notice.step for notice in findings.shown()]
    assert steps == [0, *range(NOTICES - 1), *range(3, NOTICES + 3)], "each kind once, of some kinds each layer"


def test_advice_that_contradicts_a_more_probable_cause_is_not_shown() -> None:
    findings = Findings(History())
    for kind in ("slow-progress", "dead-relu", "divergence"):
        findings.take(AnomalyFrame(1, kind, kind, hint="Change the rate."))
    assert [notice.message for notice in findings.shown()] == ["divergence", "dead-relu"]


def test_what_is_dismissed_is_gone_until_it_is_brought_back() -> None:
    findings = Findings(History())
    for kind in ("large-input", "dead-relu"):
        findings.take(AnomalyFrame(1, kind, kind))
    findings.dismiss(findings.shown()[0].number)
    assert [notice.message for notice in findings.shown()] == ["dead-relu"]
    assert findings.dismissed == 1
    findings.take(AnomalyFrame(2, "divergence", "divergence"))
    assert [notice.message for notice in findings.shown()] == ["divergence", "dead-relu"]
    findings.dismiss(None)
    assert [notice.message for notice in findings.shown()] == ["large-input", "divergence", "dead-relu"]
    assert findings.dismissed == 0


def test_numbers_of_its_own_become_bars_and_the_history_a_curve() -> None:
    findings = Findings(history([float(step) for step in range(1, 301)]))
    findings.take(AnomalyFrame(1, "large-input", "Large.", evidence=(("mean", 500.0), ("spread", math.inf))))
    findings.take(AnomalyFrame(120, "divergence", "It grows."))
    large, grown = findings.shown()
    assert large.bars == [EvidenceBar("mean", 500.0)]
    assert large.curves == []
    [curve] = grown.curves
    assert grown.bars == []
    assert curve.label == "loss"
    assert len(curve.values) == POINTS
    assert (curve.values[0], curve.values[-1]) == (1.5, 119.5)


def test_a_curve_has_gaps_where_it_was_no_number() -> None:
    findings = Findings(history([1.0, math.nan, 2.0]))
    findings.take(AnomalyFrame(3, "nan-loss", "NaN."))
    [notice] = findings.shown()
    assert notice.curves[0].values == [1.0, None, 2.0]
    json.dumps(msgspec.to_builtins(notice), allow_nan=False)


def test_overfitting_shows_both_losses() -> None:
    made = History()
    for epoch in range(1, 4):
        made.record(EpochFrame(epoch, 10 * epoch, {"train_loss": 1 / epoch, "val_loss": float(epoch)}))
    findings = Findings(made)
    findings.take(AnomalyFrame(30, "overfitting", "It learns by heart."))
    [notice] = findings.shown()
    assert [curve.label for curve in notice.curves] == ["train loss", "val loss"]


def test_without_anything_measured_there_is_no_picture() -> None:
    findings = Findings(History())
    findings.take(AnomalyFrame(0, "divergence", "It grows."))
    [notice] = findings.shown()
    assert (notice.curves, notice.bars) == ([], [])
