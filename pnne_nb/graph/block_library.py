"""The user's blocks: nested graphs, offered in the palette of every editor.

The library is itself a document with one Subgraph node for each block: a library file is a graph file, and an editor can open
it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import final

from pnne_nb.errors import GraphError, UnknownNodeError, near, shown
from pnne_nb.graph import storage
from pnne_nb.graph.document import NodeGraph, expect_graph
from pnne_nb.graph.edits.definitions import graft
from pnne_nb.graph.model.content import Content
from pnne_nb.graph.model.node import Node
from pnne_nb.graph.model.ops import AddNode
from pnne_nb.graph.model.paths import enter
from pnne_nb.graph.schema.names import numbered, split_path, stem_of
from pnne_nb.graph.storage import read_file


@final
class BlockLibrary(Mapping[str, Node]):
    """Blocks by name.

    Attributes:
        graph: The document that holds them.
    """

    def __init__(self) -> None:
        self.graph = NodeGraph("blocks")

    def __getitem__(self, name: str) -> Node:
        return self.graph.nodes[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.graph.nodes)

    def __len__(self) -> int:
        return len(self.graph.nodes)

    def __repr__(self) -> str:
        return f"BlockLibrary({', '.join(self)})"

    def publish(self, graph: NodeGraph, node: str, name: str = "") -> Node:
        """Offer the graph of a Subgraph node as a block; a block of the same name is replaced.

        Graphs that use a replaced block do not change: a block is copied when it is used.

        Args:
            graph: The document.
            node: Path of the Subgraph node.
            name: The block's name; that of the definition if empty.

        Raises:
            UnknownNodeError: If there is no such node.
            GraphError: If it is no Subgraph node.
            IllegalNameError: If the name is not legal.
            UnknownTypeError: If a node in it is of a type that is not registered.
        """
        expect_graph(graph)
        found = graph[node]
        if found.definition is None or found.is_box:
            raise GraphError(f"{node} is a {found.type}: only a Subgraph node can become a block. Group nodes first.")
        return self._take(storage.read(graph.to_json()), found.definition, name or found.definition)

    def remove(self, name: str) -> None:
        """Remove a block; graphs that use it do not change.

        Raises:
            UnknownNodeError: If there is no such block.
        """
        self._require(name)
        self.graph.remove(name)

    def insert(self, name: str, graph: NodeGraph, node: str | None = None) -> Node:
        """Add a block to a document, as one undoable change.

        Uses of one block in a document show one definition: an edit in one of them changes all.

        Args:
            name: The block.
            graph: The document.
            node: Name of the new node, or its path in a nested graph; numbered if None.

        Raises:
            UnknownNodeError: If there is no such block.
            NameTakenError, IllegalNameError: If the node cannot have that name.
        """
        expect_graph(graph)
        definition = self._require(name).definition
        if definition is None:
            raise GraphError(f"{name} in the library shows no graph: blocks.remove({name!r}), and publish it again.")
        source, target = (storage.read(each.to_json()) for each in (self.graph, graph))
        within = enter(target, split_path(node)[0] if node is not None else "")
        ops, id = graft(source, definition, target, within.id)
        with graph.transaction(f"Add {name}"):
            graph.apply(ops)
            return graph.add("Subgraph", node or numbered(stem_of(name), within.nodes), definition=id)

    def save(self, path: str | Path) -> None:
        """Write all blocks to a graph file, by custom named ``….pnne.json``.

        Raises:
            GraphFileError: If it cannot be written.
        """
        self.graph.save(path)

    def load(self, path: str | Path) -> tuple[str, ...]:
        """Add the blocks of a graph file, every nested graph that its outermost graph shows, and return their names.

        Raises:
            GraphFileError: If the file cannot be read.
            GraphError: If there is no nested graph in it.
        """
        return self.load_text(read_file(path))

    def load_text(self, text: str | bytes) -> tuple[str, ...]:
        """Add the blocks in the text of a graph file; see `load`."""
        content = storage.read(text)
        shown_by = {node.name: node.definition for node in content.graphs[""].nodes.values()}
        names = [(name, definition) for name, definition in shown_by.items() if definition is not None]
        if not names:
            raise GraphError(
                "There is no block in this file: it has no nested graph. Group nodes, then publish the block."
            )
        with self.graph.transaction(f"Load {len(names)} blocks"):
            return tuple(self._take(content, definition, name).name for name, definition in names)

    def _take(self, source: Content, definition: str, name: str) -> Node:
        with self.graph.transaction(f"Publish {name}"):
            if name in self.graph.nodes:
                self.graph.remove(name)
            ops, id = graft(source, definition, storage.read(self.graph.to_json()), "", name)
            self.graph.apply([*ops, AddNode(name, "Subgraph", {"definition": id})])
            return self.graph[name]

    def _require(self, name: str) -> Node:
        if name not in self.graph.nodes:
            raise UnknownNodeError(f"There is no block {shown(name)}.{near(name, self)}")
        return self.graph[name]


blocks = BlockLibrary()
"""The blocks of this process."""
