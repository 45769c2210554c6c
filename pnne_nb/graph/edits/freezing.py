"""Plans the ops that freeze nodes and blocks, or have them trained again, and those that give a graph another head."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal

from msgspec.structs import replace

from pnne_nb.errors import GraphError, shown
from pnne_nb.graph.edits.bulk import Chosen, matching
from pnne_nb.graph.edits.definitions import own_definition
from pnne_nb.graph.model.content import Content, GraphIndex
from pnne_nb.graph.model.node import Node, adding, split_port
from pnne_nb.graph.model.ops import Connect, Op, RemoveNode, RenameNode, ResetProperty, SetOrigin, SetProperty
from pnne_nb.graph.model.paths import find_node, frozen_around, paths_in
from pnne_nb.graph.model.validate import Types
from pnne_nb.graph.schema.names import free_name
from pnne_nb.graph.schema.structural import EVAL_MODE, TRAINABLE

Head = Literal["out_features", "out_channels"]
"""The property of a layer that says how many classes it tells apart."""


def chosen_paths(content: Content, chosen: Iterable[Chosen], types: Types, verb: str) -> list[str]:
    """Return the paths of the outermost nodes with weights that are meant, in the order of the document.

    Raises:
        UnknownNodeError: If there is no such node.
        GraphError: If nothing is named, a node has no weights, or a pattern fits none that has.
    """
    refs = [ref for each in chosen for ref in ([each] if isinstance(each, (str, Node)) else each)]
    if not refs:
        raise GraphError(f'Name the nodes: graph.{verb}("layer1", "bn*"), or graph.{verb}("*") for all.')
    found: set[str] = set()
    for ref in refs:
        if isinstance(ref, str) and any(sign in ref for sign in "*?["):
            fitting = [path for path in matching(content, ref) if _has_weights(content, path, types)]
            if not fitting:
                raise GraphError(f"No node with weights fits {shown(ref)}. graph.find() lists the paths of all nodes.")
            found.update(fitting)
            continue
        _, node, prefix = find_node(content, ref)
        path = f"{prefix}{node.name}"
        if not _has_weights(content, path, types):
            raise GraphError(f"{path} has no weights of its own: training does not change a {node.type}.")
        found.add(path)
    return [path for path in paths_in(content) if path in found and not any(map(found.__contains__, _above(path)))]


def unshare(content: Content, paths: Iterable[str]) -> Iterator[list[Op]]:
    """Yield the ops that give blocks a definition of their own in which some nodes change, and not those of other uses.

    Each list is made for the document with the ones before applied.
    """
    meant = dict.fromkeys(paths)
    uses = _uses(content)
    for path in meant:
        graph, node, _ = find_node(content, path)
        if all(other in meant for other in uses[graph.id, node.name]):
            continue
        for above in reversed(_above(path)):
            holder, block, _ = find_node(content, above)
            if block.definition is not None:
                yield own_definition(content, holder, block, block.definition)
        uses = _uses(content)


def freeze(content: Content, path: str, types: Types, *, eval_mode: bool) -> list[Op]:
    """Return the ops that freeze a node, or the node whose weights it shares."""
    graph, node, _ = find_node(content, path)
    if node.type == "Parameter":
        return [SetProperty(node.name, "requires_grad", False, graph.id)]
    ops: list[Op] = [SetProperty(node.name, TRAINABLE.name, False, graph.id)]
    if eval_mode and EVAL_MODE in types[node.type].properties:
        ops.append(SetProperty(node.name, EVAL_MODE.name, True, graph.id))
    return ops


def unfreeze(content: Content, path: str, types: Types) -> Iterator[list[Op]]:
    """Yield the ops that have a node trained again, one list after the other.

    A frozen block around it is trained again too, and its other nodes are frozen one by one.
    """
    while around := frozen_around(content, path.rpartition(".")[0]):
        yield from unshare(content, [around])
        graph, block, _ = find_node(content, around)
        assert block.definition is not None, "there is a node inside"
        inside = content.graphs[block.definition]
        yield _released(graph, block)
        others = [each for name in inside.order if (each := f"{around}.{name}") != path]
        frozen = [each for each in others if _has_weights(content, each, types)]
        yield from unshare(content, frozen)
        still = block.properties.get(EVAL_MODE.name) is True
        yield [op for each in frozen for op in freeze(content, each, types, eval_mode=still)]
    yield from unshare(content, [path])
    graph, node, _ = find_node(content, path)
    yield _released(graph, node)


def head_of(content: Content) -> str:
    """Return the path of the layer that makes the result of the graph: the last one with a number of features or channels.

    Raises:
        GraphError: If there is none, or results come from several.
    """
    found = list(dict.fromkeys(path for output in content.graphs[""].interface[1] for path in _makers(content, output)))
    if len(found) == 1:
        return found[0]
    where = (
        f"{len(found)} layers make its results ({', '.join(found)})" if found else "no Linear or Conv makes its result"
    )
    raise GraphError(f'The head is not clear: {where}. Name the layer: graph.replace_head(10, at="fc").')


def replace_head(content: Content, path: str, classes: int) -> list[Op]:
    """Return the ops that put a new layer of `classes` classes in the place of a layer, under its name.

    Raises:
        GraphError: If it has no number of features or channels, or shares its weights.
    """
    graph, node, _ = find_node(content, path)
    size = _size_of(node)
    if size is None:
        raise GraphError(
            f"{path} is no head: a {node.type} has no number of features or channels. Name a Linear or a Conv."
        )
    if node.shares is not None or node.name in graph.sharers:
        other = node.shares or next(iter(graph.sharers[node.name]))
        raise GraphError(
            f"{path} shares its weights with {other}: a new head would change both. Remove one of them first."
        )
    kept = {name: value for name, value in node.properties.items() if name not in (TRAINABLE.name, EVAL_MODE.name)}
    old = free_name(node.name, graph.nodes)
    edges = [*graph.edges_into(node.name), *graph.edges_out_of(node.name)]
    # A layer of the old name would take over the old weights; one that comes after a rename is new.
    return [
        RenameNode(node.name, old, graph.id),
        RemoveNode(old, graph.id),
        replace(adding(node, graph.id, graph.index_of(node.name)), properties={**kept, size: classes}, origin=None),
        *(Connect(edge.source, edge.target, graph.id) for edge in edges),
    ]


def _makers(content: Content, output: str, within: str = "", prefix: str = "") -> Iterator[str]:
    """Yield the paths of the last layers with a number of features before an Output node."""
    graph, pending, seen = content.graphs[within], [output], {output}
    while pending:
        for edge in graph.edges_into(pending.pop()):
            name, port = split_port(edge.source)
            node = graph.nodes[name]
            if (
                node.type == "Subgraph"
                and node.definition is not None
                and port in content.graphs[node.definition].nodes
            ):
                inside = list(_makers(content, port, node.definition, f"{prefix}{name}."))
                yield from inside
                if inside:
                    continue
            elif _size_of(node) is not None:
                yield f"{prefix}{name}"
                continue
            if name not in seen:
                seen.add(name)
                pending.append(name)


def _size_of(node: Node) -> Head | None:
    names: tuple[Head, ...] = ("out_features", "out_channels")
    return next((name for name in names if name in node.properties), None)


def _released(graph: GraphIndex, node: Node) -> list[Op]:
    """Return the ops that take the marks of a frozen node away."""
    if node.type == "Parameter":
        return [ResetProperty(node.name, "requires_grad", graph.id)]
    set_here = [name for name in (TRAINABLE.name, EVAL_MODE.name) if name in node.properties]
    ops: list[Op] = [ResetProperty(node.name, name, graph.id) for name in set_here]
    if node.origin is not None and node.origin.frozen:
        ops.append(SetOrigin(node.name, replace(node.origin, frozen=()), graph.id))
    return ops


def _uses(content: Content) -> dict[tuple[str, str], list[str]]:
    """Return the paths of every node, by the id of its graph and its name."""
    found: dict[tuple[str, str], list[str]] = {}

    def walk(graph: GraphIndex, prefix: str) -> None:
        for name in graph.order:
            found.setdefault((graph.id, name), []).append(f"{prefix}{name}")
            definition = graph.nodes[name].definition
            if definition is not None:
                walk(content.graphs[definition], f"{prefix}{name}.")

    walk(content.graphs[""], "")
    return found


def _above(path: str) -> list[str]:
    """Return the paths of the blocks around a node, the innermost first."""
    found = []
    while path := path.rpartition(".")[0]:
        found.append(path)
    return found


def _has_weights(content: Content, path: str, types: Types) -> bool:
    _, node, _ = find_node(content, path)
    if node.type == "Parameter":
        return not node.of
    spec = types.get(node.type)
    return spec is not None and TRAINABLE in spec.properties
