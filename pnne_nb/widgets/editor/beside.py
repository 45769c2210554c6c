"""What an editor shows beside a selected node: the panel of an explorer, of the editor's data or linked by `show_in`."""

from __future__ import annotations

import html
import sys
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, final

import ipywidgets

from pnne_nb.widgets.host.displays import close_whole

if TYPE_CHECKING:
    from pnne_nb.widgets.editor.editor import GraphEditor


@final
class Beside:
    """The panel beside the selected node of an editor; there is none without data and without a linked explorer."""

    def __init__(self, editor: GraphEditor) -> None:
        self._editor: Callable[[], GraphEditor | None] = weakref.ref(editor)
        self._box: ipywidgets.VBox | None = None
        self._linked: Any = None
        self._own: Any = None
        if editor.asks is not None:
            self._show(ipywidgets.HTML("Select a node to ask it."))

    def __repr__(self) -> str:
        return f"Beside({self._linked!r})"

    @property
    def is_linked(self) -> bool:
        """Whether an explorer is shown."""
        return self._linked is not None

    @property
    def explorer(self) -> Any:
        """The explorer that is shown; that of the editor's data is made now, and None without data."""
        editor = self._editor()
        if self._linked is None and editor is not None and editor.asks is not None:
            # As a cell would: the explorer shows editors, and is not known here.
            self._own = sys.modules["pnne_nb"].ModuleExplorer(editor)
        return self._linked

    def link(self, explorer: Any) -> None:
        """Show from now on what an explorer shows beside its map."""
        self._linked = explorer
        self._show(explorer.look)

    def unlink(self, explorer: Any) -> None:
        """Show nothing of an explorer that is closed."""
        if self._linked is explorer:
            self._linked = self._own = None
            self._show(None)

    def lines(self) -> list[str]:
        """Return what is shown as lines of plain text."""
        return [] if self._linked is None else self._linked.describe().splitlines()

    def follow(self) -> None:
        """Answer for what is selected now, or say why it cannot be asked."""
        editor = self._editor()
        try:
            if editor is not None and (explorer := self.explorer if editor.asking else self._linked) is not None:
                explorer.follow(editor.selection)
        except Exception as error:  # noqa: BLE001  shown where it was provoked
            self._show(ipywidgets.HTML(f'<p role="alert">{html.escape(f"{type(error).__name__}: {error}")}</p>'))

    def close(self) -> None:
        """Close it, with the explorer of the editor's data."""
        editor, self._editor = self._editor(), lambda: None  # no thread makes an explorer from here on
        if self._own is not None:
            self._own.close()
        self._show(None)
        if editor is not None:
            editor.look = ""

    def _show(self, widget: ipywidgets.Widget | None) -> None:
        editor, box = self._editor(), self._box
        said = [] if box is None else [one for one in box.children if isinstance(one, ipywidgets.HTML)]
        if widget is None and box is not None:
            box.children, self._box = (), None
            close_whole(box)
        if widget is not None:
            self._box = ipywidgets.VBox() if box is None else box
            self._box.children = (widget,)
        for one in said:
            close_whole(one)
        if editor is not None:
            editor.look = "" if self._box is None else self._box.model_id or ""
