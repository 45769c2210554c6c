"""Receives and answers the requests of an editor's views, and sends events to all views, a few at a time."""

from __future__ import annotations

import logging
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from typing import Final, assert_never, final

import anywidget

from pnne_nb.compiler.pipeline.located_source import located_source
from pnne_nb.errors import PnneError, ProtocolError
from pnne_nb.graph.block_library import blocks
from pnne_nb.graph.document import NodeGraph
from pnne_nb.process.fork import fork_safe
from pnne_nb.protocol import messages
from pnne_nb.protocol.codec import asked_by, decode_request, encode_event, view_of, with_floats
from pnne_nb.protocol.messages import Event, Rejected, Request

_log: Final = logging.getLogger(__name__)


@final
class Views:
    """The views of one editor, in the browser."""

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


STEADY: Final = 30
"""Commits within one second that are sent one by one."""

PAUSE: Final = 0.25
"""Seconds until held commits are sent."""

_SHARE: Final = 0.1  # largest share of the time for sending


@final
class CommitThrottle:
    """Decides which commits a page receives at once, and which together with others.

    A cell may commit thousands of times in a second. A Jupyter server silently drops what a kernel sends faster than
    a thousand messages a second, and a page that draws each state would be busy for minutes.

    Args:
        catch_up: Sends the whole document to the page; called from a thread.
    """

    def __init__(self, catch_up: Callable[[], None]) -> None:
        self._catch_up = catch_up
        self._told: deque[float] = deque(maxlen=STEADY)
        self._timer: threading.Timer | None = None
        self._pause = PAUSE

    def hold(self) -> bool:
        """Return whether the latest commit is held; held commits are sent together later.

        It is called where a document tells of its commits, which it does one by one.
        """
        now = time.monotonic()
        if self._timer is None and (len(self._told) < STEADY or now - self._told[0] > 1.0):
            self._told.append(now)
            return False
        if self._timer is None:
            self._timer = threading.Timer(self._pause, self._tell)
            self._timer.daemon = True
            self._timer.start()
        return True

    def close(self) -> None:
        """Send nothing any more."""
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()

    def _tell(self) -> None:
        # What is committed from here on is held, or sent, anew: the document that is sent has all of what was held.
        self._timer = None
        started = time.monotonic()
        self._catch_up()
        self._pause = max(PAUSE, (time.monotonic() - started) / _SHARE)


ChangeRequest = messages.Edit | messages.Undo | messages.Redo | messages.Arrange | messages.Group | messages.Ungroup
BlocksRequest = messages.Publish | messages.Unpublish | messages.LoadBlocks

MOST_STEPS: Final = 200
"""Most steps to undo, and most steps to redo, in the list."""


def change(graph: NodeGraph, request: ChangeRequest) -> bool:
    """Change a document.

    Returns:
        Whether anything was committed; arranging an arranged graph commits nothing.

    Raises:
        GraphError: If the change is refused; nothing has changed.
    """
    match request:
        case messages.Edit(base=base, ops=ops, label=label):
            graph.apply(with_floats(graph, ops), label=label, base=base)
        case messages.Undo():
            graph.undo()
        case messages.Redo():
            graph.redo()
        case messages.Arrange(graph=which, direction=direction, nodes=nodes, values=values, first=first):
            view = view_of(request)
            done = graph.arrange(which, direction=direction, nodes=nodes, values=values, undoable=not first, view=view)
            return bool(done.ops)
        case messages.Group(nodes=nodes, name=name, graph=which):
            graph.group(nodes, name, graph=which)
        case messages.Ungroup(node=node, graph=which):
            graph.ungroup(node, graph=which)
        case _:
            assert_never(request)
    return True


def change_blocks(graph: NodeGraph, request: BlocksRequest) -> None:
    """Change the library of blocks.

    Raises:
        GraphError: If there is no such block, or it cannot be published.
        GraphFileError: If a file of blocks is damaged.
    """
    match request:
        case messages.Publish(node=node, name=name):
            blocks.publish(graph, node, name)
        case messages.Unpublish(name=name):
            blocks.remove(name)
        case messages.LoadBlocks(text=text):
            blocks.load_text(text)
        case _:
            assert_never(request)


def steps(graph: NodeGraph, id: int, client: str) -> messages.Steps:
    """Return what can be undone and redone, the last `MOST_STEPS` of each, as the answer to a request."""
    done, undone = graph.step_labels()
    earlier = max(0, len(done) - MOST_STEPS)
    return messages.Steps(id, client, done[earlier:], undone[:MOST_STEPS], earlier)


def source(graph: NodeGraph, id: int, client: str) -> messages.Source:
    """Return the source of the document, with the lines of each class, as the answer to a request."""
    shown = located_source(graph)
    classes = {name: messages.SourceLines(each.lines, each.members) for name, each in shown.classes.items()}
    return messages.Source(id, client, shown.text, classes, shown.notice)
