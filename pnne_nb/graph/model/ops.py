"""The changes of a document: a closed union of frozen ops.

Property values in ops are Python values of ``graph.schema.values``; ``protocol`` converts them from and to their JSON form.
They are typed ``object`` because the codec cannot express that closed set.

Every op names its graph: ``""`` is the root, any other name a definition that Subgraph nodes refer to. Applying an op returns
the ops that revert it (``edits.apply``).
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from pnne_nb.graph.model.annotation import Box
from pnne_nb.graph.model.origin import Origin


class _Op(msgspec.Struct, frozen=True, tag_field="op", rename="camel", omit_defaults=True):
    pass


class AddNode(_Op, frozen=True, tag="addNode"):
    """Add a node.

    Attributes:
        index: Its place in the order of nodes; None appends.
        position: Centre of the node in the editor's pixels, or None: the editor arranges it.
        origin: The origin and the proof of an imported node.
        collapsed: Whether only its name is shown.
    """

    name: str
    type: str
    properties: dict[str, object] = {}
    position: tuple[float, float] | None = None
    graph: str = ""
    index: int | None = None
    origin: Origin | None = None
    collapsed: bool = False


class RemoveNode(_Op, frozen=True, tag="removeNode"):
    """Remove a node and every edge at it."""

    name: str
    graph: str = ""


class RenameNode(_Op, frozen=True, tag="renameNode"):
    """Rename a node; edges and references follow."""

    name: str
    new_name: str
    graph: str = ""


class SetProperty(_Op, frozen=True, tag="setProperty"):
    """Set one property to a value that its type accepts."""

    node: str
    property: str
    value: object
    graph: str = ""


class ResetProperty(_Op, frozen=True, tag="resetProperty"):
    """Reset a property to its default, or to missing if it is required."""

    node: str
    property: str
    graph: str = ""


class MoveNode(_Op, frozen=True, tag="moveNode"):
    """Place a node; None returns it to the automatic arrangement."""

    name: str
    position: tuple[float, float] | None
    graph: str = ""


class CollapseNode(_Op, frozen=True, tag="collapseNode"):
    """Show only the name of a node, or all of it again."""

    name: str
    collapsed: bool
    graph: str = ""


class SetOrigin(_Op, frozen=True, tag="setOrigin"):
    """Set the origin and the proof of a node; it accompanies a change of an imported node."""

    name: str
    origin: Origin | None
    graph: str = ""


class Connect(_Op, frozen=True, tag="connect"):
    """Add an edge from output ``"node.port"`` to input ``"node.port"``."""

    source: str
    target: str
    graph: str = ""


class Disconnect(_Op, frozen=True, tag="disconnect"):
    """Remove an edge."""

    source: str
    target: str
    graph: str = ""


class AddGraph(_Op, frozen=True, tag="addGraph"):
    """Add an empty definition for Subgraph nodes to refer to."""

    graph: str


class RemoveGraph(_Op, frozen=True, tag="removeGraph"):
    """Remove a definition that is empty and that no Subgraph node refers to."""

    graph: str


class AddFrame(_Op, frozen=True, tag="addFrame"):
    """Add a titled rectangle behind the nodes; without nodes in it, it is a note.

    Attributes:
        box: Left, top, width and height in the editor's pixels.
        colour: One of ``graph.model.annotation.COLOURS``.
    """

    name: str
    box: Box
    title: str = ""
    text: str = ""
    colour: str = "grey"
    graph: str = ""


class ChangeFrame(_Op, frozen=True, tag="changeFrame"):
    """Change some fields of a frame; None leaves a field as it is, so that two simultaneous changes both count."""

    name: str
    box: Box | None = None
    title: str | None = None
    text: str | None = None
    colour: str | None = None
    graph: str = ""


class RemoveFrame(_Op, frozen=True, tag="removeFrame"):
    """Remove a frame; its contents stay."""

    name: str
    graph: str = ""


class RenameDocument(_Op, frozen=True, tag="renameDocument"):
    """Give the document, and so the generated class, another name."""

    name: str


class SetSize(_Op, frozen=True, tag="setSize"):
    """Give the document a named size, change it, or with None remove it.

    Attributes:
        value: A whole number, or a calculation of other sizes, such as ``"4*hidden"``.
    """

    name: str
    value: object


Op: TypeAlias = (
    AddNode | RemoveNode | RenameNode | SetProperty | ResetProperty | MoveNode | CollapseNode | SetOrigin | Connect | Disconnect
    | AddGraph | RemoveGraph | AddFrame | ChangeFrame | RemoveFrame | RenameDocument | SetSize
)  # fmt: skip

LookOp: TypeAlias = MoveNode | CollapseNode | AddFrame | ChangeFrame | RemoveFrame
"""Changes of a graph's look, which do not affect what it computes."""
