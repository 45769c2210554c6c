"""The base classes of messages between an editor view and Python."""

from __future__ import annotations

import msgspec


class Message(msgspec.Struct, frozen=True, tag_field="message", rename="camel"):
    """A message; its ``message`` is its type."""


class Answer(Message, frozen=True):
    """The answer to a request of a view, with the id and the client of the request."""

    id: int
    client: str


class ViewRequest(Message, frozen=True):
    """A request of a view.

    Attributes:
        id: Rises by one per request of a client.
        client: Random name of the view that asks.
    """

    id: int
    client: str
