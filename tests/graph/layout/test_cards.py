"""What stands where once runs of equal nodes are one card each; vitest replays the same cases on the browser's code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pnne_nb.graph.layout.cards import closed

CASES = json.loads((Path(__file__).parents[2] / "cases" / "folding.json").read_text(encoding="utf-8"))["cases"]


@pytest.mark.parametrize("case", CASES)
def test_the_room_of_hidden_nodes_is_closed(case: dict[str, Any]) -> None:
    places = {name: tuple(place) for name, place in case["places"].items()}
    found = closed(places, [tuple(run) for run in case["runs"]])
    assert found == {name: tuple(place) for name, place in case["shown"].items()}
