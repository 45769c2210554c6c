"""The drawings of an explorer's module: what is selected in one is selected in the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

import ipywidgets

from pnne_nb.errors import expect
from pnne_nb.graph.document import NodeGraph
from pnne_nb.widgets.editor.editor import GraphEditor


@final
class Drawing(ipywidgets.VBox):
    """The place of a drawing below the explorer.

    Args:
        graph: Returns the drawn graph.
        explorer: Follows what is selected in a drawing, and is shown beside it.
    """

    def __init__(self, graph: Callable[[], NodeGraph], explorer: Any) -> None:
        super().__init__()
        self._drawn, self._explorer = graph, explorer
        self._editors: list[GraphEditor] = []
        self._below: GraphEditor | None = None

    def __repr__(self) -> str:
        return f"Drawing({len(self._editors)} editors)"

    def link(self, editor: GraphEditor | None) -> GraphEditor:
        """Keep an editor, or a new one, in step with the explorer, whose answers it shows beside its nodes."""
        expect(
            editor, GraphEditor | None, "editor", "a GraphEditor, or None", "pn.GraphEditor(explorer.graph) makes one."
        )
        shown = GraphEditor(self._drawn()) if editor is None else editor
        shown.asking = shown.asking and editor is not None  # the panel of the explorer is in view above a drawing here
        if shown not in self._editors:
            self._editors.append(shown)
            shown.beside.link(self._explorer)
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
        for editor in self._editors:
            editor.beside.unlink(self._explorer)
        self._editors = []
        super().close()
