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
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, final

from torch import nn

from pnne_nb.compiler.weights.reuse import NOT_MOVED, Former, former_path
from pnne_nb.graph.document import NodeGraph
from pnne_nb.graph.edits.group_plans import name_inside
from pnne_nb.graph.model.node import Node, Transaction, whole_of
from pnne_nb.graph.model.ops import AddNode, Op, RemoveNode, RenameNode, SetProperty
from pnne_nb.graph.queries import GraphQueries

if TYPE_CHECKING:
    from pnne_nb.compiler.weights.weight_source import Source


class _Grouped(NamedTuple):
    """Nodes of a graph that are now inside a Subgraph node of it."""

    graph: str
    block: str
    definition: str
    names: frozenset[str]


class _Ungrouped(NamedTuple):
    """Nodes of a graph that were inside a Subgraph node of it: what they were called there, by their names."""

    graph: str
    block: _Step
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
class RenameTrack:
    """The changes of one document, in order. It is kept beside the document.

    Attributes:
        changes: Since the document was observed; of a copy, with those of the original before.
        sources: Where the weights of the document are; see `weight_source`.
    """

    def __init__(self, graph: GraphQueries) -> None:
        self.graph = weakref.ref(graph)
        self.changes: list[_Change] = []
        self.sources: dict[str, Source] = {}
        self._ancestors: dict[RenameTrack, int] = {}
        self._steps = graph.changes
        self._shown = {
            (id, name): (node.definition, node.held)
            for id, view in (graph.graphs.items() if len(graph.graphs) > 1 else ())
            for name, node in view.nodes.copy().items()  # under one lock, not one for each
            if node.definition is not None
        }
        graph.observe(self.note)

    def for_copy(self, copy: GraphQueries) -> RenameTrack:
        """Return the track of a copy, which knows what this one knows until now."""
        track = RenameTrack(copy)
        track.changes, track.sources = list(self.changes), dict(self.sources)
        track._ancestors = {**self._ancestors, self: len(self.changes)}
        track.earlier = self.earlier
        return track

    def since(self, model: nn.Module) -> tuple[int, Former] | None:
        """Return how far the document had been changed when a model was made of it, or of what it is a copy of.

        With it come the paths that modules have in the model, by those that they had then, where they differ. None if the
        model was made of something else.
        """
        made = _made.get(model)
        if made is None:
            return None
        if self in made:
            return made[self]
        known = [made[track] for track, until in self._ancestors.items() if track in made and made[track][0] <= until]
        return known[-1] if known else None

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
                inner, held = self._shown[graph, block]
                document = self.graph()
                view = document.graphs.get(inner) if document is not None else None
                # What is gone with the block may have another in its place by now.
                inside = removed.get(inner) or (view.nodes.keys() if view is not None else set())
                names = {name: former for name in added.get(graph, {}) if (former := name_inside(name, block, inside))}
                return _Ungrouped(graph, _Step(graph, block, held), inner, names) if names else None
        return None

    def _keep(self, op: Op) -> None:
        """Keep which nodes show which definitions."""
        match op:
            case AddNode(name=name, graph=graph, properties={"definition": str(inner)}, origin=origin):
                self._shown[graph, name] = inner, None if origin is None else origin.held
            case SetProperty(node=name, graph=graph, property="definition", value=str(inner)):
                self._shown[graph, name] = inner, self._shown.get((graph, name), (inner, None))[1]
            case RemoveNode(name, graph):
                self._shown.pop((graph, name), None)
            case RenameNode(name, new_name, graph) if (graph, name) in self._shown:
                self._shown[graph, new_name] = self._shown.pop((graph, name))


_made: weakref.WeakKeyDictionary[nn.Module, weakref.WeakKeyDictionary[RenameTrack, tuple[int, Former]]]
_made = weakref.WeakKeyDictionary()
"""How far documents had been changed when a model was made of them, or they of it; see `RenameTrack.since`."""


def remember(model: nn.Module, graph: NodeGraph, former: Former = NOT_MOVED) -> None:
    """Note that a model has just been made of a document, or the document of the model.

    Args:
        model: Whose modules have the paths of the nodes.
        graph: The document.
        former: Paths that modules have in `model` all the same, by their paths in the document.
    """
    track = track_of(graph)
    _made.setdefault(model, weakref.WeakKeyDictionary())[track] = len(track.changes), former


def mark(graph: NodeGraph) -> int:
    """Return how far a document has been changed so far, for `paths_since`; it is observed from now on."""
    return len(track_of(graph).changes)


def former_paths(graph: NodeGraph, model: nn.Module) -> Former:
    """Return the paths that the modules of nodes have in an older model, by their paths now, if any have moved.

    A model that was not made of the document may have names from before the document was changed.
    """
    track = track_of(graph)
    if (known := track.since(model)) is not None:
        since, former = known
        return _joined(graph, paths_since(graph, since), former)
    named = model.named_modules, model.named_parameters, model.named_buffers
    return paths_among(graph, {name for each in named for name, _ in each(remove_duplicate=False)})


def paths_among(graph: NodeGraph, names: Container[str]) -> Former:
    """Return the paths that the modules of nodes have among the names of a model that the document does not know."""
    track = track_of(graph)
    changes = [*track.earlier, *track.changes]
    if not changes:
        return {}
    found: dict[str, str | None] = {}
    for path in _paths(graph, "", ()):
        now, before = _written(path), _before(path, changes)
        old = _written(before) if before else None
        if _is_new(path, changes):
            found[now] = now if now in names else None
        else:
            found[now] = now if now in names and old not in names else old
    return _without_taken(found)


def documents_of(model: nn.Module) -> list[NodeGraph]:
    """Return the documents that a model was made of, or that were made of it, and still exist."""
    found = [track.graph() for track in _made.get(model, ())]
    return [graph for graph in found if isinstance(graph, NodeGraph)]


def is_known(graph: NodeGraph, model: nn.Module) -> bool:
    """Return whether a model was made of a document, so that all that became of its nodes is known."""
    return track_of(graph).since(model) is not None


def new_paths(graph: NodeGraph) -> set[str]:
    """Return the paths of the nodes that the document did not have when it was made, loaded or imported."""
    track = track_of(graph)
    changes = [*track.earlier, *track.changes]
    return {_written(path) for path in _paths(graph, "", ()) if _is_new(path, changes)}


def paths_since(graph: NodeGraph, since: int) -> Former:
    """Return the paths that nodes had at a `mark`, by their paths now, if any have moved.

    A path that meanwhile belongs to a new node is mapped to None.
    """
    changes = track_of(graph).changes[since:]
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


def all_paths(graph: NodeGraph) -> list[str]:
    """Return the paths of the modules of all nodes, outer ones first."""
    return [_written(path) for path in _paths(graph, "", ())]


def nodes_by_path(graph: NodeGraph) -> Iterator[tuple[str, Node]]:
    """Yield every node with the path of its module or tensor, outer ones first."""
    for path in _paths(graph, "", ()):
        yield _written(path), graph.graphs[path[-1].graph].nodes[path[-1].name]


def _joined(graph: NodeGraph, later: Former, first: Former) -> Former:
    """Return the paths before two changes of paths, of which `later` is the second one."""
    if not first:
        return later
    found: dict[str, str | None] = {}
    for path in all_paths(graph):
        between = former_path(path, later)
        found[path] = None if between is None else former_path(between, first)
    return found


def track_of(graph: NodeGraph) -> RenameTrack:
    """Return the track of a document, which is observed from now on."""
    with graph.reading():
        track = graph.annex
        if not isinstance(track, RenameTrack):
            track = graph.annex = RenameTrack(graph)
        return track


def _paths(graph: NodeGraph, id: str, above: tuple[_Step, ...]) -> Iterator[tuple[_Step, ...]]:
    nodes = graph.graphs[id].nodes
    whole = whole_of(nodes)
    for name, node in nodes.items():
        held = node.held if node.shares is None else None
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
                case RenameNode(name, _, graph) if (step.graph, step.name) == (graph, name):
                    return ()  # the name was another node's until then
                case _Grouped(graph, block, _, names) if (step.graph, step.name) == (graph, block):
                    inner = path[place + 1] if place + 1 < len(path) else None
                    if inner is None or inner.name not in names:
                        return ()
                    path = (*path[:place], inner._replace(graph=graph), *path[place + 2 :])
                case _Ungrouped(graph, block, definition, names) if step.graph == graph and step.name in names:
                    inner = step._replace(graph=definition, name=names[step.name])
                    path = (*path[:place], block, inner, *path[place + 1 :])
                case _:
                    continue
            break
    return path
