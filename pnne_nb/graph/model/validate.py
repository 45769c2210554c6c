"""Checks ops against the catalogue before they are applied: types, properties, values, ports, kinds.

Only new requests are checked. Undo and files are not, so that nodes of a type that is no longer registered can be moved,
removed and restored.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from pnne_nb.errors import (
    BadValueError,
    GraphError,
    IllegalNameError,
    KindMismatchError,
    UnknownPortError,
    UnknownPropertyError,
    near,
    shown,
    together,
)
from pnne_nb.graph.model import ops
from pnne_nb.graph.model.content import Content, GraphIndex, find_input, find_output, input_ports, output_ports
from pnne_nb.graph.model.node import Node, split_port
from pnne_nb.graph.model.ops import Op
from pnne_nb.graph.schema.calculation import again, names_in, names_used, why_not
from pnne_nb.graph.schema.habits import property_habit
from pnne_nb.graph.schema.names import RESERVED, check_identifier
from pnne_nb.graph.schema.property_types import SIZE_NAME, IntType, check
from pnne_nb.graph.schema.registry import require_type
from pnne_nb.graph.schema.spec import NodeSpec, Port, Property, kinds_fit
from pnne_nb.graph.schema.values import Calculated, Value

Types = Mapping[str, NodeSpec]


def checked(content: Content, op: Op, types: Types) -> Op:
    """Return `op` with its values in their stored form.

    Raises:
        GraphError: If the catalogue does not allow it.
    """
    match op:
        case ops.AddNode():
            graph = content.require(op.graph)
            spec = require_type(types, op.type)
            return msgspec.structs.replace(op, properties=_checked_values(content, graph, op, spec))
        case ops.SetProperty():
            graph = content.require(op.graph)
            node = graph.require(op.node)
            spec = require_type(types, node.type)
            value = checked_value(content, graph, node.name, spec, op.property, op.value)
            return msgspec.structs.replace(op, value=value)
        case ops.ResetProperty():
            node = content.require(op.graph).require(op.node)
            name: object = op.property
            if not isinstance(name, str) or name not in node.properties:
                _require_property(require_type(types, node.type), node.name, name)
            return op
        case ops.Connect():
            return _checked_edge(content, op, types)
        case ops.SetSize():
            return checked_size(content, op)
        case _:
            return op  # the catalogue says nothing about the others


def _checked_values(content: Content, graph: GraphIndex, op: ops.AddNode, spec: NodeSpec) -> dict[str, object]:
    values: dict[str, object] = {}
    faults: list[GraphError] = []
    for name, value in op.properties.items():
        try:
            values[name] = checked_value(content, graph, op.name, spec, name, value)
        except GraphError as fault:
            faults.append(fault)
    if faults:
        raise together(faults)
    return values


def checked_value(content: Content, graph: GraphIndex, node: str, spec: NodeSpec, name: str, value: object) -> Value:
    """Return `value` in its stored form if the property `name` of a node of that spec may have it.

    Raises:
        UnknownPropertyError: If the type has no such property.
        BadValueError: If the value does not fit.
    """
    prop = _require_property(spec, node, name)
    where, sizes = f"{node}.{name}{graph.where}", content.sizes
    try:
        value = again(value, sizes)
    except ValueError as error:
        raise BadValueError(f"{where} cannot be {shown(value)}: {error}") from None
    try:
        result = check(prop.type, value, sizes)
    except ValueError as error:
        texts = [part for part in (value if isinstance(value, (tuple, list)) else [value]) if isinstance(part, str)]
        why = next((f" {why}" for text in texts if (why := why_not(text, sizes))), "")
        raise BadValueError(f"{where} cannot be {shown(value)}: it must be {error}.{why}") from None
    if name == "shares" and isinstance(result, str):
        reason = sharing_fault(graph, node, spec.type, result)
        if reason:
            raise BadValueError(f"{node}.shares{graph.where} cannot be {shown(result)}: {reason}")
    return result


def checked_size(content: Content, op: ops.SetSize) -> ops.SetSize:
    """Return `op` with the number that its value gives.

    Raises:
        IllegalNameError: If the name cannot be that of a size.
        BadValueError: If the value is no whole number, and no calculation of other sizes.
    """
    name, value, sizes = check_identifier(op.name), op.value, content.sizes
    if not SIZE_NAME.fullmatch(name) or name in RESERVED or name.startswith("__") or name == "auto":
        raise IllegalNameError(
            f"A size cannot be named {name!r}: use the name of a variable that means nothing else in Python or torch."
        )
    if value is None:
        if name not in sizes:
            raise BadValueError(f"The graph has no size {name!r}.{near(name, sizes)}")
        return op
    if name not in sizes and any(
        name in _free_sizes(node) for graph in content.graphs.values() for node in graph.nodes.values()
    ):
        raise BadValueError(
            f"The size {name} needs another name: {name!r} stands for an open size in the shape of an Input."
        )
    text = value.text if isinstance(value, Calculated) else value
    if isinstance(text, str):
        pending = names_in(text)
        seen: set[str] = set()
        while pending:
            used = pending.pop()
            if used == name:
                raise BadValueError(
                    f"The size {name} cannot be {text!r}: it would be calculated from itself. Give one of these a number."
                )
            if used not in seen:
                seen.add(used)
                pending += names_used(sizes.get(used))
    try:
        return msgspec.structs.replace(op, value=check(IntType(), text, sizes))
    except ValueError as error:
        why = f" {why_not(text, sizes)}" if isinstance(text, str) else ""
        raise BadValueError(f"The size {name} cannot be {shown(text)}: it must be {error}.{why}") from None


def _free_sizes(node: Node) -> tuple[object, ...]:
    shape = node.properties.get("shape")
    return shape if isinstance(shape, tuple) else ()


def sharing_fault(graph: GraphIndex, name: str, type: str, target: str) -> str:
    """Return why a node cannot use the module of `target`; empty if it can."""
    owner = graph.nodes.get(target)
    if target == name:
        return "a node cannot share its own module."
    if owner is None:
        return f"there is no such node.{near(target, graph.nodes)}"
    if owner.type != type:
        return f"that is a {owner.type}, and only another {type} can be shared."
    if owner.shares is not None:
        return f"that shares a module itself; name {owner.shares!r} instead."
    if name in graph.sharers:
        return f"{name}'s own module is shared by {next(iter(graph.sharers[name]))!r}."
    return ""


def _require_property(spec: NodeSpec, node: str, name: object) -> Property:
    prop = spec.property_named(name) if isinstance(name, str) else None
    if prop is None:
        names = [prop.name for prop in spec.properties]
        raise UnknownPropertyError(
            f"{node} ({spec.type}) has no property {shown(name)}.{property_habit(name, names)} "
            f"{'It has ' + ', '.join(names) if names else 'It has none'}."
        )
    return prop


def _checked_edge(content: Content, op: ops.Connect, types: Types) -> ops.Connect:
    graph = content.require(op.graph)
    (source_name, source_port), (target_name, target_port) = split_port(op.source), split_port(op.target)
    source, target = graph.require(source_name), graph.require(target_name)
    output = find_output(content, source, source_port, types)
    if output is None:
        raise UnknownPortError(_no_port(source, "output", source_port, output_ports(content, source, types), graph))
    target_port = _next_index(graph, target, target_port, types)
    end = find_input(content, target, target_port, types)
    if end is None:
        raise UnknownPortError(_no_port(target, "input", target_port, input_ports(content, target, types), graph))
    if not kinds_fit(output.kind, end.kind):
        raise KindMismatchError(
            f"{op.source} gives a {output.kind} and {target_name}.{target_port} takes a {end.kind}: they cannot be connected."
        )
    return msgspec.structs.replace(op, target=f"{target_name}.{target_port}")


def _next_index(graph: GraphIndex, node: Node, port: str, types: Types) -> str:
    """Return the next free place of a variadic input for its bare name: ``"tensors_2"`` for ``"tensors"``."""
    spec = types.get(node.type)
    if spec is None or not any(known.variadic and known.name == port for known in spec.inputs):
        return port
    index = 0
    while f"{port}_{index}" in graph.incoming[node.name]:
        index += 1
    return f"{port}_{index}"


def _no_port(node: Node, side: str, port: str, ports: tuple[Port, ...] | None, graph: GraphIndex) -> str:
    names = [f"{known.name}_0" if known.variadic else known.name for known in ports or ()]
    listed = f"Its {side}s are {', '.join(names)}." if names else f"It has no {side}s."
    return f"{node.name} ({node.type}){graph.where} has no {side} {shown(port)}.{near(port, names)} {listed}"
