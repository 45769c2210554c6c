"""The size of a node is the same in Python and in the browser, which replays the same cases."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pnne_nb.graph.layout.geometry import geometry, runs_right, shown_inputs
from pnne_nb.graph.schema.spec import Port

FOLDER = Path(__file__).parents[2] / "cases"
CASES: list[dict[str, Any]] = json.loads((FOLDER / "geometry.json").read_text())["cases"]
DIRECTIONS: list[dict[str, Any]] = json.loads((FOLDER / "directions.json").read_text())["cases"]


def name_of(case: dict[str, Any]) -> str:
    settings = [setting for setting in ("collapsed", "across") if case[setting]]
    return "-".join((*case["inputs"], "to", *case["outputs"], *settings))


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_geometry_is_the_browsers(case: dict[str, Any]) -> None:
    settings = {key: case[key] for key in ("lines", "wide", "collapsed", "across")}
    shape = geometry(case["inputs"], case["outputs"], **settings)
    assert (shape.width, shape.height) == (case["width"], case["height"])
    assert list(shape.inputs.items()) == list(zip(case["inputs"], case["inputPlaces"], strict=True))
    assert list(shape.outputs.items()) == list(zip(case["outputs"], case["outputPlaces"], strict=True))


@pytest.mark.parametrize("case", DIRECTIONS, ids=lambda case: case["about"])
def test_direction_is_the_browsers(case: dict[str, Any]) -> None:
    assert runs_right(((x1, y1), (x2, y2)) for x1, y1, x2, y2 in case["ends"]) == case["right"]


def test_a_variadic_port_shows_its_slots_their_gaps_and_one_to_spare() -> None:
    declared = (Port("tensors", variadic=True), Port("other"))
    assert shown_inputs(declared, ()) == ("tensors_0", "other")
    assert shown_inputs(declared, ("tensors_2", "dim")) == (
        "tensors_0",
        "tensors_1",
        "tensors_2",
        "tensors_3",
        "other",
        "dim",
    )
