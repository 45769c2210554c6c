"""Turns levels into the ops of a document: names, shared definitions, and members in their original order."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence

import msgspec
import numpy as np
import torch
from torch import Tensor, nn

from pnne_nb.compiler.importing.draft.draft import Item, Level, UntranslatableError
from pnne_nb.compiler.importing.draft.layers import described, layer_spec, obstacle
from pnne_nb.compiler.importing.draft.variable_names import is_possible, name_by_variables
from pnne_nb.compiler.ir.variables import is_attribute
from pnne_nb.compiler.weights.fixed_tables import digest_of
from pnne_nb.graph.model.ops import AddGraph, AddNode, Connect, Op
from pnne_nb.graph.model.origin import Origin
from pnne_nb.graph.schema.names import free_name
from pnne_nb.graph.schema.values import DTYPES, decimals

MAX_STORED = 10_000
"""Elements of a buffer or constant whose values a document keeps."""

MAX_WISH = 90
"""Characters of the longest name, which leaves room for a number."""

UNCALLED = "it is not called on the given inputs"


def complete(level: Level) -> None:
    """Add the unused members of a level's module, and name every item.

    A member that is never called and holds no tensor, such as a submodule for another configuration, is left out.

    Raises:
        UntranslatableError: If a member has a name that no node can have.
    """
    held = {item.member: item for item in level.items if item.member and item.owner is None}
    order: list[Item] = []
    _arrange(level, level.holder, (), held, order)
    taken = {name for name, _ in _members(level.holder)}
    name_by_variables(level)
    short = {item: _without_dictionaries(level.holder, item.member) for item in held.values()}
    counts = Counter(short.values())
    wishes: Counter[str] = Counter()
    for item in level.items:
        if item.owner is None and len(item.member) == 1 and is_possible(item.member[0]):
            item.name = item.member[0]
            continue
        said = "_".join(item.member) if item.owner is None and item.member else item.name
        brief = short.get(item, "")
        wish = brief if counts[brief] == 1 and brief not in taken and is_possible(brief) else legal(said)
        wishes[wish] += 1  # each of a thousand equal calls would otherwise try all numbers before its own
        item.name = free_name(wish, taken, max(2, wishes[wish]))
        taken.add(item.name)
    level.order = {item: index for index, item in enumerate(order)}


def _without_dictionaries(holder: nn.Module, path: tuple[str, ...]) -> str:
    """Return the name of a member without those of the dictionaries around it, which only hold it: ``h_0``; empty for a number."""
    while len(path) > 1 and isinstance(held := getattr(holder, path[0]), nn.ModuleDict):
        holder, path = held, path[1:]
    return "" if path[0].isdigit() else "_".join(path)


def legal(name: str) -> str:
    """Return a name with ``_`` for characters that the name of a node cannot have."""
    return re.sub(r"[^A-Za-z0-9_]", "_", name)[:MAX_WISH]


def _arrange(
    level: Level, holder: nn.Module, path: tuple[str, ...], held: dict[tuple[str, ...], Item], order: list[Item]
) -> None:
    """Sort items in the order of `holder`, including those in containers that are never called."""
    for name, value in _members(holder):
        # A member can have a name that no node can have ("conv-1", "class", "type"): the node then gets another one.
        if not path and not is_attribute(name):
            raise UntranslatableError(f"no generated class can have an attribute {name!r}, as its member is called")
        below = (*path, name)
        if below in held:
            order.append(held[below])
        elif isinstance(value, nn.Module) and (_is_in_use(below, held) or _is_container(value)):
            _arrange(level, value, below, held, order)
        elif isinstance(value, nn.Module) and layer_spec(value) is None and not [*value.parameters(), *value.buffers()]:
            continue  # never called, and nothing to keep
        else:
            order.append(level.add(_unused(holder, below, value)))


def _is_in_use(path: tuple[str, ...], held: dict[tuple[str, ...], Item]) -> bool:
    return any(member[: len(path)] == path for member in held)


def _is_container(module: nn.Module) -> bool:
    """Return whether a module that is not called only holds others."""
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
    if (layer := described(value)) is not None and not obstacle(value):
        return Item(layer[0], name, layer[1], member=path, called=False)
    kept: dict[str, object] = {"target": class_name(value), "inputs": (), "outputs": ()}
    return Item("Module", name, kept, member=path, reason=UNCALLED)


def stored(holder: nn.Module, path: tuple[str, ...]) -> Item:
    """Return the item of a parameter or buffer of `holder`, by the last name of `path`."""
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
    if not (_keep_start(tensor, properties) if trained else _keep_values(tensor, properties)):
        # What is drawn again has a distribution; everything else is fixed.
        is_fixed = "init" not in properties and tensor.layout == torch.strided
        item.absent = digest_of(tensor) if is_fixed else "absent"
    return item


def _keep_start(tensor: torch.Tensor, properties: dict[str, object]) -> bool:
    """Set the initial values of a Parameter: equal ones, or some of the same distribution; return whether they are equal.

    A table is not drawn again: where it has more values than a document keeps, it starts at zero.
    """
    if tensor.layout != torch.strided or tensor.is_meta or tensor.numel() == 0:
        return tensor.is_meta or tensor.numel() == 0
    found = tensor.detach()
    first = found.flatten()[0].item()
    is_one_value = bool((found == first).all())
    if is_one_value and first in (0, 1):
        properties.update({"init": "ones"} if first == 1 else {})
    elif not is_one_value and is_table(tensor):
        if is_identity(found):
            properties["init"] = "eye"
            return True
        found = without_repeats(found)
        if found.numel() > MAX_STORED:
            return False
        properties.update(values_of(found))
        return True
    elif found.is_floating_point():
        std, mean = map(float, torch.std_mean(found.double(), correction=0))
        if not math.isfinite(mean + std):
            return False
        if is_one_value:
            std, mean = 0.0, float(str(decimals(found.flatten()[0].cpu())))  # 0.1 instead of the digits of a float32
        else:
            # A mean that differs from 0 no more than by chance is 0.
            mean = 0.0 if abs(mean) < 3 * std / math.sqrt(found.numel()) else float(f"{mean:.2g}")
            std = float(f"{std:.2g}")
        properties.update({"init": "normal", "mean": mean, "std": std})
    else:
        return False
    return is_one_value


def _keep_values(tensor: torch.Tensor, properties: dict[str, object]) -> bool:
    """Set the initial values of a Buffer; return False if they are more than a document keeps."""
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
    """Return the property of a Buffer or Parameter with a tensor's values.

    Shape:
        - tensor: `[*]`, any shape; the property has nested tuples of the same shape.
    """

    def frozen(value: object) -> object:
        return tuple(map(frozen, value)) if isinstance(value, list) else value

    return {"values": frozen(decimals(tensor.detach().cpu()))}


def class_name(module: nn.Module) -> str:
    """Return the qualified name of a module's class."""
    return f"{type(module).__module__}.{type(module).__qualname__}"


def class_title(module: nn.Module) -> str:
    """Return a module's class name as the name of a document or definition."""
    return "".join(
        letter if letter.isascii() and (letter.isalnum() or letter == "_") else "_" for letter in type(module).__name__
    )[:90]


def likeness(ops: Sequence[Op]) -> tuple[str, ...]:
    """Return a key that equal definitions share; they may differ in the distribution of initial values."""

    def plain(op: Op) -> Op:
        if isinstance(op, AddNode) and op.type == "Parameter" and op.properties.get("std"):
            kept = {name: value for name, value in op.properties.items() if name not in ("mean", "std")}
            return msgspec.structs.replace(op, properties=kept)
        return op

    return tuple(repr(plain(op)) for op in ops)


def assemble(level: Level, failure: str = "", noise: str = "") -> list[Op]:
    """Return the ops that create a graph, those of its definitions first; equal definitions are created once.

    Args:
        level: The outermost graph.
        failure: Why the original fails, if it does: nothing can be compared with it then.
        noise: How far the original differs from itself, if it does: no more than that is proved.
    """
    ops: list[Op] = []
    known: dict[tuple[str, ...], str] = {}
    ids: dict[Level, str] = {}

    def definition(level: Level) -> str:
        if level not in ids:
            key = likeness(drafted(level, ""))
            if key not in known:
                known[key] = free_name(level.title, {*known.values()})
                ops.append(AddGraph(known[key]))
                ops.extend(drafted(level, known[key]))
            ids[level] = known[key]
        return ids[level]

    def drafted(level: Level, graph: str) -> list[Op]:
        nodes: list[Op] = []
        edges: list[Op] = []
        for item in level.items:
            properties = dict(item.properties)
            if item.inner is not None:
                properties["definition"] = definition(item.inner)
            if item.owner is not None:
                properties["shares"] = item.owner.name
            nodes.append(
                AddNode(item.name, item.type, properties, None, graph, None, _origin(item, level, failure, noise))
            )
            edges += [
                Connect(f"{source.name}.{port}", f"{item.name}.{target}", graph)
                for target, (source, port) in item.inputs.items()
            ]
        return [*nodes, *edges]

    inside = drafted(level, "")  # which adds definitions
    return [*ops, *inside]


def _origin(item: Item, level: Level, failure: str, noise: str) -> Origin:
    held = ".".join(item.member) if item.owner is None and item.member and item.member != (item.name,) else None
    name = item.argument or item.name
    assumed = level.assumed if item.type == "Input" else ()
    return Origin(
        proof="opaque" if item.reason else "edited" if failure else "equal",
        reason=item.reason or failure or (noise if item.type == "Input" else ""),
        member=level.order.get(item),
        held="" if item.in_place else held,  # by the model itself
        assumes=tuple(text for text in assumed if re.search(rf"\b{re.escape(name)}\b", text)),
        omitted=item.omitted,
        variables=dict(item.variables),
        ties=dict(item.ties),
        frozen=item.frozen,
        dtype=next((dtype for dtype in DTYPES if dtype == item.element), None),
        twice=item.twice,
        initial=item.absent or None,
        called=item.called,
        whole=item.whole,
    )


LOOKED_AT = 1_000_000
"""Elements that are looked at, at most."""

ROUGHNESS = {12: 0.3, 48: 1.0}
"""Squared steps along an axis, relative to the variance, below which a table is smooth, by its least number of values.

Of independent values it is 2 on average, and the fewer they are, the farther it may be from that by chance.
"""


def is_table(tensor: Tensor) -> bool:
    """Return whether a parameter has values that nobody draws.

    It is not trained, or its values repeat, rise or fall from one end to the other, or follow each other smoothly, as do
    an identity, ``log(arange(n))`` and a table of sines.
    """
    if not tensor.requires_grad:
        return True
    tensor = torch.view_as_real(tensor.detach().resolve_conj()) if tensor.is_complex() else tensor
    found = tensor.detach().flatten()[:LOOKED_AT].double()
    if len(found) < 2 or not bool(torch.isfinite(found).all()):
        return False
    if _distinct(found) < 0.9 * len(found):
        return True
    steps = found.diff()
    if _has_one_sign(steps) and (len(found) >= 8 or (len(found) >= 4 and _has_one_sign(steps.diff()))):
        return True
    return any(_is_smooth(tensor.detach(), axis) for axis in range(tensor.dim()))


def _distinct(values: Tensor) -> int:
    """Return how many different numbers there are; NumPy sorts several times as fast as torch. Shape: `[n]`, `n > 0`."""
    in_order = np.sort(values.cpu().numpy())
    return 1 + int(np.count_nonzero(in_order[1:] != in_order[:-1]))


def _has_one_sign(values: Tensor) -> bool:
    return bool((values > 0).all()) or bool((values < 0).all())


def _is_smooth(tensor: Tensor, axis: int) -> bool:
    along = tensor.movedim(axis, 0)
    limit = max((limit for fewest, limit in ROUGHNESS.items() if along.numel() >= fewest), default=0.0)
    if len(along) < 3 or not limit:
        return False
    along = along.reshape(len(along), -1)[:, : max(1, LOOKED_AT // len(along))].double()
    spread = float((along - along.mean(0)).square().mean())
    return spread > 0 and float(along.diff(dim=0).square().mean()) < limit * spread


def is_identity(tensor: Tensor) -> bool:
    """Return whether a matrix is ``torch.eye``."""
    if tensor.dim() != 2 or min(tensor.shape) < 2 or tensor.count_nonzero() != min(tensor.shape):
        return False
    return bool((tensor.diagonal() == 1).all())


def without_repeats(tensor: Tensor) -> Tensor:
    """Return a tensor with size 1 in the axes along which it repeats, of which ``expand`` gives the original."""
    for axis in range(tensor.dim()):
        first = tensor.narrow(axis, 0, 1)
        if tensor.shape[axis] > 1 and torch.equal(first.expand_as(tensor), tensor):
            tensor = first
    return tensor
