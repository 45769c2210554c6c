"""Properties that are left ``"auto"``: the sizes that shape inference has found for them, node by node."""

from __future__ import annotations

from collections.abc import Mapping

from pnne_nb.compiler.binding import automatic_properties
from pnne_nb.compiler.reading import Drawing
from pnne_nb.errors import Diagnostic
from pnne_nb.graph.node import Node
from pnne_nb.graph.registry import registry
from pnne_nb.graph.spec import NodeSpec
from pnne_nb.graph.values import Value

Resolved = Mapping[str, Mapping[str, Value]]
"""Values of properties that are ``"auto"``, by node path and property."""

NO_SIZES: Mapping[str, Value] = {}


def has_automatic(drawings: Mapping[str, Drawing]) -> bool:
    """Whether any node leaves a property to shape inference."""
    return any(
        spec.kind == "module" and spec.inferable and automatic_properties(spec, node.properties)
        for drawing in drawings.values()
        for node in drawing.nodes.values()
        if (spec := registry.get(node.type)) is not None
    )


def automatic_sizes(
    node: Node, spec: NodeSpec, drawing: Drawing, uses: list[str], resolved: Resolved, diagnostics: list[Diagnostic]
) -> Mapping[str, Value]:
    """Return the inferred values of a node's ``"auto"`` properties: the same for every use of its definition.

    Args:
        node: Whose they are.
        spec: Its type.
        drawing: The definition that it is in.
        uses: Paths of the uses of that definition, with a dot after each.
        resolved: What was inferred for each use.
        diagnostics: What is not known, or differs from use to use, is added to it.
    """
    names = automatic_properties(spec, node.properties) if node.shares is None else ()
    sizes: dict[str, Value] = {}
    for name in names:
        inferred = (resolved.get(f"{prefix}{node.name}", {}) for prefix in uses)
        found = {str(values[name]): values[name] for values in inferred if name in values}
        if len(found) == 1:
            sizes[name] = next(iter(found.values()))
        elif found:
            diagnostics.append(
                Diagnostic(
                    code="auto-ambiguous",
                    message=f"{name} is 'auto', and would be {' and '.join(found)} in different uses of "
                    f"{drawing.id!r}, which have one class.",
                    node=f"{uses[0]}{node.name}",
                    hint=f"Set {name}, or give each use a definition of its own.",
                )
            )
        else:
            diagnostics.append(
                Diagnostic(
                    code="auto-unresolved",
                    message=f"{name} is 'auto', but the shape of the input is not known.",
                    node=f"{uses[0]}{node.name}",
                    hint=f"Give the Input a shape, or set {name}.",
                )
            )
    return sizes or NO_SIZES
