"""What a gesture costs in Python, and what a page that opens gets: at 100, 1,000 and 10,000 nodes.

CPU milliseconds from the browser's message to the encoded answer, the analysis aside (it runs after the answer);
the slowest kind of gesture counts, each by its median. Then, for a property that changes no shape, what the analysis
after it takes and sends, and what drawing the picture that stays in the notebook takes and how large that is: both are
done in pieces, when nobody edits. Budgets at 10,000 nodes: 20 ms and 4 kB for an answer, and for the analysis; a
megabyte for the picture; a snapshot in 500 ms. An answer's bytes may not depend on the graph. Last, the picture of a
tangle, whose every edge looks for a way around nodes, beside that of a chain of as many nodes.
"""

from __future__ import annotations

import json
import math
import random
import statistics
import time
from typing import Any

import pnne_nb as pn
from benchmarks.budgets import Budgets
from pnne_nb.protocol.codec import encode_event
from pnne_nb.widgets.editor.editor import GraphEditor
from pnne_nb.widgets.editor.live_analysis import LiveAnalysis

LARGE = 10_000
BUDGETS = {
    "answer ms": 20.0, "answer bytes": 4_000, "analysis ms": 20.0, "analysis bytes": 4_000,
    "picture ms": math.inf, "picture bytes": 1_000_000, "snapshot ms": 500.0, "snapshot bytes": math.inf,
}  # fmt: skip
"""At `LARGE` nodes."""
ROUNDS = 25


def chain(length: int) -> pn.NodeGraph:
    graph = pn.NodeGraph("bench")
    with graph.transaction():
        graph.add("Input", name="x", shape=("N", 8))
        last = "x"
        for number in range(length):
            kind = {"in_features": 8, "out_features": 8} if number % 2 else {}
            node = graph.add("Linear" if number % 2 else "ReLU", name=f"node_{number:04}", **kind)
            graph.connect(last, node)
            last = node.name
    graph.arrange()
    return graph


def gestures(place: int) -> list[list[dict[str, Any]]]:
    """One of each kind, in the middle of the graph; together they leave it as it was."""
    place -= place % 2 == 0  # a Linear
    before, name = f"node_{place - 1:04}", f"node_{place:04}"
    edge = {"source": f"{before}.output", "target": f"{name}.input"}
    return [
        [{"op": "moveNode", "name": name, "position": [float(place), 1.0]}],
        [{"op": "disconnect", **edge}],
        [{"op": "connect", **edge}],
        [{"op": "renameNode", "name": name, "newName": "other"}],
        [{"op": "renameNode", "name": "other", "newName": name}],
        [{"op": "setProperty", "node": name, "property": "bias", "value": False}],
        [{"op": "resetProperty", "node": name, "property": "bias"}],
    ]


def measure(length: int) -> dict[str, float]:
    """The figures of `BUDGETS` with so many nodes: CPU milliseconds, and bytes."""
    graph = chain(length)
    # The analysis is measured apart: it must not take the processor away meanwhile.
    derivation = LiveAnalysis.of(graph)
    derivation.request = lambda: None  # type: ignore[method-assign]  # that is the point
    editor = GraphEditor(graph)
    derivation.refresh()
    answers: list[dict[str, Any]] = []
    editor.send = lambda content, **_: answers.append(content)  # what a browser would get
    times: dict[int, list[float]] = {}
    analyses: list[float] = []
    sizes, told = [], [0]

    def ask(ops: list[dict[str, Any]], number: int) -> float:
        answers.clear()
        message = {"message": "edit", "id": number, "client": "b", "base": graph.version, "ops": ops}
        start = time.thread_time()
        editor._handle_custom_msg(message, [])
        taken = 1000 * (time.thread_time() - start)
        if [answer["message"] for answer in answers] != ["committed"]:
            raise SystemExit(f"A gesture was not committed: {str(answers)[:300]}")
        sizes.append(len(json.dumps(answers[0])))
        return taken

    for number in range(ROUNDS):
        for kind, ops in enumerate(gestures(2 + number * (length - 3) // ROUNDS)):
            times.setdefault(kind, []).append(ask(ops, number))
    derivation.refresh()
    for number in range(ROUNDS):
        *_, change, back = gestures(2 + number * (length - 3) // ROUNDS)
        for ops in (change, back):
            ask(ops, number)
            answers.clear()
            start = time.thread_time()
            derivation.refresh()
            analyses.append(1000 * (time.thread_time() - start))
            told.append(sum(len(json.dumps(answer)) for answer in answers))
    start = time.thread_time()
    picture = derivation.picture()
    drawn = time.thread_time()
    snapshot = encode_event(editor._snapshot())
    opened = time.thread_time()
    drawing, opening = 1000 * (drawn - start), 1000 * (opened - drawn)
    editor.close()
    answer = max(statistics.median(found) for found in times.values())
    figures = (
        answer, max(sizes), statistics.median(analyses), max(told), drawing, len(picture), opening,
        len(json.dumps(snapshot)),
    )  # fmt: skip
    return dict(zip(BUDGETS, figures, strict=True))


def tangle(length: int) -> pn.NodeGraph:
    """Return a graph whose nodes stand anywhere, each fed by two of those before it."""
    chance = random.Random(1)
    graph = pn.NodeGraph("tangle")
    with graph.transaction():
        names = [graph.add("Input", name="x", shape=("N", 8)).name]
        for _ in range(length):
            node = graph.add("add").name
            for port in ("input", "other"):
                graph.connect(chance.choice(names), f"{node}.{port}")
            graph.move(node, chance.uniform(-1500, 1500), chance.uniform(0, 4000))
            names.append(node)
    return graph


def drawing_ms(graph: pn.NodeGraph) -> float:
    start = time.thread_time()
    graph.to_svg()
    return 1000 * (time.thread_time() - start)


def main() -> None:
    print("  nodes", *BUDGETS, sep="   ")
    found = {}
    for length in (100, 1_000, LARGE):
        found[length] = measure(length)
        print(f"{length:7}", *(f"{value:{len(name)}.1f}" for name, value in found[length].items()), sep="   ")
    budgets = Budgets()
    for name, limit in BUDGETS.items():
        if found[LARGE][name] > limit:
            budgets.fail(f"{name} at {LARGE} nodes ({found[LARGE][name]:.1f} > {limit:g})")
    growth = found[LARGE]["answer bytes"] / found[100]["answer bytes"]
    if growth > 1.2:
        budgets.fail(f"an answer's bytes, of those at 100 nodes ({growth:.1f} > 1.2)")
    straight, tangled = drawing_ms(chain(240)), drawing_ms(tangle(240))
    budgets.report("picture, 240 nodes, tangled / in a row", tangled / straight, 60, "x")
    print(f"    tangled {tangled:.0f} ms, in a row {straight:.0f} ms")
    budgets.end()


if __name__ == "__main__":
    main()
