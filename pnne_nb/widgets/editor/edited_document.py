"""Finds the document that an editor is made for: a graph, an imported module, or a new one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor, nn

from pnne_nb import compiler
from pnne_nb.errors import ArgumentError
from pnne_nb.graph.document import NodeGraph


def document_of(
    graph: object,
    args: Sequence[Any] | Tensor,
    kwargs: Mapping[str, Any] | None,
    input_size: Sequence[int] | Sequence[Sequence[int]] | None,
) -> NodeGraph:
    """Return the document that somebody wants to edit; for the arguments and what is raised, see `GraphEditor`."""
    if isinstance(graph, nn.Module):
        if isinstance(args, tuple) and not args and not kwargs and input_size is None:
            raise ArgumentError(
                "A module is imported by a call: pn.GraphEditor(net, args=(x,)) with an example x of its input, or "
                "pn.GraphEditor(net, input_size=(2, 3))."
            )
        return compiler.from_module(graph, args, kwargs, input_size=input_size, partial=True)
    if graph is None:
        graph = NodeGraph()
    if not isinstance(graph, NodeGraph):
        raise ArgumentError(
            f"A GraphEditor edits a NodeGraph, not a {type(graph).__name__}: pn.GraphEditor(pn.NodeGraph())."
        )
    if not isinstance(args, tuple) or args or kwargs or input_size is not None:
        raise ArgumentError(
            "args, kwargs and input_size belong to a module that is imported: pn.GraphEditor(net, args=(x,))."
        )
    return graph
