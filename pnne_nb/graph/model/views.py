"""Read-only views of a document, always up to date; they read under the document's lock."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from typing import final

from pnne_nb.graph.model.content import Content, GraphIndex, input_ports, output_ports, topological_order
from pnne_nb.graph.model.node import Edge, Node, split_port
from pnne_nb.graph.model.paths import path_of
from pnne_nb.graph.model.validate import Types
from pnne_nb.graph.schema.spec import Port


@final
class Nodes(Mapping[str, Node]):
    """Nodes by name, in their order."""

    def __init__(self, graph: Callable[[], GraphIndex], lock: threading.RLock) -> None:
        self._graph = graph
        self._lock = lock

    def __getitem__(self, name: str) -> Node:
        with self._lock:
            graph = self._graph()
            try:
                return graph.nodes[name]
            except (KeyError, TypeError):
                return graph.require(path_of(name))

    def __iter__(self) -> Iterator[str]:
        with self._lock:
            return iter(tuple(self._graph().order))

    def __len__(self) -> int:
        with self._lock:
            return len(self._graph().order)

    def _ipython_key_completions_(self) -> list[str]:
        return list(self)

    def copy(self) -> dict[str, Node]:
        """Return the current nodes; later changes do not affect the result."""
        with self._lock:
            graph = self._graph()
            return dict(zip(graph.order, map(graph.nodes.__getitem__, graph.order), strict=True))

    def __repr__(self) -> str:
        return f"Nodes({', '.join(self)})"


@final
class GraphView:
    """One graph of a document: the root (id ``""``) or a definition."""

    def __init__(self, content: Callable[[], Content], id: str, types: Types, lock: threading.RLock) -> None:
        self.id = id
        self.nodes = Nodes(self._index, lock)
        self._content = content
        self._types = types
        self._lock = lock

    def _index(self) -> GraphIndex:
        return self._content().require(self.id)

    @property
    def edges(self) -> tuple[Edge, ...]:
        """All edges, in the order of their creation."""
        with self._lock:
            return tuple(self._index().edges.values())

    @property
    def frames(self) -> tuple[str, ...]:
        """Names of the frames."""
        with self._lock:
            return tuple(sorted(self._index().frames))

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of the Input nodes: the arguments of the forward pass, in their order."""
        with self._lock:
            return self._index().interface[0]

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of the Output nodes: the results, in their order."""
        with self._lock:
            return self._index().interface[1]

    def sources(self, node: str) -> dict[str, str]:
        """Return the sources of a node: output ``"node.port"`` by input port, variadic places in the order of their index.

        Raises:
            UnknownNodeError: If there is no such node.
        """
        with self._lock:
            index = self._index()
            index.require(node)
            edges = index.edges_into(node)
        pairs = [(split_port(edge.target)[1], edge.source) for edge in edges]
        return dict(sorted(pairs, key=lambda pair: _place(pair[0])))

    def consumers(self, node: str) -> tuple[Edge, ...]:
        """Return the edges that leave a node, in their order.

        Raises:
            UnknownNodeError: If there is no such node.
        """
        with self._lock:
            index = self._index()
            index.require(node)
            return tuple(index.edges_out_of(node))

    def input_ports(self, node: str) -> tuple[Port, ...] | None:
        """Return the current inputs of a node, in the order of the call; None if its type is not registered."""
        with self._lock:
            return input_ports(self._content(), self._index().require(node), self._types)

    def output_ports(self, node: str) -> tuple[Port, ...] | None:
        """Return the current outputs of a node; None if its type is not registered."""
        with self._lock:
            return output_ports(self._content(), self._index().require(node), self._types)

    def order(self) -> tuple[str, ...]:
        """Return the names of all nodes, each after its sources; otherwise in the order of `nodes`."""
        with self._lock:
            return tuple(topological_order(self._index())[0])

    def __repr__(self) -> str:
        return f"GraphView {self.id!r}: {len(self.nodes)} nodes, {len(self.edges)} edges"


@final
class Graphs(Mapping[str, GraphView]):
    """The graphs of a document by id, the root first."""

    def __init__(self, content: Callable[[], Content], types: Types, lock: threading.RLock) -> None:
        self._content = content
        self._types = types
        self._lock = lock

    def __getitem__(self, id: str) -> GraphView:
        with self._lock:
            self._content().require(id)
            return GraphView(self._content, id, self._types, self._lock)

    def __iter__(self) -> Iterator[str]:
        with self._lock:
            return iter(tuple(self._content().graphs))

    def __len__(self) -> int:
        with self._lock:
            return len(self._content().graphs)


def _place(port: str) -> tuple[str, int]:
    stem, _, index = port.rpartition("_")
    return (stem, int(index)) if stem and index.isdecimal() else (port, -1)
