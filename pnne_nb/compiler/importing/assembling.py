"""Levels → the ops of a document: names, definitions used several times, and members in their original order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import final

from torch import nn

from pnne_nb.compiler.importing.drafting import Item, Level, UntranslatableError
from pnne_nb.errors import IllegalNameError
from pnne_nb.graph.names import check_name, free_name
from pnne_nb.graph.ops import AddGraph, AddNode, Connect, Op

UNCALLED = "it is not called on the given inputs"


def complete(level: Level) -> None:
    """Add the members of a level's module that nothing uses, and name every item.

    Raises:
        UntranslatableError: If a member has a name that no node can have.
    """
    held = {item.member[0]: item for item in level.items if item.member and item.owner is None}
    order = list(_members(level.holder))
    for name, value in order:
        try:
            check_name(name)
        except IllegalNameError as error:
            raise UntranslatableError(f"no node can have the name of its member {name!r}") from error
        if name not in held:
            held[name] = level.add(_unused(level.holder, name, value))
    taken = {name for name, _ in order}
    for item in level.items:
        if item.owner is None and item.member:
            item.name = item.member[0]
            continue
        item.name = free_name(item.name, taken)
        taken.add(item.name)
    level.order = {held[name]: index for index, (name, _) in enumerate(order)}


def _members(module: nn.Module) -> Iterator[tuple[str, object]]:
    for group in (module._parameters, module._buffers, module._modules):
        for name, value in group.items():
            if value is not None:
                yield name, value


def _unused(holder: nn.Module, name: str, value: object) -> Item:
    if isinstance(value, nn.Module):
        properties: dict[str, object] = {"target": class_name(value), "inputs": (), "outputs": ()}
        return Item("Module", name, properties, member=(name,), reason=UNCALLED)
    return stored(holder, (name,))


def stored(holder: nn.Module, path: tuple[str, ...]) -> Item:
    """Return the item of a parameter or buffer that `holder` has under the last name of `path`."""
    name = path[-1]
    trained = name in holder._parameters
    tensor = holder._parameters[name] if trained else holder._buffers[name]
    assert tensor is not None, "members that are None are left out"
    properties: dict[str, object] = {"shape": tuple(tensor.shape), "dtype": str(tensor.dtype).removeprefix("torch.")}
    if trained and not tensor.requires_grad:
        properties["requires_grad"] = False
    if not trained and name in holder._non_persistent_buffers_set:
        properties["persistent"] = False
    return Item("Parameter" if trained else "Buffer", name, properties, member=path)


def class_name(module: nn.Module) -> str:
    """Return the qualified name of a module's class."""
    return f"{type(module).__module__}.{type(module).__qualname__}"


def class_title(module: nn.Module) -> str:
    """Return a module's class name, as a document or definition may be called."""
    return "".join(
        letter if letter.isascii() and (letter.isalnum() or letter == "_") else "_" for letter in type(module).__name__
    )[:90]


@final
class Assembly:
    """Collects definitions, equal ones once, and the ops that make them.

    Attributes:
        ops: In an order in which they can be applied.
    """

    def __init__(self) -> None:
        self.ops: list[Op] = []
        self._known: dict[tuple[str, ...], str] = {}
        self._taken: set[str] = set()
        self._ids: dict[Level, str] = {}

    def definition(self, level: Level) -> str:
        """Return the id of a level's definition, made if there is none that is equal."""
        if level in self._ids:
            return self._ids[level]
        draft = self._draft(level, "")
        key = tuple(map(repr, draft))
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = free_name(level.title, self._taken)
            self._taken.add(found)
            self.ops.append(AddGraph(found))
            self.ops += self._draft(level, found)
        self._ids[level] = found
        return found

    def root(self, level: Level) -> list[Op]:
        """Return all ops, with `level` as the outermost graph."""
        inside = self._draft(level, "")
        return [*self.ops, *inside]

    def _draft(self, level: Level, graph: str) -> list[Op]:
        nodes: list[Op] = []
        edges: list[Op] = []
        for item in level.items:
            properties = dict(item.properties)
            if item.inner is not None:
                properties["definition"] = self.definition(item.inner)
            if item.owner is not None:
                properties["shares"] = item.owner.name
            nodes.append(AddNode(item.name, item.type, properties, None, graph, None, _origin(item, level)))
            edges += [
                Connect(f"{source.name}.{port}", f"{item.name}.{target}", graph)
                for target, (source, port) in item.inputs.items()
            ]
        return [*nodes, *edges]


def _origin(item: Item, level: Level) -> dict[str, object]:
    origin: dict[str, object] = {"proof": "opaque" if item.reason else "equal"}
    if item.reason:
        origin["reason"] = item.reason
    if item in level.order:
        origin["member"] = level.order[item]
    if item.whole:
        origin["whole"] = True
    return origin
