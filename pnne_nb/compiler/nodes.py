"""One node → what its class holds for it, and what its class calls for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from pnne_nb.compiler.binding import bind, construct
from pnne_nb.compiler.contexts import inside
from pnne_nb.compiler.elements import with_element_type
from pnne_nb.compiler.program import Argument, Call, Construction, Holder, Layer, Member, Nested, Opaque, Weight
from pnne_nb.compiler.wishes import wishes
from pnne_nb.graph.node import Node, is_uncalled
from pnne_nb.graph.spec import NodeSpec
from pnne_nb.graph.values import Value


class Context(NamedTuple):
    """What the lowering of a node depends on beside the node and its wires.

    Attributes:
        path: Of the attribute that holds its module.
        owner: Of the one that is called: another node's, if it shares that.
        inputs: Of the graph that it shows.
        outputs: Of the graph that it shows.
        holds: What holds the content of a box (`Program.holds`).
        sizes: Values of its ``"auto"`` properties.
    """

    path: str
    owner: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    holds: Holder
    sizes: Mapping[str, Value]


def lower_node(
    node: Node,
    spec: NodeSpec,
    wires: Mapping[str, Argument],
    context: Context,
    constructions: dict[str, Construction],
) -> tuple[Member | None, Call | None]:
    """Return what the class of a graph holds for a node, and what its ``forward`` calls for it.

    Args:
        node: Of any type but Input, Output and Constant, which are neither held nor called.
        spec: Its type.
        wires: What arrives at its inputs.
        context: What else it depends on.
        constructions: Those that were made so far, by what they are made from; a new one is added.
    """
    member, call = _lowered(node, spec, wires, context, constructions)
    if call is None or (is_uncalled(node) and not wires):
        return member, None
    variables, around = wishes(node, spec), inside(node)
    if variables or around:
        call = msgspec.structs.replace(call, variables=variables, inside=around)
    return member, call


def _lowered(
    node: Node,
    spec: NodeSpec,
    wires: Mapping[str, Argument],
    context: Context,
    constructions: dict[str, Construction],
) -> tuple[Member | None, Call | None]:
    match node.type:
        case "Subgraph":
            assert node.definition is not None, "lint reports a Subgraph node without a definition"
            return Nested(context.path, node.definition), _call(node, context, context.inputs, context.outputs, wires)
        case "Module":
            if node.definition is not None and context.holds != "Module":
                return Nested(context.path, node.definition), None
            inputs, outputs = _names(spec, node, "inputs"), _names(spec, node, "outputs")
            # One without ports is kept for its tensors only.
            call = _call(node, context, inputs, outputs, wires) if inputs or outputs else None
            return _opaque(context.path, node), call
        case "Parameter" | "Buffer":
            return None if isinstance(node.properties.get("of"), str) else _weight(spec, node), None
    bound = bind(spec, node.properties, wires, context.sizes)
    if spec.kind == "module":
        call = Call(node.name, "member", context.owner, bound.arguments, bound.keywords, bound.results, bound.single)
        return Layer(context.path, _construction(spec, node, context.sizes, constructions)), call
    kind = spec.kind if spec.kind == "method" else "function"
    return None, Call(node.name, kind, spec.target, bound.arguments, bound.keywords, bound.results, bound.single)


def _call(
    node: Node, context: Context, inputs: tuple[str, ...], outputs: tuple[str, ...], wires: Mapping[str, Argument]
) -> Call:
    """Return the call of a module by its ports: by position up to the first gap, and by keyword from there on."""
    gap = next((index for index, name in enumerate(inputs) if name not in wires), len(inputs))
    arguments = tuple(wires[name] for name in inputs[:gap])
    keywords = tuple((name, wires[name]) for name in inputs[gap:] if name in wires)
    return Call(node.name, "member", context.owner, arguments, keywords, outputs, single=len(outputs) == 1)


def _construction(
    spec: NodeSpec, node: Node, sizes: Mapping[str, Value], constructions: dict[str, Construction]
) -> Construction:
    # Equal layers, of which a network has many, are bound once. repr tells 1 from 1.0 and True.
    properties = with_element_type(node)
    key = f"{node.type} {properties!r} {sizes!r}"
    found = constructions.get(key)
    if found is None:
        found = constructions[key] = construct(spec, {**properties, **sizes})
    return found


def _names(spec: NodeSpec, node: Node, prop: str) -> tuple[str, ...]:
    declared = spec.property_named(prop)
    value = node.properties.get(prop, declared.default if declared is not None else ())
    return tuple(name for name in value if isinstance(name, str)) if isinstance(value, tuple) else ()


def _opaque(path: str, node: Node) -> Opaque:
    reason = node.origin.get("reason") if isinstance(node.origin, dict) else None
    return Opaque(
        path,
        kind=str(node.properties.get("target", "")),
        reason=reason if isinstance(reason, str) else "",
        definition=node.definition or "",
    )


def _weight(spec: NodeSpec, node: Node) -> Weight:
    values = {prop.name: node.properties.get(prop.name, prop.default) for prop in spec.properties}
    shape = values["shape"]
    return Weight(
        name=node.name,
        shape=tuple(size for size in shape if isinstance(size, int)) if isinstance(shape, tuple) else (),
        dtype=str(values["dtype"]),
        init=str(values["init"]),
        trained=node.type == "Parameter",
        requires_grad=values.get("requires_grad") is not False,
        persistent=values.get("persistent") is not False,
        values=values.get("values"),
        absent=isinstance(node.origin, dict) and node.origin.get("values") == "absent",
    )
