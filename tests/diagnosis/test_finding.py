"""The order of findings."""

from __future__ import annotations

import json

import pytest

from pnne_nb.diagnosis.finding import KINDS, MEASURED, Finding, Kind, false_alarms, is_finding, rank


def test_causes_come_before_symptoms_and_events_last() -> None:
    assert rank("large-input") < rank("nan-loss") < rank("dead-relu") < rank("overfitting") < rank("rewound")
    assert is_finding("dead-relu")
    assert not is_finding("best-restored")


def test_each_kind_says_how_often_it_is_wrong() -> None:
    measured = json.loads(MEASURED.read_text(encoding="utf-8"))
    assert set(measured["false_alarms"]) <= set(KINDS)
    for kind, count in measured["false_alarms"].items():
        assert false_alarms(kind) == f"False alarms: {count} in {measured['healthy']} healthy trainings."
    assert false_alarms("best-restored") is None
    assert (
        str(Finding("dead-relu", "1", "It is dead.", "Warm it."))
        == f'1: It is dead. Warm it. {false_alarms("dead-relu")} pn.explain("dead-relu") says more.'
    )
    assert str(Finding("of one's own", None, "It is odd.", "Look.")) == "It is odd. Look."


def test_a_kind_that_nobody_measured_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(KINDS, "odd-loss", Kind("odd-loss"))
    assert false_alarms("odd-loss") == "False alarms: not measured yet."
