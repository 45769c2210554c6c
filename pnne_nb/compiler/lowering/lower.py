"""Lowers a document to a program: binds every node to its call and collects all problems."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping
from typing import final

import msgspec

from pnne_nb.catalog.custom import ObjectMaker
from pnne_nb.catalog.tables.overrides import OPTIONAL_OUTPUTS
from pnne_nb.compiler.codegen.expressions import is_known
from pnne_nb.compiler.ir.program import (
    Argument,
    Attribute,
    Call,
    Constant,
    Construction,
    Entry,
    Holder,
    Member,
    Nested,
    Program,
    Ref,
    Result,
    Unit,
)
from pnne_nb.compiler.ir.snapshot import NO_WIRES, GraphSnapshot, passed_on, paths_of
from pnne_nb.compiler.lowering.attributes import frozen, member_paths, place_of, still, ties, whole_clash
from pnne_nb.compiler.lowering.lower_node import (
    NO_SIZES,
    LoweringContext,
    Resolved,
    automatic_sizes,
    lower_node,
    tensor_name,
)
from pnne_nb.compiler.shapes.infer import failure
from pnne_nb.errors import Diagnostic
from pnne_nb.graph.model.node import Node, ablated, whole_of
from pnne_nb.graph.schema.registry import registry
from pnne_nb.graph.schema.spec import NodeSpec
from pnne_nb.graph.schema.structural import ABLATE, REROUTE, SHARES

CONTAINERS: Mapping[str, Holder] = {
    "torch.nn.modules.container.ModuleList": "ModuleList",
    "torch.nn.modules.container.ModuleDict": "ModuleDict",
    "torch.nn.modules.container.Sequential": "Sequential",
}
"""Targets of Module nodes that are nothing but what they hold, and the classes that do."""

_IN_PLACE = ("Constant", "Parameter", "Buffer")
"""Types of nodes whose value is written where it is used."""


class LoweredNode(msgspec.Struct, frozen=True, gc=False):  # a tree, and one for each node
    """A node with its member and call, and what they were made from.

    Attributes:
        node: The node in the document.
        wires: Where its inputs come from.
        context: What else it depends on: attributes that hold modules, ports of a nested graph, inferred sizes.
        member: What its class holds for it.
        call: What its class calls for it.
    """

    node: Node
    wires: Mapping[str, Ref]
    context: LoweringContext
    member: Member | None
    call: Call | None


class Lowered(msgspec.Struct, frozen=True):
    """A lowered document.

    Attributes:
        unit: The program.
        snapshots: What it was made of.
        nodes: What became of each node, by definition and name.
    """

    unit: Unit
    snapshots: Mapping[str, GraphSnapshot]
    nodes: dict[str, Mapping[str, LoweredNode]]


def lower(
    name: str, snapshots: Mapping[str, GraphSnapshot], resolved: Resolved, before: Lowered | None = None
) -> Lowered:
    """Lower a finished document.

    Args:
        name: Of the document.
        snapshots: Its graphs; `pipeline.compile` has checked that nothing is unfinished.
        resolved: Values of the properties that are left ``"auto"``.
        before: What an earlier version gave, under the same catalogue; whatever is the same is taken over from it.

    Raises:
        CompileError: If a size is not known, or there is no output; ``diagnostics`` lists every reason.
    """
    lowering = _Lowering(snapshots, resolved, before)
    programs = {id: lowering.program(snapshot) for id, snapshot in snapshots.items()}
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
    return Lowered(Unit(name, programs, lowering.objects), snapshots, lowering.nodes)


class _Lowering:
    def __init__(self, snapshots: Mapping[str, GraphSnapshot], resolved: Resolved, before: Lowered | None) -> None:
        self._snapshots = snapshots
        self._before = before
        self.nodes: dict[str, Mapping[str, LoweredNode]] = {}
        self._paths = paths_of(snapshots)
        self._resolved = resolved
        self.diagnostics: list[Diagnostic] = []
        self._constructions: dict[tuple[object, ...], Construction] = {}
        self._holders = {
            definition: _holder(node, snapshot)
            for snapshot in snapshots.values()
            for node, definition in snapshot.blocks
            if node.is_box
        }
        self._specs = {type: registry[type] for snapshot in snapshots.values() for type in snapshot.types}
        self._annotations = Annotations(snapshots, self._specs)
        self.objects: dict[str, object] = {
            spec.target: spec.torch.kind if isinstance(spec.torch, ObjectMaker) else spec.torch
            for spec in self._specs.values()
            if spec.kind in ("module", "function") and not is_known(spec.target)
        }

    def program(self, snapshot: GraphSnapshot) -> Program:
        paths = member_paths(snapshot)
        values = _values(snapshot, self._snapshots, paths)
        nodes = self.nodes[snapshot.id] = self._unchanged(snapshot) or self._nodes(snapshot, paths, values)
        shared = SHARES.name in snapshot.property_names
        held = [
            (bound.node, bound.member)
            for bound in nodes.values()
            if bound.member is not None and not (shared and bound.node.shares is not None)
        ]
        holds = self._holders.get(snapshot.id, "")
        # The own code of what a graph only holds decides what is called.
        calls = {} if holds else {name: bound.call for name, bound in nodes.items() if bound.call is not None}
        whole = "" if snapshot.id or snapshot.is_drawn else whole_of(snapshot.nodes)
        if whole:
            self._require_free(snapshot, whole, [member.name for _, member in held])
        # Imported members stand where the original has them: nodes are in the order in which they run.
        if not snapshot.is_drawn:
            held.sort(key=lambda each: (each[1].name != whole, place_of(each[0])))
        program = Program(
            definition=snapshot.id,
            members=tuple([member for _, member in held]),
            entries=tuple(
                Entry(name, tensor=self._annotations.takes_tensor(snapshot, name)) for name in snapshot.inputs
            ),
            calls=tuple([call for name in snapshot.order if (call := calls.get(name)) is not None]),
            results=tuple(
                Result(
                    name,
                    values.get(ref, ref),
                    tensor=self._annotations.gives_tensor(snapshot, ref),
                    optional=self._annotations.may_be_none(snapshot, ref),
                )
                for name in snapshot.outputs
                if (ref := snapshot.wires.get(name, NO_WIRES).get("input")) is not None
            ),
            ties=() if snapshot.id else tuple(ties(self._snapshots, self.diagnostics)),
            frozen=tuple(dict.fromkeys(frozen(self._snapshots, snapshot))),
            still=tuple(dict.fromkeys(still(snapshot))),
            holds=holds,
            whole=whole,
        )
        old = self._before.unit.programs.get(snapshot.id) if self._before is not None else None
        return old if old is not None and _is_same(program, old) else program

    def _require_free(self, snapshot: GraphSnapshot, whole: str, members: Iterable[str]) -> None:
        """Report nodes that have the name of something that the model holds as the module that it itself is."""
        definition = snapshot.nodes[whole].definition
        inside = self._snapshots.get(definition) if definition is not None else None
        held = {place.partition(".")[0] for place in member_paths(inside).values()} if inside is not None else set()
        self.diagnostics += [
            whole_clash(name, whole) for name in members if name != whole and name.partition(".")[0] in held
        ]

    def _unchanged(self, snapshot: GraphSnapshot) -> Mapping[str, LoweredNode] | None:
        """Return what became of the nodes of a graph in which nothing can have changed."""
        if self._before is None or self._before.snapshots.get(snapshot.id) is not snapshot:
            return None
        nodes = self._before.nodes[snapshot.id]
        shown = {bound.member.definition for bound in nodes.values() if isinstance(bound.member, Nested)}
        same = all(_ports(self._snapshots[id]) == _ports(self._before.snapshots[id]) for id in shown)
        return nodes if same and not any(bound.context.sizes for bound in nodes.values()) else None

    def _nodes(
        self, snapshot: GraphSnapshot, paths: Mapping[str, str], values: Mapping[Ref, Argument]
    ) -> dict[str, LoweredNode]:
        kept = self._kept(snapshot)
        nodes: dict[str, LoweredNode] = {}
        # Nodes that belong to the training, not to the model.
        ignored: set[str] = set()
        if any(spec.kind == "training" for spec in self._specs.values()):
            ignored = {name for name, node in snapshot.nodes.items() if self._specs[node.type].kind == "training"}
        wires_of, automatic, shared = snapshot.wires, snapshot.automatic, SHARES.name in snapshot.property_names
        for name, node in snapshot.nodes.items():
            if node.type in ("Input", "Output", "Constant") or name in ignored:
                continue
            spec = self._specs[node.type]
            drawn = wires_of.get(name, NO_WIRES)
            if spec.kind == "structural" or name in automatic or (shared and SHARES.name in node.properties):
                context = self._context(snapshot, node, paths)
            else:  # what most are
                context = LoweringContext(paths[name], paths[name])
            bound = kept.get(name)
            if bound is None or bound.node is not node or bound.wires != drawn or bound.context != context:
                wires: Mapping[str, Argument] = drawn
                if values or ignored:
                    wires = {port: values.get(ref, ref) for port, ref in drawn.items() if ref.node not in ignored}
                if node.type == "Subgraph" and snapshot.id not in self._holders:
                    self._require_all(snapshot, node, context.inputs, wires)
                member, call = lower_node(node, spec, wires, context, self._constructions)
                if call is not None and ablated(node):
                    call = self._instead(snapshot, node, call, values)
                bound = LoweredNode(node, drawn, context, member, call)
            nodes[name] = bound
        return nodes

    def _instead(self, snapshot: GraphSnapshot, node: Node, call: Call, values: Mapping[Ref, Argument]) -> Call | None:
        """Return what is called instead of a node that does not run; None if it gives its input on as it is."""
        source = passed_on(snapshot, self._snapshots, node.name)
        if source is None or ablated(node) == "bypass":
            return None
        return Call(node.name, "function", "torch.zeros_like", (values.get(source, source),), results=call.results[:1])

    def _kept(self, snapshot: GraphSnapshot) -> Mapping[str, LoweredNode]:
        """Return what may be taken over, which is nothing if a node that is written where it is used has changed."""
        old = self._before.snapshots.get(snapshot.id) if self._before is not None else None
        if self._before is None or old is None or self._written_in_place(snapshot) != self._written_in_place(old):
            return {}
        return self._before.nodes[snapshot.id]

    @staticmethod
    def _written_in_place(snapshot: GraphSnapshot) -> dict[str, tuple[int, str]]:
        """Return the nodes whose values other nodes' calls hold, and those that are left out, by identity and wires."""
        return {
            name: (id(node), repr(snapshot.wires.get(name, NO_WIRES)) if ablated(node) else "")
            for name, node in snapshot.nodes.items()
            if node.type in _IN_PLACE or ablated(node) or registry[node.type].kind == "training"
        }

    def _context(self, snapshot: GraphSnapshot, node: Node, paths: Mapping[str, str]) -> LoweringContext:
        path, shares, definition = paths[node.name], node.shares, node.definition
        owner = paths.get(shares, node.name) if shares else path
        if definition is not None:
            ports = _ports(self._snapshots[definition])
            return LoweringContext(path, owner, *ports, holds=self._holders.get(definition, ""))
        sizes = NO_SIZES
        if node.name in snapshot.automatic and shares is None:
            names, uses = snapshot.automatic[node.name], self._paths[snapshot.id]
            sizes = automatic_sizes(node, names, snapshot, uses, self._resolved, self.diagnostics)
        return LoweringContext(path, owner, (), (), "", sizes)

    def _require_all(
        self, snapshot: GraphSnapshot, node: Node, inputs: Iterable[str], wires: Mapping[str, Argument]
    ) -> None:
        """Report the inputs of a nested graph that nothing arrives at."""
        self.diagnostics += [
            Diagnostic(
                code="unconnected-input",
                message=f"Input {port!r} of the nested graph is not connected.",
                node=f"{self._paths[snapshot.id][0]}{node.name}",
                port=port,
                hint="Connect something to it.",
            )
            for port in inputs
            if port not in wires
        ]


def _ports(snapshot: GraphSnapshot) -> tuple[tuple[str, ...], tuple[str, ...]]:
    return snapshot.inputs, snapshot.outputs


def _values(
    snapshot: GraphSnapshot, snapshots: Mapping[str, GraphSnapshot], paths: Mapping[str, str]
) -> dict[Ref, Argument]:
    """Return the values that are written where they are used; `paths` are the attributes of all nodes."""
    values: dict[Ref, Argument] = {}
    if snapshot.types.isdisjoint((*_IN_PLACE, REROUTE)) and ABLATE.name not in snapshot.property_names:
        return values
    bypassed: set[str] = set()
    for name, node in snapshot.nodes.items():
        if node.type == "Constant":
            values[Ref(name, "output")] = Constant(node.properties["value"])
        elif node.type in ("Parameter", "Buffer"):
            values[Ref(name, "output")] = Attribute(node.of or tensor_name(paths[name], name))
        if (node.type == REROUTE or ABLATE.name in node.properties) and ablated(node) == "bypass":
            bypassed.add(name)
    for name in snapshot.order if bypassed else ():
        # What does not run gives its first input on, which may itself be written in place.
        first = passed_on(snapshot, snapshots, name) if name in bypassed else None
        if first is not None:
            given = values.get(first, first)
            for follower in snapshot.followers.get(name, ()):
                values |= {ref: given for ref in snapshot.wires[follower].values() if ref.node == name}
    return values


def _is_same(one: Program, other: Program) -> bool:
    """Return whether two programs are the same; not only equal, for 1 equals 1.0 and True."""
    return (
        len(one.members) == len(other.members)
        and len(one.calls) == len(other.calls)
        and all(map(operator.is_, one.members, other.members))
        and all(map(operator.is_, one.calls, other.calls))
        and (one.entries, one.results, one.ties) == (other.entries, other.results, other.ties)
        and (one.frozen, one.still, one.holds, one.whole) == (other.frozen, other.still, other.holds, other.whole)
    )


def _holder(box: Node, snapshot: GraphSnapshot) -> Holder:
    """Return the torch class of the content of an opaque module."""
    if snapshot.wires.get(box.name):
        return "Module"  # one that is wired is called as it is: with its hooks, say
    return CONTAINERS.get(str(box.properties.get("target")), "Module")


@final
class Annotations:
    """Says which values are known to be tensors."""

    def __init__(self, snapshots: Mapping[str, GraphSnapshot], specs: Mapping[str, NodeSpec]) -> None:
        self._snapshots = snapshots
        self._specs = specs
        self._uses: dict[str, list[tuple[GraphSnapshot, str]]] = {id: [] for id in snapshots}
        for snapshot in snapshots.values():
            for node, definition in snapshot.blocks:
                self._uses[definition].append((snapshot, node.name))
        self._taken: dict[tuple[str, str], bool] = {}

    def takes_tensor(self, snapshot: GraphSnapshot, name: str) -> bool:
        """Return whether the value of an Input is known to be a tensor: it has a shape, or every use passes one."""
        if snapshot.nodes[name].properties.get("shape") is not None:
            return True
        key = (snapshot.id, name)
        if key not in self._taken:
            wired = [(user, user.wires.get(node, NO_WIRES).get(name)) for user, node in self._uses[snapshot.id]]
            given = (
                ref is not None and self.gives_tensor(user, ref) and not self.may_be_none(user, ref)
                for user, ref in wired
            )
            self._taken[key] = bool(wired) and all(given)
        return self._taken[key]

    def gives_tensor(self, snapshot: GraphSnapshot, ref: Ref) -> bool:
        """Return whether the value at an output port is known to be a tensor, or a tensor or None."""
        made = self._made_by(snapshot, ref)
        if isinstance(made, bool):
            return made
        type, port = made
        found = self._specs[type].output_named(port)
        return found is not None and found.kind == "tensor"

    def may_be_none(self, snapshot: GraphSnapshot, ref: Ref) -> bool:
        """Return whether torch annotates the value at an output port as ``Optional[Tensor]``."""
        return self._made_by(snapshot, ref) in OPTIONAL_OUTPUTS

    def _made_by(self, snapshot: GraphSnapshot, ref: Ref) -> bool | tuple[str, str]:
        """Return the type and the port that make a value; of an argument, whether it is known to be a tensor."""
        entered: list[tuple[GraphSnapshot, str]] = []
        found: Ref | None = ref
        while found is not None:
            node = snapshot.nodes[found.node]
            if node.type == "Subgraph" and node.definition is not None:
                entered.append((snapshot, node.name))
                snapshot = self._snapshots[node.definition]
                found = snapshot.wires.get(found.port, NO_WIRES).get("input")
            elif node.type != "Input":
                return node.type, found.port
            elif not entered or node.properties.get("shape") is not None:
                return self.takes_tensor(snapshot, node.name)
            else:
                # A nested graph that hands its input on gives what this very use of it was given.
                snapshot, user = entered.pop()
                found = snapshot.wires.get(user, NO_WIRES).get(node.name)
        return False
