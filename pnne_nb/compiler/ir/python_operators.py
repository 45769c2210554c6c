"""Maps torch functions to the Python operators that people write: ``x + y`` for ``torch.add(x, y)``."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from pnne_nb.catalog.custom import is_autograd_function
from pnne_nb.graph.schema.spec import NodeSpec

Function = Callable[..., Any]

_BINARY: dict[str, tuple[str, Function]] = {
    "add": ("+", operator.add),
    "sub": ("-", operator.sub),
    "mul": ("*", operator.mul),
    "div": ("/", operator.truediv),
    "true_divide": ("/", operator.truediv),
    "truediv": ("/", operator.truediv),
    "floor_divide": ("//", operator.floordiv),
    "floordiv": ("//", operator.floordiv),
    "remainder": ("%", operator.mod),
    "mod": ("%", operator.mod),
    "pow": ("**", operator.pow),
    "matmul": ("@", operator.matmul),
    "eq": ("==", operator.eq),
    "ne": ("!=", operator.ne),
    "lt": ("<", operator.lt),
    "le": ("<=", operator.le),
    "gt": (">", operator.gt),
    "ge": (">=", operator.ge),
    "bitwise_and": ("&", operator.and_),
    "and_": ("&", operator.and_),
    "bitwise_or": ("|", operator.or_),
    "or_": ("|", operator.or_),
    "bitwise_xor": ("^", operator.xor),
    "xor": ("^", operator.xor),
    "is_": ("is", operator.is_),
    "is_not": ("is not", operator.is_not),
}
_UNARY: dict[str, tuple[str, Function]] = {
    "neg": ("-", operator.neg),
    "bitwise_not": ("~", operator.invert),
    "invert": ("~", operator.invert),
    "pos": ("+", operator.pos),
    "not_": ("not ", operator.not_),
}


def _by_target(table: dict[str, tuple[str, Function]]) -> Mapping[str, tuple[str, Function]]:
    names = {f"{prefix}.{name}": entry for name, entry in table.items() for prefix in ("torch", "operator")}
    return MappingProxyType(names)


BINARY = _by_target(_BINARY)
"""Symbol and function of each operator with two operands, by dotted target."""

UNARY = _by_target(_UNARY)
"""Symbol and function of each operator with one operand, by dotted target."""

GETITEM = "operator.getitem"
"""Target that is written ``x[index]``."""

SETITEM = "operator.setitem"
"""Target that is written ``x[index] = value``."""

SET_ATTRIBUTES = "set_attributes_"
"""Target that is written ``vars(x).update(attributes)``."""

STATEMENTS = (SETITEM, SET_ATTRIBUTES)
"""Targets that are statements, after which ``x`` is the result."""

GETATTR = "getattr"
"""Target that is written ``x.shape``."""


def is_operator(target: str, operands: int) -> bool:
    """Return whether a call of `target` with that many positional arguments and no others is written as an operator."""
    return target in (BINARY, UNARY)[operands == 1] and operands in (1, 2)


def function_of(spec: NodeSpec, operands: int, *, plain: bool) -> Function:
    """Return the function that a function node runs: Python's operator where source has one."""
    if plain and is_operator(spec.target, operands):
        return (UNARY if operands == 1 else BINARY)[spec.target][1]
    function: Any = spec.torch.apply if is_autograd_function(spec) else spec.torch  # type: ignore[attr-defined]  # a spec of a function stands for something callable
    return function  # type: ignore[no-any-return]  # the core carries it as an object
