"""The drawings of an explorer's module: what is selected in one is selected in the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

import ipywidgets

from pnne_nb.errors import expect
from pnne_nb.graph.document import NodeGraph
from pnne_nb.process.subscribers import weakly
from pnne_nb.widgets.editor.editor import GraphEditor


@final
class Drawing(ipywidgets.VBox):
    """The place of a drawing below the explorer.

    Args:
        graph: Returns the drawn graph.
        select: Selects a layer of the explorer, if it has it.
    """

    def __init__(self, graph: Callable[[], NodeGraph], select: Callable[[str], None]) -> None:
        super().__init__()
        self._drawn, self._select = graph, select
        self._editors: list[GraphEditor] = []
        self._below: GraphEditor | None = None

    def __repr__(self) -> str:
        return f"Drawing({len(self._editors)} editors)"

    def link(self, editor: GraphEditor | None) -> GraphEditor:
        """Keep an editor, or a new one, in step with the explorer."""
        expect(
            editor, GraphEditor | None, "editor", "a GraphEditor, or None", "pn.GraphEditor(explorer.graph) makes one."
        )
        shown = GraphEditor(self._drawn()) if editor is None else editor
        if shown not in self._editors:
            self._editors.append(shown)
            shown.observe(weakly(self._selected), "selection")
        return shown

    def toggle(self) -> None:
        """Show a drawing here, or hide it.

        Raises:
            CompileError: If the module cannot be drawn.
        """
        below, self._below = self._below, None
        if below is None:
            self._below = self.link(None)
        self.children = () if self._below is None else (self._below,)
        if below is not None:
            self._editors.remove(below)
            below.close()

    def point_out(self, path: str) -> None:
        """Select the node of a layer in every drawing that has it."""
        for editor in self._editors:
            if path and path in editor.graph and editor.selection != (path,):
                editor.selection = (path,)

    def close(self) -> None:
        """Close the drawing here; others stay open."""
        self._editors, self._select = [], lambda _path: None
        super().close()

    def _selected(self, change: Any) -> None:
        if len(change["new"]) == 1:
            self._select(change["new"][0])
