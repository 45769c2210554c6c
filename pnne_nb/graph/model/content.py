"""The document's content, indexed so that an op costs only what it changes, and the ports of its nodes.

Mutable and private to ``graph``: only ``edits.apply`` (ops) and ``storage`` (loading) write to it.

Invariants: names are unique in a graph; edges join existing nodes, one per input port, without a loop; a
Subgraph node's definition exists, never contains itself, and has a port for each edge at that node.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TypeAlias, TypeVar

from pnne_nb.errors import GraphError, UnknownFrameError, UnknownGraphError, UnknownNodeError, near, shown
from pnne_nb.graph.model.annotation import Frame
from pnne_nb.graph.model.node import Edge, Node, split_port
from pnne_nb.graph.schema.spec import NodeSpec, Port

T = TypeVar("T")

Parts: TypeAlias = dict[str, tuple[list[Node], list[Edge], dict[str, Frame]]]
"""Nodes in their order, edges in theirs, and frames by name, by graph id."""


class GraphIndex:
    """One graph: its nodes and edges, each in their order, and the edges at each node."""

    def __init__(self, id: str) -> None:
        self.id = id
        self.nodes: dict[str, Node] = {}
        self.order: list[str] = []
        self.edges: dict[int, Edge] = {}
        self.frames: dict[str, Frame] = {}
        self.incoming: dict[str, dict[str, int]] = {}  # node -> input port -> edge
        self.outgoing: dict[str, dict[int, None]] = {}  # node -> edges, in their order
        self.sharers: dict[str, dict[str, None]] = {}  # node -> nodes whose `shares` names it
        self.shown: dict[str, int] = {}  # definition -> how many Subgraph nodes here show it
        self._next_edge = 0
        self.numbers: dict[str, int] = {}  # stem of automatic names -> the number from which to look for a free one
        self._interface: tuple[tuple[str, ...], tuple[str, ...]] | None = None

    def copy(self) -> GraphIndex:
        """Return an independent copy of the graph."""
        other = GraphIndex(self.id)
        for name, kept in vars(self).items():
            setattr(other, name, kept.copy() if isinstance(kept, dict | list) else kept)
        other.incoming = {name: edges.copy() for name, edges in self.incoming.items()}
        other.outgoing = {name: edges.copy() for name, edges in self.outgoing.items()}
        other.sharers = {name: nodes.copy() for name, nodes in self.sharers.items()}
        return other

    @property
    def where(self) -> str:
        """The name of this graph in messages: nothing for the root."""
        return f" in definition {self.id!r}" if self.id else ""

    @property
    def interface(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Names of the Input nodes and of the Output nodes: the ports of a Subgraph node that shows this graph."""
        if self._interface is None:
            nodes = [self.nodes[name] for name in self.order]
            self._interface = (
                tuple(node.name for node in nodes if node.type == "Input"),
                tuple(node.name for node in nodes if node.type == "Output"),
            )
        return self._interface

    def require(self, name: str) -> Node:
        """Return the node of that name.

        Raises:
            UnknownNodeError: If there is none.
        """
        return _kept(self.nodes, name, UnknownNodeError, "node", self.where)

    def require_frame(self, name: object) -> Frame:
        """Return the frame of that name.

        Raises:
            UnknownFrameError: If there is none.
        """
        return _kept(self.frames, name, UnknownFrameError, "frame", self.where)

    def insert_node(self, node: Node, index: int | None = None) -> None:
        self.nodes[node.name] = node
        if index is None or index >= len(self.order):
            self.order.append(node.name)
        else:
            self.order.insert(index, node.name)
        self.incoming[node.name] = {}
        self.outgoing[node.name] = {}
        self._refer(node, add=True)
        self._interface = None if node.type in ("Input", "Output") else self._interface

    def index_of(self, name: str) -> int:
        # Undoing a large addition removes from the end: that needs no search.
        return len(self.order) - 1 if self.order[-1] == name else self.order.index(name)

    def drop_node(self, name: str) -> None:
        """Remove a node that has no edges any more."""
        node = self.nodes.pop(name)
        del self.order[self.index_of(name)], self.incoming[name], self.outgoing[name]
        self._refer(node, add=False)
        self._interface = None if node.type in ("Input", "Output") else self._interface

    def replace_node(self, node: Node) -> None:
        """Replace the node of the same name."""
        self._refer(self.nodes[node.name], add=False)
        self.nodes[node.name] = node
        self._refer(node, add=True)

    def rename_node(self, old: str, node: Node) -> None:
        """Replace the node `old` by `node`, its copy with a new name; edges follow."""
        edges = [(edge, False) for edge in self.outgoing[old]] + [(edge, True) for edge in self.incoming[old].values()]
        self._refer(self.nodes.pop(old), add=False)
        self.order[self.index_of(old)] = node.name
        self.nodes[node.name] = node
        self._refer(node, add=True)
        self.incoming[node.name] = self.incoming.pop(old)
        self.outgoing[node.name] = self.outgoing.pop(old)
        for edge, into in edges:
            source, target = self.edges[edge]
            if into:
                self.edges[edge] = Edge(source, f"{node.name}.{split_port(target)[1]}")
            else:
                self.edges[edge] = Edge(f"{node.name}.{split_port(source)[1]}", target)
        self._interface = None if node.type in ("Input", "Output") else self._interface

    def insert_edge(self, edge: Edge) -> None:
        target, port = split_port(edge.target)
        self.edges[self._next_edge] = edge
        self.incoming[target][port] = self._next_edge
        self.outgoing[split_port(edge.source)[0]][self._next_edge] = None
        self._next_edge += 1

    def drop_edge(self, edge: Edge) -> None:
        target, port = split_port(edge.target)
        key = self.incoming[target].pop(port)
        del self.edges[key], self.outgoing[split_port(edge.source)[0]][key]

    def rename_port(self, node: str, old: str, new: str) -> None:
        """Move the edges at port `old` of a node, input or output, to `new`."""
        if old in self.incoming[node]:
            key = self.incoming[node].pop(old)
            self.incoming[node][new] = key
            self.edges[key] = Edge(self.edges[key].source, f"{node}.{new}")
        for key in self.outgoing[node]:
            source, target = self.edges[key]
            if split_port(source)[1] == old:
                self.edges[key] = Edge(f"{node}.{new}", target)

    def places(self, names: Iterable[str] | None = None) -> dict[str, tuple[float, float]]:
        """Return the centres of the nodes that have a place, of all nodes or of some."""
        nodes = self.nodes.values() if names is None else (self.nodes[name] for name in names)
        return {node.name: node.position for node in nodes if node.position is not None}

    def edges_into(self, name: str) -> list[Edge]:
        return [self.edges[key] for key in self.incoming[name].values()]

    def edges_out_of(self, name: str) -> list[Edge]:
        return [self.edges[key] for key in self.outgoing[name]]

    def edges_at(self, name: str) -> list[Edge]:
        """Return every edge at a node, in the order of the edges."""
        return [self.edges[key] for key in sorted((*self.incoming[name].values(), *self.outgoing[name]))]

    def feeding(self, node: str, port: str) -> Edge | None:
        """Return the edge into an input port, or None."""
        key = self.incoming[node].get(port)
        return None if key is None else self.edges[key]

    def reaches(self, start: str, goal: str) -> bool:
        """Return whether a path leads from `start` to `goal`.

        It searches from both ends in turn, so the shorter side determines the cost: one step for a new node at the end of
        a long chain.
        """
        if start == goal:
            return True
        edges, outgoing, incoming = self.edges, self.outgoing, self.incoming
        ahead, behind = {start}, {goal}
        forward, backward = [start], [goal]
        while forward and backward:
            for key in outgoing[forward.pop()]:
                node = edges[key].target.partition(".")[0]
                if node in behind:
                    return True
                if node not in ahead:
                    ahead.add(node)
                    forward.append(node)
            for key in incoming[backward.pop()].values():
                node = edges[key].source.partition(".")[0]
                if node in ahead:
                    return True
                if node not in behind:
                    behind.add(node)
                    backward.append(node)
        return False

    def holder(self, path: str) -> Node | None:
        """Return the node whose module has the tensor at a path, or None."""
        return next((node for node in self.nodes.values() if f"{path}.".startswith(f"{node.member}.")), None)

    def _refer(self, node: Node, *, add: bool) -> None:
        target = node.shares
        if target is None:
            return
        if add:
            self.sharers.setdefault(target, {})[node.name] = None
            return
        del self.sharers[target][node.name]
        if not self.sharers[target]:
            del self.sharers[target]


class Content:
    """A whole document: its graphs by id, and the Subgraph nodes that show each definition."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.sizes: dict[str, int] = {}
        self.graphs: dict[str, GraphIndex] = {"": GraphIndex("")}
        self.users: dict[str, dict[tuple[str, str], None]] = {}  # definition -> (graph, node)

    def copy(self) -> Content:
        """Return an independent copy of the document."""
        other = Content(self.name)
        other.sizes = self.sizes.copy()
        other.graphs = {id: graph.copy() for id, graph in self.graphs.items()}
        other.users = {id: users.copy() for id, users in self.users.items()}
        return other

    def parts(self) -> Parts:
        """Return the nodes, edges and frames of each graph as they are now: they never change, they are only replaced."""
        return {
            id: ([*map(graph.nodes.__getitem__, graph.order)], list(graph.edges.values()), graph.frames.copy())
            for id, graph in self.graphs.items()
        }

    def require(self, id: object) -> GraphIndex:
        """Return the graph of that id.

        Raises:
            UnknownGraphError: If there is none.
        """
        return _kept(self.graphs, id, UnknownGraphError, "definition")

    def inside(self, node: Node) -> GraphIndex | None:
        """Return the graph that a node shows or holds; None if there is none."""
        return None if node.definition is None else self.graphs.get(node.definition)

    def users_of(self, definition: str) -> list[tuple[GraphIndex, str]]:
        """Return the nodes that show a definition, as (graph, node name)."""
        return [(self.graphs[graph], node) for graph, node in self.users.get(definition, {})]

    def blocks_of(self, definition: str) -> list[tuple[GraphIndex, str]]:
        """Return the Subgraph nodes among them: their ports are the definition's Input and Output nodes."""
        return [(graph, name) for graph, name in self.users_of(definition) if graph.nodes[name].type == "Subgraph"]

    def references(self, id: str, path: str) -> list[tuple[GraphIndex, Node, str]]:
        """Return the nodes that stand for tensors of a member of a graph, each with the member's path as it sees it."""
        graph = self.graphs[id]
        found = [
            (graph, node, path) for node in graph.nodes.values() if node.of and f"{node.of}.".startswith(f"{path}.")
        ]
        for outer, block in self.blocks_of(id):
            found += self.references(outer.id, f"{outer.nodes[block].member}.{path}")
        return found

    def is_box(self, definition: str) -> bool:
        """Return whether a graph is the inside of a Module node, whose own code runs it."""
        graph, name = next(iter(self.users.get(definition, {})), ("", ""))  # lint reports users of another kind
        return bool(name) and self.graphs[graph].nodes[name].is_box

    def use(self, graph: str, node: Node) -> None:
        if node.definition is not None:
            self.users.setdefault(node.definition, {})[graph, node.name] = None
            shown = self.graphs[graph].shown
            shown[node.definition] = shown.get(node.definition, 0) + 1

    def unuse(self, graph: str, node: Node) -> None:
        if node.definition is not None:
            del self.users[node.definition][graph, node.name]
            if not self.users[node.definition]:
                del self.users[node.definition]
            shown = self.graphs[graph].shown
            shown[node.definition] -= 1
            if not shown[node.definition]:
                del shown[node.definition]

    def contains(self, definition: str, wanted: str) -> bool:
        """Return whether the graph `definition` is, or shows at any depth, the graph `wanted`."""
        seen: set[str] = set()
        pending = [definition]
        while pending:
            if (id := pending.pop()) == wanted:
                return True
            if id not in seen:
                seen.add(id)
                pending.extend(self.graphs[id].shown)
        return False


def topological_order(graph: GraphIndex) -> tuple[list[str], list[str]]:
    """Return the names in an order in which every edge points forward, and the names on or after a loop."""
    waiting = {name: len({split_port(edge.source)[0] for edge in graph.edges_into(name)}) for name in graph.order}
    ready = [name for name in graph.order if not waiting[name]]
    for name in ready:
        for follower in dict.fromkeys(split_port(edge.target)[0] for edge in graph.edges_out_of(name)):
            waiting[follower] -= 1
            if not waiting[follower]:
                ready.append(follower)
    return ready, [name for name in graph.order if waiting[name]]


def detour(inside: Collection[str], followers: Callable[[str], Iterable[str]]) -> str | None:
    """Return the last node of a path that leaves some nodes and comes back to them, or None."""
    pending = [name for start in inside for name in followers(start) if name not in inside]
    seen = set(pending)
    while pending:
        name = pending.pop()
        for follower in followers(name):
            if follower in inside:
                return name
            if follower not in seen:
                seen.add(follower)
                pending.append(follower)
    return None


def _kept(things: Mapping[str, T], name: object, error: type[GraphError], what: str, where: str = "") -> T:
    found = things.get(name) if isinstance(name, str) else None
    if found is None:
        raise error(f"There is no {what} {shown(name)}{where}.{near(name, things)}")
    return found


OWN_PORTS = ("Subgraph", "Module")
"""Types whose nodes have ports of their own; a node of another type has the ports of its type."""

KEYWORDS = "*"
"""Among the inputs that a Module lists: those after it are passed by keyword, as in a signature. No port."""


def input_ports(content: Content, node: Node, types: Mapping[str, NodeSpec]) -> tuple[Port, ...] | None:
    """Return the inputs of a node in the order of the call; None if its type is not registered."""
    return _ports(content, node, types, outputs=False)


def output_ports(content: Content, node: Node, types: Mapping[str, NodeSpec]) -> tuple[Port, ...] | None:
    """Return the outputs of a node; None if its type is not registered."""
    return _ports(content, node, types, outputs=True)


def find_input(content: Content, node: Node, name: str, types: Mapping[str, NodeSpec]) -> Port | None:
    """Return the input that `name` addresses, or None; see `NodeSpec.input_named`.

    A node of an unregistered type has the ports that its edges name.
    """
    spec = types.get(node.type)
    own = None if spec is None else _own_names(content, node, spec, outputs=False)
    if spec is None or (own is not None and name in own):
        return Port(name=name, kind="value")
    return spec.input_named(name) if own is None else None


def find_output(content: Content, node: Node, name: str, types: Mapping[str, NodeSpec]) -> Port | None:
    """Return the output of that name, or None; a node of an unregistered type has the ports that its edges name."""
    spec = types.get(node.type)
    own = None if spec is None else _own_names(content, node, spec, outputs=True)
    if spec is None or (own is not None and name in own):
        return Port(name=name, kind="value")
    for port in spec.present_outputs(node.properties) if own is None else ():  # for every edge: faster than a generator
        if port.name == name:
            return port
    return None


def _ports(content: Content, node: Node, types: Mapping[str, NodeSpec], *, outputs: bool) -> tuple[Port, ...] | None:
    spec = types.get(node.type)
    if spec is None:
        return None
    own = _own_names(content, node, spec, outputs=outputs)
    if own is not None:
        return tuple(Port(name=name, kind="value") for name in own)
    return spec.present_outputs(node.properties) if outputs else spec.inputs


def _own_names(content: Content, node: Node, spec: NodeSpec, *, outputs: bool) -> tuple[str, ...] | None:
    """Return the names of a node's own ports, which may be thousands; None if it has those of its type."""
    if node.type == "Subgraph":
        return content.graphs[node.definition].interface[outputs] if node.definition is not None else ()
    if node.type != "Module":
        return None
    declared = spec.property_named(side := "outputs" if outputs else "inputs")
    names = node.properties.get(side, declared.default if declared is not None else ())
    # A damaged file may have anything there.
    listed = names if isinstance(names, tuple) else ()
    return tuple(name for name in listed if isinstance(name, str) and name != KEYWORDS)
