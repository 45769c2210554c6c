"""What a frame is put around and contains; vitest replays the same cases on the browser's code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pnne_nb.graph.model.annotation import Frame, around, held

CASES = json.loads((Path(__file__).parents[2] / "cases" / "frames.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("case", CASES["around"])
def test_a_frame_is_put_around_boxes(case: dict[str, Any]) -> None:
    assert around(tuple(box) for box in case["boxes"]) == tuple(case["frame"])


@pytest.mark.parametrize("case", CASES["held"])
def test_a_frame_holds_what_stands_in_it(case: dict[str, Any]) -> None:
    centres = {name: tuple(place) for name, place in case["nodes"].items()}
    frames = [Frame(name, tuple(box)) for name, box in case["frames"].items()]
    found = held(Frame("frame", tuple(case["frame"])), centres, frames)
    assert {"nodes": list(found.nodes), "frames": list(found.frames)} == case["held"]
