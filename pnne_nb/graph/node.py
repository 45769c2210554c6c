"""What reading a document gives: frozen snapshots of nodes, edges and committed transactions."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple, final

import msgspec

from pnne_nb.graph.ops import Op
from pnne_nb.graph.registry import registry
from pnne_nb.graph.spec import NodeSpec
from pnne_nb.graph.values import Value

NO_PROPERTIES: Mapping[str, Value] = MappingProxyType({})


@final
class Node(msgspec.Struct, frozen=True):
    """A node as it was when it was read.

    Attributes:
        name: Its name within its graph.
        type: Name of its type in the catalogue.
        properties: The values that were set explicitly; defaults are in `spec`.
        position: Centre in the editor's pixels, or None: arranged automatically.
        origin: Where an imported node came from, and its proof, as JSON.
        collapsed: Whether the editor shows only its name.
        path: Its name with those of the Subgraph nodes around it: ``"block.conv1"``.
    """

    name: str
    type: str
    properties: Mapping[str, Value] = NO_PROPERTIES
    position: tuple[float, float] | None = None
    origin: object = None
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


def is_uncalled(node: Node) -> bool:
    """Whether a node stands for an imported layer that is not called: it need not be connected."""
    return isinstance(node.origin, dict) and node.origin.get("called") is False


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
        """What was done, in a line: the last line of a cell shows it."""
        changes = "1 change" if len(self.ops) == 1 else f"{len(self.ops)} changes"
        return f"Transaction({self.label!r}, {changes}, version {self.version})"


def split_port(text: str) -> tuple[str, str]:
    """Split ``"node.port"`` at its first dot; the port is empty if there is no dot."""
    node, _, port = text.partition(".")
    return node, port
