"""Says in words what ops do, for undo, redo and screen readers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from pnne_nb.errors import shown
from pnne_nb.graph.node import split_port
from pnne_nb.graph.ops import (
    AddFrame,
    AddGraph,
    AddNode,
    ChangeFrame,
    CollapseNode,
    Connect,
    Disconnect,
    MoveNode,
    Op,
    RemoveFrame,
    RemoveGraph,
    RemoveNode,
    RenameDocument,
    RenameNode,
    ResetProperty,
    SetProperty,
)

_MANY = {
    AddNode: "Add {} nodes",
    RemoveNode: "Remove {} nodes",
    RenameNode: "Rename {} nodes",
    SetProperty: "Set {} properties",
    ResetProperty: "Reset {} properties",
    MoveNode: "Move {} nodes",
    CollapseNode: "Collapse {} nodes",
    Connect: "Connect {} ports",
    Disconnect: "Remove {} edges",
}


def label_of(ops: Sequence[Op]) -> str:
    """Describe a transaction, e.g. ``"Connect conv1 → relu1"`` or ``"Move 3 nodes"``."""
    if len(ops) == 1:
        return _one(ops[0])
    # What a gesture is about: the nodes it adds or removes rather than the edges that come along.
    for leading in (AddNode, RemoveNode):
        found = [op for op in ops if isinstance(op, leading)]
        if found and not any(isinstance(op, AddNode) for op in ops if leading is RemoveNode):
            return _one(found[0]) if len(found) == 1 else _MANY[leading].format(len(found))
    kinds = {type(op) for op in ops}
    if len(kinds) == 1 and (many := _MANY.get(type(ops[0]))):
        return many.format(len(ops))
    return f"{_one(ops[0])} and {len(ops) - 1} more" if ops else "Nothing"


def _one(op: Op) -> str:
    match op:
        case AddNode():
            return f"Add {op.name}"
        case RemoveNode():
            return f"Remove {op.name}"
        case RenameNode():
            return f"Rename {op.name} to {op.new_name}"
        case SetProperty():
            return f"Set {op.node}.{op.property} to {shown(op.value, 40)}"
        case ResetProperty():
            return f"Reset {op.node}.{op.property}"
        case MoveNode():
            return f"Move {op.name}"
        case CollapseNode():
            return f"{'Collapse' if op.collapsed else 'Expand'} {op.name}"
        case Connect():
            return f"Connect {split_port(op.source)[0]} → {split_port(op.target)[0]}"
        case Disconnect():
            return f"Disconnect {split_port(op.source)[0]} → {split_port(op.target)[0]}"
        case AddGraph():
            return f"Add definition {op.graph}"
        case RemoveGraph():
            return f"Remove definition {op.graph}"
        case AddFrame():
            return f"Frame {op.title or op.name}"
        case ChangeFrame():
            return f"Change frame {op.name}"
        case RemoveFrame():
            return f"Remove frame {op.name}"
        case RenameDocument():
            return f"Name the graph {op.name}"
        case _:
            assert_never(op)
