"""`NodeGraph`: the document of a graph, without torch.

Every change becomes ops, which its `TransactionLog` checks, stages, and commits, all of them or none.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Self, final, get_args

from msgspec.structs import replace

from pnne_nb.errors import ArgumentError, GraphError, answers_misuse, choose, expect, shown
from pnne_nb.graph import storage
from pnne_nb.graph.annotations import Frames
from pnne_nb.graph.edits import bulk, freezing, group_plans
from pnne_nb.graph.edits.add_node import addition, connection, edges_between, loose_end, parts_of, place
from pnne_nb.graph.edits.apply import apply_op
from pnne_nb.graph.edits.bulk import Chosen
from pnne_nb.graph.edits.definitions import own_definition
from pnne_nb.graph.edits.rebase import rebase, withdraw
from pnne_nb.graph.edits.transactions import TransactionLog
from pnne_nb.graph.layout.arrange_graph import CELL_OF_A_NOTEBOOK, View, arrangement
from pnne_nb.graph.layout.layered import Direction
from pnne_nb.graph.model.content import Content
from pnne_nb.graph.model.node import Edge, Node, Transaction
from pnne_nb.graph.model.ops import (
    CollapseNode,
    Connect,
    Disconnect,
    MoveNode,
    Op,
    RemoveNode,
    RenameDocument,
    RenameNode,
    ResetProperty,
    SetOrigin,
    SetProperty,
)
from pnne_nb.graph.model.origin import FreeSizes
from pnne_nb.graph.model.paths import NodeRef, find_node, path_of
from pnne_nb.graph.model.validate import Types
from pnne_nb.graph.queries import GraphQueries
from pnne_nb.graph.schema.names import numbered, stem_of
from pnne_nb.graph.schema.registry import registry
from pnne_nb.graph.storage import read_file


@final
class NodeGraph(GraphQueries):
    """A document: nodes and edges, nested graphs, undo, files.

    Nodes are named by themselves, their names, or ``"node.port"``::

        graph = pn.NodeGraph(name="classifier")
        graph.add("Input", name="image", shape=("N", 64))  # N: any batch size
        graph.add("Linear", name="classify", out_features=10)  # in_features is inferred
        graph.add("Output", name="logits")
        graph.connect("image", "classify", "logits")
        with graph.transaction("Make room"):  # one change, for one undo
            graph.set("classify", out_features=20)
            graph.rename("classify", "hidden")
        graph.undo()
        model = pn.compile(graph)

    Names of nodes may be paths into nested graphs (``"block.conv1"``). All methods are safe from any thread. A change
    that is refused raises an error and leaves no trace.

    Attributes:
        nodes: The nodes of the outermost graph by name, in their order: a read-only mapping.
        graphs: Every graph by id, the outermost one (``""``) first; several nodes may show a nested one.
        sizes: Named sizes: after ``graph.sizes["hidden"] = 64``, ``"4*hidden"`` is a number in any property.
        frames: Titled rectangles behind the nodes.

    Args:
        name: Its name, and that of the generated class.
        types: The catalogue to check against; by default the process-wide one.

    Raises:
        IllegalNameError: If `name` is not a printable text of 1 to 100 characters.
    """

    frames: Frames

    @answers_misuse('pn.NodeGraph("net"), or pn.sequential(nn.Linear(4, 8), nn.ReLU(), input=("N", 4)) of layers')
    def __init__(self, name: str = "Model", *, types: Types = registry) -> None:
        if type(name) is str and name.endswith(".json"):  # anything else is refused below
            raise ArgumentError(
                f"{shown(name)} is the name of a file. Write pn.NodeGraph.load({shown(name)}) to read it."
            )
        content = Content(name)
        apply_op(content, RenameDocument(name))
        super().__init__(TransactionLog(content, types, self.__repr__), types)
        self.frames = Frames(self._ledger, types)

    @property
    def name(self) -> str:
        """The document's name."""
        return self._content.name

    @name.setter
    def name(self, name: str) -> None:
        self.apply([RenameDocument(name)])

    # Editing

    @answers_misuse('graph.add("Linear", name="fc", out_features=10)')
    def add(
        self,
        type: object,
        /,
        *arguments: object,
        name: str | None = None,
        x: float | None = None,
        y: float | None = None,
        **properties: object,
    ) -> Node:
        """Add a node.

        All of these add the same::

            graph.add("Linear", name="fc", in_features=784, out_features=128)
            graph.add("Linear", 784, 128, name="fc")
            graph.add(nn.Linear, 784, 128, name="fc")
            graph.add(nn.Linear(784, 128), name="fc")

        A layer gives its arguments, and not its weights: ``pn.from_module`` with ``pn.compile(graph, reuse=net)`` keeps
        weights.

        Args:
            type: Name of the type in the catalogue, its class or function, or a layer.
            arguments: Arguments of the constructor, in torch's order; a text in front of them is the name.
            name: Its name, or the path of a new node in a nested graph; numbered by the type if None.
            x: Horizontal centre in the editor's pixels; with None for both, the editor arranges the node.
            y: Vertical centre.
            properties: Values by property name; those called ``name``, ``x`` or ``y`` need `set`.

        Raises:
            UnknownTypeError: If the catalogue has no such type.
            UnknownPropertyError: If the type has no such property.
            BadValueError: If a value does not fit its property.
            NameTakenError: If the name is taken.
            IllegalNameError: If the name is not legal.
            ArgumentError: If an argument is given twice, or is positional and there is no order.
        """
        with self._ledger.editing():
            at = place(None, x, y)
            op, path = addition(self._content, self._types, type, arguments, name, properties, at)
            self._ledger.apply([op])
            return self[path]

    def chain(self, *layers: object, after: NodeRef | None = None) -> tuple[Node, ...]:
        """Add layers and connect each to the one before, as one undoable change.

        ::

            graph.chain(nn.Conv2d(1, 6, 5), "ReLU", ("Linear", {"out_features": 84}), ("head", nn.Linear(84, 10)))

        Args:
            layers: Each is the first argument of `add`; or a tuple of that and its arguments, the last of which may be a
                mapping of properties by name (also ``name``); or a pair of a name and a layer; or a node of the graph,
                which is connected as it is.
            after: The node before the first one. None: the one node with an unused output, if the graph has nodes.

        Returns:
            The nodes.

        Raises:
            GraphError: If a layer or an edge is not legal, as for `add` and `connect`, or the node before the first one is
                not clear; the graph is as before.
        """
        with self.transaction(f"Add {len(layers)} layers"):
            before: NodeRef | None = after
            if before is None and layers and not isinstance(layers[0], Node):
                before = loose_end(self._content, self._types)
            nodes = []
            for layer in layers:
                if isinstance(layer, Node):
                    node = layer
                else:
                    type, arguments, properties = parts_of(layer)
                    node = self.add(type, *arguments, **properties)  # type: ignore[arg-type]  # checked there
                if before is not None:
                    self.connect(before, node)
                before = node
                nodes.append(node)
            return tuple(nodes)

    @answers_misuse('graph.set("fc", out_features=10)')
    def set(self, nodes: Chosen, /, *, type: object = None, **properties: object) -> None:
        """Set property values, or give nodes another type in their place, as one change.

        ::

            graph.set("conv1", out_channels=8)
            graph.set("layer*.relu", type="GELU")
            graph.set(["drop1", "drop2"], p=0.1)

        Args:
            nodes: A node, its path, a pattern of paths (``*`` stands for any letters and dots), or several of these.
            type: Name of the new type; edges keep their ports by name or place, and values that the new type has too are kept.
            properties: Values by property name.

        Raises:
            UnknownNodeError, UnknownTypeError, UnknownPropertyError, BadValueError: If one of them does not fit; none is set.
            GraphError: If a node cannot have the type; nothing is changed.
        """
        with self._ledger.editing():
            found = bulk.places(self._content, nodes)
            one = len(found) == 1 and type is None
            values = [
                SetProperty(node.name, name, value, graph.id)
                for graph, node, _ in found
                for name, value in properties.items()
            ]
            if one:
                self._ledger.apply(values)
                return
            with self.transaction(
                f"Change {len(found)} nodes" if type is None else f"Change {_counted(found)} to {type}"
            ):
                if type is not None:
                    for ops in bulk.retype_all(lambda: self._content, found, type, self._types):
                        self._ledger.apply(ops)
                self._ledger.apply(values)

    @answers_misuse('graph.reset("a", "bias"), or graph.undo()')
    def reset(self, node: NodeRef, /, *properties: str) -> None:
        """Reset properties to their defaults; those without one are then missing.

        Raises:
            UnknownNodeError, UnknownPropertyError: If the node or a property does not exist.
        """
        with self._found(node) as (found, graph):
            self._ledger.apply([ResetProperty(found.name, name, graph) for name in properties])

    @answers_misuse('graph.rename("fc", "head")')
    def rename(self, node: NodeRef, name: str) -> None:
        """Rename a node; edges and references follow.

        Args:
            node: The node, or its path.
            name: Its new name, without a path.

        Raises:
            UnknownNodeError, NameTakenError, IllegalNameError: If there is no such node, or the name is taken or not legal.
        """
        with self._found(node) as (found, graph):
            self._ledger.apply([RenameNode(found.name, name, graph)])

    def move(self, node: NodeRef, x: float | None = None, y: float | None = None) -> None:
        """Place a node's centre at (x, y) in the editor's pixels; without both, the editor arranges it again.

        Raises:
            UnknownNodeError: If there is no such node.
            BadValueError: If a coordinate is not a finite number.
        """
        with self._found(node) as (found, graph):
            self._ledger.apply([MoveNode(found.name, place(found.position, x, y), graph)])

    def collapse(self, *nodes: NodeRef, collapsed: bool = True) -> None:
        """Show only the names of nodes in the editor, or with ``collapsed=False`` all of them again.

        Raises:
            UnknownNodeError: If one of them does not exist; none is collapsed.
        """
        with self._ledger.editing():
            found = [find_node(self._content, node) for node in nodes]
            self._ledger.apply([CollapseNode(node.name, collapsed, graph.id) for graph, node, _ in found])

    @answers_misuse('graph.connect("x", "fc", "y")', to='graph.connect("x", "fc")')
    def connect(self, source: NodeRef, target: NodeRef, *further: NodeRef) -> Edge:
        """Add an edge, or with more than two ends one from each to the next, and return the last.

        A bare node means its first free port that fits; the bare name of a variadic input (``"cat1.tensors"``) means its
        next free place.

        Args:
            source: A node, its path, or ``"node.port"`` for one of its outputs.
            target: Likewise, for one of its inputs.
            further: Nodes or their paths: ``graph.connect("x", "conv1", "relu1", "y")``.

        Raises:
            UnknownNodeError, UnknownPortError: If an end does not exist.
            PortTakenError: If the input is fed already.
            KindMismatchError: If the ports carry different kinds.
            CycleError: If the edge would close a loop.
        """
        if further:
            ends = (source, target, *further)
            with self.transaction(f"Connect {len(ends)} nodes"):
                return [self.connect(*pair) for pair in pairwise(ends)][-1]
        with self._ledger.editing():
            done = self._ledger.apply([connection(self._content, source, target, self._types)])
            # Marks of proofs that the edge ends may follow.
            edge = next(op for op in done.ops if isinstance(op, Connect))
            return Edge(edge.source, edge.target)

    def disconnect(self, source: NodeRef, target: NodeRef) -> None:
        """Remove the edge between two ports, or every edge between two nodes.

        Args:
            source: A node, its path, or ``"node.port"``.
            target: Likewise.

        Raises:
            UnknownNodeError, UnknownPortError: If there is none.
        """
        with self._ledger.editing():
            graph, edges = edges_between(self._content, source, target)
            self._ledger.apply([Disconnect(edge.source, edge.target, graph.id) for edge in edges])

    def remove(self, *nodes: NodeRef | Sequence[NodeRef], reconnect: bool = False) -> None:
        """Remove nodes and their edges, and definitions that no node shows any more, as one change.

        Args:
            nodes: The nodes, their paths, or patterns of paths; also in one list.
            reconnect: Whether what feeds each node then feeds what that node fed.

        Raises:
            UnknownNodeError: If one of them does not exist; none is removed.
            GraphError: If a gap cannot be closed, because not exactly one output feeds the node; none is removed.
        """
        with self._ledger.editing():
            found = bulk.places(self._content, *nodes)
            with self.transaction(f"Remove {_counted(found)}"):
                for place in found:
                    if reconnect:
                        self._ledger.apply(bulk.bypass(self._content, place, self._types))
                    self._ledger.apply([RemoveNode(place.node.name, place.graph.id)])
                    if place.node.definition is not None:
                        self._ledger.apply(group_plans.discarding(self._content, place.node.definition))

    def insert_after(
        self, nodes: Chosen, type: object, /, *, name: str | None = None, **properties: object
    ) -> list[Node]:
        """Add a node behind each of some nodes, as one change: what their first output fed is fed by the new node.

        ::

            graph.insert_after("*.relu", "Dropout", p=0.1)

        Args:
            nodes: A node, its path, a pattern of paths, or several of these.
            type: The type of the new nodes, as for `add`.
            name: The name of the new node, if it is one; numbered by the type if None.
            properties: Their property values.

        Returns:
            The new nodes, in the order of those that they follow.

        Raises:
            UnknownNodeError, UnknownTypeError, UnknownPropertyError, BadValueError: If one of them does not fit.
            GraphError: If a node has no output, or the new one no port that fits; nothing is changed.
        """
        with self._ledger.editing():
            found = bulk.places(self._content, nodes)
            made = []
            with self.transaction(f"Insert {len(found)} nodes" if len(found) > 1 else ""):
                for place in found:
                    new, _ = addition(self._content, self._types, type, (), None, properties, None)
                    own = (
                        name if name is not None and len(found) == 1 else numbered(stem_of(new.type), place.graph.nodes)
                    )
                    self._ledger.apply(bulk.insert_after(self._content, place, replace(new, name=own), self._types))
                    made.append(f"{place.prefix}{own}")
            return [self[path] for path in made]

    def freeze(self, *nodes: Chosen, eval_mode: bool = False) -> list[str]:
        """Have training leave the weights of nodes and blocks as they are, as one change.

        ::

            graph.freeze("layer1", "bn*")  # of a block, everything inside
            graph.freeze("backbone", eval_mode=True)  # batch norms keep their statistics too, and dropout is off

        The model that `compile` makes does not require their gradients, its source says so, and an engine's optimizer
        gets the others. Where a block is shown several times and not all are meant, this one gets its own definition.

        Args:
            nodes: Nodes, their paths, or patterns of paths; a pattern means the nodes with weights that fit.
            eval_mode: Whether those that differ in eval mode, such as blocks and batch norms, stay in it as well.

        Returns:
            The paths of what is frozen now, without what is inside these.

        Raises:
            UnknownNodeError: If one of them does not exist; none is frozen.
            GraphError: If a node has no weights, or no node with weights fits a pattern.
        """
        with self._ledger.editing():
            paths = freezing.chosen_paths(self._content, nodes, self._types, "freeze")
            with self.transaction(f"Freeze {_named(paths)}"):
                for ops in freezing.unshare(self._content, paths):
                    self._ledger.apply(ops)
                for path in paths:
                    self._ledger.apply(freezing.freeze(self._content, path, self._types, eval_mode=eval_mode))
            return paths

    def unfreeze(self, *nodes: Chosen) -> list[str]:
        """Have the weights of nodes and blocks trained again, as one change; the inverse of `freeze`.

        Of a node inside a frozen block, the others inside stay frozen.

        Args:
            nodes: Nodes, their paths, or patterns of paths.

        Returns:
            The paths of what is trained now, without what is inside these.

        Raises:
            UnknownNodeError: If one of them does not exist.
            GraphError: If a node has no weights, or no node with weights fits a pattern.
        """
        with self._ledger.editing():
            paths = freezing.chosen_paths(self._content, nodes, self._types, "unfreeze")
            with self.transaction(f"Unfreeze {_named(paths)}"):
                for path in paths:
                    for ops in freezing.unfreeze(self._content, path, self._types):
                        self._ledger.apply(ops)
            return paths

    def replace_head(self, classes: int, *, at: NodeRef | None = None) -> Node:
        """Put a new last layer in the place of the old one, for another number of classes, as one change.

        It has the old name, edges, type and input size, fresh weights, and is trained, also inside a frozen block::

            graph = pn.from_module(resnet, args=(x,))
            graph.freeze("*")
            graph.replace_head(10)

        Args:
            classes: The number of classes: its ``out_features`` or ``out_channels``, 1 or more.
            at: The layer; by default the last Linear or Conv before the Output.

        Raises:
            UnknownNodeError: If there is no such node.
            BadValueError: If `classes` is no such number.
            GraphError: If the layer is no head, several could be, or it shares its weights.
        """
        with self._ledger.editing():
            path = freezing.head_of(self._content) if at is None else self._at(path_of(at)).path
            with self.transaction(f"Replace the head {path}"):
                for ops in freezing.unfreeze(self._content, path, self._types):
                    self._ledger.apply(ops)
                self._ledger.apply(freezing.replace_head(self._content, path, classes))
            return self[path]

    @answers_misuse('graph.group(["a", "b"], name="block")')
    def group(self, nodes: Iterable[NodeRef], name: str | None = None, *, graph: str = "") -> Node:
        """Move nodes of one graph into a new nested graph, shown by one node of type ``"Subgraph"``.

        Edges that cross the border become Input and Output nodes of the nested graph, and so do unused results.

        Args:
            nodes: The nodes.
            name: Name of the new node; numbered if None.
            graph: The definition in which the paths of nodes start; by default the root.

        Raises:
            UnknownNodeError, NameTakenError, IllegalNameError: If a node or the name does not fit.
            CycleError: If a path leaves the group and comes back: its nodes must be grouped too.
            GraphError: If the nodes are in different graphs, or are Input or Output nodes.
        """
        expect(nodes, (str, Node, Iterable), "nodes", "nodes of the graph, or their names")
        refs = [nodes] if isinstance(nodes, (str, Node)) else list(nodes)
        with self._ledger.editing():
            plan = group_plans.plan_group(self._content, refs, name, graph, self._types)
            self._ledger.apply(plan.ops, f"Group {plan.name}", keeps_proofs=True)
            return self._at(plan.paths[0], graph)

    def ungroup(self, node: NodeRef, *, graph: str = "") -> list[Node]:
        """Replace a Subgraph node by its contents, the inverse of `group`, and return the nodes.

        Args:
            node: The node.
            graph: The definition in which the path of the node starts; by default the root.

        Raises:
            UnknownNodeError: If there is no such node.
            GraphError: If it is no Subgraph node, or shares its weights with another.
        """
        with self._ledger.editing():
            plan = group_plans.plan_ungroup(self._content, node, graph, self._types)
            self._ledger.apply(plan.ops, f"Ungroup {plan.name}", keeps_proofs=True)
            return [self._at(path, graph) for path in plan.paths]

    def make_own(self, node: NodeRef) -> Node:
        """Give a Subgraph node its own definition, if others show the same: edits inside then change it alone.

        Shared nodes on its path stay shared: all of their uses change.

        Raises:
            UnknownNodeError: If there is no such node.
            GraphError: If it is no Subgraph node.
        """
        with self._found(node) as (found, graph):
            if found.definition is None:
                raise GraphError(f"{found.name} is a {found.type}, not a nested graph: there is no definition to own.")
            ops = own_definition(self._content, self._content.graphs[graph], found, found.definition)
            if ops:
                self._ledger.apply(ops, f"Make {found.name} its own")
        return self[path_of(node)]

    def arrange(
        self,
        graph: str = "",
        *,
        direction: Direction = "down",
        nodes: Iterable[str] = (),
        values: bool = False,
        undoable: bool = True,
        view: View = CELL_OF_A_NOTEBOOK,
    ) -> Transaction:
        """Place every node of one graph automatically, as one undoable change.

        Other threads can edit meanwhile; if they add or remove nodes of this graph, it is arranged again.

        Args:
            graph: ``""`` for the root, or the id of a definition.
            direction: ``"down"``, ``"right"``, ``"columns"`` (edges run down, in several columns unless there are frames),
                or ``"auto"``: down if the graph can be read so in a cell, else the direction that makes it largest there.
            nodes: Names of the nodes to arrange, around their present places; all if empty.
            values: Whether sizes, constants and steps of an expression have their own cards.
            undoable: Whether `undo` reverts it; otherwise `undo` skips it.
            view: The view that the graph should fit into.

        Raises:
            GraphError: If there is no such graph or node.
        """
        choose(direction, get_args(Direction), "direction")
        nodes = tuple(nodes)
        while True:
            with self._ledger.lock:
                content = self._content.copy()
            some = [content.require(graph).require(name).name for name in nodes]
            moves = arrangement(content, graph, self._types, direction, nodes=some, values=values, view=view)
            with self._ledger.editing():
                now, before = self._content.require(graph), content.require(graph)
                if (now.nodes.keys(), now.frames.keys()) == (before.nodes.keys(), before.frames.keys()):
                    return self._ledger.apply(moves, "Arrange", undoable=undoable)

    # Committing

    def apply(self, ops: Iterable[Op], *, label: str = "", base: int | None = None) -> Transaction:
        """Apply ops, all of them or none, as one undoable change (or as part of the open `transaction`).

        Ops name what they change. Ops for an older version are checked against the present one, and applied if they fit.

        Args:
            ops: The changes, in order.
            label: The change in words; made from the ops if empty.
            base: The version of the document that the ops were made for.

        Raises:
            GraphError: If an op does not fit; the document and its version are as before.
            StaleVersionError: If this document has not reached the version `base`.
        """
        expect(ops, Iterable, "ops", "ops of pnne_nb.graph.model.ops")
        expect(label, str, "label", "a text")
        with self._ledger.editing():
            return self._ledger.apply(ops, label, base)

    @contextmanager
    def transaction(self, label: str = "") -> Iterator[Self]:
        """Combine all changes in the ``with`` block to one undoable change; an exception reverts them all.

        Other threads wait meanwhile. A transaction inside another is part of it, but reverts only its own changes.

        Args:
            label: The change in words, for the undo button; made from the changes if empty.
        """
        expect(label, str, "label", "a text")
        with self._ledger.transaction(label):
            yield self

    def undo(self) -> Transaction:
        """Revert the last change.

        Raises:
            GraphError: If there is none, or a transaction is open.
        """
        return self._ledger.undo()

    def redo(self) -> Transaction:
        """Apply the change again that was reverted last.

        Raises:
            GraphError: If there is none, or a transaction is open.
        """
        return self._ledger.redo()

    def begin_as(self, start: NodeGraph) -> bool:
        """Let this document have begun as another; its changes since, which undo reverts, are made again.

        Args:
            start: The other one, such as an import that has been proved since this one was drawn.

        Returns:
            Whether they fit. If not, or if one is inside a block that has other nodes there, nothing has changed.
        """
        return rebase(self._ledger, start._content, "Begin as proved")

    def note_sizes(self, sizes: Mapping[str, FreeSizes]) -> None:
        """Keep with the Inputs of an import, by name, which of their sizes the proof varied; undo does not revert that."""
        with self._ledger.editing():
            nodes = self._content.graphs[""].nodes
            told = {name: node.origin for name in sizes if (node := nodes.get(name)) and node.origin is not None}
            ops = [SetOrigin(name, replace(origin, sizes=sizes[name])) for name, origin in told.items()]
            self._ledger.apply(ops, "Note free sizes", undoable=False)

    def withdraw_proofs(self, reason: str, nodes: Collection[str] = ()) -> None:
        """Mark imported nodes as not proved; undo neither reverts that nor brings a proof back.

        Args:
            reason: Why they are not.
            nodes: Their paths; all of them if empty.
        """
        with self._ledger.editing():
            found = (find_node(self._content, node) for node in nodes)
            places = {(graph.id, node.name) for graph, node, _ in found}
            withdraw(self._ledger, reason, lambda *place: not places or place in places, "Withdraw proofs")

    @contextmanager
    def asked_by(self, client: str | None, request: int | None) -> Iterator[Self]:
        """Tell observers which client requested this thread's changes in the ``with`` block, and the number of the request.

        Args:
            client: The client, e.g. one view of an editor.
            request: The client's number for its request.
        """
        with self._ledger.asked_by(client, request):
            yield self

    @contextmanager
    def _found(self, node: NodeRef) -> Iterator[tuple[Node, str]]:
        """Yield a node to change, and the id of its graph."""
        with self._ledger.editing():
            graph, found, _ = find_node(self._content, node)
            yield found, graph.id

    # Files

    def __reduce__(self) -> tuple[Callable[[str], NodeGraph], tuple[str]]:
        """Pickle only the content, as in a file."""
        return NodeGraph.from_json, (self.to_json(),)

    def __copy__(self) -> Self:
        """Copy the content, as in a file, and what is kept beside it, such as where the weights are."""
        with self.reading():
            copy = self.from_json(self.to_json(), types=self._types)
            copy.tables = self.tables
            if self.annex is not None:
                copy.annex = self.annex.for_copy(copy)
        return copy

    def __deepcopy__(self, memo: object) -> Self:
        return self.__copy__()

    @classmethod
    def from_json(cls, text: str | bytes, *, types: Types = registry) -> Self:
        """Read the text of a graph file.

        Args:
            text: The result of `to_json`.
            types: The catalogue to check later changes against. Nodes of other types are kept; `diagnostics` reports them.

        Raises:
            GraphFileError: If it is damaged, hostile, or from a newer version; the message names the place.
        """
        content = storage.read(text)
        graph = cls(types=types)
        graph._ledger.content = content
        return graph

    @classmethod
    def load(cls, path: str | Path, *, types: Types = registry) -> Self:
        """Read a graph file; for `types`, see `from_json`.

        Large fixed tables of an import are read from ``….values.safetensors`` beside it, when a model is made.

        Args:
            path: The file, of at most 64 MiB.
            types: The catalogue.

        Raises:
            GraphFileError: If it is damaged, hostile, or from a newer version; the message names the place.
            GraphFileNotFoundError, GraphFileAccessError: If it cannot be opened; both are ``OSError`` too.
        """
        graph = cls.from_json(read_file(path), types=types)
        graph.tables = storage.tables_beside(path)
        return graph


def _named(paths: Sequence[str]) -> str:
    return paths[0] if len(paths) == 1 else f"{len(paths)} nodes"


def _counted(found: Sequence[bulk.Place]) -> str:
    return _named([place.path for place in found])


def expect_graph(graph: object) -> None:
    """Refuse an argument that is no graph.

    Raises:
        ArgumentError: If `graph` is no `NodeGraph`.
    """
    hint = "pn.from_module(net, args) makes a graph of a module, pn.NodeGraph.load(path) of a file."
    expect(graph, NodeGraph, "graph", "a NodeGraph", hint)
