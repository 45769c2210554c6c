"""The explorer's script in the page: it reports keys and the theme, and fits the graph when its size changes.

The graph is painted on a canvas, which has no keyboard, screen reader or theme. ipycytoscape fits a graph only once, when
it is made, so that one made in a hidden tab would stay empty.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, final, get_args

import anywidget
import msgspec
import traitlets

from pnne_nb.protocol.control_messages import AskMessage, DropMessage, Move, MoveMessage, PageTheme
from pnne_nb.widgets.host.bundle import bundled
from pnne_nb.widgets.host.displays import answer_while_busy

_SCRIPT: Final = bundled("explorer.js")


@final
class ExplorerPage(anywidget.AnyWidget):
    """Shows nothing itself.

    Args:
        move: Carries out a move by key; called on any thread.
        ask: Answers what was pressed in the page; likewise.
        drop: Takes a file that was dropped: its name and its content, None if it is too large; likewise.

    Attributes:
        theme: The theme of the page that was used last.
        told: The text for a screen reader.
    """

    _esm = _SCRIPT
    theme = traitlets.Enum(get_args(PageTheme), default_value="light").tag(sync=True)
    told = traitlets.Unicode("").tag(sync=True)

    def __init__(
        self, move: Callable[[Move], None], ask: Callable[[str], None], drop: Callable[[str, bytes | None], None]
    ) -> None:
        super().__init__()
        self._move, self._ask, self._drop = move, ask, drop
        self.on_msg(self._pressed)
        answer_while_busy(self)

    def __repr__(self) -> str:
        return f"ExplorerPage({self.theme})"

    def close(self) -> None:
        """Close the widget here and in the browser."""
        self._move = self._ask = lambda _message: None
        self._drop = lambda _name, _content: None
        super().close()

    def _pressed(self, _widget: object, content: object, buffers: Sequence[Any]) -> None:
        try:
            message: MoveMessage | AskMessage | DropMessage = msgspec.convert(
                content, MoveMessage | AskMessage | DropMessage
            )
        except msgspec.ValidationError:
            return  # not a message of the explorer's page
        match message:
            case MoveMessage():
                self._move(message.move)
            case AskMessage():
                self._ask(message.ask)
            case DropMessage():
                self._drop(message.name, bytes(buffers[0]) if buffers else None)
