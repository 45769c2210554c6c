"""Levels → the ops of a document: names, definitions used several times, and members in their original order."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import final

import torch
from torch import nn

from pnne_nb.compiler.elements import ELEMENT
from pnne_nb.compiler.importing.drafting import Item, Level, UntranslatableError
from pnne_nb.compiler.importing.layers import layer_spec, obstacle, read_properties
from pnne_nb.compiler.importing.wording import is_possible, name_by_variables
from pnne_nb.compiler.naming import is_identifier
from pnne_nb.graph.decimals import decimals
from pnne_nb.graph.names import free_name
from pnne_nb.graph.ops import AddGraph, AddNode, Connect, Op

MAX_STORED = 10_000
"""Elements of a buffer or constant whose values a document keeps."""

MAX_WISH = 90
"""Letters of a name that is made of several, so that there is place for a number."""

UNCALLED = "it is not called on the given inputs"


def complete(level: Level) -> None:
    """Add the members of a level's module that nothing uses, and name every item.

    What is never called and holds no tensor, such as a submodule for another configuration, is left out.

    Raises:
        UntranslatableError: If a member has a name that no node can have.
    """
    held = {item.member: item for item in level.items if item.member and item.owner is None}
    order: list[Item] = []
    _arrange(level, level.holder, (), held, order)
    taken = {name for name, _ in _members(level.holder)}
    name_by_variables(level)
    wishes: Counter[str] = Counter()
    for item in level.items:
        if item.owner is None and len(item.member) == 1 and is_possible(item.member[0]):
            item.name = item.member[0]
            continue
        said = "_".join(item.member) if item.owner is None and item.member else item.name
        wish = re.sub(r"[^A-Za-z0-9_]", "_", said)[:MAX_WISH]
        wishes[wish] += 1  # of a thousand equal calls, each would try the numbers of those before it
        item.name = free_name(wish, taken, max(2, wishes[wish]))
        taken.add(item.name)
    level.order = {item: index for index, item in enumerate(order)}


def _arrange(
    level: Level, holder: nn.Module, path: tuple[str, ...], held: dict[tuple[str, ...], Item], order: list[Item]
) -> None:
    """Put the items of what `holder` has into its order; what stands in a container that is never called, too."""
    for name, value in _members(holder):
        # A submodule's attribute may have another name than its node.
        is_held = isinstance(value, nn.Module) and is_identifier(name)
        if not path and not is_held and not is_possible(name):
            raise UntranslatableError(f"no node can have the name of its member {name!r}")
        below = (*path, name)
        if below in held:
            order.append(held[below])
        elif isinstance(value, nn.Module) and (_is_in_use(below, held) or _is_container(value)):
            _arrange(level, value, below, held, order)
        elif isinstance(value, nn.Module) and layer_spec(value) is None and not _has_state(value):
            continue  # never called, and nothing to keep
        else:
            order.append(level.add(_unused(holder, below, value)))


def _has_state(module: nn.Module) -> bool:
    return any(True for _ in module.parameters()) or any(True for _ in module.buffers())


def _is_in_use(path: tuple[str, ...], held: dict[tuple[str, ...], Item]) -> bool:
    return any(member[: len(path)] == path for member in held)


def _is_container(module: nn.Module) -> bool:
    """Whether a module that is not called is nothing but what it holds."""
    return isinstance(module, (nn.Sequential, nn.ModuleList, nn.ModuleDict)) and any(module.children())


def _members(module: nn.Module) -> Iterator[tuple[str, object]]:
    for group in (module._parameters, module._buffers, module._modules):
        for name, value in group.items():
            if value is not None:
                yield name, value


def _unused(holder: nn.Module, path: tuple[str, ...], value: object) -> Item:
    name = "_".join(path)
    if not isinstance(value, nn.Module):
        return stored(holder, path)
    spec = layer_spec(value)
    properties = read_properties(value, spec) if spec is not None and not obstacle(value) else None
    if spec is not None and properties is not None:
        return Item(spec.type, name, properties, member=path, called=False)
    properties = {"target": class_name(value), "inputs": (), "outputs": ()}
    return Item("Module", name, properties, member=path, reason=UNCALLED)


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
    item = Item("Parameter" if trained else "Buffer", name, properties, member=path)
    if not trained:
        item.absent = not _keep_values(tensor, properties)
    return item


def _keep_values(tensor: torch.Tensor, properties: dict[str, object]) -> bool:
    """Have a Buffer begin as the original is; False if that takes more values than a document keeps."""
    if tensor.layout != torch.strided:
        return False
    if tensor.is_meta or tensor.numel() == 0 or not tensor.any():
        return True
    flat = tensor.detach().cpu().flatten()
    if bool((flat == 1).all()):
        properties["init"] = "ones"
    elif not flat.is_complex() and torch.equal(flat, torch.arange(len(flat)).to(flat.dtype)):
        properties["init"] = "arange"
    elif tensor.dim() >= 2 and torch.equal(tensor.detach().cpu(), torch.ones(tensor.shape, dtype=tensor.dtype).tril()):
        properties["init"] = "tril"
    elif len(flat) <= MAX_STORED:
        properties.update(values_of(tensor))
    else:
        return False
    return True


def values_of(tensor: torch.Tensor) -> dict[str, object]:
    """Return the property of a Buffer that holds a tensor's values."""

    def frozen(value: object) -> object:
        return tuple(map(frozen, value)) if isinstance(value, list) else value

    return {"values": frozen(decimals(tensor.detach().cpu()))}


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
    if item.owner is None and item.member and item.member != (item.name,):
        origin["held"] = ".".join(item.member)
    if item.in_place:
        origin["held"] = ""  # by the model itself
    if item.type == "Input":
        assumed = [text for text in level.assumed if re.search(rf"\b{re.escape(item.argument or item.name)}\b", text)]
        if assumed:
            origin["assumes"] = tuple(assumed)
    if item.variables:
        origin["variables"] = dict(item.variables)
    if item.ties:
        origin["ties"] = dict(item.ties)
    if item.frozen:
        origin["frozen"] = item.frozen
    if item.element:
        origin[ELEMENT] = item.element
    if item.twice:
        origin["twice"] = True
    if item.absent:
        origin["values"] = "absent"
    if not item.called:
        origin["called"] = False
    if item.whole:
        origin["whole"] = True
    return origin
