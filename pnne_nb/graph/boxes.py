"""What may stand inside a Module node that runs code of its own on what is drawn in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pnne_nb.errors import Diagnostic
from pnne_nb.graph.node import Node
from pnne_nb.graph.spec import NodeSpec
from pnne_nb.graph.state import GraphIndex

_HELD = ("Subgraph", "Module", "Parameter", "Buffer")


def whole_of(nodes: Mapping[str, Node]) -> str:
    """Return which node of the outermost graph is the model itself, or an empty string.

    It stands for a module that was imported as a whole. The model holds what that holds, under the same names: its
    ``state_dict`` says ``embed.weight``, and not ``module.embed.weight``.
    """
    return next((name for name, node in nodes.items() if _is_whole(node)), "")


def _is_whole(node: Node) -> bool:
    held = node.origin.get("held") if isinstance(node.origin, dict) else None
    return node.type == "Module" and node.shares is None and held == ""


def lint_held(graph: GraphIndex, node: Node, spec: NodeSpec, path: str) -> Iterator[Diagnostic]:
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
    for name in ("checkpoint", "device", "inside"):
        if node.properties.get(name):
            yield Diagnostic(
                code="box-property",
                message=f"{name} has no effect here: the module around it runs code of its own.",
                node=path,
                hint=f"Reset {name} here, and set it on the module around it.",
            )
