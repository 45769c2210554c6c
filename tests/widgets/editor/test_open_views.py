"""The views of an editor: every request has an answer, and an editor that is gone is told nothing."""

from __future__ import annotations

from typing import Any, cast

import pytest

from pnne_nb.errors import GraphError
from pnne_nb.graph.document import NodeGraph
from pnne_nb.protocol.messages import Blocks, Request
from pnne_nb.widgets.editor.open_views import Views


class Editor:
    """Stands for the widget."""

    comm: object | None = object()

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []

    def send(self, event: dict[str, Any]) -> None:
        self.sent.append(event)


def refuse(_request: Request) -> None:
    raise GraphError("The editor is read-only.")


def views(editor: Editor) -> Views:
    return Views(cast("Any", editor), NodeGraph(), refuse)


@pytest.mark.parametrize(
    ("message", "id", "error"),
    [
        ({"message": "undo", "id": 3, "client": "a"}, 3, "The editor is read-only."),
        ({"message": "no such", "id": 4, "client": "a"}, 4, "no such"),
    ],
)
def test_what_is_refused_or_not_understood_is_answered(message: dict[str, Any], id: int, error: str) -> None:
    editor = Editor()
    views(editor).receive(None, message, None)
    (answer,) = editor.sent
    assert (answer["message"], answer["id"], answer["client"]) == ("rejected", id, "a")
    assert error in answer["error"]


def test_nothing_is_made_for_an_editor_that_is_closed_or_gone() -> None:
    editor = Editor()
    opened = views(editor)
    opened.conclude(cast("Any", None), Blocks(NodeGraph().state()))
    assert [event["message"] for event in editor.sent] == ["blocks"]
    editor.comm = None
    opened.tell(lambda: pytest.fail("made for a closed editor"))
    del editor
    opened.tell(lambda: pytest.fail("made for an editor that is gone"))
