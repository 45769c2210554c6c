"""The order of findings."""

from __future__ import annotations

from pnne_nb.inspector.diagnosis.causes import CAUSES, is_finding, rank


def test_causes_come_before_symptoms_and_events_last() -> None:
    assert len(set(CAUSES)) == len(CAUSES)
    assert rank("large-input") < rank("nan-loss") < rank("dead-relu") < rank("overfitting") < rank("rewound")
    assert is_finding("dead-relu")
    assert not is_finding("best-restored")
