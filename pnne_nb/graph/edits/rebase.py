"""Changes how a document began, beneath the changes that a person has made since: an import is drawn before it is proved."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from msgspec.structs import replace

from pnne_nb.errors import GraphError
from pnne_nb.graph.edits.definitions import replacing
from pnne_nb.graph.edits.transactions import Step, TransactionLog
from pnne_nb.graph.model.content import Content
from pnne_nb.graph.model.node import Node
from pnne_nb.graph.model.ops import AddNode, Op, SetOrigin
from pnne_nb.graph.model.origin import Origin


def rebase(ledger: TransactionLog, start: Content, label: str) -> bool:
    """Let a document have begun as `start`, and make its changes again, in one commit that undo skips.

    Returns:
        Whether they all fit. If not, or if one is inside a definition that begins differently, nothing has changed.
    """
    with ledger.editing():
        steps = list(ledger.done)
        ledger.take_back(op for step in reversed(steps) for op in step.inverse)
        begun = replacing(ledger.content, start)
        if not any(_is_moved(ledger.content, start, op) for step in steps for op in step.ops):
            made: list[Step] = []
            try:
                made.append(ledger.stage(begun, label, keeps_proofs=True))
                for step in steps:
                    marked = any(isinstance(op, SetOrigin) for op in step.ops)
                    made.append(ledger.stage(_again(ledger.content, step), step.label, keeps_proofs=not marked))
            except GraphError:
                ledger.take_back(op for step in reversed(made) for op in step.inverse)
            else:
                ledger.done[:] = made[1:]
                ledger.undone.clear()
                back = (op for step in reversed(steps) for op in step.inverse)
                ledger.commit((*back, *(op for step in made for op in step.ops)), label)
                return True
        ledger.take_back(op for step in steps for op in step.ops)
        return False


def withdraw(ledger: TransactionLog, reason: str, doubted: Callable[[str, str], bool], label: str) -> None:
    """Mark imported nodes as not proved, in a commit that undo skips and that no undo reverts.

    Args:
        ledger: The changes of the document.
        reason: Why nothing is proved of them.
        doubted: Whether that holds for a node, given the id of its graph and its name.
        label: The change in words.
    """

    def less(origin: Origin | None) -> Origin | None:
        return replace(origin, proof="edited", reason=reason) if origin and origin.proof == "equal" else origin

    def remembered(op: Op) -> Op:
        return replace(op, origin=less(op.origin)) if isinstance(op, SetOrigin | AddNode) else op

    with ledger.editing():
        # What undo brings back was proved with none of the edits, or was never proved: nobody knows which.
        for steps in (ledger.done, ledger.undone):
            steps[:] = [
                replace(step, ops=tuple(map(remembered, step.ops)), inverse=tuple(map(remembered, step.inverse)))
                for step in steps
            ]
        nodes = [(graph, node) for graph in ledger.content.graphs.values() for node in graph.nodes.values()]
        ledger.apply(
            [
                SetOrigin(node.name, origin, graph.id)
                for graph, node in nodes
                if doubted(graph.id, node.name) and (origin := less(node.origin)) is not node.origin
            ],
            label,
            undoable=False,
        )


def _is_moved(content: Content, start: Content, op: Op) -> bool:
    """Return whether a change is inside a definition that has other nodes at the start: its names may mean others there."""
    id = getattr(op, "graph", "")
    if not id or id not in content.graphs:
        return False
    mine, other = content.graphs[id], start.graphs.get(id)
    return (
        other is None or _nodes(mine.nodes) != _nodes(other.nodes) or [*mine.edges.values()] != [*other.edges.values()]
    )


def _nodes(nodes: dict[str, Node]) -> list[object]:
    return [(node.name, node.type, node.properties) for node in nodes.values()]


def _again(content: Content, step: Step) -> Iterator[Op]:
    """Yield the ops of a step for a document in which the proofs of nodes may be others."""
    for op in step.ops:
        if isinstance(op, SetOrigin) and op.origin is not None:
            present = content.require(op.graph).require(op.name).origin
            if present is not None:
                op = replace(op, origin=replace(op.origin, proof=present.proof, reason=present.reason))
        yield op
