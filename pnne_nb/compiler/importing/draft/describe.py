"""Describes recorded values by expressions as in their source."""

from __future__ import annotations

import operator
from typing import Any

from torch import fx

_SYMBOLS = {
    "is_": "is", "is_not": "is not", "gt": ">", "lt": "<", "ge": ">=", "le": "<=", "eq": "==", "ne": "!=", "mod": "%", "add": "+",
    "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//",
}  # fmt: skip


BECAUSE = ", because "
"""The words before the reason in the message of a check that the module itself has too."""


def shown(node: fx.Node, depth: int = 0) -> str:
    """Return a recorded value as an expression of its source."""
    if depth > 5:
        return "…"
    if node.op == "get_attr":
        return f"self.{node.target}"
    if node.op == "placeholder":
        return str(node.name)

    def text(value: Any) -> str:
        if isinstance(value, fx.Node):
            return shown(value, depth + 1)
        return repr(value) if len(repr(value)) < 40 else "…"

    def index(value: Any) -> str:
        if isinstance(value, tuple) and value:
            return ", ".join(map(index, value))
        if isinstance(value, slice):
            parts = ["" if part is None else text(part) for part in (value.start, value.stop, value.step)]
            return ":".join(parts if parts[2] else parts[:2])
        return text(value)

    args = [text(value) for value in node.args]
    if args and isinstance(node.args[0], fx.Node) and _symbol(node.args[0]):
        args[0] = f"({args[0]})" if node.op == "call_method" or node.target in (getattr, operator.getitem) else args[0]
    name = str(node.target) if node.op == "call_method" else str(getattr(node.target, "__name__", node.target))
    if node.target is getattr:
        return f"{args[0]}.{node.args[1]}"
    if node.target is operator.getitem and getattr(node.args[0], "target", None) is vars:
        return f"{shown(node.args[0].args[0], depth)}.{node.args[1]}"  # type: ignore[union-attr,arg-type]  # of an object
    if node.target is operator.getitem:
        return f"{args[0]}[{index(node.args[1])}]"
    if node.target is operator.not_:
        return f"not {args[0]}"
    if node.op == "call_method":
        return f"{args[0]}.{name}({', '.join(args[1:])})"
    symbol = _symbol(node)
    return f"{args[0]} {symbol} {args[1]}" if symbol else f"{name}({', '.join(args)})"


_DEMANDS = {"gt": "more than", "lt": "less than", "ge": "at least", "le": "at most", "eq": "", "ne": "anything but"}


def in_words(condition: fx.Node) -> str:
    """Return the demand of a check of a size, ``"dimension 1 of x must be a multiple of 4, for "``; else nothing."""
    demand: str | None
    if condition.target is operator.not_:
        asked, demand, wanted = condition.args[0], "", 0  # `if x.shape[0] % 4:` went the other way
    elif len(condition.args) == 2 and str(getattr(condition.target, "__name__", "")) in _DEMANDS:
        asked, demand, wanted = condition.args[0], _DEMANDS[condition.target.__name__], condition.args[1]  # type: ignore[union-attr,assignment]  # a function
    else:
        asked, demand, wanted = condition, _DEMANDS["ne"], 0
    if not isinstance(asked, fx.Node) or type(wanted) is not int:
        return ""
    size, text = _demanded(asked, demand, wanted)
    said = _size_of(size) if isinstance(size, fx.Node) and text else ""
    return f"{said} must be {text}, for " if said else ""


def _demanded(asked: fx.Node, demand: str, wanted: int) -> tuple[Any, str]:
    """Return the size that a check is about, and the demand on it."""
    size, by = asked.args if len(asked.args) == 2 else (None, None)
    if asked.target in (operator.add, operator.sub) and isinstance(size, fx.Node) and type(by) is int:
        return _demanded(size, demand, wanted - by if asked.target is operator.add else wanted + by)
    if asked.target is operator.mod and type(by) is int:
        if wanted == 0 and demand in ("", _DEMANDS["ne"]):
            return size, f"{'no' if demand else 'a'} multiple of {by}"
        return size, "" if demand else f"{wanted} more than a multiple of {by}"
    if asked.target is operator.floordiv and type(by) is int and by > 0 and not demand:
        return size, f"from {wanted * by} to {(wanted + 1) * by - 1}"
    return asked, f"{demand} {wanted}".strip()


def _size_of(asked: fx.Node) -> str:
    """Return the name of a size, ``"dimension 1 of x"``; nothing for another value."""
    source, dim = asked.args if len(asked.args) == 2 else (None, None)
    if asked.target is operator.getitem and isinstance(source, fx.Node):
        is_shape = source.target is getattr and source.args[1] == "shape"
        source = source.args[0] if is_shape or source.target == "size" else None
    elif asked.target != "size":
        return ""
    if not isinstance(source, fx.Node) or type(dim) is not int:
        return ""
    return f"dimension {dim} of {shown(source)}"


def _symbol(node: fx.Node) -> str:
    """Return the operator that a call is, or an empty string."""
    name = str(getattr(node.target, "__name__", "")) if node.op == "call_function" else ""
    return _SYMBOLS.get(name, "") if len(node.args) == 2 else ""
