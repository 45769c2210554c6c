"""Settings of a node beside its arguments: the contexts it runs in (autocast, no_grad), and its element type."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import nn

from pnne_nb.compiler.ir.literals import emit
from pnne_nb.compiler.ir.text import Text
from pnne_nb.graph.model.node import Node
from pnne_nb.graph.schema.property_types import DtypeType, check
from pnne_nb.graph.schema.structural import ABLATE, CONTEXTS, INSIDE, Context
from pnne_nb.graph.schema.values import DTYPES, TorchConstant, Value

Inside = tuple[str, ...]
"""Names of contexts, the outermost first."""

NOWHERE: Inside = ()


ELEMENT = "dtype"
"""Argument of torch's layers by which they are made of another element type; no property of any node."""


def inside(node: Node) -> Inside:
    """Return the contexts in which a node runs; unknown names in a file are left to lint."""
    found = node.properties.get(INSIDE.name)
    if not isinstance(found, tuple):
        return NOWHERE
    return tuple(name for name in found if isinstance(name, str) and name in CONTEXTS)


def ablated(node: Node) -> str:
    """Return what a node gives instead of running: ``"bypass"`` or ``"zeros"``; empty if it runs."""
    found = node.properties.get(ABLATE.name)
    return found if isinstance(found, str) else ""


def written(names: Inside) -> tuple[Text, ...]:
    """Return the calls that create contexts."""
    return tuple(_written(CONTEXTS[name]) for name in names)


def _written(context: Context) -> str:
    keywords = (f"{name}={emit(value)}" for name, value in context.keywords)
    return f"{context.target}({', '.join((*map(emit, context.arguments), *keywords))})"


@contextmanager
def entered(names: Sequence[str]) -> Iterator[None]:
    """Enter contexts for the block."""
    with ExitStack() as stack:
        for name in names:
            context = CONTEXTS[name]
            make: Any = getattr(torch, context.target.removeprefix("torch."))
            stack.enter_context(make(*context.arguments, **{key: _live(value) for key, value in context.keywords}))
        yield


def _live(value: Value) -> object:
    return getattr(torch, value.name) if isinstance(value, TorchConstant) else value


def casts(names: Sequence[str]) -> bool:
    """Return whether contexts cast floating-point tensors on the CPU."""
    found = [name for name in names if name.startswith("autocast cpu")]
    return bool(found) and not found[-1].endswith(" off")


def named_type(node: Node) -> torch.dtype | None:
    """Return the element type of an input or weight, or None if its property names none (lint reports that)."""
    name = node.properties.get(ELEMENT, "float32")
    return getattr(torch, name) if isinstance(name, str) and name in DTYPES else None


def element_type(module: nn.Module) -> str:
    """Return the element type of a layer that was constructed with it; empty for the usual one."""
    kinds = {parameter.dtype for parameter in module.parameters()}
    if len(kinds) != 1 or kinds == {torch.float32}:
        return ""
    if not isinstance(module, nn.RNNBase) and ELEMENT not in inspect.signature(type(module)).parameters:
        return ""
    return str(kinds.pop()).removeprefix("torch.")


def with_element_type(node: Node) -> Mapping[str, Value]:
    """Return the properties of a node with the element type of the layer that it was imported from."""
    if node.origin is None or node.origin.dtype is None or ELEMENT in node.properties:
        return node.properties
    return {**node.properties, ELEMENT: check(DtypeType(), node.origin.dtype)}
