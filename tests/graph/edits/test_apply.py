"""The cases that the browser's reducer replays too."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pnne_nb.errors import GraphError
from pnne_nb.graph.document import NodeGraph
from pnne_nb.graph.model.ops import Op
from pnne_nb.protocol.codec import decode_ops
from tests.graph.types import TYPES

CASES = sorted((Path(__file__).parents[2] / "cases" / "editing").glob("*.json"))


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_case(path: Path) -> None:
    case = json.loads(path.read_text(encoding="utf-8"))
    graph = _document(case["document"])
    for place, step in enumerate(case["steps"]):
        before = graph.to_json(), graph.version
        try:
            _take(graph, step)
            outcome = "committed"
        except GraphError:
            outcome = "rejected"
        assert outcome == step["expect"], f"step {place}"
        if outcome == "rejected":
            assert (graph.to_json(), graph.version) == before, f"step {place} left a trace"
        else:
            assert graph.to_json() == _document(step["document"]).to_json(), f"step {place}"


def test_there_are_cases() -> None:
    assert len(CASES) >= 20


def _document(data: object) -> NodeGraph:
    return NodeGraph.from_json(json.dumps(data), types=TYPES)


def _take(graph: NodeGraph, step: dict[str, Any]) -> None:
    if step.get("undo"):
        graph.undo()
    elif step.get("redo"):
        graph.redo()
    else:
        graph.apply(decode_ops(msgspec.convert(step["ops"], tuple[Op, ...])))
