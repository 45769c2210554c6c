"""Random edits of a document against a simple model of it, illegal ones included."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable
from functools import partial

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from pnne_nb.errors import GraphError
from pnne_nb.graph.block_library import BlockLibrary
from pnne_nb.graph.document import NodeGraph
from pnne_nb.graph.edits.apply import apply_op
from pnne_nb.graph.model import ops
from pnne_nb.graph.model.content import Content, topological_order
from pnne_nb.graph.model.node import Node, Transaction, split_port
from pnne_nb.graph.model.origin import Origin
from pnne_nb.graph.storage import state_of, write
from tests.graph.types import TYPES

NAMES = ("a", "b", "c", "d", "e", "f", "g", "0", "train", "x y")
GRAPHS = ("", "inner", "deep")
TYPE_NAMES = ("Input", "Output", "ReLU", "add", "cat", "Linear", "Subgraph", "Module", "Missing")
PORTS = ("output", "input", "other", "tensors", "tensors_0", "tensors_2", "indices", *NAMES[:4])

names = st.sampled_from(NAMES)
graphs = st.sampled_from(GRAPHS)
ends = st.builds("{}.{}".format, names, st.sampled_from(PORTS))
properties = st.fixed_dictionaries(
    {},
    optional={
        "in_features": st.sampled_from((1, 0, "x")),
        "shares": st.sampled_from(("a", "b", None)),
        "definition": st.sampled_from(("inner", "deep", "gone")),
        "alpha": st.sampled_from((1, 0.5, float("nan"), True)),
        "inputs": st.sampled_from((("input",), ("input", "other"))),
    },
)
positions = st.none() | st.tuples(st.integers(-9, 9), st.floats(-9, 9))
places = st.none() | st.integers(-1, 5)
sizes = st.sampled_from(("h", "k", "m", "train"))
frame_names = st.sampled_from(("frame1", "frame2", "a", "x y"))
boxes = st.tuples(*[st.floats(-20, 20)] * 2, *[st.sampled_from((0.0, 5.0, 40.0, float("nan")))] * 2)
titles = st.sampled_from(("", "Encoder", "bell\a"))
origins = st.sampled_from((None, Origin("equal"), Origin("opaque")))
colours = st.sampled_from(("grey", "blue", "plaid"))

wild: st.SearchStrategy[ops.Op] = st.one_of(
    st.builds(ops.AddNode, names, st.sampled_from(TYPE_NAMES), properties, positions, graphs, places),
    st.builds(ops.RemoveNode, names, graphs),
    st.builds(ops.RenameNode, names, names, graphs),
    st.builds(ops.SetProperty, names, st.just("definition"), st.sampled_from(GRAPHS), graphs),
    st.builds(ops.SetProperty, names, st.just("shares"), names, graphs),
    st.builds(ops.SetProperty, names, st.just("in_features"), st.integers(-1, 9), graphs),
    st.builds(ops.SetProperty, names, st.just("in_features"), st.sampled_from(("2*h", "h*k", "k//h", "9-h")), graphs),
    st.builds(ops.SetSize, sizes, st.sampled_from((None, 3, -1, 0, "2*h", "h + k", "k*m", "k//h"))),
    st.builds(ops.ResetProperty, names, st.sampled_from(("definition", "shares", "in_features")), graphs),
    st.builds(ops.MoveNode, names, positions, graphs),
    st.builds(ops.Connect, ends, ends, graphs),
    st.builds(ops.Disconnect, ends, ends, graphs),
    st.builds(ops.AddGraph, graphs),
    st.builds(ops.RemoveGraph, graphs),
    st.builds(ops.CollapseNode, names, st.booleans(), graphs),
    st.builds(ops.SetOrigin, names, origins, graphs),
    st.builds(ops.AddFrame, frame_names, boxes, titles, st.just("a\nnote"), colours, graphs),
    st.builds(
        ops.ChangeFrame, frame_names, st.none() | boxes, st.none() | titles, st.none(), st.none() | colours, graphs
    ),
    st.builds(ops.RemoveFrame, frame_names, graphs),
    st.builds(ops.RenameDocument, st.sampled_from(("net", "other", "", "bell\a"))),
)
"""Ops without a look at the document: most are refused."""


def likely(graph: NodeGraph) -> st.SearchStrategy[ops.Op]:
    """Ops that name what the document has: most are accepted."""
    # Of the many kinds, only the one that is drawn is built: hypothesis takes longer to check a strategy than to use it.
    return st.sampled_from(tuple(graph.graphs)).flatmap(
        lambda id: st.sampled_from(_likely_in(graph, id)).flatmap(lambda make: make())
    )


def _likely_in(graph: NodeGraph, id: str) -> list[Callable[[], st.SearchStrategy[ops.Op]]]:
    view = graph.graphs[id]
    inside = st.just(id)
    definitions = [other for other in graph.graphs if other]
    found: list[Callable[[], st.SearchStrategy[ops.Op]]] = [
        partial(st.builds, ops.AddNode, names, st.sampled_from(TYPE_NAMES[:6]), st.just({}), positions, inside, places),
        partial(st.builds, ops.AddGraph, st.sampled_from(GRAPHS[1:])),
        partial(st.builds, ops.RemoveGraph, st.sampled_from(GRAPHS[1:])),
        partial(st.builds, ops.AddFrame, frame_names, st.just((-10.0, -10.0, 30.0, 30.0)), graph=inside),
    ]
    if view.frames:
        own_frames = st.sampled_from(view.frames)
        found.append(partial(st.builds, ops.ChangeFrame, own_frames, st.none() | boxes, titles, graph=inside))
        found.append(partial(st.builds, ops.RemoveFrame, own_frames, graph=inside))
    if definitions:
        shown: st.SearchStrategy[dict[str, object]] = st.builds(dict, definition=st.sampled_from(definitions))
        found.append(partial(st.builds, ops.AddNode, names, st.just("Subgraph"), shown, st.none(), inside, places))
    if not view.nodes:
        return found
    own = st.sampled_from(tuple(view.nodes))
    found += [
        partial(st.builds, ops.SetSize, sizes, st.sampled_from((None, 3, 4, "2*h", "h + k"))),
        partial(st.builds, ops.RemoveNode, own, inside),
        partial(st.builds, ops.RenameNode, own, names, inside),
        partial(st.builds, ops.MoveNode, own, positions, inside),
        partial(st.builds, ops.CollapseNode, own, st.booleans(), inside),
        partial(st.builds, ops.SetOrigin, own, origins, inside),
    ]
    if linear := [name for name, node in view.nodes.items() if node.type == "Linear"]:
        formulas = st.sampled_from(("2*h", "h*k", "k//h", "m"))
        found.append(
            partial(st.builds, ops.SetProperty, st.sampled_from(linear), st.just("in_features"), formulas, inside)
        )
        found.append(partial(st.builds, ops.SetProperty, st.sampled_from(linear), st.just("shares"), own, inside))
        found.append(partial(st.builds, ops.ResetProperty, st.sampled_from(linear), st.just("shares"), inside))
    if blocks := [name for name, node in view.nodes.items() if node.type == "Subgraph"]:
        found.append(
            partial(
                st.builds,
                ops.SetProperty,
                st.sampled_from(blocks),
                st.just("definition"),
                st.sampled_from(definitions or [""]),
                inside,
            )
        )
        found.append(partial(st.builds, ops.ResetProperty, st.sampled_from(blocks), st.just("definition"), inside))
    if view.edges:
        found.append(lambda: st.sampled_from(view.edges).map(lambda edge: ops.Disconnect(edge.source, edge.target, id)))
    starts = [f"{name}.{port.name}" for name in view.nodes for port in view.output_ports(name) or ()]
    goals = [f"{name}.{port.name}" for name in view.nodes for port in view.input_ports(name) or ()]
    if starts and goals:
        wire = partial(st.builds, ops.Connect, st.sampled_from(starts), st.sampled_from(goals), inside)
        found += [wire, wire, wire]
    return found


RICH: list[ops.Op] = [
    ops.AddGraph("deep"),
    ops.AddNode("a", "Input", graph="deep"),
    ops.AddNode("b", "ReLU", graph="deep"),
    ops.AddNode("c", "Output", graph="deep"),
    ops.Connect("a.output", "b.input", "deep"),
    ops.Connect("b.output", "c.input", "deep"),
    ops.AddGraph("inner"),
    ops.AddNode("a", "Input", graph="inner"),
    ops.AddNode("d", "Subgraph", {"definition": "deep"}, graph="inner"),
    ops.AddNode("b", "Output", graph="inner"),
    ops.Connect("a.output", "d.a", "inner"),
    ops.Connect("d.c", "b.input", "inner"),
    ops.AddNode("a", "Input"),
    ops.AddNode("b", "Subgraph", {"definition": "inner"}),
    ops.AddNode("c", "Subgraph", {"definition": "inner"}),
    ops.AddNode("d", "Linear"),
    ops.AddNode("e", "Linear", {"shares": "d"}),
    ops.AddNode("f", "Output"),
    ops.Connect("a.output", "b.a"),
    ops.Connect("b.b", "c.a"),
    ops.Connect("c.b", "d.input"),
    ops.Connect("d.output", "f.input"),
]
"""Definitions inside definitions, one of them used twice, and a shared module."""


def free_ends(graph: NodeGraph) -> tuple[list[Node], list[Node]]:
    """The nodes of the root that have outputs, and those with an input that nothing feeds."""
    root, nodes = graph.graphs[""], graph.nodes.values()
    starts = [node for node in nodes if root.output_ports(node.name)]
    ends = [
        node
        for node in nodes
        if {port.name for port in root.input_ports(node.name) or ()} - set(root.sources(node.name))
    ]
    return starts, ends


class Oops(Exception):
    """Raised by a person's code in the middle of a transaction."""


class Editing(RuleBasedStateMachine):
    """The model is the list of texts that the document has had, and where in it undo and redo stand."""

    def __init__(self) -> None:
        super().__init__()
        self.graph = NodeGraph("net", types=TYPES)
        self.texts = [self.graph.to_json()]
        self.place = 0
        self.version = 0
        self.seen: list[Transaction] = []
        self.replica = Content("net")
        self.library = BlockLibrary()
        self.graph.observe(self.seen.append)

    @initialize(rich=st.booleans())
    def start(self, rich: bool) -> None:
        if rich:
            self.graph.apply(RICH)
            self._committed()

    @rule(batch=st.lists(wild, min_size=1, max_size=3))
    def apply_anything(self, batch: list[ops.Op]) -> None:
        self._try(lambda: self.graph.apply(batch))

    @rule(data=st.data(), spoil=st.one_of(st.none(), st.none(), st.none(), st.none(), wild))
    def apply(self, data: st.DataObject, spoil: ops.Op | None) -> None:
        batch = [data.draw(likely(self.graph))]
        self._try(lambda: self.graph.apply(batch if spoil is None else [*batch, spoil]))

    @rule(data=st.data(), count=st.integers(1, 5), fail=st.booleans())
    def transact(self, data: st.DataObject, count: int, fail: bool) -> None:
        """Some of the changes inside may be refused and the rest goes on, as in code that catches the error."""
        try:
            with self.graph.transaction("several"):
                for _ in range(count):
                    op = data.draw(likely(self.graph))
                    try:
                        with self.graph.transaction():
                            self.graph.apply([op])
                    except GraphError:
                        continue
                if fail:
                    raise Oops
        except Oops:
            return
        if self.graph.version != self.version:
            self._committed()

    @precondition(lambda self: len(self.graph.nodes) > 0)
    @rule(data=st.data(), name=st.none() | names, graph=graphs)
    def group(self, data: st.DataObject, name: str | None, graph: str) -> None:
        within = graph if graph in self.graph.graphs and self.graph.graphs[graph].nodes else ""
        chosen = data.draw(st.sets(st.sampled_from(tuple(self.graph.graphs[within].nodes)), min_size=1, max_size=3))
        self._try(lambda: self.graph.group(sorted(chosen), name, graph=within))

    @precondition(lambda self: any(node.type == "Subgraph" for node in self.graph.nodes.values()))
    @rule(data=st.data())
    def ungroup(self, data: st.DataObject) -> None:
        blocks = [name for name, node in self.graph.nodes.items() if node.type == "Subgraph"]
        name = data.draw(st.sampled_from(blocks))
        self._try(lambda: self.graph.ungroup(name))

    @precondition(lambda self: len(self.graph.nodes) > 0)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(tuple(self.graph.nodes)))
        self._try(lambda: self.graph.remove(name))

    @precondition(lambda self: any(node.type == "Subgraph" for node in self.graph.nodes.values()))
    @rule(data=st.data())
    def make_own(self, data: st.DataObject) -> None:
        """Makes nothing of a node that is alone in showing its definition."""
        blocks = [name for name, node in self.graph.nodes.items() if node.type == "Subgraph"]
        name = data.draw(st.sampled_from(blocks))
        try:
            self.graph.make_own(name)
        except GraphError:
            return
        if self.graph.version != self.version:
            self._committed()

    @precondition(lambda self: any(node.type == "Subgraph" for node in self.graph.nodes.values()))
    @rule(data=st.data())
    def publish(self, data: st.DataObject) -> None:
        blocks = [name for name, node in self.graph.nodes.items() if node.type == "Subgraph"]
        name = data.draw(st.sampled_from(blocks))
        with contextlib.suppress(GraphError):
            self.library.publish(self.graph, name, data.draw(st.sampled_from(("Block", "Other"))))

    @precondition(lambda self: len(self.library) > 0)
    @rule(data=st.data(), name=st.none() | names)
    def insert(self, data: st.DataObject, name: str | None) -> None:
        block = data.draw(st.sampled_from(tuple(self.library)))
        self._try(lambda: self.library.insert(block, self.graph, name))

    @precondition(lambda self: len(self.graph.nodes) > 0)
    @rule(data=st.data(), collapsed=st.booleans())
    def collapse(self, data: st.DataObject, collapsed: bool) -> None:
        chosen = data.draw(st.sets(st.sampled_from(tuple(self.graph.nodes)), min_size=1, max_size=3))
        self._try(lambda: self.graph.collapse(*sorted(chosen), collapsed=collapsed))

    @rule(start=names | ends, end=names | ends)
    def connect_anything(self, start: str, end: str) -> None:
        self._try(lambda: self.graph.connect(start, end))

    @precondition(lambda self: bool(free_ends(self.graph)[0]) and bool(free_ends(self.graph)[1]))
    @rule(data=st.data())
    def connect(self, data: st.DataObject) -> None:
        """Bare nodes: the first free pair of ports that fits, if there is one."""
        starts, ends = free_ends(self.graph)
        start, end = data.draw(st.sampled_from(starts)), data.draw(st.sampled_from(ends))
        self._try(lambda: self.graph.connect(start, end))

    @precondition(lambda self: len(self.graph.nodes) > 0)
    @rule(data=st.data())
    def frame(self, data: st.DataObject) -> None:
        chosen = data.draw(st.sets(st.sampled_from(tuple(self.graph.nodes)), min_size=1, max_size=3))
        self._try(lambda: self.graph.frames.add("Around", around=sorted(chosen)))

    @precondition(lambda self: len(self.graph.frames) > 0)
    @rule(data=st.data())
    def move_a_frame_with_what_stands_in_it(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(tuple(self.graph.frames)))
        inside = self.graph.frames.held(name)
        self.graph.frames.move(name, 7.0, -3.0)
        assert self.graph.frames.held(name).nodes == inside.nodes
        self._committed()

    @rule()
    def arrange(self) -> None:
        self.graph.arrange()
        if self.graph.version != self.version:
            self._committed()

    @precondition(lambda self: self.place > 0)
    @rule()
    def undo(self) -> None:
        self.graph.undo()
        self.place -= 1
        self.version += 1

    @precondition(lambda self: self.place < len(self.texts) - 1)
    @rule()
    def redo(self) -> None:
        self.graph.redo()
        self.place += 1
        self.version += 1

    @precondition(lambda self: self.place > 0)
    @rule()
    def undo_everything_and_redo_it(self) -> None:
        for place in reversed(range(self.place)):
            self.graph.undo()
            assert self.graph.to_json() == self.texts[place]
        for place in range(1, self.place + 1):
            self.graph.redo()
            assert self.graph.to_json() == self.texts[place]
        self.version += 2 * self.place

    @invariant()
    def is_as_the_model_says(self) -> None:
        assert self.graph.to_json() == self.texts[self.place]
        assert self.graph.version == self.version
        assert (self.graph.undo_label is None) == (self.place == 0)
        assert (self.graph.redo_label is None) == (self.place == len(self.texts) - 1)

    @invariant()
    def reads_back_equal(self) -> None:
        assert NodeGraph.from_json(self.graph.to_json(), types=TYPES) == self.graph
        assert copy.deepcopy(self.graph) == self.graph

    @invariant()
    def a_replica_that_follows_the_commits_is_equal(self) -> None:
        for done in self.seen:
            for op in done.ops:
                apply_op(self.replica, op)
        assert [done.version for done in self.seen] == sorted(done.version for done in self.seen)
        self.seen.clear()
        assert write(state_of(self.replica)) == self.graph.to_json()

    @invariant()
    def indexes_are_consistent(self) -> None:
        check_indexes(self.graph)

    @invariant()
    def lint_never_fails(self) -> None:
        for finding in self.graph.diagnostics():
            assert finding.node is None or finding.node in self.graph

    def _try(self, action: Callable[[], object]) -> None:
        try:
            action()
        except GraphError:
            return
        self._committed()

    def _committed(self) -> None:
        self.version += 1
        self.place += 1
        self.texts[self.place :] = [self.graph.to_json()]


def check_indexes(graph: NodeGraph) -> None:
    """Compare every index of the content with what it is an index of."""
    content = graph._content
    users: set[tuple[str, str, str]] = set()
    for id, index in content.graphs.items():
        assert index.id == id
        assert sorted(index.order) == sorted(index.nodes) == sorted(index.incoming) == sorted(index.outgoing)
        assert all(node.name == node.path == name for name, node in index.nodes.items())
        into = {key for edges in index.incoming.values() for key in edges.values()}
        out_of = {key for edges in index.outgoing.values() for key in edges}
        assert into == out_of == set(index.edges)
        for key, (source, target) in index.edges.items():
            name, port = split_port(target)
            assert index.incoming[name][port] == key
            assert key in index.outgoing[split_port(source)[0]]
        assert not topological_order(index)[1]
        inputs = tuple(name for name in index.order if index.nodes[name].type == "Input")
        assert index.interface[0] == inputs
        sharers = {(node.shares, name) for name, node in index.nodes.items() if node.shares is not None}
        assert sharers == {(owner, name) for owner, them in index.sharers.items() for name in them}
        shown: dict[str, int] = {}
        for name, node in index.nodes.items():
            if node.definition is not None:
                users.add((node.definition, id, name))
                shown[node.definition] = shown.get(node.definition, 0) + 1
                assert not content.contains(node.definition, id)
                ports = content.graphs[node.definition].interface
                assert set(index.incoming[name]) <= set(ports[0])
                assert {split_port(edge.source)[1] for edge in index.edges_out_of(name)} <= set(ports[1])
        assert index.shown == shown
    assert users == {(used, *user) for used, them in content.users.items() for user in them}


TestEditing = Editing.TestCase
TestEditing.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
