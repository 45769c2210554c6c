"""A cell with an editor that is run again and again, in a real kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from jupyter_client.manager import start_new_kernel

SETUP = """
import gc, tracemalloc
from ipywidgets.widgets.widget import _instances
import torch
torch.set_num_threads(1)
import pnne_nb as pn
from pnne_nb.compiler import IncrementalAnalysis
from pnne_nb.process.background_import import _threads
from pnne_nb.widgets.editor.editor import GraphEditor

graph = pn.NodeGraph("net")
graph.add("Input", name="x", shape=("N", 4))
for number in range(20):
    graph.add("Linear", name=f"fc{number}", in_features=4, out_features=4)
    graph.connect("x" if number == 0 else f"fc{number - 1}", f"fc{number}")

def alive(kind):
    gc.collect()
    return sum(type(thing) is kind for thing in gc.get_objects())
"""
RUNS = 30
Run = Callable[[str, str | None], dict[str, Any]]
SHOW = "editor = pn.GraphEditor(graph)\neditor"


@pytest.fixture
def run() -> Iterator[Run]:
    """Run a cell in the kernel, as JupyterLab asks for it; returns what it printed and which outputs it had."""
    manager, client = start_new_kernel()

    def execute(code: str, cell: str | None) -> dict[str, Any]:
        content = {"code": code, "silent": False, "store_history": True, "user_expressions": {}, "allow_stdin": False}
        message = client.session.msg("execute_request", content, metadata={"cellId": cell} if cell is not None else {})
        client.shell_channel.send(message)
        outputs: list[dict[str, Any]] = []
        text = ""
        while True:
            reply = client.get_iopub_msg(timeout=60)
            if reply["parent_header"].get("msg_id") != message["header"]["msg_id"]:
                continue
            assert reply["msg_type"] != "error", reply["content"]
            if reply["msg_type"] == "status" and reply["content"]["execution_state"] == "idle":
                return {"text": text, "outputs": outputs}
            if reply["msg_type"] == "stream" and reply["content"]["name"] == "stdout":
                text += reply["content"]["text"]
            if reply["msg_type"] in ("display_data", "execute_result"):
                outputs.append(reply["content"]["data"])

    yield execute
    client.stop_channels()
    manager.shutdown_kernel(now=True)


def test_many_runs_of_a_cell_leave_one_editor(run: Run) -> None:
    run(SETUP, "setup")
    first = run(SHOW, "cell")["outputs"]
    assert [sorted(data) for data in first] == [
        ["application/vnd.jupyter.widget-view+json", "text/plain"],
        ["text/html", "text/plain"],
    ]
    for _ in range(4):
        run(SHOW, "cell")
    run(
        "_threads[0].join(); _ = alive(object); tracemalloc.start(); before = tracemalloc.get_traced_memory()[0]",
        "measure",
    )
    for _ in range(RUNS):
        run(SHOW, "cell")
    code = (
        "print(sum(isinstance(w, GraphEditor) for w in _instances.values()), alive(IncrementalAnalysis), "
        f"len(graph._ledger.delivery), (tracemalloc.get_traced_memory()[0] - before) // {RUNS})"
    )
    widgets, analyses, observers, grown = map(int, run(code, "measure")["text"].split())
    assert (widgets, analyses, observers) == (1, 1, 2)
    # The kernel itself remembers each run (its input and what it gave); the editor's text alone would be 500,000.
    assert grown < 60_000
    print(f"bytes a run: {grown}")


def test_a_front_end_that_does_not_name_its_cells_leaves_one_editor_too(run: Run) -> None:
    run(SETUP, None)
    for _ in range(4):
        run(SHOW, None)
    code = "print(sum(isinstance(w, GraphEditor) for w in _instances.values()), alive(IncrementalAnalysis))"
    assert run(code, None)["text"].split() == ["1", "1"]
