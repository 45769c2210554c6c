"""Drafts of nodes and nested graphs: what an import has understood of one module.

A `Level` is what one ``forward`` does: its items in execution order. Items for submodules, parameters and buffers keep
the path of these in the original.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, final

from torch import nn

Kind: TypeAlias = Literal["tensor", "value"]


class UntranslatableError(Exception):
    """A ``forward`` cannot be imported; the text is the reason, for a person to read."""


@final
class DifferingCallsError(UntranslatableError):
    """A submodule is called in several forms, and one nested graph has only one.

    Attributes:
        path: Of the submodule.
    """

    def __init__(self, path: str) -> None:
        super().__init__(f"{path} is called in different ways")
        self.path = path


@dataclass(eq=False)
class Item:
    """Draft of a node.

    Attributes:
        type: Name of its type.
        name: What it should be called.
        properties: Values by name.
        inputs: By port, the item and output port that feed it.
        member: Path of its submodule, parameter or buffer, below the level's module.
        inner: What a nested graph consists of.
        owner: The item whose submodule it calls again.
        reason: Why it is opaque.
        whole: Whether it is the imported module itself.
        in_place: Whether the model is then to be that module, rather than to hold it.
        argument: Of an Input, the name of its argument.
        kinds: What its outputs carry, by port; tensors by default.
        called: Whether the original calls it.
        variables: Under which names the original keeps what its outputs carry, by port.
        part: Whether it is one of several parts that the original takes a value apart into.
        element: Element type of a layer's tensors; empty for the usual one.
        ties: Tensors of its submodule, by path below it, that are also another's, by path from the outermost graph; a
            parameter or buffer itself has an empty path.
        frozen: Modules of which nothing is trained, by path below its submodule, which itself has an empty one.
        again: Whether training computes what is inside again for the backward pass.
        twice: Whether computing it again changes its buffers again, as in the original.
        line: Of the original's source, where that makes it.
        absent: Whether it is a tensor whose values are too many for a document.
    """

    type: str
    name: str
    properties: dict[str, object] = field(default_factory=dict)
    inputs: dict[str, Source] = field(default_factory=dict)
    member: tuple[str, ...] = ()
    inner: Level | None = None
    owner: Item | None = None
    reason: str = ""
    whole: bool = False
    in_place: bool = False
    argument: str = ""
    kinds: dict[str, Kind] = field(default_factory=dict)
    called: bool = True
    again: bool = False
    twice: bool = False
    absent: bool = False
    line: int | None = None
    variables: dict[str, str] = field(default_factory=dict)
    part: bool = False
    element: str = ""
    ties: dict[str, str] = field(default_factory=dict)
    frozen: tuple[str, ...] = ()


Source: TypeAlias = tuple[Item, str]


@dataclass(eq=False)
class Level:
    """Draft of a nested graph.

    Attributes:
        title: Name for its definition: that of the class.
        holder: The module whose order of parameters, buffers and submodules it keeps.
        items: In the order in which they run.
        order: Place of each parameter, buffer and submodule in the original.
        again: Whether training computes all of it again for the backward pass.
        assumed: What was taken from the example because Python asked: how often a loop runs, how a branch goes.
        batches: First sizes of arguments among it, each with the words of the source.
        ranked: Whether it asked for a number of dimensions, which none of its checks has.
        branches: Whether its code goes by the training mode.
    """

    title: str
    holder: nn.Module
    items: list[Item] = field(default_factory=list)
    order: dict[Item, int] = field(default_factory=dict)
    again: bool = False
    assumed: tuple[str, ...] = ()
    batches: tuple[tuple[int, str], ...] = ()
    ranked: bool = False
    branches: bool = False

    def add(self, item: Item) -> Item:
        """Append an item and return it."""
        self.items.append(item)
        return item

    def of_type(self, type: str) -> Iterator[Item]:
        """Yield the items of one type."""
        return (item for item in self.items if item.type == type)
