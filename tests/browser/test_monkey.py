"""Random gestures in two views while code edits the same graph: nothing breaks, and all agree at the end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.browser.monkey import play

if TYPE_CHECKING:
    from pathlib import Path

    from tests.browser.workbench import Workbench

GESTURES = 60


def test_random_gestures_beside_edits_from_python(
    workbench: Workbench, baseline_errors: frozenset[str], tmp_path: Path
) -> None:
    play(workbench, baseline_errors, tmp_path, GESTURES, seed=5)
