"""What goes wrong on the wire in a real JupyterLab: the wrong order, stale, nonsense, too large, too many, too odd."""

from __future__ import annotations

import json
import string
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from playwright.sync_api import expect

if TYPE_CHECKING:
    from tests.browser.pages import EditorPage
    from tests.browser.workbench import Workbench

PAIR = "chain('Linear', out_features=8)"

HOLD = "held = []\nreal, editor.send = editor.send, lambda content, buffers=None: held.append(content)"

# Sends what the page's own front end never would, through the connection that it uses.
SEND = """([comm, content]) => window.jupyterapp.shell.currentWidget.sessionContext.session.kernel
  ._comms.get(comm).send({method: "custom", content})"""

FROM_PYTHON: list[Any] = [
    None, 7, "text", [], {}, {"message": "nonsense"}, {"message": "committed"}, {"message": "snapshot"},
    {"message": "committed", "version": 10**9, "ops": [{"op": "explode"}], "label": "", "history": {}},
    {"message": "rejected"}, {"message": "derivedChanged"}, {"message": "preview", "id": -1},
    {"message": "training", "tick": "x", "layers": None}, {"message": "catalog"}, {"message": "blocks", "document": 1},
]  # fmt: skip

FROM_THE_PAGE: list[Any] = [
    None, 7, [], {}, {"message": "nonsense", "id": 1, "client": "x"}, {"message": "edit", "id": 1, "client": "x"},
    {"message": "edit", "id": 2, "client": "x", "base": 0, "ops": [], "label": ""},
    {"message": "edit", "id": 3, "client": "x", "base": 10**9, "ops": [{"op": "removeNode", "name": "x"}] * 2},
    {"message": "edit", "id": 4, "client": "x", "base": 0, "ops": [{"op": "addNode", "name": "a b", "type": "ReLU"}]},
    {"message": "edit", "id": 5, "client": "x", "base": 0, "label": 3, "ops": [{"op": "removeNode", "name": "x"}]},
    {"message": "undo", "id": "six", "client": 7}, {"message": "painted", "id": 7, "client": "x", "tick": -1},
]  # fmt: skip


def still_works(workbench: Workbench, editor: EditorPage) -> None:
    """Show that page and kernel hold one document, and that it can be edited."""
    workbench.in_step(editor)
    workbench.expect_nodes_shown(editor)
    editor.pick("linear1")
    editor.press("Delete")
    workbench.done("Delete linear1", editor)
    editor.press("Control+z")
    expect(editor.node("linear1")).to_be_visible()
    workbench.in_step(editor)


def test_commits_in_the_wrong_order_twice_and_stale_lead_to_one_document(workbench: Workbench) -> None:
    editor = workbench.open(PAIR)
    workbench.execute(
        f"from pnne_nb.protocol.codec import encode_event\nold = encode_event(editor._snapshot())\n{HOLD}\n"
        "for name in ('first', 'second', 'third'): graph.add('ReLU', name=name)"
    )
    expect(editor.node("first")).to_have_count(0)
    workbench.execute("for content in [*reversed(held), *held, old]: real(content)\neditor.send = real")
    for name in ("first", "second", "third"):
        expect(editor.node(name)).to_be_attached()
    still_works(workbench, editor)


def test_a_commit_that_was_lost_is_missed_and_asked_for(workbench: Workbench) -> None:
    editor = workbench.open(PAIR)
    workbench.execute(f"{HOLD}\ngraph.add('ReLU', name='lost')\neditor.send = real\ngraph.add('ReLU', name='told')")
    expect(editor.node("lost")).to_be_attached()
    still_works(workbench, editor)


def test_nonsense_from_either_side_changes_nothing(workbench: Workbench) -> None:
    editor = workbench.open(PAIR)
    comm, before = workbench.value("editor.comm.comm_id"), workbench.value("graph.to_json()")
    for content in FROM_THE_PAGE:
        workbench.page.evaluate(SEND, [comm, content])
    workbench.execute(f"for content in {FROM_PYTHON!r}: editor.send(content)")
    expect(editor.toast.first).to_contain_text("A message from Python could not be read")
    assert workbench.value("graph.to_json()") == before
    still_works(workbench, editor)


def test_what_is_too_large_for_the_connection_is_refused_before_it_is_shown(workbench: Workbench) -> None:
    editor = workbench.open(PAIR)
    nodes = [
        {"name": f"c{i}", "type": "Constant", "properties": {"value": "y" * 3_000_000}, "position": [0, 0]}
        for i in range(3)
    ]
    text = json.dumps({"format": "pnne-fragment", "nodes": nodes, "edges": [], "frames": []})
    workbench.page.evaluate("text => navigator.clipboard.writeText(text)", text)
    editor.canvas.focus()
    editor.press("Control+v")
    expect(editor.toast).to_contain_text("This change is too large: 8.58 MiB, and at most 8 MiB can be sent.")
    still_works(workbench, editor)


def test_an_edit_that_goes_down_with_the_connection_is_asked_for_again(workbench: Workbench) -> None:
    editor = workbench.open(PAIR)
    workbench.page.evaluate(SEND, [workbench.value("editor.comm.comm_id"), "y" * (11 << 20)])
    editor.pick("linear1")
    editor.press("Delete")
    expect(editor.node("linear1")).to_have_count(0)
    expect(editor.root).to_have_attribute("data-version", "2")  # the kernel cannot be asked for it meanwhile
    assert workbench.nodes == ["x"]
    expect(editor.root.get_by_text("Waiting for kernel")).to_have_count(0)


def test_what_python_says_may_be_large(workbench: Workbench) -> None:
    editor = workbench.open(PAIR)
    workbench.execute("graph.add('Constant', name='c', value='y' * 3_000_000)\ngraph.move('c', 250.0, 0.0)")
    expect(editor.node("c")).to_be_visible()
    assert workbench.value("len(graph['c'].properties['value'])") == 3_000_000
    editor.pick("c")
    expect(editor.field("c", "value")).to_be_visible()
    still_works(workbench, editor)


def test_thousands_of_commits_from_a_cell_arrive(workbench: Workbench) -> None:
    editor = workbench.open(PAIR)
    cell = workbench.notebook.run("for number in range(4_000): graph.add('ReLU', name=f'n{number}')")
    assert workbench.notebook.outputs(cell) == [], "Jupyter warns when it drops messages"
    expect(editor.root.locator(".pnne-status")).to_contain_text("4002 nodes")
    workbench.in_step(editor)


def test_a_graph_of_nothing_and_one_of_five_thousand(workbench: Workbench) -> None:
    editor = workbench.open("pn.NodeGraph('nothing')")
    expect(editor.canvas).to_contain_text("Empty graph")
    for name in ("Fit view", "Arrange", "Undo", "Save as PNG"):
        button = editor.button(name)
        if button.is_enabled():
            button.click()
    editor.canvas.focus()
    editor.press("Control+a", "Delete", "Control+c", "Control+f", "Escape", "ArrowDown", "Alt+ArrowDown", "c", "e", "h")
    editor.add_by_click("ReLU", "act")
    workbench.notebook.wait_for("list(graph.nodes) == ['act']")
    editor = workbench.open("chain(*['ReLU'] * 4_999)")
    expect(editor.root.locator(".pnne-status")).to_contain_text("5000 nodes")
    assert 0 < len(editor.node_names()) < 300, "only what is in view is in the page"
    editor.pick("relu1")
    editor.press("Shift+Delete")
    workbench.done("Delete relu1", editor)
    expect(editor.edge("x.output", "relu2.input")).to_be_attached()
    editor.press("Control+f")
    editor.quick("relu4999")
    expect(editor.node("relu4999")).to_be_focused()
    assert "relu4999" in editor.node_names()


def test_names_may_have_every_legal_character(workbench: Workbench) -> None:
    names = [
        "0",
        "_",
        f"n{string.ascii_letters}{string.digits}_",
        "n" * 100,
        "x__",
        "constructor",
        "toString",
        "hasOwnProperty",
    ]
    editor = workbench.open(f"chain(*['ReLU'] * {len(names)}, 'Output', step=120.0)")
    for place, name in enumerate(names, 1):
        editor.node(f"relu{place}").locator(".pnne-card-header").dispatch_event("click")
        workbench.value(f"setattr(editor, 'selection', ('relu{place}',))")
        field = editor.root.get_by_label("Name", exact=True)
        expect(field).to_have_value(f"relu{place}")
        field.fill(name)
        field.press("Enter")
        workbench.done(f"Rename relu{place} to {name}", editor)
    for source, target in pairwise(names):
        expect(editor.edge(f"{source}.output", f"{target}.input")).to_be_attached()
    assert workbench.nodes == ["x", *names, "output1"]
    workbench.notebook.wait_for("pn.compile(graph) is not None")


def test_a_front_end_that_does_not_name_its_cells_leaves_one_editor(workbench: Workbench) -> None:
    workbench.page.evaluate(
        """() => {
          const { kernel } = window.jupyterapp.shell.currentWidget.sessionContext.session;
          const ask = kernel.requestExecute.bind(kernel);
          kernel.requestExecute = (content, disposeOnDone) => ask(content, disposeOnDone, {});
        }"""
    )
    try:
        workbench.open(PAIR)
        before = workbench.value("len(pn.GraphEditor.opened())")
        for _ in range(2):
            still_works(workbench, workbench.open(PAIR))
        workbench.notebook.wait_for(f"len(pn.GraphEditor.opened()) == {before}")
    finally:
        workbench.page.evaluate(
            "() => { delete window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.requestExecute; }"
        )
