"""Finds faults and unfinished parts of a document, without torch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import final

from pnne_nb.errors import Diagnostic, GraphError, Retype, near, shown
from pnne_nb.graph.model.content import OWN_PORTS, Content, GraphIndex, find_input, find_output, input_ports
from pnne_nb.graph.model.node import Node, is_uncalled
from pnne_nb.graph.model.paths import find_node
from pnne_nb.graph.model.validate import Types, sharing_fault
from pnne_nb.graph.schema.habits import layers_of, meant_layer
from pnne_nb.graph.schema.property_types import check
from pnne_nb.graph.schema.spec import NodeSpec, Port, kinds_fit
from pnne_nb.graph.schema.structural import SHARES

MAX_NODES = 200_000
"""Nodes in a document, each use of a definition counted: a small hostile file could nest its way to billions."""


MAX_NESTED = 50
"""Depth of nested graphs, the outermost included. Torch and Python need several of about a thousand stack frames for each."""

_HELD = ("Subgraph", "Module", "Parameter", "Buffer")
"""Types of nodes that may be inside a Module node beside layers: its own code uses them."""

_WEIGHTS = ("weight", "running_mean", "running_var")
"""Inputs of functions that are weights of the layers of the same name."""

TOO_DEEP = Diagnostic(
    code="too-deep",
    message=f"Graphs are nested more than {MAX_NESTED} deep, which is more than Python can call.",
    hint="Ungroup some of the nodes that only contain another.",
)


def lint(content: Content, types: Types) -> list[Diagnostic]:
    """Return all findings: first those about whole graphs, then those at nodes, nested ones at each place of use."""
    total, depth = extent(content)
    if depth > MAX_NESTED:
        return [TOO_DEEP]
    if total > MAX_NODES:
        return [
            Diagnostic(
                "too-large",
                f"With every use of its definitions counted, the graph has {total} nodes; the limit is {MAX_NODES}.",
                hint="Use definitions less often inside each other.",
            )
        ]
    linter = _Linter(content, types)
    linter.found += lint_graph(content, types)
    linter.graph("", "")
    return linter.found


def extent(content: Content) -> tuple[int, int]:
    """Return the number of nodes, with every use of a definition counted, and the depth of nested graphs."""
    sizes: dict[str, int] = {}
    depths: dict[str, int] = {}
    pending = [""]
    while pending:
        graph = content.graphs[pending[-1]]
        unknown = [id for id in graph.shown if id not in sizes]
        if unknown:
            pending += unknown
            continue
        id = pending.pop()
        sizes[id] = len(graph.nodes) + sum(sizes[inner] * count for inner, count in graph.shown.items())
        depths[id] = 1 + max((depths[inner] for inner in graph.shown), default=0)
    return sizes[""], depths[""]


def lint_graph(content: Content, types: Types) -> Iterator[Diagnostic]:
    """Find what is missing in the document as a whole."""
    root = content.graphs[""]
    inputs, outputs = root.interface
    if inputs and outputs:
        return
    # A graph of training nodes (dataset, model, loss …) has no Input nodes.
    if any(spec.kind == "training" for node in root.nodes.values() if (spec := types.get(node.type)) is not None):
        return
    if not inputs:
        yield Diagnostic(
            code="no-input",
            message="The graph has no input, so nothing can be fed to it.",
            hint="Add an Input node and connect it to the first layer.",
        )
    if not outputs:
        yield Diagnostic(
            code="no-output",
            message="The graph has no output, so it computes nothing.",
            hint="Add an Output node and connect the last layer to it.",
        )


def lint_at(content: Content, paths: Iterable[str], types: Types) -> dict[str, list[Diagnostic]]:
    """Find faults at some nodes only, and under ``""`` those of the whole; see `NodeGraph.diagnostics_at`."""
    found = {"": list(lint_graph(content, types))}
    linter = _Linter(content, types)
    for path in paths:
        try:
            graph, node, _ = find_node(content, path)
        except GraphError:
            continue
        found[path] = linter.found = []
        linter.node(graph, node, path, boxed=bool(graph.id) and content.is_box(graph.id))
    return found


@final
class _Approved:
    """The results of checks that hold for every node of one type, so that they are not repeated.

    Attributes:
        spec: The type.
        needed: The inputs that each node must have; None if the nodes have ports of their own.
        numbers: Pairs of a property and a whole number that fits.
        joints: The input at the end of an edge, by the port that the edge names, the type of its source and the output there.
    """

    def __init__(self, spec: NodeSpec) -> None:
        self.spec = spec
        self.needed = None if spec.type in OWN_PORTS else _needed(spec, spec.inputs)
        self.numbers: set[tuple[str, int]] = set()
        self.joints: dict[tuple[str, str, str], str] = {}


@final
class _Linter:
    """Finds faults of nodes.

    Attributes:
        found: The findings. A list, not a generator: every compilation checks every node, and faults are rare.
    """

    def __init__(self, content: Content, types: Types) -> None:
        self.found: list[Diagnostic] = []
        self._content = content
        self._types = types
        self._approved: dict[str, _Approved] = {}

    def graph(self, id: str, prefix: str) -> None:
        """Find faults at the nodes of a graph, and inside those that show graphs."""
        graph = self._content.graphs[id]
        boxed = bool(id) and self._content.is_box(id)
        for name in graph.order:
            node = graph.nodes[name]
            self.node(graph, node, prefix + name, boxed=boxed)
            if node.type in OWN_PORTS and node.definition is not None:
                self.graph(node.definition, f"{prefix}{name}.")

    def node(self, graph: GraphIndex, node: Node, path: str, *, boxed: bool) -> None:
        """Find faults of one node, or of the nested graph that it shows as a whole.

        Args:
            graph: The graph of the node.
            node: The node.
            path: Its path from the root.
            boxed: Whether the graph is inside a Module node, whose own code runs it.
        """
        approved = self._approved.get(node.type)
        if approved is None:
            spec = self._types.get(node.type)
            if spec is None:
                message = f"There is no node type {shown(node.type)}.{near(node.type, self._types)}"
                hint = "Register it with pn.register_node, or replace the node."
                self._report("unknown-type", message, path, hint)
                return
            approved = self._approved[node.type] = _Approved(spec)
        self._properties(graph, node, approved, path)
        if boxed:
            self._held(graph, node, approved.spec, path)
        else:
            self._inputs(graph, node, approved, path)
        if node.type == "Subgraph" and (inner := node.definition) and not self._content.graphs[inner].interface[1]:
            message = "The nested graph has no output, so it computes nothing."
            self._report("no-output", message, path, "Enter it and add an Output node.")

    def _properties(self, graph: GraphIndex, node: Node, approved: _Approved, path: str) -> None:
        spec = approved.spec
        for name, value in node.properties.items():
            if type(value) is int and (name, value) in approved.numbers:
                continue
            prop = spec.property_named(name)
            if prop is None:
                message = (
                    f"{node.type} has no property {shown(name)}.{near(name, (known.name for known in spec.properties))}"
                )
                self._report("unknown-property", message, path, "Reset the property.")
                continue
            try:
                check(prop.type, value)
            except ValueError as error:
                message = f"{name} cannot be {shown(value)}: it must be {error}."
                self._report("bad-value", message, path, f"Set {name} to a value that fits.")
            else:
                if type(value) is int:
                    approved.numbers.add((name, value))
        if node.of and graph.holder(node.of) is None:
            message = f"of cannot be {shown(node.of)}: there is no such node."
            self._report("bad-sharing", message, path, "Name a tensor of another node of this graph, or reset of.")
        if SHARES.name in node.properties and node.shares is not None:
            if reason := sharing_fault(graph, node.name, node.type, node.shares):
                message = f"shares cannot be {node.shares!r}: {reason}"
                self._report("bad-sharing", message, path, "Choose another node to share with, or reset shares.")
            # The shared module is built from its owner's properties.
            return
        for prop in spec.required:
            if prop.name in node.properties:
                continue
            wirable = prop.role == "call"
            if not wirable or graph.feeding(node.name, prop.name) is None:
                hint = f"Set {prop.name}{' or connect it' if wirable else ''}{_explained(prop.doc)}."
                message = f"{prop.name} is not set, and has no default."
                self._report("missing-property", message, path, hint)

    def _inputs(self, graph: GraphIndex, node: Node, approved: _Approved, path: str) -> None:
        incoming = graph.incoming[node.name]
        fed: set[str] = set()
        for name, key in incoming.items():
            source = graph.edges[key].source
            giver, _, output = source.partition(".")
            origin = graph.nodes[giver]
            joint = name, origin.type, output
            known = approved.joints.get(joint)
            if known is not None:
                if len(incoming) == 1 and approved.needed == (known,):  # what most nodes need
                    return
                fed.add(known)
                continue
            start = find_output(self._content, origin, output, self._types)
            end = find_input(self._content, node, name, self._types)
            if end is not None:
                fed.add(end.name)
            if end is None:
                message = f"{node.type} has no input {shown(name)}, which {source} is connected to."
            elif start is None:
                message = f"{giver} ({origin.type}) has no output {shown(output)}, which {name} is connected to."
            elif not kinds_fit(start.kind, end.kind):
                message = f"{name} takes a {end.kind}, and {source} gives a {start.kind}."
            else:
                if approved.needed is not None and origin.type not in OWN_PORTS and not start.when:
                    approved.joints[joint] = end.name
                continue
            self._report("bad-edge", message, path, "Remove the edge.", name)
        needed = approved.needed
        if not fed and is_uncalled(node):
            return
        if needed is None:
            needed = _needed(approved.spec, input_ports(self._content, node, self._types) or ())
        for port in needed:
            if port in fed:
                continue
            hint, fix = _function_or_layer(approved.spec, path, port, self._types)
            message = f"Input{'' if port == 'input' else f' {port}'} is not connected."
            self._report("unconnected-input", message, path, hint, port, fix)

    def _held(self, graph: GraphIndex, node: Node, spec: NodeSpec, path: str) -> None:
        """Find what has no effect at a node inside a Module node, whose own code uses it."""
        if node.type not in _HELD and spec.kind != "module":
            message = (
                f"A {node.type} is never run here: the module around it runs code of its own, which calls layers "
                "and blocks by their names."
            )
            self._report("box-never-runs", message, path, "Remove it, or put it into a block that the code calls.")
        for edge in graph.edges_into(node.name):
            message = f"The edge from {edge.source} is not followed: the module around it runs code of its own."
            self._report("box-edge", message, path, "Remove the edge.", edge.target.partition(".")[2])
        for name in ("checkpoint", "device", "inside", "ablate"):
            if node.properties.get(name):
                message = f"{name} has no effect here: the module around it runs code of its own."
                self._report("box-property", message, path, f"Reset {name} here, and set it on the module around it.")

    def _report(
        self, code: str, message: str, path: str, hint: str, port: str | None = None, fix: Retype | None = None
    ) -> None:
        self.found.append(Diagnostic(code, message, path, port, hint, fix=fix))


def _needed(spec: NodeSpec, ports: Iterable[Port]) -> tuple[str, ...]:
    """Return the inputs that must be connected: those that are neither optional nor typed in (``add.other``)."""
    call = {prop.name for prop in spec.passed}  # a missing one is a missing property
    return tuple(port.name for port in ports if not port.optional and port.name not in call)


def _function_or_layer(spec: NodeSpec, path: str, port: str, types: Types) -> tuple[str, Retype | None]:
    """Return the hint and the fix for an input without an edge: for a weight, the layer may have been meant."""
    layers = layers_of(spec, types) if port in _WEIGHTS and spec.kind == "function" else []
    if not layers:
        return "Connect an output to it.", None
    hint = f"{spec.type} is the function, to which a Parameter node can be connected. {meant_layer(layers)}"
    return hint, Retype(path, layers[0].type, f"Change {path} to {layers[0].type}") if len(layers) == 1 else None


def _explained(doc: str) -> str:
    """Return a description as the end of a sentence: in lower case, and without the full stop."""
    text = doc.strip().rstrip(".")
    lowered = text[:1].lower() + text[1:] if text[1:2].islower() else text
    return f": {lowered}" if text else ""
