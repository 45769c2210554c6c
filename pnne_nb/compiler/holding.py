"""Which attributes hold the modules of nodes, in which order, and which tensors of an imported module are one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pnne_nb.compiler.reading import Drawing
from pnne_nb.errors import Diagnostic
from pnne_nb.graph.boxes import whole_of
from pnne_nb.graph.document import NodeGraph
from pnne_nb.graph.node import Node


def member_paths(drawing: Drawing) -> dict[str, str]:
    """Return the attribute that holds each node's module: its name, or ``layers.0`` for what stands in a list."""
    paths: dict[str, str] = {}
    for name, node in drawing.nodes.items():
        held = node.origin.get("held") if isinstance(node.origin, dict) else None
        top = held.partition(".")[0] if isinstance(held, str) else ""
        # A copy of such a node, and one beside a node that has the list's name, stands for itself.
        free = top and top not in drawing.nodes and held not in paths.values()
        paths[name] = str(held) if free and node.shares is None else name
    return paths


def module_paths(drawing: Drawing) -> dict[str, str]:
    """Return where each node's module is below the graph's own: an empty path for a node that is the whole model."""
    whole = "" if drawing.id else whole_of(drawing.nodes)
    return {name: path if name != whole else "" for name, path in member_paths(drawing).items()}


def whole_clash(node: str, whole: str) -> Diagnostic:
    """Say that a node of the outermost graph has a name that the module needs which the model itself is."""
    return Diagnostic(
        code="name-taken",
        message=f"The name {node} is taken: the model is what {whole} is, which has something of that name.",
        node=node,
        hint="Rename this node.",
    )


def place_of(node: Node) -> float:
    """Return where the original of an imported node stands among its members; infinity for a new node."""
    place = node.origin.get("member") if isinstance(node.origin, dict) else None
    return place if isinstance(place, int) else float("inf")


def ties(drawings: Mapping[str, Drawing], diagnostics: list[Diagnostic]) -> Iterator[tuple[str, str]]:
    """Yield the tensors of an imported module that have several names: where they go, and where they are.

    Args:
        drawings: Every definition by id.
        diagnostics: What cannot be tied any more is added to it.
    """
    root = drawings[""]
    paths = module_paths(root)
    places: dict[str, dict[str, str]] = {}
    for name, node in root.nodes.items():
        tied = node.origin.get("ties") if isinstance(node.origin, dict) else None
        for below, other in tied.items() if isinstance(tied, dict) and _is_drawn(node) else ():
            path = ".".join(part for part in (paths[name], below) if part)
            found = tuple(_holder(drawings, each, places) for each in (path, str(other)))
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
            yield path, str(other)


def frozen(drawings: Mapping[str, Drawing], drawing: Drawing) -> Iterator[str]:
    """Yield the paths of the modules that are not trained, as they were not where they were imported from.

    Args:
        drawings: Every definition by id.
        drawing: The graph that holds them.
    """
    paths: dict[str, str] | None = None
    for name, node in drawing.nodes.items():
        said = node.origin.get("frozen") if isinstance(node.origin, dict) else None
        if not isinstance(said, (tuple, list)) or node.type == "Module" or node.shares is not None:
            continue
        paths = paths if paths is not None else module_paths(drawing)
        inside = drawings.get(node.definition) if node.definition is not None else None
        for below in said:
            # What has been removed or renamed inside since is a new layer.
            if isinstance(below, str) and (not below or (inside is not None and _is_module(drawings, inside, below))):
                yield ".".join(part for part in (paths[name], below) if part)


def _is_module(drawings: Mapping[str, Drawing], drawing: Drawing, path: str) -> bool:
    """Whether a node inside a graph makes the module of a path."""
    places = {place: name for name, place in module_paths(drawing).items()}
    parts = path.split(".")
    length = next((n for n in range(len(parts), 0, -1) if ".".join(parts[:n]) in places), 0)
    node = drawing.nodes[places[".".join(parts[:length])]] if length else None
    if node is None or node.type in ("Module", "Parameter", "Buffer"):
        return False
    inner = drawings.get(node.definition) if node.definition is not None else None
    if length == len(parts):
        return node.shares is None
    return inner is not None and _is_module(drawings, inner, ".".join(parts[length:]))


def whole_node(graph: NodeGraph) -> str:
    """Return the node that stands for the whole module that a document was imported from, or an empty string."""
    whole = (name for name, node in graph.nodes.items() if isinstance(node.origin, dict) and node.origin.get("whole"))
    return next(whole, "")


def _is_drawn(node: Node) -> bool:
    return node.type != "Module" or node.is_box


def _holder(drawings: Mapping[str, Drawing], path: str, places: dict[str, dict[str, str]]) -> str:
    """Return the type of the node that has the tensor of a path, or an empty string.

    Args:
        drawings: Every definition by id.
        path: Of the tensor.
        places: By definition, the node that each attribute belongs to; what is not there yet is added.
    """
    drawing, parts = drawings[""], path.split(".")
    while parts:
        if drawing.id not in places:
            places[drawing.id] = {place: name for name, place in module_paths(drawing).items()}
        names = places[drawing.id]
        length = next((n for n in range(len(parts), 0, -1) if ".".join(parts[:n]) in names), 0)
        if not length and "" not in names:
            return ""
        node = drawing.nodes[names[".".join(parts[:length])]]
        if node.definition is None or node.definition not in drawings:
            return node.type
        drawing, parts = drawings[node.definition], parts[length:]
    return ""
