"""Says in words what ops do, for undo, redo and screen readers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from pnne_nb.errors import shown
from pnne_nb.graph.model import ops
from pnne_nb.graph.model.node import split_port
from pnne_nb.graph.model.ops import Op

_MANY = {
    ops.AddNode: "Add {} nodes",
    ops.RemoveNode: "Remove {} nodes",
    ops.RenameNode: "Rename {} nodes",
    ops.SetProperty: "Set {} properties",
    ops.ResetProperty: "Reset {} properties",
    ops.MoveNode: "Move {} nodes",
    ops.CollapseNode: "Collapse {} nodes",
    ops.SetOrigin: "Mark {} nodes",
    ops.Connect: "Connect {} ports",
    ops.Disconnect: "Remove {} edges",
}


def label_of(done: Sequence[Op]) -> str:
    """Describe a transaction, e.g. ``"Connect conv1 → relu1"`` or ``"Move 3 nodes"``."""
    if len(done) == 1:
        return _one(done[0])
    # What a gesture is about: the nodes it adds or removes rather than the edges that come along.
    for leading in (ops.AddNode, ops.RemoveNode):
        found = [op for op in done if isinstance(op, leading)]
        if found and not any(isinstance(op, ops.AddNode) for op in done if leading is ops.RemoveNode):
            return _one(found[0]) if len(found) == 1 else _MANY[leading].format(len(found))
    kinds = {type(op) for op in done}
    if len(kinds) == 1 and (many := _MANY.get(type(done[0]))):
        return many.format(len(done))
    return f"{_one(done[0])} and {len(done) - 1} more" if done else "Nothing"


def _one(op: Op) -> str:  # noqa: PLR0911  one case for each op
    match op:
        case ops.AddNode():
            return f"Add {op.name}"
        case ops.RemoveNode():
            return f"Remove {op.name}"
        case ops.RenameNode():
            return f"Rename {op.name} to {op.new_name}"
        case ops.SetProperty():
            return f"Set {op.node}.{op.property} to {shown(op.value, 40)}"
        case ops.ResetProperty():
            return f"Reset {op.node}.{op.property}"
        case ops.MoveNode():
            return f"Move {op.name}"
        case ops.CollapseNode():
            return f"{'Collapse' if op.collapsed else 'Expand'} {op.name}"
        case ops.SetOrigin():
            return f"Mark {op.name}"
        case ops.Connect():
            return f"Connect {split_port(op.source)[0]} → {split_port(op.target)[0]}"
        case ops.Disconnect():
            return f"Disconnect {split_port(op.source)[0]} → {split_port(op.target)[0]}"
        case ops.AddGraph():
            return f"Add definition {op.graph}"
        case ops.RemoveGraph():
            return f"Remove definition {op.graph}"
        case ops.AddFrame():
            return f"Frame {op.title or op.name}"
        case ops.ChangeFrame():
            return f"Change frame {op.name}"
        case ops.RemoveFrame():
            return f"Remove frame {op.name}"
        case ops.RenameDocument():
            return f"Name the graph {op.name}"
        case _:
            assert_never(op)
