"""Drafts of nodes and nested graphs, which an import makes of a module.

A `Level` is one ``forward``: its items in execution order. Items of submodules, parameters and buffers keep the path of
these in the original.
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
    """A submodule is called in several forms, and a nested graph has only one.

    Attributes:
        path: The path of the submodule.
    """

    def __init__(self, path: str) -> None:
        super().__init__(f"{path} is called in different ways")
        self.path = path


@dataclass(eq=False)
class Item:
    """Draft of a node.

    Attributes:
        type: The name of its type.
        name: The wanted name.
        properties: Values by name.
        inputs: The item and the output port that feed each port.
        member: The path of its submodule, parameter or buffer, below the level's module.
        inner: The content of a nested graph.
        owner: The item whose submodule it calls again.
        reason: Why it is opaque.
        whole: Whether it is the imported module itself.
        in_place: Whether the model then is that module, instead of holding it.
        argument: The name of the argument of an Input.
        omitted: Names of the arguments that the example left out, of the last Input.
        kinds: The kind of each output, by port; tensors by default.
        called: Whether the original calls it.
        variables: The original's variable for each output, by port.
        part: Whether it is one of several parts of a value that the original unpacks.
        element: Element type of a layer's tensors; empty for the usual one.
        ties: Tensors of its submodule that have a second name: that name from the outermost graph, by the path below the
            submodule, which is empty for a parameter or buffer.
        frozen: Paths below its submodule of the modules without trained parameters; its own is empty.
        again: Whether training computes it again for the backward pass.
        twice: Whether computing it again changes its buffers again, as in the original.
        line: The line of the original's source that makes it.
        absent: Of a tensor with more values than a document keeps, the digest of a fixed table, else ``"absent"``.
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
    omitted: tuple[str, ...] = ()
    kinds: dict[str, Kind] = field(default_factory=dict)
    called: bool = True
    again: bool = False
    twice: bool = False
    absent: str = ""
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
        title: The name for its definition: that of the class.
        holder: The module whose order of parameters, buffers and submodules it keeps.
        items: The items in the order in which they run.
        order: The place of each parameter, buffer and submodule in the original.
        again: Whether training computes all of it again for the backward pass.
        assumed: Facts of the example that its code depends on, in words: how often a loop runs, how a branch goes.
        batches: First sizes of arguments among these facts, each with its expression in the source.
        ranked: Whether its code asked for a number of dimensions, which no check of it covers.
        branches: Whether its code depends on the training mode.
        typed: Whether it depends on element types, and is drawn for several.
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
    typed: bool = False

    def add(self, item: Item) -> Item:
        """Append an item and return it."""
        self.items.append(item)
        return item

    def of_type(self, type: str) -> Iterator[Item]:
        """Yield the items of one type."""
        return (item for item in self.items if item.type == type)
