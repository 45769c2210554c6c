"""The first node with a fault is named, and a healthy file differs nowhere."""

from __future__ import annotations

from pathlib import Path

from tests.export.faults import Exported, first_bad
from tests.export.kinds import KINDS


def test_faults_are_named(tmp_path: Path) -> None:
    exported = Exported(KINDS["mobile"](), tmp_path)
    for scale in (1.0, 100.0):
        healthy = {name: tensor * scale for name, tensor in exported.batch().items()}
        assert first_bad(exported.compare(exported.path, healthy)) is None
    for seed in range(12):
        fault = exported.with_fault(seed, tmp_path / "faulty.onnx")
        found = first_bad(exported.compare(tmp_path / "faulty.onnx", exported.batch()))
        assert found == fault.node, fault.kind
