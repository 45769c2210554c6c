"""Decodes requests of the browser, and encodes events and the catalogue.

Property values are Python constants on the inside and their JSON form (``graph.schema.values``) on the wire.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from pnne_nb.errors import ProtocolError
from pnne_nb.graph.document import NodeGraph
from pnne_nb.graph.layout.arrange_graph import CELL_OF_A_NOTEBOOK, View
from pnne_nb.graph.model.ops import AddNode, Op, SetProperty, SetSize
from pnne_nb.graph.schema.categories import category_named
from pnne_nb.graph.schema.spec import NodeSpec, Property, Required
from pnne_nb.graph.schema.values import Calculated, from_json, to_json
from pnne_nb.graph.storage import DocumentState
from pnne_nb.graph.templates import template_library
from pnne_nb.protocol.messages import (
    Arrange,
    Catalog,
    CatalogEntry,
    Committed,
    Edit,
    Event,
    NodeTypeState,
    PropertyState,
    Request,
)

MAX_OPS = 100_000
"""Ops in one edit: more than a person can make with one gesture on the largest graph."""

MAX_BYTES = 32 << 20
"""Of one message, as JSON: a paste of a hundred thousand nodes fits."""


def decode_request(content: object) -> Request:
    """Decode a browser's message to a request.

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


def decode_ops(ops: Sequence[Op]) -> tuple[Op, ...]:
    """Return ops with their values decoded from JSON form to constants.

    Raises:
        ProtocolError: If a value is not the JSON form of a constant.
    """
    return tuple(_converted(op, _constant, f"$.ops[{place}]") for place, op in enumerate(ops))


def encode_ops(ops: Sequence[Op]) -> tuple[Op, ...]:
    """Return ops with their values encoded from constants to JSON form."""
    return tuple(_converted(op, lambda value, _: to_json(value)) for op in ops)


def view_of(request: Arrange) -> View:
    """Return the page's view of an arranged graph."""
    if request.cell is None:
        return CELL_OF_A_NOTEBOOK._replace(folded=request.folded)
    width, height = request.cell
    return View((max(width, 1.0), max(height, 1.0)), request.folded)


def encode_event(event: Event) -> dict[str, Any]:
    """Encode an event as a message of JSON types."""
    if isinstance(event, Committed):
        event = msgspec.structs.replace(event, ops=encode_ops(event.ops))
    message: dict[str, Any] = msgspec.to_builtins(event, str_keys=True)
    return message


def document_text(document: DocumentState) -> str:
    """Return a document as text for a `Snapshot`."""
    try:
        return msgspec.json.encode(document).decode()
    except OverflowError:  # a number of more than 64 bits
        return json.dumps(msgspec.to_builtins(document))


def asked_by(content: object) -> tuple[int | None, str | None]:
    """Return the id and the client of an unreadable message, as far as it has them."""
    if not isinstance(content, Mapping):
        return None, None
    id, client = content.get("id"), content.get("client")
    return id if type(id) is int else None, client if isinstance(client, str) else None


def _converted(op: Op, convert: Callable[[object, str], object], at: str = "") -> Op:
    """Return an op with its property values converted; `convert` takes a value and its place."""
    match op:
        case AddNode():
            values = {name: convert(value, f"{at}.properties.{name}") for name, value in op.properties.items()}
            return msgspec.structs.replace(op, properties=values)
        case SetProperty() | SetSize():
            return msgspec.structs.replace(op, value=convert(op.value, f"{at}.value"))
        case _:
            return op


def _constant(value: object, at: str) -> object:
    try:
        return from_json(value)
    except ValueError as error:
        raise ProtocolError(f"The editor's message cannot be read, at {at}: {error}") from None


def with_floats(graph: NodeGraph, ops: Sequence[Op]) -> tuple[Op, ...]:
    """Return the ops, with the stored value (such as 1.0) for a property that is set to an equal number (such as 1).

    A view that sends back the 1.0 it was shown says 1, to which torch gives another dtype.
    """
    return tuple(_with_floats(graph, op) if isinstance(op, SetProperty) else op for op in ops)


def _with_floats(graph: NodeGraph, op: SetProperty) -> SetProperty:
    where = graph.graphs.get(op.graph)
    node = where.nodes.get(op.node) if where is not None else None
    if node is None or op.property not in node.properties:
        return op
    stored = node.properties[op.property]
    if not _same(stored, op.value):
        return op
    return SetProperty(op.node, op.property, stored, op.graph)


def _same(stored: object, value: object) -> bool:
    if isinstance(stored, (tuple, list)) and isinstance(value, (tuple, list)):
        alike = type(stored) is type(value) and len(stored) == len(value)
        return alike and all(_same(one, other) for one, other in zip(stored, value, strict=True))
    if isinstance(stored, Calculated):
        return repr(stored) == repr(value)
    # Not bool, which equals 0 and 1 as well.
    comparable = type(stored) is type(value) or (isinstance(stored, float) and type(value) is int)
    return comparable and stored == value


def node_type_state(spec: NodeSpec) -> NodeTypeState:
    """Return a node type for the browser."""
    properties = tuple(map(_property_state, spec.properties))
    return NodeTypeState(category=category_named(spec.category), properties=properties, **_common(spec))


def catalog_event(specs: Iterable[NodeSpec], id: int | None = None, client: str | None = None) -> Catalog:
    """Return every type; equal contents have equal keys, in every process."""
    shared: dict[bytes, PropertyState] = {}
    places: dict[bytes, int] = {}
    categories: dict[str, int] = {}
    entries = []
    for spec in specs:
        states = {msgspec.json.encode(state): state for state in map(_property_state, spec.properties)}
        shared |= states
        used = tuple(places.setdefault(text, len(places)) for text in states)
        category = categories.setdefault(spec.category, len(categories))
        entries.append(CatalogEntry(category=category, properties=used, **_common(spec)))
    named = tuple(map(category_named, categories))
    templates = template_library()
    content = msgspec.json.encode((named, list(shared.values()), entries, templates))
    key = hashlib.sha256(content).hexdigest()[:16]
    return Catalog(key, named, tuple(shared.values()), tuple(entries), templates, id, client)


def _common(spec: NodeSpec) -> dict[str, Any]:
    return {name: getattr(spec, name) for name in ("type", "kind", "inputs", "outputs", "doc", "url")}


def _property_state(prop: Property) -> PropertyState:
    default = None if isinstance(prop.default, Required) else to_json(prop.default)
    return PropertyState(prop.name, prop.type, prop.required, default, prop.role, prop.doc)
