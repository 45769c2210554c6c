"""Whether a document is finished: all of it, or after an edit, what the edit can have touched."""

from __future__ import annotations

from collections.abc import Mapping

from pnne_nb.compiler.reading import NO_WIRES, Drawing, paths_of, size_of
from pnne_nb.compiler.shapes import failure
from pnne_nb.errors import Diagnostic
from pnne_nb.graph.document import NodeGraph
from pnne_nb.graph.lint import MAX_NODES


def require_finished(graph: NodeGraph, drawings: Mapping[str, Drawing], before: Mapping[str, Drawing]) -> None:
    """Look for what keeps a document from compiling, as far as that shows without torch.

    Args:
        graph: The document.
        drawings: What it draws now.
        before: What it drew when nothing was wrong; empty if that is not known.

    Raises:
        CompileError: If it is unfinished or wrong; ``diagnostics`` lists every reason.
    """
    if before and size_of(drawings) <= MAX_NODES:
        found = graph.diagnostics_at(concerned(drawings, before))
        if not any(_errors(each) for each in found.values()):
            return
    if errors := _errors(graph.diagnostics()):
        raise failure(graph.name, errors)


def concerned(drawings: Mapping[str, Drawing], before: Mapping[str, Drawing]) -> list[str]:
    """Return the paths of the nodes at which what is found may differ from what was found before.

    That are those that were changed or wired anew, those that they feed or lend their module to, and those that
    show a changed graph.
    """
    paths = paths_of(drawings)
    altered: set[str] = set()
    found: list[str] = []
    for id, drawing in drawings.items():  # each before those that use it
        old = before.get(id)
        touched = _touched(drawing, old)
        touched |= {name for name, node in drawing.nodes.items() if node.definition in altered}
        if touched or old is not drawing:
            altered.add(id)
        behind = {follower for name in touched for follower in drawing.followers.get(name, ())}
        found += [f"{prefix}{name}" for prefix in paths[id] for name in touched | behind]
    return found


def _touched(drawing: Drawing, old: Drawing | None) -> set[str]:
    if old is None:
        return set(drawing.nodes)
    if old is drawing:
        return set()
    touched = {
        name
        for name, node in drawing.nodes.items()
        if old.nodes.get(name) is not node or old.wires.get(name, NO_WIRES) != drawing.wires.get(name, NO_WIRES)
    }
    gone = old.nodes.keys() - drawing.nodes.keys()
    return touched | {name for name, node in drawing.nodes.items() if node.shares in touched or node.shares in gone}


def _errors(found: list[Diagnostic]) -> list[Diagnostic]:
    return [diagnostic for diagnostic in found if diagnostic.severity == "error"]
