"""The picture under an editor that stays in the notebook when the kernel is gone."""

from __future__ import annotations

import threading
from typing import Final, final

from IPython.display import DisplayHandle, display

from pnne_nb.graph.document import NodeGraph
from pnne_nb.graph.drawing.scene import FULL_DETAIL
from pnne_nb.widgets.derivation import Derivation

QUIET: Final = 2.0
"""Seconds without a gesture before the picture is drawn anew."""

# While an editor lives in the same cell, its picture is not shown. Viewers that take styles out have no live editor.
_HIDDEN = "".join(
    f"{cell}:has(.pnne-editor) {part}{{display:none}}"
    for cell, part in (
        (".jp-OutputArea", ".jp-OutputArea-child:has(.pnne-kept)"),
        (".output_container", ".pnne-kept"),
        ("#output-area", ".pnne-kept"),
    )
)


@final
class KeptPicture:
    """A second output of the cell that shows an editor: Jupyter offers no way to put it into the widget's own.

    It shows the graph as it was when the cell ran, or after the last gestures in the browser. What later cells do
    to the graph is theirs to show, so that a notebook that is run again has the same outputs.

    Args:
        graph: What it is of.
        derivation: Knows the shapes.
    """

    def __init__(self, graph: NodeGraph, derivation: Derivation) -> None:
        self._graph = graph
        self._derivation = derivation
        self._lock = threading.Lock()
        self._handle: DisplayHandle | None = None
        self._timer: threading.Timer | None = None
        self._again = False

    def show(self) -> None:
        """Show it in the running cell."""
        handle = DisplayHandle()  # type: ignore[no-untyped-call]  # IPython's
        with self._lock:
            self._handle = handle
        display(self._bundle(), raw=True, display_id=handle.display_id)  # type: ignore[no-untyped-call]  # IPython's

    def changed(self) -> None:
        """Draw it anew when the gestures have paused."""
        with self._lock:
            if self._handle is None:
                return
            self._again = self._timer is not None
            if self._timer is None:
                self._wait()

    def close(self) -> None:
        """Leave it as it is."""
        with self._lock:
            self._handle = None
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

    def _wait(self) -> None:
        self._timer = threading.Timer(QUIET, self._redraw)
        self._timer.daemon = True
        self._timer.start()

    def _redraw(self) -> None:
        with self._lock:
            handle = self._handle
            if handle is None:
                return
            if self._again:
                self._again = False
                self._wait()
                return
            self._timer = None
        handle.update(self._bundle(), raw=True)  # type: ignore[no-untyped-call]  # IPython's

    def _bundle(self) -> dict[str, str]:
        if len(self._graph.nodes) <= FULL_DETAIL:
            # Of larger ones no shapes are drawn, and working them out would hold up the cell.
            self._derivation.refresh()
        derived = self._derivation.whole
        shapes = {port: shape for port, shape in derived.shapes.items() if shape is not None}
        resolved = {node: values for node, values in derived.resolved.items() if values is not None}
        picture = self._graph.to_html(shapes=shapes, resolved=resolved)
        return {
            "text/plain": f"Picture of {self._graph!r}",
            "text/html": f'<style>{_HIDDEN}</style><div class="pnne-kept">{picture}</div>',
        }
