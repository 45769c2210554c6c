"""Turns messages of the browser into requests, and events into messages.

Property values are Python constants on the inside and their JSON form (``graph.values``) on the wire.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from pnne_nb.errors import ProtocolError
from pnne_nb.graph.ops import AddNode, Op, SetOrigin, SetProperty
from pnne_nb.graph.values import from_json, is_shallow, to_json
from pnne_nb.protocol.messages import Committed, Edit, Event, Request

MAX_OPS = 100_000
"""Ops in one edit: more than a person can make with one gesture on the largest graph."""

MAX_BYTES = 32 << 20
"""Of one message, as JSON: a paste of a hundred thousand nodes fits."""


def decode_request(content: object) -> Request:
    """Return the request that a browser's message says.

    Raises:
        ProtocolError: If it says none; the message names the place, as ``$.ops[2].node``.
    """
    _refuse_oversized(content)
    try:
        request: Request = msgspec.convert(content, Request)
    except msgspec.ValidationError as error:
        reason, _, place = str(error).partition(" - at `")
        raise ProtocolError(f"The editor's message cannot be read, at {place.rstrip('`') or '$'}: {reason}.") from None
    except RecursionError:
        raise ProtocolError("The editor's message cannot be read, at $: it is nested too deeply.") from None
    if isinstance(request, Edit):
        if not 1 <= len(request.ops) <= MAX_OPS:
            raise ProtocolError(
                f"The editor's message cannot be read, at $.ops: an edit has 1 to {MAX_OPS} ops, not {len(request.ops)}."
            )
        return msgspec.structs.replace(request, ops=decode_ops(request.ops))
    return request


def _refuse_oversized(content: object) -> None:
    try:
        size = len(msgspec.json.encode(content))
    except (RecursionError, TypeError, ValueError):
        return  # what is wrong with it is found, and said, when it is read
    if size > MAX_BYTES:
        raise ProtocolError(
            f"The editor's message is too large: {size >> 20} MiB, and at most {MAX_BYTES >> 20} MiB are read. "
            "Make the change in smaller steps, or from Python."
        )


def decode_ops(ops: Sequence[Op], at: str = "$.ops") -> tuple[Op, ...]:
    """Return ops with their values turned from JSON form into constants.

    Raises:
        ProtocolError: If a value is not the JSON form of a constant.
    """
    return tuple(_decode_op(op, f"{at}[{place}]") for place, op in enumerate(ops))


def encode_ops(ops: Sequence[Op]) -> tuple[Op, ...]:
    """Return ops with their values turned from constants into JSON form."""
    return tuple(_encode_op(op) for op in ops)


def encode_event(event: Event) -> dict[str, Any]:
    """Return the message that says an event, made of what JSON knows."""
    if isinstance(event, Committed):
        event = msgspec.structs.replace(event, ops=encode_ops(event.ops))
    message: dict[str, Any] = msgspec.to_builtins(event, str_keys=True)
    return message


def asked_by(content: object) -> tuple[int | None, str | None]:
    """Return the id and the client of a message that could not be read, as far as it gives them."""
    if not isinstance(content, Mapping):
        return None, None
    id, client = content.get("id"), content.get("client")
    return id if type(id) is int else None, client if isinstance(client, str) else None


def _decode_op(op: Op, at: str) -> Op:
    match op:
        case AddNode():
            if not is_shallow(op.origin):
                raise ProtocolError(f"The editor's message cannot be read, at {at}.origin: it is nested too deeply.")
            values = {name: _constant(value, f"{at}.properties.{name}") for name, value in op.properties.items()}
            return msgspec.structs.replace(op, properties=values)
        case SetOrigin() if not is_shallow(op.origin):
            raise ProtocolError(f"The editor's message cannot be read, at {at}.origin: it is nested too deeply.")
        case SetProperty():
            return msgspec.structs.replace(op, value=_constant(op.value, f"{at}.value"))
        case _:
            return op


def _encode_op(op: Op) -> Op:
    match op:
        case AddNode():
            return msgspec.structs.replace(
                op, properties={name: to_json(op.properties[name]) for name in op.properties}
            )
        case SetProperty():
            return msgspec.structs.replace(op, value=to_json(op.value))
        case _:
            return op


def _constant(value: object, at: str) -> object:
    try:
        return from_json(value)
    except ValueError as error:
        raise ProtocolError(f"The editor's message cannot be read, at {at}: {error}") from None
