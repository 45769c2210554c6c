"""Every hostile cell once, beside a training in a real kernel; `scripts/hostile_cells.py` runs hundreds."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.runtime.hostile_cells import CELLS, INTERRUPTED, SILENT, TOLD, UNSEEN

ROOT = Path(__file__).parents[2]


@pytest.mark.timeout(900)
def test_hostile_cells_leave_a_training_bit_identical_or_are_told(tmp_path: Path) -> None:
    cells = str(sum(map(len, (CELLS, INTERRUPTED, SILENT, TOLD, UNSEEN))))
    command = [sys.executable, "scripts/hostile_cells.py", cells, "1"]
    # Cells that are interrupted leave files behind.
    variables = {**os.environ, "TMPDIR": str(tmp_path)}
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, env=variables)
    assert run.stdout.rstrip().endswith("bit-identical"), run.stdout + run.stderr
    assert "the cell itself failed" not in run.stdout
    assert run.returncode == 0, run.stdout
