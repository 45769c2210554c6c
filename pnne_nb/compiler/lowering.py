"""Document → program: every node bound to its call, every problem collected."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping

import msgspec

from pnne_nb.compiler.annotating import Annotations
from pnne_nb.compiler.automatic import NO_SIZES, Resolved, automatic_sizes
from pnne_nb.compiler.expressions import is_known
from pnne_nb.compiler.holding import frozen, member_paths, place_of, ties, whole_clash
from pnne_nb.compiler.nodes import Context, lower_node
from pnne_nb.compiler.program import (
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
from pnne_nb.compiler.reading import NO_WIRES, Drawing, paths_of
from pnne_nb.compiler.shapes import failure
from pnne_nb.errors import Diagnostic
from pnne_nb.graph.boxes import whole_of
from pnne_nb.graph.node import Node
from pnne_nb.graph.registry import registry
from pnne_nb.graph.spec import NodeSpec

CONTAINERS: Mapping[str, Holder] = {
    "torch.nn.modules.container.ModuleList": "ModuleList",
    "torch.nn.modules.container.ModuleDict": "ModuleDict",
    "torch.nn.modules.container.Sequential": "Sequential",
}
"""Targets of Module nodes that are nothing but what they hold, and the classes that do."""

IGNORED = ("training",)
"""Kinds of nodes that belong to the training, not to the model."""


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


class _Lowering:
    def __init__(self, drawings: Mapping[str, Drawing], resolved: Resolved, before: Lowered | None) -> None:
        self._drawings = drawings
        self._before = before
        self.nodes: dict[str, Mapping[str, Bound]] = {}
        self._paths = paths_of(drawings)
        self._resolved = resolved
        self.diagnostics: list[Diagnostic] = []
        self._constructions: dict[str, Construction] = {}
        self._holders = {
            node.definition: _holder(node, drawing)
            for drawing in drawings.values()
            for node in drawing.nodes.values()
            if node.is_box and node.definition is not None
        }
        types = {node.type for drawing in drawings.values() for node in drawing.nodes.values()}
        self._specs = {type: registry[type] for type in types}
        self._annotations = Annotations(drawings, self._specs)
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
        holds = self._holders.get(drawing.id, "")
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
            entries=tuple(Entry(name, tensor=self._annotations.takes_tensor(drawing, name)) for name in drawing.inputs),
            calls=tuple(calls[name] for name in drawing.order if name in calls),
            results=tuple(
                Result(name, values.get(ref, ref), tensor=self._annotations.gives_tensor(drawing, ref))
                for name in drawing.outputs
                if (ref := drawing.wires.get(name, NO_WIRES).get("input")) is not None
            ),
            ties=() if drawing.id else tuple(ties(self._drawings, self.diagnostics)),
            frozen=tuple(frozen(self._drawings, drawing)),
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
                if node.type == "Subgraph" and drawing.id not in self._holders:
                    self._require_all(drawing, node, context.inputs, wires)
                bound = Bound(node, drawn, context, *lower_node(node, spec, wires, context, self._constructions))
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

    def _context(self, drawing: Drawing, node: Node, spec: NodeSpec, paths: Mapping[str, str]) -> Context:
        definition = node.definition
        inputs, outputs = _ports(self._drawings[definition]) if definition is not None else ((), ())
        sizes = NO_SIZES
        if spec.kind == "module" and spec.inferable:
            uses = self._paths[drawing.id]
            sizes = automatic_sizes(node, spec, drawing, uses, self._resolved, self.diagnostics)
        return Context(
            path=paths[node.name],
            owner=paths.get(node.shares or node.name, node.name),
            inputs=inputs,
            outputs=outputs,
            holds=self._holders.get(definition or "", ""),
            sizes=sizes,
        )

    def _require_all(self, drawing: Drawing, node: Node, inputs: Iterable[str], wires: Mapping[str, Argument]) -> None:
        """Report the inputs of a nested graph that nothing arrives at."""
        self.diagnostics += [
            Diagnostic(
                code="unconnected-input",
                message=f"Input {port!r} of the nested graph is not connected.",
                node=f"{self._paths[drawing.id][0]}{node.name}",
                port=port,
                hint="Connect something to it.",
            )
            for port in inputs
            if port not in wires
        ]


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
        and (one.frozen, one.holds, one.whole) == (other.frozen, other.holds, other.whole)
    )


def _holder(box: Node, drawing: Drawing) -> Holder:
    """Return what holds what is inside a box."""
    if drawing.wires.get(box.name):
        return "Module"  # one that is wired is called as it is: with its hooks, say
    return CONTAINERS.get(str(box.properties.get("target")), "Module")
