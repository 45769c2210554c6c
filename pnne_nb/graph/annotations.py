"""`Frames`: reads and edits the frames of a document."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import final

from pnne_nb.errors import GraphError, expect
from pnne_nb.graph.edits.transactions import TransactionLog
from pnne_nb.graph.layout.arrange_graph import arrangement, drawn_right
from pnne_nb.graph.layout.cards import faces
from pnne_nb.graph.layout.inlining import Inlining, inlining
from pnne_nb.graph.model.annotation import Box, Frame, Held, around, held
from pnne_nb.graph.model.content import GraphIndex
from pnne_nb.graph.model.node import Node
from pnne_nb.graph.model.ops import AddFrame, ChangeFrame, MoveNode, Op, RemoveFrame
from pnne_nb.graph.model.paths import NodeRef, enter, find_node, path_of
from pnne_nb.graph.model.validate import Types
from pnne_nb.graph.schema.names import numbered, split_path


@final
class Frames(Mapping[str, Frame]):
    """The frames of a document's outermost graph by name; those of a nested one by path: ``"block.frame1"``.

    Every change is one undoable transaction of the document.
    """

    def __init__(self, ledger: TransactionLog, types: Types) -> None:
        self._ledger = ledger
        self._types = types

    def __getitem__(self, path: str) -> Frame:
        with self._ledger.lock:
            graph, name = self._find(path)
            return graph.require_frame(name)

    def __iter__(self) -> Iterator[str]:
        with self._ledger.lock:
            return iter(sorted(self._ledger.content.graphs[""].frames))

    def __len__(self) -> int:
        with self._ledger.lock:
            return len(self._ledger.content.graphs[""].frames)

    def __repr__(self) -> str:
        return f"Frames({', '.join(self)})"

    def held(self, path: str) -> Held:
        """Return the names of the nodes and frames inside a frame, which move with it.

        Raises:
            GraphError: If there is no such frame.
        """
        with self._ledger.lock:
            graph, name = self._find(path)
            return _held(graph, graph.require_frame(name))

    def add(
        self,
        title: str = "",
        *,
        around: Iterable[NodeRef] = (),
        box: Box | None = None,
        text: str = "",
        colour: str = "grey",
        name: str | None = None,
    ) -> Frame:
        """Add a frame around nodes, or with a box.

        Args:
            title: A line at its top.
            around: Nodes of one graph. If one of them has no place yet, the graph is arranged first.
            box: Left, top, width and height in the editor's pixels, instead of `around`.
            text: The text under the title.
            colour: ``"grey"``, ``"blue"``, ``"green"``, ``"yellow"``, ``"red"`` or ``"purple"``.
            name: Its name, or the path of a new frame in a nested graph; numbered if None.

        Raises:
            GraphError: If there are neither nodes nor a box, or the nodes are in several graphs.
            UnknownNodeError, NameTakenError, IllegalNameError, BadValueError: If an argument does not fit.
        """
        expect(around, (str, Node, Iterable), "around", "nodes of the graph, or their names")
        expect(title, str, "title", "a text")
        nodes = [around] if isinstance(around, (str, Node)) else list(around)
        with self._ledger.transaction(f"Frame {title or name or 'nodes'}"):
            prefix, _, last = ("", "", "") if name is None else split_path(name)
            graph = enter(self._ledger.content, prefix)
            if nodes:
                found = [find_node(self._ledger.content, ref) for ref in nodes]
                graph = found[0][0]
                if any(other is not graph for other, _, _ in found):
                    raise GraphError("Only nodes of the same graph can be framed.")
                if any(node.position is None for _, node, _ in found):
                    self._ledger.apply(arrangement(self._ledger.content, graph.id, self._types))
                box = self._around(graph, [graph.nodes[node.name] for _, node, _ in found])
            if box is None:
                raise GraphError('A frame needs a place: frames.add("Encoder", around=["conv1"]), or box=(…).')
            frame = Frame(last or numbered("frame", graph.frames), box, title, text, colour)
            self._ledger.apply([AddFrame(frame.name, box, title, text, colour, graph.id)])
            return graph.frames[frame.name]

    def change(
        self,
        path: str,
        *,
        title: str | None = None,
        text: str | None = None,
        colour: str | None = None,
        box: Box | None = None,
    ) -> None:
        """Change a frame; the nodes inside stay where they are.

        Raises:
            GraphError: If there is no such frame.
            BadValueError: If a value does not fit.
        """
        with self._ledger.editing():
            graph, name = self._find(path)
            self._ledger.apply([ChangeFrame(name, box, title, text, colour, graph.id)])

    def move(self, path: str, dx: float, dy: float) -> None:
        """Move a frame and its contents by a number of pixels.

        Raises:
            GraphError: If there is no such frame.
            BadValueError: If a number is not finite.
        """
        with self._ledger.editing():
            graph, name = self._find(path)
            frame = graph.require_frame(name)
            inside = _held(graph, frame)
            ops: list[Op] = []
            for moved in (frame, *(graph.frames[other] for other in inside.frames)):
                left, top, width, height = moved.box
                ops.append(ChangeFrame(moved.name, box=(left + dx, top + dy, width, height), graph=graph.id))
            for node in inside.nodes:
                x, y = graph.nodes[node].position or (0.0, 0.0)
                ops.append(MoveNode(node, (x + dx, y + dy), graph.id))
            self._ledger.apply(ops, f"Move frame {name}")

    def remove(self, path: str) -> None:
        """Remove a frame; its contents stay.

        Raises:
            GraphError: If there is no such frame.
        """
        with self._ledger.editing():
            graph, name = self._find(path)
            self._ledger.apply([RemoveFrame(name, graph.id)])

    def _find(self, path: str) -> tuple[GraphIndex, str]:
        prefix, _, name = path_of(path).rpartition(".")
        return enter(self._ledger.content, prefix), name

    def _around(self, graph: GraphIndex, nodes: Sequence[Node]) -> Box:
        boxes: list[Box] = []
        across = drawn_right(graph)
        inlined = inlining(graph)
        shown = faces(self._ledger.content, graph, self._types, inlined, across=across)
        if not any(node.name in shown for node in nodes):
            # All of them are written on other cards: use the cards that they have when they are drawn.
            shown = faces(self._ledger.content, graph, self._types, Inlining(), across=across)
        for node in nodes:
            if node.name not in shown:
                continue
            shape = shown[node.name].geometry
            x, y = node.position or (0.0, 0.0)  # all are placed by now
            boxes.append((x - shape.width / 2, y - shape.height / 2, shape.width, shape.height))
        return around(boxes)


def _held(graph: GraphIndex, frame: Frame) -> Held:
    return held(frame, graph.places(), graph.frames.values())
