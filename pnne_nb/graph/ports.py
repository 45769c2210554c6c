"""Which ports a node has here and now: those of its type, or of what it shows."""

from __future__ import annotations

from collections.abc import Mapping

from pnne_nb.graph.node import Node
from pnne_nb.graph.spec import NodeSpec, Port
from pnne_nb.graph.state import Content

KEYWORDS = "*"
"""Among the inputs that a Module lists: those after it are passed by keyword, as in a signature. No port."""


def input_ports(content: Content, node: Node, types: Mapping[str, NodeSpec]) -> tuple[Port, ...] | None:
    """The inputs of a node in the order of the call; None if its type is not registered."""
    spec = types.get(node.type)
    return None if spec is None else _ports(content, node, spec, outputs=False)


def output_ports(content: Content, node: Node, types: Mapping[str, NodeSpec]) -> tuple[Port, ...] | None:
    """The outputs of a node; None if its type is not registered."""
    spec = types.get(node.type)
    return None if spec is None else _ports(content, node, spec, outputs=True)


def find_input(content: Content, node: Node, name: str, types: Mapping[str, NodeSpec]) -> Port | None:
    """Return the input that `name` addresses, or None; see `NodeSpec.input_named`.

    A node of an unregistered type has whatever ports its edges say.
    """
    spec = types.get(node.type)
    if spec is None:
        return Port(name=name, kind="value")
    own = _own_names(content, node, spec, outputs=False)
    if own is not None:
        return Port(name=name, kind="value") if name in own else None
    return spec.input_named(name)


def find_output(content: Content, node: Node, name: str, types: Mapping[str, NodeSpec]) -> Port | None:
    """Return the output of that name, or None; a node of an unregistered type has whatever ports its edges say."""
    spec = types.get(node.type)
    if spec is None:
        return Port(name=name, kind="value")
    own = _own_names(content, node, spec, outputs=True)
    if own is not None:
        return Port(name=name, kind="value") if name in own else None
    for port in spec.present_outputs(node.properties):  # asked twice for every edge: a generator would take longer
        if port.name == name:
            return port
    return None


def _ports(content: Content, node: Node, spec: NodeSpec, *, outputs: bool) -> tuple[Port, ...]:
    own = _own_names(content, node, spec, outputs=outputs)
    if own is not None:
        return tuple(Port(name=name, kind="value") for name in own)
    return spec.present_outputs(node.properties) if outputs else spec.inputs


def _own_names(content: Content, node: Node, spec: NodeSpec, *, outputs: bool) -> tuple[str, ...] | None:
    """Return the names of the ports that a node has of its own, which may be thousands; None if its type says them."""
    if node.type == "Subgraph":
        return content.graphs[node.definition].interface[outputs] if node.definition is not None else ()
    if node.type == "Module":
        return _listed(spec, node, "outputs" if outputs else "inputs")
    return None


def _listed(spec: NodeSpec, node: Node, prop: str) -> tuple[str, ...]:
    """The port names that a property lists; a damaged file may have anything there."""
    declared = spec.property_named(prop)
    names = node.properties.get(prop, declared.default if declared is not None else ())
    listed = names if isinstance(names, tuple) else ()
    return tuple(name for name in listed if isinstance(name, str) and name != KEYWORDS)
