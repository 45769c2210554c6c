"""What a gesture costs in Python, and what a page that opens gets: at 100, 1,000 and 10,000 nodes.

CPU milliseconds from the browser's message to the encoded answer, the analysis aside (it runs after the answer);
the slowest kind of gesture counts, each by its median. Then, for a property that changes no shape, what the analysis
after it takes and sends, and what drawing the picture that stays in the notebook takes and how large that is: both are
done in pieces, when nobody edits. Budgets at 10,000 nodes: 20 ms and 4 kB for an answer, and for the analysis; a
megabyte for the picture; a snapshot in 500 ms. An answer's bytes may not depend on the graph.

Before the analysis was patched and the picture of a large graph made of a few shapes (927d548): 20 ms for the analysis
of a property, 115 to 370 ms for that of an edge or a node, 1.3 s and 2.9 MB for the picture, and edits waited for it.
"""

from __future__ import annotations

import json
import statistics
import time
from dataclasses import dataclass
from typing import Any

import pnne_nb as pn
from pnne_nb.protocol.codec import encode_event
from pnne_nb.widgets.editor.editor import GraphEditor
from pnne_nb.widgets.editor.live_analysis import Derivation

LARGE = 10_000
MAX_ACK_MS = 20.0
MAX_ANALYSIS_MS = 20.0
MAX_SENT = 4_000
MAX_PICTURE = 1_000_000
MAX_SNAPSHOT_MS = 500.0
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


@dataclass(frozen=True)
class Found:
    """CPU milliseconds and bytes: of an answer, of the analysis after it, of the kept picture and of a snapshot."""

    answer: float
    answer_bytes: int
    analysis: float
    analysis_bytes: int
    picture: float
    picture_bytes: int
    snapshot: float
    snapshot_bytes: int


def measure(length: int) -> Found:
    """What it costs with so many nodes."""
    graph = chain(length)
    # The analysis is measured apart: it must not take the processor away meanwhile.
    derivation = Derivation.of(graph)
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
    drawing = 1000 * (time.thread_time() - start)
    start = time.thread_time()
    snapshot = encode_event(editor._snapshot())
    opening = 1000 * (time.thread_time() - start)
    editor.close()
    answer = max(statistics.median(found) for found in times.values())
    analysis = statistics.median(analyses)
    return Found(answer, max(sizes), analysis, max(told), drawing, len(picture), opening, len(json.dumps(snapshot)))


def main() -> None:
    """Print the figures; `SystemExit` if one is over its budget."""
    print("nodes   answer ms   bytes   analysis ms   bytes   picture ms    kB   snapshot ms    kB")
    found = {}
    for length in (100, 1_000, LARGE):
        found[length] = now = measure(length)
        print(
            f"{length:5}   {now.answer:9.2f}   {now.answer_bytes:5}   {now.analysis:11.2f}   {now.analysis_bytes:5}   "
            f"{now.picture:10.0f} {now.picture_bytes // 1000:5}   {now.snapshot:11.1f} {now.snapshot_bytes // 1000:5}"
        )
    large = found[LARGE]
    for what, taken, limit in (
        ("An answer, in ms,", large.answer, MAX_ACK_MS),
        ("An answer, in bytes,", large.answer_bytes, MAX_SENT),
        ("The analysis after a property, in ms,", large.analysis, MAX_ANALYSIS_MS),
        ("The analysis after a property, in bytes,", large.analysis_bytes, MAX_SENT),
        ("The kept picture, in bytes,", large.picture_bytes, MAX_PICTURE),
        ("A snapshot, in ms,", large.snapshot, MAX_SNAPSHOT_MS),
        ("An answer, in bytes of those at 100 nodes,", large.answer_bytes / found[100].answer_bytes, 1.2),
    ):
        if taken > limit:
            raise SystemExit(f"{what} was {taken:.1f} at {LARGE} nodes, and may be {limit:g}.")


if __name__ == "__main__":
    main()
