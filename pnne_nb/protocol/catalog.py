"""The catalogue as data, for the palette and the property forms."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import msgspec

from pnne_nb.graph.spec import NodeSpec, Property, Required
from pnne_nb.graph.values import to_json
from pnne_nb.protocol.messages import Catalog, CatalogEntry, NodeTypeState, PropertyState


def node_type_state(spec: NodeSpec) -> NodeTypeState:
    """Return a node type as the browser needs it."""
    properties = tuple(map(_property_state, spec.properties))
    return NodeTypeState(spec.type, spec.category, spec.kind, spec.inputs, spec.outputs, spec.doc, spec.url, properties)


def catalog_event(specs: Iterable[NodeSpec], id: int | None = None, client: str | None = None) -> Catalog:
    """Return every type; equal contents have equal keys, in every process."""
    shared: dict[bytes, PropertyState] = {}
    places: dict[bytes, int] = {}
    entries = []
    for spec in specs:
        states = {msgspec.json.encode(state): state for state in map(_property_state, spec.properties)}
        shared |= states
        used = tuple(places.setdefault(text, len(places)) for text in states)
        entries.append(
            CatalogEntry(spec.type, spec.category, spec.kind, spec.inputs, spec.outputs, spec.doc, spec.url, used)
        )
    key = hashlib.sha256(msgspec.json.encode((list(shared.values()), entries))).hexdigest()[:16]
    return Catalog(key, tuple(shared.values()), tuple(entries), id, client)


def _property_state(prop: Property) -> PropertyState:
    default = None if isinstance(prop.default, Required) else to_json(prop.default)
    return PropertyState(prop.name, prop.type, prop.required, default, prop.role, prop.doc)
