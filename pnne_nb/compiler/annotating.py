"""Which arguments and results of a class are known to be tensors, and are annotated so in its ``forward``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import final

from pnne_nb.compiler.program import Ref
from pnne_nb.compiler.reading import NO_WIRES, Drawing
from pnne_nb.graph.spec import NodeSpec


@final
class Annotations:
    """What is known of a document's values.

    Args:
        drawings: What it draws.
        specs: The types of its nodes.
    """

    def __init__(self, drawings: Mapping[str, Drawing], specs: Mapping[str, NodeSpec]) -> None:
        self._drawings = drawings
        self._specs = specs
        self._uses: dict[str, list[tuple[Drawing, str]]] = {id: [] for id in drawings}
        for drawing in drawings.values():
            for name, node in drawing.nodes.items():
                if node.definition is not None:
                    self._uses[node.definition].append((drawing, name))
        self._taken: dict[tuple[str, str], bool] = {}

    def takes_tensor(self, drawing: Drawing, name: str) -> bool:
        """Whether what arrives at an Input is known to be a tensor: it says so, or every use gives one."""
        if drawing.nodes[name].properties.get("shape") is not None:
            return True
        key = (drawing.id, name)
        if key not in self._taken:
            wired = [(user, user.wires.get(node, NO_WIRES).get(name)) for user, node in self._uses[drawing.id]]
            given = (ref is not None and self.gives_tensor(user, ref) for user, ref in wired)
            self._taken[key] = bool(wired) and all(given)
        return self._taken[key]

    def gives_tensor(self, drawing: Drawing, ref: Ref) -> bool:
        """Whether the value at an output port is known to be a tensor."""
        entered: list[tuple[Drawing, str]] = []
        found: Ref | None = ref
        while found is not None:
            node = drawing.nodes[found.node]
            if node.type == "Subgraph" and node.definition is not None:
                entered.append((drawing, node.name))
                drawing = self._drawings[node.definition]
                found = drawing.wires.get(found.port, NO_WIRES).get("input")
            elif node.type != "Input":
                port = self._specs[node.type].output_named(found.port)
                return port is not None and port.kind == "tensor"
            elif not entered or node.properties.get("shape") is not None:
                return self.takes_tensor(drawing, node.name)
            else:
                # A nested graph that hands its input on gives what this very use of it was given.
                drawing, user = entered.pop()
                found = drawing.wires.get(user, NO_WIRES).get(node.name)
        return False
