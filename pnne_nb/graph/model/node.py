"""Frozen snapshots of nodes, edges and committed transactions, as reading a document returns them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple, final

import msgspec

from pnne_nb.errors import shown
from pnne_nb.graph.model.ops import AddNode, Op
from pnne_nb.graph.model.origin import Origin
from pnne_nb.graph.schema.registry import registry
from pnne_nb.graph.schema.spec import NodeSpec
from pnne_nb.graph.schema.structural import ABLATE, CONTEXTS, INSIDE, REROUTE
from pnne_nb.graph.schema.values import Value

NO_PROPERTIES: Mapping[str, Value] = MappingProxyType({})


@final
class Node(msgspec.Struct, frozen=True):
    """A node as it was when it was read.

    Attributes:
        name: Its name within its graph.
        type: Name of its type in the catalogue.
        properties: The values that were set explicitly; defaults are in `spec`.
        position: Centre in the editor's pixels, or None: arranged automatically.
        origin: Where an imported node came from, and its proof; None for a node that was drawn.
        collapsed: Whether the editor shows only its name.
        path: Its name with those of the Subgraph nodes around it: ``"block.conv1"``.
    """

    name: str
    type: str
    properties: Mapping[str, Value] = NO_PROPERTIES
    position: tuple[float, float] | None = None
    origin: Origin | None = None
    path: str = ""
    collapsed: bool = False

    @property
    def spec(self) -> NodeSpec:
        """The catalogue's entry.

        Raises:
            UnknownTypeError: If the type is not registered.
        """
        return registry[self.type]

    @property
    def definition(self) -> str | None:
        """The graph that a Subgraph node shows, or that holds what is inside a Module node; or None."""
        if self.type not in ("Subgraph", "Module"):
            return None
        value = self.properties.get("definition")
        return value if isinstance(value, str) else None

    @property
    def shares(self) -> str | None:
        """Name of the node in the same graph whose module this one uses, or None."""
        value = self.properties.get("shares")
        return value if isinstance(value, str) else None

    @property
    def is_box(self) -> bool:
        """Whether it runs code of its own on what is drawn inside it."""
        return self.type == "Module" and self.definition is not None

    def __str__(self) -> str:
        return self.path

    def __repr__(self) -> str:
        """Return what a person reads where ``graph.add(...)`` is the last line of a cell."""
        values = "".join(f", {name}={shown(value)}" for name, value in self.properties.items())
        return f"Node({self.path!r}, {self.type}{values})"

    def __getattr__(self, name: str) -> object:
        """Say where the property is that somebody looks for."""
        if not name.startswith("_") and name in self.properties:
            raise AttributeError(f'A property is read by node.properties["{name}"].')
        raise AttributeError(
            f"A node has no attribute {name!r}; its values are in node.properties, its defaults in node.spec."
        )

    def __rshift__(self, other: object) -> object:
        """Refuse ``a >> b``: a node does not know its graph, and could not tell which one to change."""
        raise TypeError(f'Nodes are connected by their graph: graph.connect("{self.path}", "{other}").')

    def __getitem__(self, name: str) -> object:
        """Refuse ``node["out_features"]``."""
        raise TypeError(f'A property is read by node.properties["{name}"].')

    def __setitem__(self, name: str, value: object) -> None:
        """Refuse ``node["out_features"] = 8``."""
        _refuse_change(self, name, value)

    def __call__(self, *sources: object) -> object:
        """Refuse ``linear(x)`` on nodes, as Keras connects layers."""
        source = str(sources[0]) if sources and isinstance(sources[0], Node) else "x"
        raise TypeError(f'Nodes are connected by their graph: graph.connect("{source}", "{self.path}").')


def _refuse_change(node: Node, name: str, value: object) -> None:
    raise AttributeError(f'A node is read only: graph.set("{node.path}", {name}={shown(value)}) changes the graph.')


# A frozen struct refuses changes itself, without a word on what to do; only what is set afterwards takes that place.
Node.__setattr__ = _refuse_change  # type: ignore[method-assign, assignment]  # assigned for every instance, to explain what to write


def ablated(node: Node) -> str:
    """Return what a node gives instead of running: ``"bypass"`` or ``"zeros"``; empty if it runs."""
    if node.type == REROUTE:
        return "bypass"
    found = node.properties.get(ABLATE.name)
    return found if isinstance(found, str) else ""


def inside(node: Node) -> tuple[str, ...]:
    """Return the names of the contexts in which a node runs, the outermost first; unknown ones in a file are left to lint."""
    found = node.properties.get(INSIDE.name)
    if not isinstance(found, tuple):
        return ()
    return tuple(name for name in found if isinstance(name, str) and name in CONTEXTS)


def is_uncalled(node: Node) -> bool:
    """Return whether a node stands for an imported layer that is not called: it need not be connected."""
    return node.origin is not None and not node.origin.called


def whole_of(nodes: Mapping[str, Node]) -> str:
    """Return which node of the outermost graph is the model itself, or an empty string.

    It stands for a module that was imported as a whole. The model holds what that holds, under the same names: its
    ``state_dict`` says ``embed.weight``, and not ``module.embed.weight``.
    """
    return next((name for name, node in nodes.items() if _is_whole(node)), "")


def _is_whole(node: Node) -> bool:
    return node.type == "Module" and node.shares is None and node.origin is not None and node.origin.held == ""


def adding(node: Node, graph: str, index: int | None = None) -> AddNode:
    """Return the op that adds an equal node to a graph, by its id."""
    properties, origin = dict(node.properties), node.origin
    return AddNode(node.name, node.type, properties, node.position, graph, index, origin, node.collapsed)


class Edge(NamedTuple):
    """An edge, from an output ``"node.port"`` to an input ``"node.port"``."""

    source: str
    target: str


@final
class Transaction(msgspec.Struct, frozen=True):
    """A committed change.

    Attributes:
        version: The document's version after it.
        ops: What was done, in order, as it was applied (values in their stored form).
        label: What a person did, e.g. ``"Connect conv1 → relu1"``.
        client: Who asked for it, as given to ``apply``.
        request: The number under which `client` asked for it.
        undo: Label of what undo would take back now, or None.
        redo: Label of what redo would bring back now, or None.
    """

    version: int
    ops: tuple[Op, ...]
    label: str
    client: str | None = None
    request: int | None = None
    undo: str | None = None
    redo: str | None = None

    def __repr__(self) -> str:
        """Return what was done, in a line."""
        changes = "1 change" if len(self.ops) == 1 else f"{len(self.ops)} changes"
        return f"Transaction({self.label!r}, {changes}, version {self.version})"

    def _ipython_display_(self) -> None:
        """Show nothing where ``graph.undo()`` is the last line of a cell."""


def split_port(text: str) -> tuple[str, str]:
    """Split ``"node.port"`` at its first dot; the port is empty if there is no dot."""
    node, _, port = text.partition(".")
    return node, port
