"""The order of findings."""

from __future__ import annotations

from pnne_nb.inspector.diagnosis.causes import CAUSES, FALSE_ALARMS, HEALTHY, false_alarms, is_finding, rank
from pnne_nb.inspector.diagnosis.evidence import Finding


def test_causes_come_before_symptoms_and_events_last() -> None:
    assert len(set(CAUSES)) == len(CAUSES)
    assert rank("large-input") < rank("nan-loss") < rank("dead-relu") < rank("overfitting") < rank("rewound")
    assert is_finding("dead-relu")
    assert not is_finding("best-restored")


def test_each_kind_says_how_often_it_is_wrong() -> None:
    assert set(FALSE_ALARMS) <= set(CAUSES)
    assert all(
        false_alarms(kind) == f"False alarms: {FALSE_ALARMS.get(kind, 0)} in {HEALTHY} healthy trainings."
        for kind in CAUSES
    )
    assert false_alarms("best-restored") is None
    assert (
        str(Finding("dead-relu", "1", "It is dead.", "Warm it."))
        == f"1: It is dead. Warm it. {false_alarms('dead-relu')}"
    )
    assert str(Finding("of one's own", None, "It is odd.", "Look.")) == "It is odd. Look."
