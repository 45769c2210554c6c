"""Random edits have the same outcome here and in the browser's reducer, which replays them (``js/tests``)."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

from pnne_nb.errors import GraphError
from pnne_nb.graph.edits.apply import apply_op
from pnne_nb.graph.model.content import Content
from pnne_nb.graph.model.ops import (
    AddFrame,
    AddGraph,
    AddNode,
    ChangeFrame,
    CollapseNode,
    Connect,
    Disconnect,
    MoveNode,
    Op,
    RemoveFrame,
    RemoveGraph,
    RemoveNode,
    RenameNode,
    ResetProperty,
    SetOrigin,
    SetProperty,
    SetSize,
)
from pnne_nb.graph.model.origin import Origin
from pnne_nb.graph.schema.values import Calculated
from pnne_nb.graph.storage import state_of
from pnne_nb.protocol.codec import encode_ops

ROOT = Path(__file__).parents[3]
WALKS = 40
STEPS = 60
NAMES = ("a", "b", "c", "d", "0", "train", "x y")
TYPES = ("Input", "Output", "ReLU", "Linear", "Subgraph")
DEFINITIONS = ("inner", "deep")
OUT = ("output", "output", "b", "c", "")
INTO = ("input", "input", "a", "other.one")
FRAMES = ("frame1", "frame2", "no way")


def any_op(draw: random.Random, content: Content) -> Op:
    """An op that names, more often than not, what the document has."""
    graph = draw.choice(["", "", *content.graphs, "gone"])
    here = content.graphs.get(graph)
    own = list(here.nodes) if here is not None and here.nodes and draw.random() < 0.8 else list(NAMES)
    frames = list(here.frames) if here is not None and here.frames and draw.random() < 0.7 else list(FRAMES)
    name, other = draw.choice(own), draw.choice(own)
    edges = list(here.edges.values()) if here is not None else []

    makers: list[Callable[[], Op]] = [
        lambda: AddNode(
            draw.choice(NAMES),
            draw.choice(TYPES),
            _properties(draw),
            _position(draw),
            graph,
            draw.choice([None, 0, 2, -1]),
        ),
        lambda: AddNode(draw.choice(NAMES), draw.choice(TYPES[:4]), {}, _position(draw), graph, None, None, True),
        lambda: RemoveNode(name, graph),
        lambda: RenameNode(name, draw.choice(NAMES), graph),
        lambda: SetProperty(name, "definition", draw.choice([*DEFINITIONS, ""]), graph),
        lambda: SetProperty(name, "shares", other, graph),
        lambda: ResetProperty(name, draw.choice(["definition", "shares", "in_features"]), graph),
        lambda: MoveNode(name, _position(draw), graph),
        lambda: CollapseNode(name, draw.random() < 0.5, graph),
        lambda: SetOrigin(name, draw.choice([None, Origin("equal"), Origin("edited")]), graph),
        lambda: AddGraph(draw.choice(DEFINITIONS)),
        lambda: RemoveGraph(draw.choice(DEFINITIONS)),
        lambda: AddFrame(
            draw.choice(FRAMES), _box(draw), draw.choice(["", "Encoder", "bell\a"]), "a\nb", "blue", graph
        ),
        lambda: ChangeFrame(draw.choice(frames), draw.choice([None, _box(draw)]), "T", None, "plaid", graph),
        lambda: ChangeFrame(draw.choice(frames), draw.choice([None, _box(draw)]), None, "more", None, graph),
        lambda: RemoveFrame(draw.choice(frames), graph),
        lambda: SetSize(draw.choice(NAMES), draw.choice([None, 4, Calculated(8, "2*a")])),
        *[lambda: Connect(f"{name}.{draw.choice(OUT)}", f"{other}.{draw.choice(INTO)}", graph)] * 5,
        lambda: Disconnect(*draw.choice(edges), graph) if edges else RemoveNode("nobody", graph),
    ]
    return draw.choice(makers)()


def _properties(draw: random.Random) -> dict[str, object]:
    return draw.choice([{}, {"definition": "inner"}, {"definition": "deep"}, {"shares": draw.choice(NAMES)}])


def _position(draw: random.Random) -> tuple[float, float] | None:
    return draw.choice([None, (1.0, 2.5), (float(draw.randint(-9, 9)), 0.0)])


def _box(draw: random.Random) -> tuple[float, float, float, float]:
    return (float(draw.randint(-9, 9)), 0.0, draw.choice([5.0, 40.0, 0.0]), 12.0)


def walk(seed: int) -> dict[str, Any]:
    """A case of many steps, in the form of ``tests/cases/editing``."""
    draw, content = random.Random(seed), Content("net")
    start = msgspec.to_builtins(state_of(content))
    steps: list[dict[str, Any]] = []
    for _ in range(STEPS):
        op = any_op(draw, content)
        step: dict[str, Any] = {"ops": msgspec.to_builtins(encode_ops([op]))}
        try:
            undo = apply_op(content, op)
        except GraphError:
            steps.append({**step, "expect": "rejected"})
            continue
        steps.append({**step, "expect": "committed", "document": msgspec.to_builtins(state_of(content))})
        if draw.random() < 0.2 and undo:  # what changes nothing has nothing to undo
            for each in undo:
                apply_op(content, each, restoring=True)
            ops = msgspec.to_builtins(encode_ops(undo))
            steps.append({"ops": ops, "expect": "committed", "document": msgspec.to_builtins(state_of(content))})
    return {"name": f"walk {seed}", "document": start, "steps": steps}


def test_the_browser_takes_and_refuses_what_python_does(tmp_path: Path) -> None:
    cases = [walk(seed) for seed in range(WALKS)]
    outcomes = [step["expect"] for case in cases for step in case["steps"]]
    kinds = {step["ops"][0]["op"] for case in cases for step in case["steps"] if step["expect"] == "committed"}
    assert len(kinds) == len(get_args(Op)) - 1, "every op takes place but that which names the document"
    assert min(outcomes.count("committed"), outcomes.count("rejected")) > len(outcomes) / 5
    for case in cases:
        (tmp_path / f"{case['name']}.json").write_text(json.dumps(case), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "hatch_build.py", "npm", "run", "test", "--", "tests/editing.test.ts"],
        cwd=ROOT,
        env={**os.environ, "PNNE_CASES": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        pytest.fail(f"The browser's reducer differs:\n{done.stdout[-4000:]}\n{done.stderr[-1000:]}", pytrace=False)
