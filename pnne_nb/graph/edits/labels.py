"""Labels ops in words, for undo, redo and screen readers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pnne_nb.errors import shown
from pnne_nb.graph.model import ops
from pnne_nb.graph.model.node import split_port
from pnne_nb.graph.model.ops import Op

_LABELS: Final[dict[type[Op], tuple[str, str]]] = {
    ops.AddNode: ("Add {name}", "Add {} nodes"),
    ops.RemoveNode: ("Remove {name}", "Remove {} nodes"),
    ops.RenameNode: ("Rename {name} to {new_name}", "Rename {} nodes"),
    ops.SetProperty: ("Set {node}.{property} to {value}", "Set {} properties"),
    ops.ResetProperty: ("Reset {node}.{property}", "Reset {} properties"),
    ops.MoveNode: ("Move {name}", "Move {} nodes"),
    ops.CollapseNode: ("{verb} {name}", "Collapse {} nodes"),
    ops.SetOrigin: ("Mark {name}", "Mark {} nodes"),
    ops.Connect: ("Connect {source} → {target}", "Connect {} ports"),
    ops.Disconnect: ("Disconnect {source} → {target}", "Remove {} edges"),
    ops.AddGraph: ("Add definition {graph}", ""),
    ops.RemoveGraph: ("Remove definition {graph}", ""),
    ops.AddFrame: ("Frame {title}", ""),
    ops.ChangeFrame: ("Change frame {name}", ""),
    ops.RemoveFrame: ("Remove frame {name}", ""),
    ops.RenameDocument: ("Name the graph {name}", ""),
    ops.SetSize: ("Set the size {name} to {value}", ""),
}
"""The label of one op, and that of several of its kind; without one, the first op is named."""


def label_of(done: Sequence[Op]) -> str:
    """Return the label of a transaction, e.g. ``"Connect conv1 → relu1"`` or ``"Move 3 nodes"``."""
    if len(done) == 1:
        return _one(done[0])
    sizes = [op for op in done if isinstance(op, ops.SetSize)]
    if sizes and not any(isinstance(op, ops.AddNode) for op in done):
        return _one(next((op for op in sizes if op.value is None), sizes[0]))
    # What a gesture is about: the nodes it adds or removes rather than the edges that come along.
    for leading in (ops.AddNode, ops.RemoveNode):
        found = [op for op in done if isinstance(op, leading)]
        if found and not any(isinstance(op, ops.AddNode) for op in done if leading is ops.RemoveNode):
            return _one(found[0]) if len(found) == 1 else _LABELS[leading][1].format(len(found))
    kinds = {type(op) for op in done}
    if len(kinds) == 1 and (many := _LABELS[kinds.pop()][1]):
        return many.format(len(done))
    return f"{_one(done[0])} and {len(done) - 1} more" if done else "Nothing"


def _one(op: Op) -> str:
    words = {field: getattr(op, field) for field in op.__struct_fields__}
    match op:
        case ops.SetSize(value=None):
            return f"Remove the size {op.name}"
        case ops.SetProperty() | ops.SetSize():
            words["value"] = shown(op.value, 40)
        case ops.CollapseNode():
            words["verb"] = "Collapse" if op.collapsed else "Expand"
        case ops.Connect() | ops.Disconnect():
            words |= {"source": split_port(op.source)[0], "target": split_port(op.target)[0]}
        case ops.AddFrame():
            words["title"] = op.title or op.name
        case _:
            pass
    return _LABELS[type(op)][0].format_map(words)
