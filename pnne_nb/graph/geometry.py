"""How large a node is and where its ports are, for arranging a graph without a browser.

The browser has the same rule in ``js/src/editor/canvas/geometry.ts``; ``tests/cases/geometry.json`` is
replayed by both. All lengths in the canvas's pixels.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from pnne_nb.graph.node import Node
from pnne_nb.graph.spec import NodeSpec, Port, Property

WIDTH = 176.0
HEADER_HEIGHT = 46.0
SUMMARY_HEIGHT = 24.0
LABELS_HEIGHT = 18.0
PORT_WIDTH = 58.0
COLLAPSED_WIDTH = 148.0
COLLAPSED_HEIGHT = 30.0
COLLAPSED_PORT_WIDTH = 18.0

SIZES_IN = ("in_channels", "in_features", "input_size")
SIZES_OUT = ("out_channels", "out_features", "hidden_size")


class Geometry(NamedTuple):
    """A node's size, and the place of each of its ports, measured from the node's left edge.

    Inputs stand on the upper edge and outputs on the lower one: edges run down.
    """

    width: float
    height: float
    inputs: Mapping[str, float]
    outputs: Mapping[str, float]


def geometry(inputs: Sequence[str], outputs: Sequence[str], *, summary: bool, collapsed: bool = False) -> Geometry:
    """Return the geometry of a node with these ports, in the order in which they are shown.

    Args:
        inputs: Names of the input ports.
        outputs: Names of the output ports.
        summary: Whether the node shows a line with its main properties.
        collapsed: Whether it shows only its name; its ports then stand close together, without theirs.
    """
    labelled = [len(names) for names, plain in ((inputs, "input"), (outputs, "output")) if _needs_labels(names, plain)]
    if collapsed:
        width = max(COLLAPSED_WIDTH, max(len(inputs), len(outputs)) * COLLAPSED_PORT_WIDTH)
        height = COLLAPSED_HEIGHT
    else:
        width = max(WIDTH, max(labelled, default=0) * PORT_WIDTH)
        height = HEADER_HEIGHT + (SUMMARY_HEIGHT if summary else 0.0) + len(labelled) * LABELS_HEIGHT

    def places(names: Sequence[str]) -> dict[str, float]:
        return {name: (index + 0.5) * width / len(names) for index, name in enumerate(names)}

    return Geometry(width, height, places(inputs), places(outputs))


def _needs_labels(names: Sequence[str], plain: str) -> bool:
    # A single port whose name says nothing new has no label.
    return len(names) > 1 or (len(names) == 1 and names[0] != plain)


def shown_inputs(declared: Sequence[Port], wired: Collection[str]) -> tuple[str, ...]:
    """Return the names of the input ports that a node shows.

    A variadic port shows its wired slots, the gaps between them and one to spare; what is wired beyond the
    declared ports (a property that is fed instead of typed) comes last.
    """
    names: list[str] = []
    for port in declared:
        if port.variadic:
            taken = [int(name.rpartition("_")[2]) for name in wired if _is_slot(name, port.name)]
            names.extend(f"{port.name}_{index}" for index in range(max(taken, default=-1) + 2))
        else:
            names.append(port.name)
    known = set(names)
    return (*names, *(name for name in wired if name not in known))


def _is_slot(name: str, port: str) -> bool:
    stem, _, index = name.rpartition("_")
    return stem == port and index.isascii() and index.isdecimal()


def shows_summary(node: Node, spec: NodeSpec | None) -> bool:
    """Whether the node shows a line with its main properties: sizes, what is required, and what is not at its default."""
    if node.type == "Subgraph":
        return node.definition is not None and node.definition != node.name
    if spec is None:
        return False
    names = {prop.name for prop in spec.properties}
    if names.intersection(SIZES_IN) and names.intersection(SIZES_OUT):
        return True
    return any(_is_told(prop, node) for prop in spec.properties)


def _is_told(prop: Property, node: Node) -> bool:
    given = prop.name in node.properties
    if prop.required:
        # What may come along an edge is not missing yet.
        return given or prop.role != "call"
    return prop.name == "kernel_size" or (given and node.properties[prop.name] != prop.default)
