"""Finds the arguments and results of a class that are known to be tensors, for the annotations of its ``forward``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import final

from pnne_nb.catalog.tables.overrides import OPTIONAL_OUTPUTS
from pnne_nb.compiler.ir.program import Ref
from pnne_nb.compiler.ir.snapshot import NO_WIRES, GraphSnapshot
from pnne_nb.graph.schema.spec import NodeSpec


@final
class Annotations:
    """Says which values are known to be tensors."""

    def __init__(self, snapshots: Mapping[str, GraphSnapshot], specs: Mapping[str, NodeSpec]) -> None:
        self._snapshots = snapshots
        self._specs = specs
        self._uses: dict[str, list[tuple[GraphSnapshot, str]]] = {id: [] for id in snapshots}
        for snapshot in snapshots.values():
            for node, definition in snapshot.blocks:
                self._uses[definition].append((snapshot, node.name))
        self._taken: dict[tuple[str, str], bool] = {}

    def takes_tensor(self, snapshot: GraphSnapshot, name: str) -> bool:
        """Return whether the value of an Input is known to be a tensor: it has a shape, or every use passes one."""
        if snapshot.nodes[name].properties.get("shape") is not None:
            return True
        key = (snapshot.id, name)
        if key not in self._taken:
            wired = [(user, user.wires.get(node, NO_WIRES).get(name)) for user, node in self._uses[snapshot.id]]
            given = (
                ref is not None and self.gives_tensor(user, ref) and not self.may_be_none(user, ref)
                for user, ref in wired
            )
            self._taken[key] = bool(wired) and all(given)
        return self._taken[key]

    def gives_tensor(self, snapshot: GraphSnapshot, ref: Ref) -> bool:
        """Return whether the value at an output port is known to be a tensor, or a tensor or None."""
        made = self._made_by(snapshot, ref)
        if isinstance(made, bool):
            return made
        type, port = made
        found = self._specs[type].output_named(port)
        return found is not None and found.kind == "tensor"

    def may_be_none(self, snapshot: GraphSnapshot, ref: Ref) -> bool:
        """Return whether torch annotates the value at an output port as ``Optional[Tensor]``."""
        return self._made_by(snapshot, ref) in OPTIONAL_OUTPUTS

    def _made_by(self, snapshot: GraphSnapshot, ref: Ref) -> bool | tuple[str, str]:
        """Return the type and the port that make a value; of an argument, whether it is known to be a tensor."""
        entered: list[tuple[GraphSnapshot, str]] = []
        found: Ref | None = ref
        while found is not None:
            node = snapshot.nodes[found.node]
            if node.type == "Subgraph" and node.definition is not None:
                entered.append((snapshot, node.name))
                snapshot = self._snapshots[node.definition]
                found = snapshot.wires.get(found.port, NO_WIRES).get("input")
            elif node.type != "Input":
                return node.type, found.port
            elif not entered or node.properties.get("shape") is not None:
                return self.takes_tensor(snapshot, node.name)
            else:
                # A nested graph that hands its input on gives what this very use of it was given.
                snapshot, user = entered.pop()
                found = snapshot.wires.get(user, NO_WIRES).get(node.name)
        return False
