"""Finds what is unfinished or does not fit in a document, without torch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pnne_nb.errors import Diagnostic, GraphError, Retype, near, shown
from pnne_nb.graph.model.content import Content, GraphIndex, find_input, find_output, input_ports
from pnne_nb.graph.model.node import Node, is_uncalled, split_port
from pnne_nb.graph.model.paths import find_node
from pnne_nb.graph.model.validate import Types, sharing_fault
from pnne_nb.graph.schema.habits import layers_of, meant_layer
from pnne_nb.graph.schema.property_types import check
from pnne_nb.graph.schema.spec import NodeSpec, kinds_fit

MAX_NODES = 200_000
"""Nodes in a document, each use of a definition counted: a small hostile file could nest its way to billions."""


MAX_NESTED = 50
"""Graphs inside each other, the outermost included. Torch and Python need several frames for each, of about a thousand."""

_HELD = ("Subgraph", "Module", "Parameter", "Buffer")
"""Types that may stand inside a Module node beside layers: it runs code of its own on them."""

_WEIGHTS = ("weight", "running_mean", "running_var")
"""Inputs of functions that the layers of their names hold."""

TOO_DEEP = Diagnostic(
    code="too-deep",
    message=f"Graphs are nested more than {MAX_NESTED} deep, which is more than Python can call.",
    hint="Ungroup some of the nodes that only contain another.",
)


def lint(content: Content, types: Types) -> list[Diagnostic]:
    """Return every finding: first those about whole graphs, then by node, nested ones at each place of use."""
    total, depth = extent(content)
    if depth > MAX_NESTED:
        return [TOO_DEEP]
    if total > MAX_NODES:
        return [
            Diagnostic(
                code="too-large",
                message=f"With every use of its definitions counted, the graph has {total} nodes; the limit is {MAX_NODES}.",
                hint="Use definitions less often inside each other.",
            )
        ]
    found = list(lint_graph(content, types))
    _lint_inside(content, "", "", types, found)
    return found


def extent(content: Content) -> tuple[int, int]:
    """Count the nodes of the document, each use of a definition counted, and its graphs inside each other."""
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
    """Find what the document as a whole lacks."""
    root = content.graphs[""]
    inputs, outputs = root.interface
    if inputs and outputs:
        return
    # A graph of training nodes (dataset, model, loss …) has no inputs of its own.
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
    """Find what is wrong at some nodes only, and under ``""`` what the whole lacks; see `NodeGraph.diagnostics_at`."""
    found = {"": list(lint_graph(content, types))}
    for path in paths:
        try:
            graph, node, _ = find_node(content, path)
        except GraphError:
            continue
        found[path] = []
        _lint_node(content, graph, node, path, types, found[path])
    return found


# What follows adds to a list instead of yielding: it is asked of every node for each compilation, and seldom finds
# anything.


def _lint_inside(content: Content, id: str, prefix: str, types: Types, found: list[Diagnostic]) -> None:
    graph = content.graphs[id]
    for name in graph.order:
        node = graph.nodes[name]
        _lint_node(content, graph, node, prefix + name, types, found)
        if node.definition is not None:
            _lint_inside(content, node.definition, f"{prefix}{name}.", types, found)


def _lint_node(
    content: Content, graph: GraphIndex, node: Node, path: str, types: Types, found: list[Diagnostic]
) -> None:
    """Find what is wrong at one node, shown at `path`, or with the nested graph that it shows as a whole."""
    spec = types.get(node.type)
    if spec is None:
        found.append(
            Diagnostic(
                code="unknown-type",
                message=f"There is no node type {shown(node.type)}.{near(node.type, types)}",
                node=path,
                hint="Register it with pn.register_node, or replace the node.",
            )
        )
        return
    _lint_properties(graph, node, spec, path, found)
    if graph.id and content.is_box(graph.id):
        found += _lint_held(graph, node, spec, path)
    else:
        _lint_inputs(content, graph, node, spec, path, types, found)
    if node.type == "Subgraph" and node.definition is not None and not content.graphs[node.definition].interface[1]:
        found.append(
            Diagnostic(
                code="no-output",
                message="The nested graph has no output, so it computes nothing.",
                node=path,
                hint="Enter it and add an Output node.",
            )
        )


def _lint_properties(graph: GraphIndex, node: Node, spec: NodeSpec, path: str, found: list[Diagnostic]) -> None:
    for name, value in node.properties.items():
        prop = spec.property_named(name)
        if prop is None:
            names = [known.name for known in spec.properties]
            found.append(
                Diagnostic(
                    code="unknown-property",
                    message=f"{node.type} has no property {shown(name)}.{near(name, names)}",
                    node=path,
                    hint="Reset the property.",
                )
            )
            continue
        try:
            check(prop.type, value)
        except ValueError as error:
            found.append(
                Diagnostic(
                    code="bad-value",
                    message=f"{name} cannot be {shown(value)}: it must be {error}.",
                    node=path,
                    hint=f"Set {name} to a value that fits.",
                )
            )
    if node.shares is not None:
        if reason := sharing_fault(graph, node.name, node.type, node.shares):
            found.append(
                Diagnostic(
                    code="bad-sharing",
                    message=f"shares cannot be {node.shares!r}: {reason}",
                    node=path,
                    hint="Choose another node to share with, or reset shares.",
                )
            )
        # The shared module is built from its owner's properties.
        return
    for prop in spec.required:
        if prop.name in node.properties or (prop.role == "call" and graph.feeding(node.name, prop.name) is not None):
            continue
        found.append(
            Diagnostic(
                code="missing-property",
                message=f"{prop.name} is not set, and has no default.",
                node=path,
                hint=f"Set {prop.name}{' or connect it' if prop.role == 'call' else ''}{_explained(prop.doc)}.",
            )
        )


def _lint_inputs(
    content: Content, graph: GraphIndex, node: Node, spec: NodeSpec, path: str, types: Types, found: list[Diagnostic]
) -> None:
    fed: set[str] = set()
    for name, key in graph.incoming[node.name].items():
        source = graph.edges[key].source
        giver, output = split_port(source)
        start = find_output(content, graph.nodes[giver], output, types)
        end = find_input(content, node, name, types)
        if end is not None:
            fed.add(end.name)
        if end is None:
            message = f"{node.type} has no input {shown(name)}, which {source} is connected to."
        elif start is None:
            message = (
                f"{giver} ({graph.nodes[giver].type}) has no output {shown(output)}, which {name} is connected to."
            )
        elif not kinds_fit(start.kind, end.kind):
            message = f"{name} takes a {end.kind}, and {source} gives a {start.kind}."
        else:
            continue
        found.append(Diagnostic(code="bad-edge", message=message, node=path, port=name, hint="Remove the edge."))
    if not fed and is_uncalled(node):
        return
    for port in input_ports(content, node, types) or ():
        if port.name in fed or port.optional or _can_be_typed(spec, port.name):
            continue
        hint, fix = _function_or_layer(spec, path, port.name, types)
        named = "" if port.name == "input" else f" {port.name}"
        found.append(
            Diagnostic(
                code="unconnected-input",
                message=f"Input{named} is not connected.",
                node=path,
                port=port.name,
                hint=hint,
                fix=fix,
            )
        )


def _function_or_layer(spec: NodeSpec, path: str, port: str, types: Types) -> tuple[str, Retype | None]:
    """Say what to do about an input without an edge; a weight that a layer would have may mean that the layer is meant."""
    layers = layers_of(spec, types) if port in _WEIGHTS and spec.kind == "function" else []
    if not layers:
        return "Connect an output to it.", None
    hint = f"{spec.type} is the function, to which a Parameter node can be connected. {meant_layer(layers)}"
    return hint, Retype(path, layers[0].type, f"Change {path} to {layers[0].type}") if len(layers) == 1 else None


def _explained(doc: str) -> str:
    """Return a description as the end of a sentence: torch's differ in their first letter and their full stop."""
    text = doc.strip().rstrip(".")
    lowered = text[:1].lower() + text[1:] if text[1:2].islower() else text
    return f": {lowered}" if text else ""


def _can_be_typed(spec: NodeSpec, port: str) -> bool:
    """Return whether a value may be typed in instead (``add.other``): its absence is a missing property."""
    prop = spec.property_named(port)
    return prop is not None and prop.role == "call"


def _lint_held(graph: GraphIndex, node: Node, spec: NodeSpec, path: str) -> Iterator[Diagnostic]:
    """Say what has no effect at a node that is only held: what calls it is not drawn."""
    if node.type not in _HELD and spec.kind != "module":
        yield Diagnostic(
            code="box-never-runs",
            message=f"A {node.type} is never run here: the module around it runs code of its own, which calls layers "
            "and blocks by their names.",
            node=path,
            hint="Remove it, or put it into a block that the code calls.",
        )
    for edge in graph.edges_into(node.name):
        yield Diagnostic(
            code="box-edge",
            message=f"The edge from {edge.source} is not followed: the module around it runs code of its own.",
            node=path,
            port=edge.target.partition(".")[2],
            hint="Remove the edge.",
        )
    for name in ("checkpoint", "device", "inside", "ablate"):
        if node.properties.get(name):
            yield Diagnostic(
                code="box-property",
                message=f"{name} has no effect here: the module around it runs code of its own.",
                node=path,
                hint=f"Reset {name} here, and set it on the module around it.",
            )
