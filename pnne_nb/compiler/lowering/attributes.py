"""Maps nodes to the attributes that hold their modules, in the original's order, and finds tied tensors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pnne_nb.compiler.ir.snapshot import GraphSnapshot
from pnne_nb.errors import Diagnostic
from pnne_nb.graph.document import NodeGraph
from pnne_nb.graph.model.node import Node, whole_of
from pnne_nb.graph.schema.structural import EVAL_MODE, TRAINABLE


def member_paths(snapshot: GraphSnapshot) -> dict[str, str]:
    """Return the attribute of each node's module: its name, or ``layers.0`` inside a list."""
    if snapshot.is_drawn:
        return {name: name for name in snapshot.nodes}
    paths: dict[str, str] = {}
    for name, node in snapshot.nodes.items():
        held = node.held or ""
        top = held.partition(".")[0]
        # A copy of such a node, and one beside a node that has the list's name, stands for itself.
        free = top and top not in snapshot.nodes and held not in paths.values()
        paths[name] = held if free and node.shares is None else name
    return paths


def module_paths(snapshot: GraphSnapshot) -> dict[str, str]:
    """Return the path of each node's module below the graph's own; empty for the node that is the whole model."""
    whole = "" if snapshot.id else whole_of(snapshot.nodes)
    return {name: path if name != whole else "" for name, path in member_paths(snapshot).items()}


def node_at(graph: NodeGraph, path: str, id: str = "") -> str:
    """Return the path of the innermost node around a module of the original, by the attribute path of that."""
    for name, node in graph.graphs[id].nodes.items():
        held = node.held or name
        if path == held:
            return name
        if path.startswith(f"{held}.") and node.definition is not None:
            inside = node_at(graph, path.removeprefix(f"{held}."), node.definition)
            return f"{name}.{inside}" if inside else name
    return ""


def whole_clash(node: str, whole: str) -> Diagnostic:
    """Return the diagnostic for a node with the name of an attribute of the module that the model itself is."""
    return Diagnostic(
        code="name-taken",
        message=f"The name {node} is taken: the node {whole} is the whole model, which has an attribute of that name.",
        node=node,
        hint="Rename this node.",
    )


def place_of(node: Node) -> float:
    """Return the position of an imported node among the original's members; infinity for a new node."""
    place = node.origin.member if node.origin is not None else None
    return place if place is not None else float("inf")


def ties(snapshots: Mapping[str, GraphSnapshot], diagnostics: list[Diagnostic]) -> Iterator[tuple[str, str]]:
    """Yield pairs of paths of tied tensors: the alias, and the tensor that it refers to.

    Args:
        snapshots: Every definition by id.
        diagnostics: What cannot be tied any more is added to it.
    """
    nodes = (node for snapshot in snapshots.values() for node in snapshot.nodes.values())
    if not any(node.origin is not None and node.origin.ties for node in nodes):
        return
    places: dict[str, dict[str, str]] = {}
    for name, place, others in _tied(snapshots, snapshots[""]):
        for below, other in others.items():
            path = ".".join(part for part in (place, below) if part)
            found = tuple(_holder(snapshots, each, places) for each in (path, other))
            if "Module" in found:
                continue  # what a graph only holds keeps its own tensors
            if not all(found):
                diagnostics.append(
                    Diagnostic(
                        code="tied-missing",
                        message=f"{f'Its {below}' if below else 'It'} is the same tensor as {other}, "
                        "which is no longer there.",
                        node=name,
                        hint="Add the node again under that name, or replace this one by a new node.",
                    )
                )
                continue
            yield path, other


def _tied(
    snapshots: Mapping[str, GraphSnapshot], snapshot: GraphSnapshot, node: str = "", place: str = ""
) -> Iterator[tuple[str, str, Mapping[str, str]]]:
    """Yield the path of each node with tied tensors, that of its module, and the ties."""
    paths = module_paths(snapshot)
    for name, each in snapshot.nodes.items():
        path, at = (".".join(filter(None, parts)) for parts in ((node, name), (place, paths[name])))
        if each.origin is not None and each.origin.ties and _is_drawn(each):
            yield path, at, each.origin.ties
        if each.definition is not None and each.definition in snapshots and each.shares is None:
            yield from _tied(snapshots, snapshots[each.definition], path, at)


def still(snapshot: GraphSnapshot) -> Iterator[str]:
    """Yield the paths of modules that stay in eval mode."""
    if EVAL_MODE.name in snapshot.property_names:
        paths = module_paths(snapshot)
        for name, node in snapshot.nodes.items():
            if node.properties.get(EVAL_MODE.name) is True and EVAL_MODE in node.spec.properties:
                yield paths[node.shares or name]


def frozen(snapshots: Mapping[str, GraphSnapshot], snapshot: GraphSnapshot) -> Iterator[str]:
    """Yield the paths of modules that are frozen, by their nodes or since they were imported."""
    if snapshot.is_drawn and TRAINABLE.name not in snapshot.property_names:
        return
    paths: dict[str, str] | None = None
    for name, node in snapshot.nodes.items():
        imported = node.origin.frozen if node.origin is not None and node.type != "Module" else ()
        if (node.trainable and not imported) or node.type == "Parameter":
            continue
        paths = paths if paths is not None else module_paths(snapshot)
        if not node.trainable:
            yield paths[node.shares or name]
            continue
        inside = snapshots.get(node.definition) if node.definition is not None else None
        for below in imported if node.shares is None else ():
            # What has been removed or renamed inside since is a new layer.
            if not below or (inside is not None and _is_module(snapshots, inside, below)):
                yield ".".join(part for part in (paths[name], below) if part)


def _is_module(snapshots: Mapping[str, GraphSnapshot], snapshot: GraphSnapshot, path: str) -> bool:
    """Return whether a node inside a graph makes the module of a path."""
    places = {place: name for name, place in module_paths(snapshot).items()}
    parts = path.split(".")
    length = next((n for n in range(len(parts), 0, -1) if ".".join(parts[:n]) in places), 0)
    node = snapshot.nodes[places[".".join(parts[:length])]] if length else None
    if node is None or node.type in ("Module", "Parameter", "Buffer"):
        return False
    inner = snapshots.get(node.definition) if node.definition is not None else None
    if length == len(parts):
        return node.shares is None
    return inner is not None and _is_module(snapshots, inner, ".".join(parts[length:]))


def whole_node(graph: NodeGraph) -> str:
    """Return the node that is the imported module itself, or an empty string."""
    whole = (name for name, node in graph.nodes.items() if node.origin is not None and node.origin.whole)
    return next(whole, "")


def _is_drawn(node: Node) -> bool:
    return node.type != "Module" or node.is_box


def _holder(snapshots: Mapping[str, GraphSnapshot], path: str, places: dict[str, dict[str, str]]) -> str:
    """Return the type of the node that has the tensor of a path, or an empty string.

    Args:
        snapshots: Every definition by id.
        path: Of the tensor.
        places: By definition, the node that each attribute belongs to; what is not there yet is added.
    """
    snapshot, parts = snapshots[""], path.split(".")
    while parts:
        if snapshot.id not in places:
            places[snapshot.id] = {place: name for name, place in module_paths(snapshot).items()}
        names = places[snapshot.id]
        length = next((n for n in range(len(parts), 0, -1) if ".".join(parts[:n]) in names), 0)
        if not length and "" not in names:
            return ""
        node = snapshot.nodes[names[".".join(parts[:length])]]
        if node.definition is None or node.definition not in snapshots:
            return node.type
        snapshot, parts = snapshots[node.definition], parts[length:]
    return ""
