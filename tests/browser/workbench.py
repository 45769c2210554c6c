"""One notebook for many gestures: its editor opens anew on a document of each test's own."""

from __future__ import annotations

from typing import Any, final

from playwright.sync_api import expect

from tests.browser.jupyter import Notebook
from tests.browser.pages import EditorPage

SETUP = """
import pnne_nb as pn

def chain(*types, step=180.0, **properties):
    \"\"\"``x`` and a node of each type below it, each fed by the one above: Linear gives ``linear1``.\"\"\"
    graph = pn.NodeGraph("net")
    with graph.transaction("Draw"):
        last = graph.add("Input", name="x", shape=("N", 8))
        graph.move("x", 0.0, 0.0)
        for place, type in enumerate(types, 1):
            node = graph.add(type, **(properties if type == "Linear" else {}))
            graph.connect(last, node)
            graph.move(node, 0.0, step * place)
            last = node
    return graph

def placed(graph, type, name, x, y, **properties):
    graph.add(type, name=name, **properties)
    graph.move(name, x, y)
    return graph
"""

# What the notebook holds that a stray shortcut would change: cells, their texts, which one is active, and its mode.
STATE = """() => {
  const { content } = window.jupyterapp.shell.currentWidget;
  return JSON.stringify([
    content.widgets.map((cell) => [cell.model.type, cell.model.sharedModel.getSource()]),
    content.activeCellIndex, content.mode,
    content.widgets.map((cell) => cell.model.executionCount ?? null),
  ]);
}"""


@final
class Workbench:
    """A notebook whose second cell shows an editor.

    Args:
        notebook: A notebook with two empty cells.
    """

    def __init__(self, notebook: Notebook) -> None:
        self.notebook = notebook
        self.page = notebook.page
        self.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        notebook.collapse_sidebar()
        self._write(0, SETUP)
        notebook.run_cell(0)

    def open(self, graph: str, options: str = "height=640") -> EditorPage:
        """Show an editor of the document that the Python code `graph` makes; return it once it is in step."""
        (editor,) = self.open_views(1, graph, options)
        return editor

    def open_views(self, number: int, graph: str, options: str) -> list[EditorPage]:
        """Show several editors of one document, one below the other."""
        for key in ("Shift", "Control"):
            self.page.keyboard.up(key)
        self.page.mouse.up()
        self.page.mouse.move(0, 0)
        others = [f"display(pn.GraphEditor(graph, {options}))"] * (number - 1)
        lines = [f"graph = {graph}", f"editor = pn.GraphEditor(graph, {options})", "display(editor)", *others]
        self._write(1, "\n".join(lines))
        self.notebook.run_cell(1)
        roots = self.page.get_by_test_id("pnne-editor")
        expect(roots).to_have_count(number)
        self.notebook.scroll_to(1)
        views = [EditorPage(self.page, roots.nth(place)) for place in range(number)]
        for view in views:
            self.in_step(view)
        return views

    def _write(self, cell: int, source: str) -> None:
        self.page.evaluate(
            "([cell, source]) => window.jupyterapp.shell.currentWidget.content.widgets[cell]"
            ".model.sharedModel.setSource(source)",
            [cell, source],
        )

    def state(self) -> str:
        """What a shortcut of JupyterLab would change."""
        state: str = self.page.evaluate(STATE)
        return state

    # What the document in the kernel holds

    def value(self, expression: str) -> Any:
        """The value of a Python expression in the kernel."""
        return self.notebook.evaluate(expression)

    def execute(self, code: str) -> None:
        """Run statements in the kernel, without a cell of their own."""
        self.value(f"exec({code!r}, globals())")

    @property
    def edges(self) -> set[str]:
        """The document's edges, as ``source->target``."""
        return set(self.value("[f'{edge.source}->{edge.target}' for edge in graph.edges]"))

    @property
    def nodes(self) -> list[str]:
        """The names of the document's nodes."""
        names: list[str] = self.value("list(graph.nodes)")
        return names

    def position(self, node: str) -> tuple[float, float]:
        """Where the document has the centre of a node."""
        place: tuple[float, float] = self.value(f"tuple(graph[{node!r}].position)")
        return place

    def properties(self, node: str) -> dict[str, object]:
        """The values that the document has for a node."""
        values: dict[str, object] = self.value(f"dict(graph[{node!r}].properties)")
        return values

    def done(self, label: str, editor: EditorPage | None = None) -> None:
        """Wait until the document's last change is the one that is called `label`, and the editor shows it."""
        self.notebook.wait_for(f"graph.undo_label == {label!r}")
        if editor is not None:
            self.in_step(editor)

    def expect_edges(self, editor: EditorPage, *edges: str) -> None:
        """Expect the document to have these edges and no others, and the editor to come to show them."""
        assert self.edges == set(edges)
        self.notebook.wait_until(lambda: editor.edges() == set(edges), f"The editor does not show {edges}.")

    def expect_nodes_shown(self, editor: EditorPage) -> None:
        """Expect the editor to come to show the document's nodes, which are all in view."""
        nodes = sorted(self.nodes)
        self.notebook.wait_until(lambda: sorted(editor.node_names()) == nodes, f"The editor does not show {nodes}.")

    def in_step(self, editor: EditorPage) -> None:
        """Wait until the editor shows the document's version."""
        # A page has a graph arranged that never was, which is a version more.
        self.notebook.wait_until(
            lambda: editor.version == self.value("graph.version"), "The editor shows another version than Python has."
        )
