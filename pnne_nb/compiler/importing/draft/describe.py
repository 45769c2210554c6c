"""Describes recorded values in the words of the source that they come from."""

from __future__ import annotations

import operator
from typing import Any

from torch import fx

_SYMBOLS = {
    "is_": "is", "gt": ">", "lt": "<", "ge": ">=", "le": "<=", "eq": "==", "ne": "!=", "mod": "%", "add": "+",
    "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//",
}  # fmt: skip


def shown(node: fx.Node, depth: int = 0) -> str:
    """Return a recorded value in the words of its source."""
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
    """Return what a check of a size asks for: ``"dimension 1 of x must be a multiple of 4, for "``; or nothing."""
    demand = _DEMANDS.get(str(getattr(condition.target, "__name__", "")))
    asked, wanted = condition.args if len(condition.args) == 2 else (None, None)
    if demand is None or not isinstance(asked, fx.Node) or type(wanted) is not int:
        return ""
    if asked.target is operator.mod and demand == "" and wanted == 0 and isinstance(asked.args[0], fx.Node):
        demand, wanted, asked = "a multiple of", asked.args[1], asked.args[0]
    source, dim = asked.args if len(asked.args) == 2 else (None, None)
    if asked.target is operator.getitem and isinstance(source, fx.Node):
        is_shape = source.target is getattr and source.args[1] == "shape"
        source = source.args[0] if is_shape or source.target == "size" else None
    elif asked.target != "size":
        return ""
    if not isinstance(source, fx.Node) or type(dim) is not int or isinstance(wanted, fx.Node):
        return ""
    return f"dimension {dim} of {shown(source)} must be {f'{demand} {wanted}'.strip()}, for "


def _symbol(node: fx.Node) -> str:
    """Return the operator that a call is, or an empty string."""
    name = str(getattr(node.target, "__name__", "")) if node.op == "call_function" else ""
    return _SYMBOLS.get(name, "") if len(node.args) == 2 else ""
