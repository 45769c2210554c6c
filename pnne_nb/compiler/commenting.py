"""What shapes say in source that is shown: at the end of each line, and about what is taken apart."""

from __future__ import annotations

from pnne_nb.compiler.program import Ref
from pnne_nb.compiler.shapes import Shapes, TensorSpec
from pnne_nb.compiler.unifying import Comments
from pnne_nb.compiler.unpacking import Parts
from pnne_nb.graph.document import NodeGraph


def comments(graph: NodeGraph, shapes: Shapes) -> Comments:
    """Return what to say at each node's line: its shapes, where they are the same in every use."""
    found: dict[tuple[str, str], set[str]] = {}
    by_node: dict[str, list[TensorSpec]] = {}
    for path, spec in shapes.tensors.items():
        by_node.setdefault(path.rpartition(".")[0], []).append(spec)
    for path, specs in by_node.items():
        definition, name = _written_at(graph, path)
        found.setdefault((definition, name), set()).add(", ".join(map(str, specs)))
    return {place: next(iter(texts)) for place, texts in found.items() if len(texts) == 1}


def parts_of(graph: NodeGraph, shapes: Shapes) -> dict[str, Parts]:
    """Return how many parts values have, where they have as many in every use; 0 elsewhere."""
    found: dict[str, Parts] = {}
    for path, count in (*((path, len(spec.shape)) for path, spec in shapes.tensors.items()), *shapes.items.items()):
        node, _, port = path.rpartition(".")
        definition, name = _written_at(graph, node)
        parts = found.setdefault(definition, Parts({}, {}))
        counts = parts.sizes if path in shapes.tensors else parts.items
        counts[Ref(name, port)] = count if counts.get(Ref(name, port), count) == count else 0
    return found


def _written_at(graph: NodeGraph, path: str) -> tuple[str, str]:
    """Return the definition that a node is written in, and its name there."""
    prefix, _, name = path.rpartition(".")
    return (graph[prefix].definition if prefix else "") or "", name
