"""`Canvas`: shows widgets of any kind as one anywidget, where a page can load no others."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from queue import SimpleQueue
from typing import Any, Final, final

import anywidget
import ipywidgets
import traitlets

from pnne_nb.widgets.host.bundle import bundled
from pnne_nb.widgets.host.displays import answer_while_busy, close_parts
from pnne_nb.widgets.host.views import Buffers, children_of, parts_of, view_of

GATHERED: Final = 0.02
"""Seconds for which changes are gathered into one message."""

_TEXTS: Final = {"_esm", "_css"}
"""What is sent once of an anywidget."""

logger = logging.getLogger(__name__)


@final
class Canvas(anywidget.AnyWidget):
    """A widget with everything inside it, drawn by one script that comes from Python.

    The page gets views of the widgets that are shown, again whenever one changes, and sends back what people do to them.
    The widgets stay as they are, and may be shown elsewhere, too.

    Args:
        widget: The widget to show.
    """

    _esm = bundled("canvas.js")
    _css = bundled("controls.css") + bundled("canvas.css")
    root = traitlets.Unicode().tag(sync=True)

    def __init__(self, widget: ipywidgets.Widget) -> None:
        super().__init__(root=widget.model_id)
        self._widget = widget
        self._watched: dict[str, set[ipywidgets.Widget]] = {}
        self._shown: dict[str, Any] = {}
        self._sent: set[str] = set()
        self._changed: SimpleQueue[ipywidgets.Widget | None] = SimpleQueue()
        self.on_msg(self._heard)
        answer_while_busy(self)
        threading.Thread(target=self._send_changes, name="pnne-canvas", daemon=True).start()

    def __repr__(self) -> str:
        return f"Canvas({self._widget!r})"

    def close(self) -> None:
        """Close it here and in the browser; what it shows stays."""
        self._changed.put(None)
        close_parts(self)
        super().close()

    def views(self, changed: Iterable[ipywidgets.Widget], buffers: Buffers) -> dict[str, dict[str, Any]]:
        """Return the views of the changed widgets by id, and of those that came with them."""
        found: dict[str, dict[str, Any]] = {}
        waiting = list(changed)
        while waiting:
            widget = waiting.pop()
            if widget is self:  # a page was opened
                self._sent.clear()
                waiting.append(self._widget)
            elif widget.comm is not None and widget.model_id not in found:  # it was not closed meanwhile
                self._watch(widget)
                view = found[widget.model_id] = view_of(widget, buffers)
                waiting += [child for child in children_of(widget) if child.model_id not in self._sent]
                if widget.model_id in self._sent:
                    for text in _TEXTS & set(view.get("state", ())):
                        del view["state"][text]
                self._sent.add(widget.model_id)
        return found

    def _watch(self, widget: Any) -> None:
        id = widget.model_id
        if id not in self._shown:
            self._shown[id] = widget
            if widget._view_name == "AnyView":
                widget.comm.send = partial(self._said, id, widget.comm.send)
        watched = self._watched.setdefault(id, set())
        for part in parts_of(widget):
            if part not in watched:
                watched.add(part)
                part.observe(lambda _change: self._changed.put(widget), traitlets.All)

    def _send_changes(self) -> None:
        """Send views until the canvas is closed, what changed within a moment in one message."""
        while (first := self._changed.get()) is not None:
            time.sleep(GATHERED)
            changed = {first}
            while not self._changed.empty():
                if (one := self._changed.get()) is None:
                    return
                changed.add(one)
            try:
                buffers: Buffers = []
                views = self.views(changed, buffers)
                self.send({"kind": "views", "views": views}, buffers)
            except Exception:
                # A widget that another thread changes meanwhile is in the next message.
                logger.exception("A canvas could not show what changed.")

    def _said(
        self,
        model: str,
        send: Callable[..., None],
        data: dict[str, Any] | None = None,
        metadata: dict[str, Any] | None = None,
        buffers: list[Any] | None = None,
    ) -> None:
        """Send a message of an anywidget on its own way, and to the canvas."""
        send(data, metadata, buffers)
        if data is not None and data.get("method") == "custom" and data["content"].get("kind") != "picture":
            self.send({"kind": "said", "model": model, "content": data["content"]}, buffers)

    def _heard(self, _widget: object, content: Any, buffers: Sequence[Any]) -> None:
        match content:
            case {"kind": "hello"}:
                self._changed.put(self)
            case {"kind": "say", "model": str(model), "data": dict(data)}:
                shown = self._model(model)
                if shown is not None and shown.comm is not None:
                    shown.comm.handle_msg({"content": {"data": data}, "buffers": list(buffers)})

    def _model(self, id: str) -> Any:
        """Return the widget that is shown, or the part of one, with this id."""
        parts = (part for watched in list(self._watched.values()) for part in watched)
        return self._shown.get(id) or next((part for part in parts if part.comm and part.model_id == id), None)
