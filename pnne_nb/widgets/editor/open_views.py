"""Receives the requests of an editor's views, and sends events to all views."""

from __future__ import annotations

import logging
import threading
import weakref
from collections.abc import Callable
from typing import Final, final

import anywidget

from pnne_nb.errors import PnneError, ProtocolError
from pnne_nb.graph.document import NodeGraph
from pnne_nb.process.fork import fork_safe
from pnne_nb.protocol.codec import asked_by, decode_request, encode_event
from pnne_nb.protocol.messages import Event, Rejected, Request

_log: Final = logging.getLogger(__name__)


@final
class Views:
    """The views of one editor, in the browser.

    Args:
        editor: The editor; it is held weakly.
        graph: Its document.
        answer: Carries out a request, or raises an error.
    """

    def __init__(self, editor: anywidget.AnyWidget, graph: NodeGraph, answer: Callable[[Request], None]) -> None:
        self._editor = weakref.ref(editor)
        self._graph = graph
        self._answer = answer
        self._sending = fork_safe(threading.RLock())

    def receive(self, _widget: object, content: object, _buffers: object) -> None:
        """Answer a message, on any thread; an error is an answer too."""
        try:
            request = decode_request(content)
        except ProtocolError as error:
            self.reject(*asked_by(content), error)
            return
        try:
            self._answer(request)
        except PnneError as error:
            self.reject(request.id, request.client, error)
        except Exception as error:  # noqa: BLE001  # every request has an answer
            _log.exception("A request of the editor failed: %r", request)
            self.reject(request.id, request.client, PnneError(f"Python failed with {type(error).__name__}: {error}"))

    def reject(self, id: int | None, client: str | None, error: PnneError) -> None:
        """Send the error of a refused request."""
        self.tell(lambda: Rejected(id, client, self._graph.version, str(error), error.diagnostics))

    def conclude(self, request: Request, outcome: Event | PnneError) -> None:
        """Send the outcome of a request: an event or an error."""
        if isinstance(outcome, PnneError):
            self.reject(request.id, request.client, outcome)
        else:
            self.tell(lambda: outcome)

    def tell(self, event: Callable[[], Event]) -> None:
        """Send an event to every view.

        Args:
            event: Makes it. It is made and sent under one lock, so that no view gets a snapshot that is older than a
                commit that it has seen.
        """
        with self._sending:
            editor = self._editor()
            if editor is not None and editor.comm is not None:
                editor.send(encode_event(event()))
