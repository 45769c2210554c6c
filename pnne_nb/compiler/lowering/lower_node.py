"""Lowers one node to a member of its class and a call in its ``forward``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from pnne_nb.compiler.ir.bind import construct, passed, with_element_type
from pnne_nb.compiler.ir.program import Argument, Call, Construction, Holder, Layer, Member, Nested, Opaque, Weight
from pnne_nb.compiler.ir.snapshot import GraphSnapshot
from pnne_nb.errors import Diagnostic
from pnne_nb.graph.model.node import Node, inside, is_uncalled
from pnne_nb.graph.schema.spec import NodeSpec
from pnne_nb.graph.schema.structural import INSIDE
from pnne_nb.graph.schema.values import Value

Resolved = Mapping[str, Mapping[str, Value]]
"""Values of properties that are ``"auto"``, by node path and property."""

NO_SIZES: Mapping[str, Value] = {}

_HOLDING = ("Subgraph", "Module", "Parameter", "Buffer")
"""Types of nodes that hold a graph, a module or a tensor; all others are calls of what torch has."""


class LoweringContext(msgspec.Struct, frozen=True, gc=False):  # a tree, and one for each node
    """Inputs of the lowering of a node, beside the node and its wires.

    Attributes:
        path: Path of the attribute that holds its module.
        owner: Path of the module that is called: another node's, if it shares that.
        inputs: Inputs of the graph that it shows.
        outputs: Outputs of that graph.
        holds: Class of the content of an opaque module (`Program.holds`).
        sizes: Values of its ``"auto"`` properties.
    """

    path: str
    owner: str
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    holds: Holder = ""
    sizes: Mapping[str, Value] = NO_SIZES


def lower_node(
    node: Node,
    spec: NodeSpec,
    wires: Mapping[str, Argument],
    context: LoweringContext,
    constructions: dict[tuple[object, ...], Construction],
) -> tuple[Member | None, Call | None]:
    """Return the member of a node in its class, and its call in ``forward``; add a new construction to `constructions`.

    Nodes of the types Input, Output and Constant have neither.
    """
    member: Member | None = None
    if spec.kind == "structural" and node.type in _HOLDING:
        member, call = _held(node, spec, wires, context)
    else:
        sizes = context.sizes
        arguments, keywords = passed(spec, {**node.properties, **sizes} if sizes else node.properties, wires)
        results, single = spec.taken_apart(node.properties)
        if spec.kind == "module":
            call = Call(node.name, "member", context.owner, arguments, keywords, results, single)
            member = Layer(context.path, _construction(spec, node, sizes, constructions))
        else:
            kind = spec.kind if spec.kind == "method" else "function"
            call = Call(node.name, kind, spec.target, arguments, keywords, results, single)
    if call is None or (node.origin is None and INSIDE.name not in node.properties):
        return member, call
    if is_uncalled(node) and not wires:
        return member, None
    variables, around = _variables(node, spec), inside(node)
    if variables or around:
        call = msgspec.structs.replace(call, variables=variables, inside=around)
    return member, call


def _held(
    node: Node, spec: NodeSpec, wires: Mapping[str, Argument], context: LoweringContext
) -> tuple[Member | None, Call | None]:
    if node.type == "Subgraph":
        assert node.definition is not None, "lint reports a Subgraph node without a definition"
        return Nested(context.path, node.definition), _call(node, context, context.inputs, context.outputs, wires)
    if node.type == "Module":
        if node.definition is not None and context.holds != "Module":
            return Nested(context.path, node.definition), None
        inputs, outputs = _names(spec, node, "inputs"), _names(spec, node, "outputs")
        # One without ports is kept for its tensors only.
        call = _call(node, context, inputs, outputs, wires) if inputs or outputs else None
        return _opaque(context.path, node), call
    return None if node.of else _weight(spec, node, context.path), None


def _call(
    node: Node,
    context: LoweringContext,
    inputs: tuple[str, ...],
    outputs: tuple[str, ...],
    wires: Mapping[str, Argument],
) -> Call:
    """Return the call of a module by its ports: by position up to the first gap, and by keyword from there on."""
    gap = next((index for index, name in enumerate(inputs) if name not in wires), len(inputs))
    arguments = tuple(wires[name] for name in inputs[:gap])
    keywords = tuple((name, wires[name]) for name in inputs[gap:] if name in wires)
    return Call(node.name, "member", context.owner, arguments, keywords, outputs, single=len(outputs) == 1)


def _construction(
    spec: NodeSpec, node: Node, sizes: Mapping[str, Value], constructions: dict[tuple[object, ...], Construction]
) -> Construction:
    # Equal layers, of which a network has many, are bound once. repr tells 1 from 1.0 and True; so does identity, in
    # less time, where the values are the same objects, as small numbers are. The nodes keep them alive meanwhile.
    if sizes or node.origin is not None:
        values: Mapping[str, Value] = {**with_element_type(node), **sizes}
        same: tuple[object, ...] = (node.type, repr(values))
    else:
        values = node.properties
        same = (node.type, *values, *map(id, values.values()))
    found = constructions.get(same)
    if found is None:
        key = (node.type, repr(values))
        found = constructions[same] = constructions[key] = constructions.get(key) or construct(spec, values)
    return found


def _names(spec: NodeSpec, node: Node, prop: str) -> tuple[str, ...]:
    declared = spec.property_named(prop)
    value = node.properties.get(prop, declared.default if declared is not None else ())
    return tuple(name for name in value if isinstance(name, str)) if isinstance(value, tuple) else ()


def _opaque(path: str, node: Node) -> Opaque:
    return Opaque(
        path,
        kind=str(node.properties.get("target", "")),
        reason=node.origin.reason if node.origin is not None else "",
        definition=node.definition or "",
    )


def tensor_name(path: str, node: str) -> str:
    """Return the attribute of a Parameter's or Buffer's tensor: the original's, also where no node can have that name."""
    return node if "." in path else path


def _weight(spec: NodeSpec, node: Node, path: str) -> Weight:
    values = {prop.name: node.properties.get(prop.name, prop.default) for prop in spec.properties}
    shape = values["shape"]
    return Weight(
        name=tensor_name(path, node.name),
        shape=tuple(size for size in shape if isinstance(size, int)) if isinstance(shape, tuple) else (),
        dtype=str(values["dtype"]),
        init=str(values["init"]),
        trained=node.type == "Parameter",
        requires_grad=values.get("requires_grad") is not False,
        persistent=values.get("persistent") is not False,
        values=values.get("values"),
        mean=_real(values.get("mean", 0.0)),
        std=_real(values.get("std", 1.0)),
        absent=bool(node.absent),
    )


def _real(value: object) -> float:
    return float(value) if isinstance(value, (int, float)) else 0.0


def _variables(node: Node, spec: NodeSpec) -> tuple[tuple[str, str], ...]:
    """Return the variables that the author of an imported module uses for the outputs of a node, by port."""
    found = tuple(node.origin.variables.items()) if node.origin is not None else ()
    if spec.kind in ("function", "method") and len(found) == 1:
        plain = node.name.rstrip("0123456789").rstrip("_")
        if plain not in (node.type.rstrip("_"), node.type.removeprefix("operator_")):  # a person has named it
            return ((found[0][0], node.name),)
    return found


def automatic_sizes(
    node: Node,
    names: Iterable[str],
    snapshot: GraphSnapshot,
    uses: list[str],
    resolved: Resolved,
    diagnostics: list[Diagnostic],
) -> Mapping[str, Value]:
    """Return inferred values of ``"auto"`` properties.

    A value that is not known, or differs between `uses` of the definition, is added to `diagnostics`.
    """
    sizes: dict[str, Value] = {}
    for name in names:
        inferred = (resolved.get(f"{prefix}{node.name}", {}) for prefix in uses)
        found = {str(values[name]): values[name] for values in inferred if name in values}
        if len(found) == 1:
            sizes[name] = next(iter(found.values()))
        elif found:
            diagnostics.append(
                Diagnostic(
                    code="auto-ambiguous",
                    message=f"{name} is 'auto', and would be {' and '.join(found)} in different uses of "
                    f"{snapshot.id!r}, which have one class.",
                    node=f"{uses[0]}{node.name}",
                    hint=f"Set {name}, or give each use a definition of its own.",
                )
            )
        else:
            diagnostics.append(
                Diagnostic(
                    code="auto-unresolved",
                    message=f"{name} is 'auto', but the shape of the input is not known.",
                    node=f"{uses[0]}{node.name}",
                    hint=f"Give the Input a shape, or set {name}.",
                )
            )
    return sizes
