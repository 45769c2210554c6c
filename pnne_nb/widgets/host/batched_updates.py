"""Sends the updates of all widgets of one drawing as one message."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, final

import ipywidgets

from pnne_nb.protocol.control_messages import PictureMessage, Update

_METHOD: Final = "update"


@final
class Picture:
    """Sends the updates of many widgets as one message of one of them; js/src/controls/picture.ts unpacks it.

    Separate messages, eight for one drawing of a dashboard, cost the kernel a third of a millisecond each, mostly with
    Python's lock held. One message costs a third of that, and the browser shows all updates at once.

    Only updates from the drawing thread are gathered. The widgets keep their full state for a page that opens later.

    Args:
        carrier: The widget that sends; its view in the browser must exist.
    """

    def __init__(self, carrier: ipywidgets.Widget) -> None:
        self._carrier = carrier
        self._included: set[str] = set()
        self._painter: int | None = None
        self._updates: list[Update] = []
        self._buffers: list[Any] = []

    def include(self, widgets: Iterable[ipywidgets.Widget]) -> None:
        """Include the updates of `widgets`; a second call changes nothing."""
        for widget in widgets:
            comm = widget.comm
            if comm is not None and comm.comm_id not in self._included:
                self._included.add(comm.comm_id)
                comm.send = partial(self._send, comm.comm_id, comm.send)

    @contextmanager
    def drawn(self) -> Iterator[None]:
        """Gather the updates of the calling thread, and send them at the end, also after an error."""
        self._painter = threading.get_ident()
        try:
            yield
        finally:
            self._painter = None
            updates, buffers, self._updates, self._buffers = self._updates, self._buffers, [], []
            if updates:
                self._carrier.send(PictureMessage(kind="picture", updates=updates), buffers)

    def _send(
        self,
        model: str,
        send: Callable[..., None],
        data: dict[str, Any] | None = None,
        metadata: dict[str, Any] | None = None,
        buffers: list[Any] | None = None,
    ) -> None:
        if self._painter != threading.get_ident() or data is None or data.get("method") != _METHOD:
            send(data, metadata, buffers)
            return
        self._updates.append(Update(model=model, state=data["state"], paths=data["buffer_paths"]))
        self._buffers += buffers or ()
