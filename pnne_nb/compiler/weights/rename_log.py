"""Tracks renamed and moved nodes, so that a renamed, grouped or ungrouped node keeps its weights.

A document knows its nodes only by name. Each document that was compiled or imported is therefore observed: the log
records what was renamed, or moved into or out of a nested graph, since a model was compiled. Following the log
backwards gives the path that a node had in that model. A model that the document does not know has the names of the
time when the document was loaded, or the names of today.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Container, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias, final

from torch import nn

from pnne_nb.compiler.weights.reuse import Former
from pnne_nb.graph.document import NodeGraph
from pnne_nb.graph.model.node import Transaction, whole_of
from pnne_nb.graph.model.ops import AddNode, Op, RemoveNode, RenameNode, SetProperty


class _Grouped(NamedTuple):
    """Nodes of a graph that are now inside a Subgraph node of it."""

    graph: str
    block: str
    definition: str
    names: frozenset[str]


class _Ungrouped(NamedTuple):
    """Nodes of a graph that were inside a Subgraph node of it: what they were called there, by their names."""

    graph: str
    block: str
    definition: str
    names: Mapping[str, str]


class _Added(NamedTuple):
    """Nodes that are new in a graph."""

    graph: str
    names: frozenset[str]


_Change: TypeAlias = RenameNode | _Grouped | _Ungrouped | _Added


class _Step(NamedTuple):
    """One node on a path.

    Attributes:
        graph: The graph that holds it.
        name: Its name there.
        held: The attribute that holds its module, if that is not its name; none if it is the whole model.
    """

    graph: str
    name: str
    held: str | None = None


@final
class _Track:
    """The changes of one document, in order."""

    def __init__(self, graph: NodeGraph) -> None:
        identity = id(graph)
        self.graph = weakref.ref(graph, lambda _: _tracks.pop(identity, None))
        self.changes: list[_Change] = []
        self._steps = graph.steps
        self._shown = {
            (id, name): node.definition
            for id, view in (graph.graphs.items() if len(graph.graphs) > 1 else ())
            for name, node in view.nodes.copy().items()  # under one lock, not one for each
            if node.definition is not None
        }
        graph.observe(self.note)

    def note(self, transaction: Transaction) -> None:
        self.changes += self._changes(transaction.ops)

    @functools.cached_property
    def earlier(self) -> list[_Change]:
        """The changes from when the document was made or loaded until it was observed."""
        shown = self._shown
        try:
            self._shown = dict(shown)
            for step in reversed(self._steps):
                for op in step.inverse:
                    self._keep(op)
            return [change for step in self._steps for change in self._changes(step.ops)]
        finally:
            self._shown = shown

    def _changes(self, ops: Sequence[Op]) -> Iterator[_Change]:
        added: dict[str, dict[str, str]] = {}
        removed: dict[str, set[str]] = {}
        for op in ops:
            if isinstance(op, AddNode):
                added.setdefault(op.graph, {})[op.name] = op.type
            elif isinstance(op, RemoveNode):
                removed.setdefault(op.graph, set()).add(op.name)
        own = {op.value for op in ops if isinstance(op, SetProperty) and op.property == "definition"}
        # What a node is shown to have a copy of, it had before.
        new = {graph: set(names) - removed.get(graph, set()) for graph, names in added.items() if graph not in own}
        for op in ops:
            change = self._change(op, added, removed)
            if change is not None:
                yield change
                match change:
                    case _Grouped(graph, block, inner, names):
                        new[graph] = new.get(graph, set()) - {block}
                        new[inner] = new.get(inner, set()) - names
                    case _Ungrouped(graph, names=names):
                        new[graph] = new.get(graph, set()).difference(names)
            self._keep(op)
        yield from (_Added(graph, frozenset(names)) for graph, names in new.items() if names)

    def _change(
        self, op: Op, added: Mapping[str, Mapping[str, str]], removed: Mapping[str, set[str]]
    ) -> _Change | None:
        match op:
            case RenameNode():
                return op
            case AddNode(name=block, graph=graph, properties={"definition": str(inner)}):
                moved = added.get(inner, {}).keys() & removed.get(graph, set())
                return _Grouped(graph, block, inner, frozenset(moved)) if moved else None
            case RemoveNode(block, graph) if (graph, block) in self._shown:
                if any(block in names for id, names in added.items() if id != graph):
                    return None  # it is grouped itself
                inner = self._shown[graph, block]
                document = self.graph()
                view = document.graphs.get(inner) if document is not None else None
                # What is gone with the block may have another in its place by now.
                inside = removed.get(inner) or (view.nodes.keys() if view is not None else set())
                names = {name: former for name in added.get(graph, {}) if (former := _inside(name, block, inside))}
                return _Ungrouped(graph, block, inner, names) if names else None
        return None

    def _keep(self, op: Op) -> None:
        """Keep which nodes show which definitions."""
        match op:
            case AddNode(name=name, graph=graph, properties={"definition": str(inner)}):
                self._shown[graph, name] = inner
            case SetProperty(node=name, graph=graph, property="definition", value=str(inner)):
                self._shown[graph, name] = inner
            case RemoveNode(name, graph):
                self._shown.pop((graph, name), None)
            case RenameNode(name, new_name, graph) if (graph, name) in self._shown:
                self._shown[graph, new_name] = self._shown.pop((graph, name))


_tracks: dict[int, _Track] = {}
"""By the identity of the document, for documents are not hashable."""

_made: weakref.WeakKeyDictionary[nn.Module, tuple[_Track, int]] = weakref.WeakKeyDictionary()
"""How far a document had been changed when a model was made of it."""


def follow(graph: NodeGraph) -> None:
    """Keep track of the changes of a document from now on."""
    _track(graph)


def remember(model: nn.Module, graph: NodeGraph) -> None:
    """Note that a model has just been made of a document."""
    track = _track(graph)
    _made[model] = track, len(track.changes)


def mark(graph: NodeGraph) -> int:
    """Return how far a document has been changed so far, for `paths_since`; it is observed from now on."""
    return len(_track(graph).changes)


def former_paths(graph: NodeGraph, model: nn.Module) -> Former:
    """Return the paths that the modules of nodes have in an older model, by their paths now, if any have moved.

    A model that was not made of the document may have names from before the document was changed.
    """
    track = _track(graph)
    known, since = _made.get(model, (None, 0))
    if known is track:
        return paths_since(graph, since)
    changes = [*track.earlier, *track.changes]
    if not changes:
        return {}
    named = model.named_modules, model.named_parameters, model.named_buffers
    names = {name for each in named for name, _ in each(remove_duplicate=False)}
    found: dict[str, str | None] = {}
    for path in _paths(graph, "", ()):
        now, before = _written(path), _before(path, changes)
        old = _written(before) if before else None
        if _is_new(path, changes):
            found[now] = now if now in names else None
        else:
            found[now] = now if now in names and old not in names else old
    return _without_taken(found)


def is_known(graph: NodeGraph, model: nn.Module) -> bool:
    """Return whether a model was made of a document, so that all that became of its nodes is known."""
    known, _ = _made.get(model, (None, 0))
    return known is _track(graph)


def new_paths(graph: NodeGraph) -> set[str]:
    """Return the paths of the nodes that the document did not have when it was made, loaded or imported."""
    track = _track(graph)
    changes = [*track.earlier, *track.changes]
    return {_written(path) for path in _paths(graph, "", ()) if _is_new(path, changes)}


def paths_since(graph: NodeGraph, since: int) -> Former:
    """Return the paths that nodes had at a `mark`, by their paths now, if any have moved.

    A path that meanwhile belongs to a new node is mapped to None.
    """
    changes = _track(graph).changes[since:]
    if not changes:
        return {}
    found: dict[str, str | None] = {}
    for path in _paths(graph, "", ()):
        before = _before(path, changes)
        found[_written(path)] = _written(before) if before else None
    return _without_taken(found)


def _without_taken(found: Former) -> Former:
    """Leave nothing to a new node that has the former name of another."""
    moved = {old for now, old in found.items() if old != now}
    return {now: None if old == now and now in moved else old for now, old in found.items()}


def _track(graph: NodeGraph) -> _Track:
    track = _tracks.get(id(graph))
    if track is None or track.graph() is not graph:
        track = _tracks[id(graph)] = _Track(graph)
    return track


def _inside(name: str, block: str, inside: Container[str]) -> str | None:
    """Return what a node was called inside a block: the block's name was put before it where its own was taken."""
    return next((former for former in (name, name.removeprefix(f"{block}_")) if former in inside), None)


def _paths(graph: NodeGraph, id: str, above: tuple[_Step, ...]) -> Iterator[tuple[_Step, ...]]:
    nodes = graph.graphs[id].nodes
    whole = whole_of(nodes)
    for name, node in nodes.items():
        held = node.origin.held if node.origin is not None and node.shares is None else None
        path = (*above, _Step(id, name, held if held or name == whole else None))
        yield path
        if node.definition is not None and node.definition in graph.graphs:
            yield from _paths(graph, node.definition, path)


def _written(path: tuple[_Step, ...]) -> str:
    # An empty text in the outermost graph is the whole model.
    held = (step.held if step.held or (step.graph, step.held) == ("", "") else step.name for step in path)
    return ".".join(filter(None, held))


def _is_new(path: tuple[_Step, ...], changes: Sequence[_Change]) -> bool:
    """Return whether a node, or what it is in, was added by some changes."""
    for place in range(len(changes) - 1, -1, -1):
        match changes[place]:
            case _Added(graph, names):
                if any(step.graph == graph and step.name in names for step in path):
                    return True
            case change:
                path = _before(path, [change])
    return False


def _before(path: tuple[_Step, ...], changes: Sequence[_Change]) -> tuple[_Step, ...]:
    """Return the path that a node had before some changes; an empty one if it was made by them."""
    for change in reversed(changes):
        for place, step in enumerate(path):
            match change:
                case RenameNode(name, new_name, graph) if (step.graph, step.name) == (graph, new_name):
                    path = (*path[:place], step._replace(name=name), *path[place + 1 :])
                case _Grouped(graph, block, _, names) if (step.graph, step.name) == (graph, block):
                    inner = path[place + 1] if place + 1 < len(path) else None
                    if inner is None or inner.name not in names:
                        return ()
                    path = (*path[:place], inner._replace(graph=graph), *path[place + 2 :])
                case _Ungrouped(graph, block, definition, names) if step.graph == graph and step.name in names:
                    inner = step._replace(graph=definition, name=names[step.name])
                    path = (*path[:place], _Step(graph, block), inner, *path[place + 1 :])
                case _:
                    continue
            break
    return path
