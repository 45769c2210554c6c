"""Edges run around what stands in their way; the cases are replayed in the browser's language too."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pnne_nb.graph.render.edge_routing import routed

CASES = json.loads((Path(__file__).parents[2] / "cases" / "routes.json").read_text(encoding="utf-8"))["cases"]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["about"])
def test_case(case: dict[str, Any]) -> None:
    boxes, own = ([tuple(box) for box in case.get(which, ())] for which in ("boxes", "own"))
    points = routed(tuple(case["start"]), tuple(case["end"]), boxes, own=own)
    assert [list(point) for point in points] == case["points"]
