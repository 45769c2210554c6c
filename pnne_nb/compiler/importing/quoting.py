"""Recorded values in the words of the source that they come from, for a person to read."""

from __future__ import annotations

import operator
from typing import Any

from torch import fx


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

    args = [text(value) for value in node.args]
    name = str(node.target) if node.op == "call_method" else str(getattr(node.target, "__name__", node.target))
    if node.target is getattr:
        return f"{args[0]}.{node.args[1]}"
    if node.target is operator.getitem:
        return f"{args[0]}[{args[1]}]"
    if node.op == "call_method":
        return f"{args[0]}.{name}({', '.join(args[1:])})"
    symbols = {"is_": "is", "gt": ">", "lt": "<", "ge": ">=", "le": "<=", "eq": "==", "ne": "!=", "mod": "%", "add": "+",
               "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//"}  # fmt: skip
    if name in symbols and len(args) == 2:
        return f"{args[0]} {symbols[name]} {args[1]}"
    return f"{name}({', '.join(args)})"
