"""Enters and writes the contexts that nodes run in (autocast, no_grad), and reads the element type of a layer."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import nn

from pnne_nb.compiler.ir.bind import ELEMENT
from pnne_nb.compiler.ir.literals import emit
from pnne_nb.compiler.ir.text import Text
from pnne_nb.graph.schema.structural import CONTEXTS, Context
from pnne_nb.graph.schema.values import TorchConstant, Value

Inside = tuple[str, ...]
"""Names of contexts, the outermost first."""

NOWHERE: Inside = ()


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


def element_type(module: nn.Module) -> str:
    """Return the element type of a layer that was constructed with it; empty for the usual one."""
    kinds = {parameter.dtype for parameter in module.parameters()}
    if len(kinds) != 1 or kinds == {torch.float32}:
        return ""
    if not isinstance(module, nn.RNNBase) and ELEMENT not in inspect.signature(type(module)).parameters:
        return ""
    return str(kinds.pop()).removeprefix("torch.")
