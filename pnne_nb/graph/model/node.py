"""Frozen snapshots of nodes, edges and committed transactions."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple, final

import msgspec

from pnne_nb.errors import meant, shown
from pnne_nb.graph.model.ops import AddNode, Op
from pnne_nb.graph.model.origin import DIGEST, Origin
from pnne_nb.graph.schema.registry import registry
from pnne_nb.graph.schema.spec import NodeSpec
from pnne_nb.graph.schema.structural import ABLATE, CONTEXTS, INSIDE, REROUTE, TRAINABLE
from pnne_nb.graph.schema.values import Value
from pnne_nb.habits import Habits

NO_PROPERTIES: Mapping[str, Value] = MappingProxyType({})


@final
class Node(msgspec.Struct, frozen=True):
    """A node at the time of reading.

    Attributes:
        name: Its name within its graph.
        type: Name of its type in the catalogue.
        properties: The values that were set; defaults are in `spec`.
        position: Centre in the editor's pixels; None if it is arranged automatically.
        origin: The origin and the proof of an imported node; None for a node that was drawn.
        collapsed: Whether the editor shows only its name.
        frozen_by: Path of the outermost block around it that is frozen, for a node that was asked for by its path.
        path: Its name with those of the Subgraph nodes around it: ``"block.conv1"``.
    """

    name: str
    type: str
    properties: Mapping[str, Value] = NO_PROPERTIES
    position: tuple[float, float] | None = None
    origin: Origin | None = None
    path: str = ""
    collapsed: bool = False
    frozen_by: str = ""

    @property
    def trainable(self) -> bool:
        """Whether training changes its weights; see `NodeGraph.freeze`."""
        flag = "requires_grad" if self.type == "Parameter" else TRAINABLE.name
        imported = self.origin is not None and "" in self.origin.frozen
        return not (self.frozen_by or imported or self.properties.get(flag) is False)

    @property
    def spec(self) -> NodeSpec:
        """The catalogue's entry.

        Raises:
            UnknownTypeError: If the type is not registered.
        """
        return registry[self.type]

    @property
    def definition(self) -> str | None:
        """The graph that a Subgraph node shows, or that is inside a Module node; or None."""
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
    def of(self) -> str:
        """Path of the tensor of another node that it stands for, from its own graph; empty if it stands for itself."""
        value = self.properties.get("of")
        return value if isinstance(value, str) else ""

    @property
    def member(self) -> str:
        """The path of its module from its own graph: ``layers.0``."""
        return self.held or self.name

    @property
    def held(self) -> str | None:
        """The path of its module in the original, if it is not its name: ``layers.0``; empty for the whole model."""
        return self.origin.held if self.origin is not None else None

    @property
    def absent(self) -> str:
        """What stands for initial values that the document does not keep; empty if there are none. See `Origin.initial`."""
        initial = self.origin.initial if self.origin is not None else None
        written = "init" in self.properties or self.properties.get("values") is not None
        return "" if initial is None or (written and initial.startswith(DIGEST)) else initial

    @property
    def is_box(self) -> bool:
        """Whether its own code runs the graph inside it."""
        return self.type == "Module" and self.definition is not None

    def __str__(self) -> str:
        return self.path

    def __repr__(self) -> str:
        """Return the text that a cell shows for ``graph.add(...)`` in its last line."""
        values = "".join(f", {name}={shown(value)}" for name, value in self.properties.items())
        return f"Node({self.path!r}, {self.type}{values})"

    def __getattr__(self, name: str) -> object:
        """Refuse ``node.out_features``, and name the place of the property."""
        if not name.startswith("_") and name in self.properties:
            raise AttributeError(f'A property is read by node.properties["{name}"].')
        raise AttributeError(
            f"A node has no attribute {name!r}; its values are in node.properties, its defaults in node.spec, its weights in "
            "pn.compile(graph)."
            f"{'' if name.startswith('_') else meant(name, (), _instead('node', self.path))}"
        )

    def __rshift__(self, other: object) -> object:
        """Refuse ``a >> b``: a node does not know its graph."""
        raise TypeError(f'Nodes are connected by their graph: graph.connect("{self.path}", "{other}").')

    def __add__(self, other: object) -> object:
        """Refuse ``a + b``, as ``a >> b``."""
        raise TypeError(
            f'A sum is a node: graph.add("add", name="sum"), graph.connect("{self.path}", "sum") and '
            f'graph.connect("{other}", "sum").'
        )

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
    rename = f'graph.rename("{node.path}", {shown(value)})'
    others = {"name": rename, "_name": rename, "position": f'graph.move("{node.path}", 120.0, 40.0)'}
    change = (
        others.get(name)
        or _instead("node-settings", node.path).get(name)
        or f'graph.set("{node.path}", {name}={shown(value)})'
    )
    raise AttributeError(f"A node is read only: {change} changes the graph.")


def _instead(table: str, path: str) -> dict[str, str]:
    """Return what to write instead of what layers of other libraries have."""
    return {name: line.replace("PATH", path) for name, line in Habits(table).items()}


# The error of a frozen struct does not say what to do. A method in the class body would not replace it.
Node.__setattr__ = _refuse_change  # type: ignore[method-assign, assignment]  # assigned for every instance, to explain what to write


def ablated(node: Node) -> str:
    """Return how a node is ablated: ``"bypass"`` or ``"zeros"``; empty if it runs."""
    if node.type == REROUTE:
        return "bypass"
    found = node.properties.get(ABLATE.name)
    return found if isinstance(found, str) else ""


def inside(node: Node) -> tuple[str, ...]:
    """Return the names of the contexts in which a node runs, the outermost first; lint reports unknown ones."""
    found = node.properties.get(INSIDE.name)
    if not isinstance(found, tuple):
        return ()
    return tuple(name for name in found if isinstance(name, str) and name in CONTEXTS)


def is_uncalled(node: Node) -> bool:
    """Return whether a node is an imported layer that is not called, which need not be connected."""
    return node.origin is not None and not node.origin.called


def named_shape(node: Node) -> tuple[object, ...]:
    """Return the shape of an Input, with names in place of the numbers that its import was proved without."""
    shape, free = node.properties.get("shape"), node.origin.sizes if node.origin is not None else ()
    shape = shape if isinstance(shape, tuple) else ()
    if len(free) != len(shape):
        return shape
    return tuple(other[0] if other and isinstance(size, int) else size for size, other in zip(shape, free, strict=True))


def whole_of(nodes: Mapping[str, Node]) -> str:
    """Return the name of the node of the outermost graph that is the model itself, or an empty string.

    The node is a module that was imported as a whole. The model has the same names inside: ``embed.weight`` in its
    ``state_dict``, not ``module.embed.weight``.
    """
    return next((name for name, node in nodes.items() if _is_whole(node)), "")


def _is_whole(node: Node) -> bool:
    return node.type == "Module" and node.shares is None and node.held == ""


def adding(node: Node, graph: str, index: int | None = None) -> AddNode:
    """Return the op that adds an equal node to a graph, by its id."""
    properties: dict[str, object] = dict(node.properties)
    return AddNode(node.name, node.type, properties, node.position, graph, index, node.origin, node.collapsed)


class Edge(NamedTuple):
    """An edge, from an output ``"node.port"`` to an input ``"node.port"``."""

    source: str
    target: str


@final
class Transaction(msgspec.Struct, frozen=True):
    """A committed change.

    Attributes:
        version: The document's version after it.
        ops: The ops in order, as they were applied (values in their stored form).
        label: The change in words, e.g. ``"Connect conv1 → relu1"``.
        client: The client that requested it, as given to ``asked_by``.
        request: The number of the request of `client`.
        undo: Label of the change that undo would revert now, or None.
        redo: Label of the change that redo would apply now, or None.
    """

    version: int
    ops: tuple[Op, ...]
    label: str
    client: str | None = None
    request: int | None = None
    undo: str | None = None
    redo: str | None = None

    def __repr__(self) -> str:
        """Return the change in a line."""
        changes = "1 change" if len(self.ops) == 1 else f"{len(self.ops)} changes"
        return f"Transaction({self.label!r}, {changes}, version {self.version})"

    def _ipython_display_(self) -> None:
        """Show nothing if ``graph.undo()`` is the last line of a cell."""


def split_port(text: str) -> tuple[str, str]:
    """Split ``"node.port"`` at its first dot; the port is empty if there is no dot."""
    node, _, port = text.partition(".")
    return node, port
