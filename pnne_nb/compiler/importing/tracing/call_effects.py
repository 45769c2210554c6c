"""Effects of a recorded call: in-place changes, random numbers, or reading only a size."""

from __future__ import annotations

import operator
from collections.abc import Collection, Mapping
from typing import Any

import torch
from torch import fx

from pnne_nb.graph.schema.registry import registry

TYPE = "type"
"""Key of a recorded call's ``meta`` for the type of its result."""

CREATORS = frozenset(
    getattr(torch, name)
    for name in ("arange", "empty", "eye", "full", "linspace", "ones", "rand", "randint", "randn", "randperm", "zeros")
)
"""Functions that make tensors from sizes, and take no tensor."""

AUTOCAST = (torch.is_autocast_enabled, torch.get_autocast_dtype)
"""Functions that ask for the autocast around a call."""

SWAPPED = {
    "__radd__": operator.add, "__rsub__": operator.sub, "__rmul__": operator.mul, "__rtruediv__": operator.truediv,
    "__rdiv__": operator.truediv, "__rfloordiv__": operator.floordiv, "__rmod__": operator.mod,
    "__rpow__": operator.pow, "__rmatmul__": operator.matmul,
}  # fmt: skip
"""Operators whose right operand is the tensor."""

IN_PLACE = frozenset((operator.iadd, operator.isub, operator.imul, operator.itruediv, operator.ipow))
"""Operators that change a tensor on their left in place."""


def changes(kind: str, target: Any, kwargs: Mapping[str, Any]) -> bool:
    """Return whether a call changes its first argument in place."""
    if kind != "call_method" and getattr(target, "__module__", "") == "_operator":
        return target in IN_PLACE  # operator.not_ changes nothing
    name = str(target if kind == "call_method" else getattr(target, "__name__", ""))
    return (name.endswith("_") and not name.endswith("__")) or kwargs.get("inplace") is True


def holds_nodes(value: Any) -> bool:
    """Return whether an argument refers to recorded calls."""
    found: list[fx.Node] = []
    fx.node.map_arg(value, found.append)
    return bool(found)


def list_places(target: Any) -> frozenset[int]:
    """Return the positions of arguments that are lists of tensors: the first of ``torch.stack``."""
    spec = registry.get(str(getattr(target, "__name__", "")))
    if spec is None or spec.kind != "function" or not any(port.variadic for port in spec.inputs):
        return frozenset()
    several = {port.name for port in spec.inputs if port.variadic}
    return frozenset(place for place, name in enumerate(spec.positional) if name.removeprefix("*") in several)


def only_looks(node: fx.Node) -> bool:
    """Return whether a call computes nothing from a tensor's elements."""
    target: Any = node.target
    if node.op == "call_method":
        return target in ("size", "detach")
    if node.op != "call_function" or target is operator.setitem or target in IN_PLACE:
        return False
    if target in (getattr, operator.getitem):
        return True
    # An operator on tensors can refuse them, even if nothing reads its result.
    return getattr(target, "__module__", "") in ("_operator", "math") and node.meta.get(TYPE) is not torch.Tensor


def draws(node: fx.Node) -> bool:
    """Return whether a call uses random numbers, so that later calls would get others."""
    name = str(getattr(node.target, "__name__", node.target))
    return any(word in name for word in ("rand", "drop", "bernoulli", "normal", "multinomial", "poisson", "uniform"))


def certain(node: fx.Node) -> bool | None:
    """Return the comparison of a random number in [0, 1) with a limit, if every number gives the same."""
    drawn, limit = node.args if len(node.args) == 2 else (None, None)
    if not isinstance(drawn, fx.Node) or drawn.target is not torch.rand or not isinstance(limit, (int, float)):
        return None
    below = getattr(node.target, "__name__", node.target) == "lt"
    return None if not below or 0 < limit < 1 else limit >= 1


def sweep(graph: fx.Graph, looked_at: Collection[fx.Node] = (), kept: Collection[fx.Node] = ()) -> None:
    """Remove recorded calls whose results only Python has read, but for those that are `kept`; `looked_at` are among them."""
    checks = {node for node in looked_at if not draws(node)}
    for node in reversed(list(graph.nodes)):
        if node.users or node in kept:
            continue
        is_call = node.op in ("call_function", "call_method")
        if node in checks and is_call and not changes(node.op, node.target, node.kwargs):
            checks.update(each for each in node.all_input_nodes if not draws(each))
            graph.erase_node(node)
        elif node.op == "get_attr" or only_looks(node) or node.target in AUTOCAST:
            graph.erase_node(node)
