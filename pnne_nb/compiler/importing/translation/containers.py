"""Nests the submodules of a module that is never called itself in a graph of their own.

``self.head.norm(x)`` calls a module inside another one. To keep the keys of ``state_dict``, the outer one becomes a nested
graph with everything from the first to the last call of its members. A list or dictionary of modules is no block to a
reader: its members stay where they are called, each with its path in the original.
"""

from __future__ import annotations

from torch import nn

from pnne_nb.compiler.importing.draft.draft import Item, Level, Source, UntranslatableError
from pnne_nb.compiler.importing.draft.variable_names import is_possible
from pnne_nb.compiler.importing.translation.emit_ops import class_title, complete
from pnne_nb.compiler.ir.variables import GENERIC
from pnne_nb.graph.schema.registry import registry


def nest(level: Level) -> None:
    """Nest the containers of a level in graphs of their own, in place.

    One whose members take turns with others (``for conv, norm in zip(self.convs, self.norms)``) is not nested either.

    Raises:
        UntranslatableError: If a container is called as a whole and its members are called as well.
    """
    _refer_to_called(level)
    called = {item.member[0] for item in level.items if len(item.member) == 1}
    for name in dict.fromkeys(item.member[0] for item in level.items if len(item.member) > 1):
        if name in called:
            for item in level.items:
                if item.member[:1] == (name,) and len(item.member) > 1:
                    _refer(item)
        elif not _only_lists(level, name) and _stands_together(level, name):
            _nest(level, name)
        else:
            for item in level.items:
                if item.member[:1] == (name,) and item.type in ("Parameter", "Buffer"):
                    _refer(item)


def _only_lists(level: Level, name: str) -> bool:
    """Return whether a container is a list or dictionary of modules, of which no tensor is used without a call."""
    stored = (item for item in level.items if item.type in ("Parameter", "Buffer"))
    is_list = isinstance(getattr(level.holder, name), (nn.ModuleList, nn.ModuleDict))
    return is_list and not any(item.member[:1] == (name,) for item in stored)


def _stands_together(level: Level, name: str) -> bool:
    """Return whether nothing else is called between a container's members, and their results are used."""
    _hoist(level, name)
    if not all(map(is_possible, getattr(level.holder, name)._modules)):
        return False  # only a dictionary can have such a key: heads["class"]
    places = [index for index, item in enumerate(level.items) if item.member[:1] == (name,)]
    inside = level.items[places[0] : places[-1] + 1]
    members = set(inside)
    used = any(source in members for item in level.items[places[-1] + 1 :] for source, _ in item.inputs.values())
    return used and all(not item.member or item.member[0] == name for item in inside)


def _refer_to_called(level: Level) -> None:
    """Replace tensors of called members by references to these: ``self.cells[0].conv.weight.device``."""
    members = {item.member for item in level.items if item.inner is not None or item.type == "Module"}
    for item in level.items:
        if item.type in ("Parameter", "Buffer") and any(item.member[:n] in members for n in range(2, len(item.member))):
            _refer(item)


def _refer(item: Item) -> None:
    """Turn an item into a reference to a tensor of a called submodule: ``self.embed.weight``."""
    if item.type not in ("Parameter", "Buffer"):
        raise UntranslatableError(
            f"it calls {'.'.join(item.member)} itself, and also calls {item.member[0]} or a part of it"
        )
    item.name = "_".join(item.member)
    item.properties = {**item.properties, "of": ".".join(item.member)}
    item.member = ()


def _nest(level: Level, name: str) -> None:
    places = [index for index, item in enumerate(level.items) if item.member[:1] == (name,)]
    first, last = places[0], places[-1] + 1
    inside = level.items[first:last]
    holder = getattr(level.holder, name)
    plain = isinstance(holder, (nn.ModuleList, nn.ModuleDict, nn.ParameterList, nn.ParameterDict))
    inner = Level(name.capitalize() if plain else class_title(holder), holder)
    group = Item("Subgraph", name, member=(name,), inner=inner)
    members = set(inside)
    entries: dict[Source, Item] = {}
    for item in inside:
        for port, source in item.inputs.items():
            if source[0] in members:
                continue
            if source not in entries:
                kind = source[0].kinds.get(source[1], "tensor")
                entries[source] = inner.add(Item("Input", _entry_name(source, inside), kinds={"output": kind}))
            item.inputs[port] = (entries[source], "output")
    for item in inside:
        item.member = item.member[1:]
        inner.add(item)
    results: dict[Source, Item] = {}
    users: list[tuple[Item, str, Item]] = []
    for item in level.items[last:]:
        for port, source in item.inputs.items():
            if source[0] in members:
                if source not in results:
                    results[source] = inner.add(Item("Output", f"output_{len(results)}", inputs={"input": source}))
                users.append((item, port, results[source]))
    nest(inner)
    complete(inner)
    group.inputs = {entry.name: source for source, entry in entries.items()}
    for (giver, port), output in results.items():
        group.kinds[output.name] = giver.kinds.get(port, "tensor")
    for item, port, output in users:
        item.inputs[port] = (group, output.name)
    level.items[first:last] = [group]


def _entry_name(source: Source, inside: list[Item]) -> str:
    """Return the name of a value inside: that of its variable, or else of its node or of the argument that takes it."""
    item, port = source
    variable = item.variables.get(port, "")
    if variable not in {"", *GENERIC} and is_possible(variable):
        return variable
    spec = registry.get(item.type)
    if item.member or spec is None or spec.kind not in ("function", "method"):
        return item.name
    asked = (
        name for user in inside if user.inner is not None for name, given in user.inputs.items() if given == source
    )
    return next(asked, item.name)


def _hoist(level: Level, name: str) -> None:
    """Move stored tensors, which are no calls, before the calls around them."""
    stored = [item for item in level.items if item.type in ("Parameter", "Buffer") and item.member]
    own = [item for item in stored if len(item.member) == 1]
    inside = [item for item in stored if item.member[0] == name and len(item.member) > 1]
    rest = [item for item in level.items if item not in own and item not in inside]
    uses = (item.member[:1] == (name,) or any(each in inside for each, _ in item.inputs.values()) for item in rest)
    first = next((index for index, found in enumerate(uses) if found), 0)
    level.items[:] = [*own, *rest[:first], *inside, *rest[first:]]
