"""What a gesture costs in Python, and what a page that opens gets: at 100, 1,000 and 5,000 nodes.

CPU milliseconds from the browser's message to the encoded answer, the analysis aside (it runs after the answer);
median over gestures of four kinds. Budgets: 5 ms at 1,000 nodes (of the 80 that a gesture may take in all), an
answer whose bytes do not depend on the graph, and a snapshot of 5,000 nodes in 500 ms.
"""

from __future__ import annotations

import json
import statistics
import time
from typing import Any

import pnne_nb as pn
from pnne_nb.protocol.codec import encode_event
from pnne_nb.widgets.editor.editor import GraphEditor
from pnne_nb.widgets.editor.live_analysis import Derivation

MAX_ACK_MS = 5.0
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
    before, name = f"node_{place - 1:04}", f"node_{place:04}"
    edge = {"source": f"{before}.output", "target": f"{name}.input"}
    return [
        [{"op": "moveNode", "name": name, "position": [float(place), 1.0]}],
        [{"op": "disconnect", **edge}],
        [{"op": "connect", **edge}],
        [{"op": "renameNode", "name": name, "newName": "other"}],
        [{"op": "renameNode", "name": "other", "newName": name}],
    ]


def measure(length: int) -> tuple[float, int, float, int]:
    """CPU ms and bytes of an answer, CPU ms and bytes of a snapshot."""
    graph = chain(length)
    # The analysis is not measured: it must not take the processor away meanwhile.
    derivation = Derivation.of(graph)
    derivation.request = lambda: None  # type: ignore[method-assign]  # that is the point
    editor = GraphEditor(graph)
    answers: list[dict[str, Any]] = []
    editor.send = lambda content, **_: answers.append(content)  # what a browser would get
    times, sizes = [], []
    for number in range(ROUNDS):
        for ops in gestures(1 + number * (length - 2) // ROUNDS):
            answers.clear()
            message = {"message": "edit", "id": number, "client": "b", "base": graph.version, "ops": ops}
            start = time.thread_time()
            editor._handle_custom_msg(message, [])
            times.append(1000 * (time.thread_time() - start))
            if [answer["message"] for answer in answers] != ["committed"]:
                raise SystemExit(f"A gesture was not committed: {str(answers)[:300]}")
            sizes.append(len(json.dumps(answers[0])))
    start = time.thread_time()
    snapshot = encode_event(editor._snapshot())
    opening = 1000 * (time.thread_time() - start)
    editor.close()
    return statistics.median(times), max(sizes), opening, len(json.dumps(snapshot))


def main() -> None:
    """Print the figures; `SystemExit` if one is over its budget."""
    print("nodes   answer ms   answer bytes   snapshot ms   snapshot kB")
    found = {}
    for length in (100, 1_000, 5_000):
        found[length] = answer, size, opening, state = measure(length)
        print(f"{length:5}   {answer:9.2f}   {size:12}   {opening:11.1f}   {state / 1000:11.0f}")
    if found[1_000][0] > MAX_ACK_MS:
        raise SystemExit(f"A gesture at 1,000 nodes took {found[1_000][0]:.1f} ms, and may take {MAX_ACK_MS} ms.")
    if found[5_000][1] > 1.2 * found[100][1]:
        raise SystemExit("The bytes of an answer depend on the size of the graph.")
    if found[5_000][2] > MAX_SNAPSHOT_MS:
        raise SystemExit(f"A snapshot of 5,000 nodes took {found[5_000][2]:.0f} ms, and may take {MAX_SNAPSHOT_MS} ms.")


if __name__ == "__main__":
    main()
