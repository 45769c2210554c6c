"""Document → program: every node bound to its call, every problem collected."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Mapping
from typing import Literal, NamedTuple

import msgspec

from pnne_nb.compiler.binding import automatic_properties, bind, construct
from pnne_nb.compiler.contexts import inside
from pnne_nb.compiler.elements import with_element_type
from pnne_nb.compiler.expressions import is_known
from pnne_nb.compiler.holding import member_paths, place_of, ties, whole_clash
from pnne_nb.compiler.program import (
    Argument,
    Attribute,
    Call,
    Constant,
    Construction,
    Entry,
    Holder,
    Layer,
    Member,
    Nested,
    Opaque,
    Program,
    Ref,
    Result,
    Unit,
    Weight,
)
from pnne_nb.compiler.reading import NO_WIRES, Drawing, paths_of
from pnne_nb.compiler.shapes import failure
from pnne_nb.compiler.wishes import wishes
from pnne_nb.errors import Diagnostic
from pnne_nb.graph.boxes import whole_of
from pnne_nb.graph.node import Node, is_uncalled
from pnne_nb.graph.registry import registry
from pnne_nb.graph.spec import NodeSpec
from pnne_nb.graph.values import Value

Resolved = Mapping[str, Mapping[str, Value]]
"""Values of properties that are ``"auto"``, by node path and property."""

NO_SIZES: Mapping[str, Value] = {}

CONTAINERS: Mapping[str, Holder] = {
    "torch.nn.modules.container.ModuleList": "ModuleList",
    "torch.nn.modules.container.ModuleDict": "ModuleDict",
    "torch.nn.modules.container.Sequential": "Sequential",
}
"""Targets of Module nodes that are nothing but what they hold, and the classes that do."""

IGNORED = ("training",)
"""Kinds of nodes that belong to the training, not to the model."""


class Context(NamedTuple):
    """What the lowering of a node depends on beside the node."""

    path: str  # of the attribute that holds its module
    owner: str  # of the one that is called: another node's, if it shares that
    ports: tuple[tuple[str, ...], tuple[str, ...]]  # of the graph that it shows
    sizes: Mapping[str, Value]  # inferred


class Bound(msgspec.Struct, frozen=True):
    """What became of one node, and of what.

    Attributes:
        node: As it was drawn.
        wires: Where its inputs come from.
        context: What else it depends on: attributes that hold modules, ports of a nested graph, inferred sizes.
        member: What its class holds for it.
        call: What its class calls for it.
    """

    node: Node
    wires: Mapping[str, Ref]
    context: Context
    member: Member | None
    call: Call | None


class Lowered(msgspec.Struct, frozen=True):
    """A document, lowered.

    Attributes:
        unit: The program.
        drawings: What it was made of.
        nodes: What became of each node, by definition and name.
    """

    unit: Unit
    drawings: Mapping[str, Drawing]
    nodes: dict[str, Mapping[str, Bound]]


def lower(name: str, drawings: Mapping[str, Drawing], resolved: Resolved, before: Lowered | None = None) -> Lowered:
    """Lower a finished document.

    Args:
        name: Of the document.
        drawings: What it draws; nothing in it is unfinished (`checking`).
        resolved: Values of the properties that are left ``"auto"``.
        before: What an earlier version gave, under the same catalogue; whatever is the same is taken over from it.

    Raises:
        CompileError: If a size is not known, or there is no output; ``diagnostics`` lists every reason.
    """
    lowering = _Lowering(drawings, resolved, before)
    programs = {id: lowering.program(drawing) for id, drawing in drawings.items()}
    if not programs[""].results:
        # Lint asks for none where the graph describes a training.
        lowering.diagnostics.append(
            Diagnostic(
                code="no-output",
                message="The graph has no output, so there is no model to compile.",
                hint="Add an Output node, or compile the graph of the model itself.",
            )
        )
    if lowering.diagnostics:
        raise failure(name, lowering.diagnostics)
    return Lowered(Unit(name, programs, lowering.objects), drawings, lowering.nodes)


def has_automatic(drawings: Mapping[str, Drawing]) -> bool:
    """Whether any node leaves a property to shape inference."""
    return any(
        spec.kind == "module" and spec.inferable and automatic_properties(spec, node.properties)
        for drawing in drawings.values()
        for node in drawing.nodes.values()
        if (spec := registry.get(node.type)) is not None
    )


class _Lowering:
    def __init__(self, drawings: Mapping[str, Drawing], resolved: Resolved, before: Lowered | None) -> None:
        self._drawings = drawings
        self._before = before
        self.nodes: dict[str, Mapping[str, Bound]] = {}
        self._paths = paths_of(drawings)
        self._resolved = resolved
        self.diagnostics: list[Diagnostic] = []
        self._constructions: dict[str, Construction] = {}
        self._users: dict[str, list[tuple[Drawing, str]]] = {id: [] for id in drawings}
        for drawing in drawings.values():
            for name, node in drawing.nodes.items():
                if node.definition is not None:
                    self._users[node.definition].append((drawing, name))
        self._held = {
            # One that is wired is called as it is: with its hooks, say.
            node.definition: "Module" if drawing.wires.get(node.name) else CONTAINERS.get(_target(node), "Module")
            for drawing in drawings.values()
            for node in drawing.nodes.values()
            if node.is_box and node.definition is not None
        }
        types = {node.type for drawing in drawings.values() for node in drawing.nodes.values()}
        self._specs = {type: registry[type] for type in types}
        self.objects: dict[str, object] = {
            spec.target: spec.torch
            for spec in self._specs.values()
            if spec.kind in ("module", "function") and not is_known(spec.target)
        }

    def program(self, drawing: Drawing) -> Program:
        nodes = self.nodes[drawing.id] = self._unchanged(drawing) or self._nodes(drawing)
        values = _values(drawing)
        members = [
            (place_of(b.node), b.member) for b in nodes.values() if b.member is not None and b.node.shares is None
        ]
        calls = {name: bound.call for name, bound in nodes.items() if bound.call is not None}
        holds = self._held.get(drawing.id, "")
        if holds:
            calls = {}  # its own code decides
        whole = "" if drawing.id else whole_of(drawing.nodes)
        if whole:
            self._require_free(drawing, whole, [member.name for _, member in members])
        program = Program(
            definition=drawing.id,
            # Imported members stand where the original has them: nodes are in the order in which they run.
            members=tuple(
                member for _, member in sorted(members, key=lambda placed: (placed[1].name != whole, placed[0]))
            ),
            entries=tuple(Entry(name, tensor=self._takes_tensor(drawing, name)) for name in drawing.inputs),
            calls=tuple(calls[name] for name in drawing.order if name in calls),
            results=tuple(
                Result(name, values.get(ref, ref), tensor=self._gives_tensor(drawing, ref))
                for name in drawing.outputs
                if (ref := drawing.wires.get(name, NO_WIRES).get("input")) is not None
            ),
            ties=() if drawing.id else tuple(ties(self._drawings, self.diagnostics)),
            holds=holds,
            whole=whole,
        )
        old = self._before.unit.programs.get(drawing.id) if self._before is not None else None
        return old if old is not None and _is_same(program, old) else program

    def _require_free(self, drawing: Drawing, whole: str, members: Iterable[str]) -> None:
        """Report nodes that have the name of something that the model holds as the module that it itself is."""
        definition = drawing.nodes[whole].definition
        inside = self._drawings.get(definition) if definition is not None else None
        held = {place.partition(".")[0] for place in member_paths(inside).values()} if inside is not None else set()
        self.diagnostics += [
            whole_clash(name, whole) for name in members if name != whole and name.partition(".")[0] in held
        ]

    def _unchanged(self, drawing: Drawing) -> Mapping[str, Bound] | None:
        """Return what became of the nodes of a graph in which nothing can have changed."""
        if self._before is None or self._before.drawings.get(drawing.id) is not drawing:
            return None
        nodes = self._before.nodes[drawing.id]
        shown = {bound.member.definition for bound in nodes.values() if isinstance(bound.member, Nested)}
        same = all(_ports(self._drawings[id]) == _ports(self._before.drawings[id]) for id in shown)
        return nodes if same and not any(bound.context.sizes for bound in nodes.values()) else None

    def _nodes(self, drawing: Drawing) -> dict[str, Bound]:
        paths, values, kept = member_paths(drawing), _values(drawing), self._kept(drawing)
        nodes: dict[str, Bound] = {}
        for name, node in drawing.nodes.items():
            spec = self._specs[node.type]
            if spec.kind in IGNORED or node.type in ("Input", "Output", "Constant"):
                continue
            drawn = drawing.wires.get(name, NO_WIRES)
            context = self._context(drawing, node, spec, paths)
            bound = kept.get(name)
            if bound is None or bound.node is not node or bound.wires != drawn or bound.context != context:
                wires = {
                    port: values.get(ref, ref)
                    for port, ref in drawn.items()
                    if self._specs[drawing.nodes[ref.node].type].kind not in IGNORED
                }
                member, call = self._node(drawing, node, spec, wires, context)
                wanted, around = wishes(node, spec), inside(node)
                if call is not None and (wanted or around):
                    call = msgspec.structs.replace(call, variables=wanted, inside=around)
                bound = Bound(node, drawn, context, member, None if is_uncalled(node) and not wires else call)
            nodes[name] = bound
        return nodes

    def _kept(self, drawing: Drawing) -> Mapping[str, Bound]:
        """Return what may be taken over, which is nothing if a node that is written where it is used has changed."""
        old = self._before.drawings.get(drawing.id) if self._before is not None else None
        if self._before is None or old is None or self._written_in_place(drawing) != self._written_in_place(old):
            return {}
        return self._before.nodes[drawing.id]

    @staticmethod
    def _written_in_place(drawing: Drawing) -> dict[str, int]:
        """Return the nodes whose values other nodes' calls hold, and those that are left out, by identity."""
        return {
            name: id(node)
            for name, node in drawing.nodes.items()
            if node.type in ("Constant", "Parameter", "Buffer") or registry[node.type].kind in IGNORED
        }

    def _takes_tensor(self, drawing: Drawing, name: str) -> bool:
        """Whether what arrives at an Input is known to be a tensor: it says so, or every use gives one."""
        if drawing.nodes[name].properties.get("shape") is not None:
            return True
        users = self._users[drawing.id]
        wired = [(user, user.wires.get(node, NO_WIRES).get(name)) for user, node in users]
        return bool(wired) and all(ref is not None and self._gives_tensor(user, ref) for user, ref in wired)

    def _gives_tensor(self, drawing: Drawing, ref: Ref) -> bool:
        node = drawing.nodes[ref.node]
        if node.type == "Input":
            return self._takes_tensor(drawing, node.name)
        if node.type == "Subgraph" and node.definition is not None:
            inner = self._drawings[node.definition]
            source = inner.wires.get(ref.port, NO_WIRES).get("input")
            return source is not None and self._gives_tensor(inner, source)
        port = self._specs[node.type].output_named(ref.port)
        return port is not None and port.kind == "tensor"

    def _context(self, drawing: Drawing, node: Node, spec: NodeSpec, paths: Mapping[str, str]) -> Context:
        inner = self._drawings[node.definition] if node.definition is not None else None
        return Context(
            paths[node.name],
            paths.get(node.shares or node.name, node.name),
            _ports(inner) if inner is not None else ((), ()),
            self._sizes(drawing, node, spec) if spec.kind == "module" and spec.inferable else NO_SIZES,
        )

    def _node(
        self, drawing: Drawing, node: Node, spec: NodeSpec, wires: Mapping[str, Argument], context: Context
    ) -> tuple[Member | None, Call | None]:
        name, path, owner = node.name, context.path, context.owner
        match node.type:
            case "Subgraph":
                assert node.definition is not None, "lint reports a Subgraph node without a definition"
                inputs, outputs = context.ports
                if drawing.id not in self._held:
                    self._require(drawing, node, inputs, wires)
                arguments, keywords = _in_order(inputs, wires)
                call = Call(name, "member", owner, arguments, keywords, outputs, single=len(outputs) == 1)
                return Nested(path, node.definition), call
            case "Module":
                if node.definition is not None and self._held[node.definition] != "Module":
                    return Nested(path, node.definition), None
                inputs = _names(spec, node, "inputs")
                outputs = _names(spec, node, "outputs")
                if not inputs and not outputs:
                    # Kept for its tensors only.
                    return _opaque(path, node), None
                arguments, keywords = _in_order(inputs, wires)
                call = Call(name, "member", owner, arguments, keywords, outputs, single=len(outputs) == 1)
                return _opaque(path, node), call
            case "Parameter" | "Buffer":
                return None if isinstance(node.properties.get("of"), str) else _weight(spec, node), None
        bound = bind(spec, node.properties, wires, context.sizes)
        if spec.kind == "module":
            call = Call(name, "member", owner, bound.arguments, bound.keywords, bound.results, bound.single)
            return Layer(path, self._construction(spec, node, context.sizes)), call
        kind: Literal["method", "function"] = "method" if spec.kind == "method" else "function"
        return None, Call(name, kind, spec.target, bound.arguments, bound.keywords, bound.results, bound.single)

    def _construction(self, spec: NodeSpec, node: Node, resolved: Mapping[str, Value]) -> Construction:
        # Equal layers, of which a network has many, are bound once. repr tells 1 from 1.0 and True.
        properties = with_element_type(node)
        key = f"{node.type} {properties!r} {resolved!r}"
        found = self._constructions.get(key)
        if found is None:
            found = self._constructions[key] = construct(spec, {**properties, **resolved})
        return found

    def _sizes(self, drawing: Drawing, node: Node, spec: NodeSpec) -> Mapping[str, Value]:
        """Return the inferred values of a node's ``"auto"`` properties: the same for every use of its definition."""
        names = automatic_properties(spec, node.properties) if node.shares is None else []
        if not names:
            return NO_SIZES
        uses = [self._resolved.get(f"{prefix}{node.name}", {}) for prefix in self._paths[drawing.id]]
        sizes: dict[str, Value] = {}
        for name in names:
            found = {str(use[name]): use[name] for use in uses if name in use}
            path = f"{self._paths[drawing.id][0]}{node.name}"
            if len(found) == 1:
                sizes[name] = next(iter(found.values()))
            elif found:
                self.diagnostics.append(
                    Diagnostic(
                        code="auto-ambiguous",
                        message=f"{name} is 'auto', and would be {' and '.join(found)} in different uses of "
                        f"{drawing.id!r}, which have one class.",
                        node=path,
                        hint=f"Set {name}, or give each use a definition of its own.",
                    )
                )
            else:
                self.diagnostics.append(
                    Diagnostic(
                        code="auto-unresolved",
                        message=f"{name} is 'auto', but the shape of the input is not known.",
                        node=path,
                        hint=f"Give the Input a shape, or set {name}.",
                    )
                )
        return sizes

    def _require(self, drawing: Drawing, node: Node, inputs: tuple[str, ...], wires: Mapping[str, Argument]) -> None:
        for port in inputs:
            if port not in wires and not any(d.node == node.name and d.port == port for d in self.diagnostics):
                self.diagnostics.append(
                    Diagnostic(
                        code="unconnected-input",
                        message=f"Input {port!r} of the nested graph is not connected.",
                        node=f"{self._paths[drawing.id][0]}{node.name}",
                        port=port,
                        hint="Connect something to it.",
                    )
                )


def _ports(drawing: Drawing) -> tuple[tuple[str, ...], tuple[str, ...]]:
    return drawing.inputs, drawing.outputs


def _values(drawing: Drawing) -> dict[Ref, Argument]:
    """Return the values that are written where they are used."""
    values: dict[Ref, Argument] = {}
    for name, node in drawing.nodes.items():
        if node.type == "Constant":
            values[Ref(name, "output")] = Constant(node.properties["value"])
        elif node.type in ("Parameter", "Buffer"):
            held = node.properties.get("of")
            values[Ref(name, "output")] = Attribute(held if isinstance(held, str) else name)
    return values


def _is_same(one: Program, other: Program) -> bool:
    """Whether two programs are the same; not only equal, for 1 equals 1.0 and True."""
    return (
        len(one.members) == len(other.members)
        and len(one.calls) == len(other.calls)
        and all(map(operator.is_, one.members, other.members))
        and all(map(operator.is_, one.calls, other.calls))
        and (one.entries, one.results, one.ties) == (other.entries, other.results, other.ties)
        and (one.holds, one.whole) == (other.holds, other.whole)
    )


def _in_order(
    names: tuple[str, ...], wires: Mapping[str, Argument]
) -> tuple[tuple[Argument, ...], tuple[tuple[str, Argument], ...]]:
    """Pass by position up to the first gap, and by keyword from there on."""
    arguments: list[Argument] = []
    keywords: list[tuple[str, Argument]] = []
    gap = False
    for name in names:
        if name not in wires:
            gap = True
        elif gap:
            keywords.append((name, wires[name]))
        else:
            arguments.append(wires[name])
    return tuple(arguments), tuple(keywords)


def _target(node: Node) -> str:
    return str(node.properties.get("target"))


def _names(spec: NodeSpec, node: Node, prop: str) -> tuple[str, ...]:
    declared = spec.property_named(prop)
    value = node.properties.get(prop, declared.default if declared is not None else ())
    return tuple(_texts(value)) if isinstance(value, tuple) else ()


def _texts(values: tuple[object, ...]) -> Iterator[str]:
    for value in values:
        if isinstance(value, str):
            yield value


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
