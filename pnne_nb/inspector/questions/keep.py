"""`pn.keep`: writes a change of a layer's output into a graph, where it is trained, exported and part of the source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from pnne_nb.compiler.shapes.infer import infer_shapes
from pnne_nb.errors import InspectionError, expect
from pnne_nb.graph.document import NodeGraph
from pnne_nb.graph.model.node import Node
from pnne_nb.inspector.questions.changes import Change
from pnne_nb.inspector.questions.intervene import Intervention


def keep(graph: NodeGraph, changes: Mapping[str, Change | Sequence[Change]] | Intervention) -> list[Node]:
    """Write changes into a graph, as one undoable edit: a multiplication by a mask behind each node.

    ```python
    pn.keep(graph, {"conv1": pn.zero(channels=[3, 17])})
    net = pn.compile(graph, reuse=net)
    ```

    Args:
        graph: The document.
        changes: `pn.zero` and `pn.scale` by node, path or pattern of paths; several as a list. Of an
            intervention, those of its rows that are on. Heads cannot be kept.

    Returns:
        The multiplications.

    Raises:
        ArgumentError: If `graph` is no graph, or `changes` neither.
        UnknownNodeError: If there is no such node.
        InspectionError: If a change is another one, or the part is none of the node's output or of a size that is not known.
        ShapeError: If the graph's shapes do not fit.
    """
    expect(graph, NodeGraph, "graph", "a NodeGraph", "pn.from_module(net, args=(x,)) makes one of a module.")
    if isinstance(changes, Intervention):
        layers = dict.fromkeys(row.layer for row in changes.rows if row.on)
        changes = {layer: [row.change for row in changes.rows if row.on and row.layer == layer] for layer in layers}
    expect(changes, Mapping, "changes", "a mapping of nodes to changes", 'Write {"conv1": pn.zero(channels=[3])}.')
    made: list[Node] = []
    with graph.transaction("Keep changes"):
        for pattern, listed in changes.items():
            each: Sequence[object] = listed if isinstance(listed, Sequence) else [listed]
            for change in each:
                if not isinstance(change, Change) or change.factor is None or change.part.heads is not None:
                    raise InspectionError(
                        f"{change!r} cannot be kept in a graph: what can is pn.zero and pn.scale, of channels, tokens, units or"
                        " the whole output."
                    )
                named = graph.find(pattern, inside=True) if any(sign in pattern for sign in "*?[") else [pattern]
                made += [_masked(graph, path, change, change.factor) for path in named]
    return made


def _masked(graph: NodeGraph, path: str, change: Change, factor: float) -> Node:
    kind = graph[path].spec.torch
    port = next(iter(graph[path].spec.present_outputs({})))
    shape = infer_shapes(graph)[f"{path}.{port.name}"].shape
    [node] = graph.insert_after(path, "mul")
    # A size that is a name has one place in the mask, for all of them; examples always do.
    sizes = [1, *(size if isinstance(size, int) else 1 for size in shape[1:])]
    inside = change.part.mask(torch.empty(sizes), kind if isinstance(kind, type) else object, path)
    if inside is None:
        graph.set(node, other=factor)
        return node
    mask = torch.where(inside, factor, 1.0)
    name = f"{node.path}_mask"
    values = _nested(mask.tolist())
    graph.add("Buffer", name=name, shape=tuple(mask.shape), values=values, persistent=False)
    graph.connect(f"{name}.output", f"{node.path}.other")
    return node


def _nested(values: object) -> object:
    return tuple(_nested(each) for each in values) if isinstance(values, list) else values
