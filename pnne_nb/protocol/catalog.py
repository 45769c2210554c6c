"""The catalogue as data, for the palette and the property forms."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import msgspec

from pnne_nb.graph.spec import NodeSpec, Property, Required
from pnne_nb.graph.values import to_json
from pnne_nb.protocol.messages import Catalog, NodeTypeState, PropertyState


def node_type_state(spec: NodeSpec) -> NodeTypeState:
    """Return a node type as the browser needs it."""
    return NodeTypeState(
        type=spec.type,
        category=spec.category,
        kind=spec.kind,
        inputs=spec.inputs,
        outputs=spec.outputs,
        properties=tuple(_property_state(prop) for prop in spec.properties),
        doc=spec.doc,
        url=spec.url,
    )


def catalog_event(specs: Iterable[NodeSpec], id: int | None = None, client: str | None = None) -> Catalog:
    """Return every type; equal contents have equal keys, in every process."""
    types = tuple(node_type_state(spec) for spec in specs)
    key = hashlib.sha256(msgspec.json.encode(types)).hexdigest()[:16]
    return Catalog(key=key, types=types, id=id, client=client)


def _property_state(prop: Property) -> PropertyState:
    default = None if isinstance(prop.default, Required) else to_json(prop.default)
    return PropertyState(prop.name, prop.type, prop.required, default, prop.role, prop.doc)
