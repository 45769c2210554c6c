"""What nodes run inside of: as source, and for real."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch

from pnne_nb.compiler.constants import emit
from pnne_nb.compiler.formatting import Text
from pnne_nb.graph.contexts import CONTEXTS, Context
from pnne_nb.graph.node import Node
from pnne_nb.graph.structural import INSIDE
from pnne_nb.graph.values import TorchConstant, Value

Inside = tuple[str, ...]
"""Names of contexts, the outermost first."""

NOWHERE: Inside = ()


def inside(node: Node) -> Inside:
    """Return what a node runs inside of; a name that a file made up is left to lint."""
    found = node.properties.get(INSIDE.name)
    if not isinstance(found, tuple):
        return NOWHERE
    return tuple(name for name in found if isinstance(name, str) and name in CONTEXTS)


def written(names: Inside) -> tuple[Text, ...]:
    """Return the calls that make contexts."""
    return tuple(_written(CONTEXTS[name]) for name in names)


def _written(context: Context) -> str:
    keywords = (f"{name}={emit(value)}" for name, value in context.keywords)
    return f"{context.target}({', '.join((*map(emit, context.arguments), *keywords))})"


@contextmanager
def entered(names: Sequence[str]) -> Iterator[None]:
    """Be inside of contexts."""
    with ExitStack() as stack:
        for name in names:
            context = CONTEXTS[name]
            make: Any = getattr(torch, context.target.removeprefix("torch."))
            stack.enter_context(make(*context.arguments, **{key: _live(value) for key, value in context.keywords}))
        yield


def _live(value: Value) -> object:
    return getattr(torch, value.name) if isinstance(value, TorchConstant) else value


def casts(names: Sequence[str]) -> bool:
    """Whether floating tensors that lie on the CPU are cast inside of contexts."""
    found = [name for name in names if name.startswith("autocast cpu")]
    return bool(found) and not found[-1].endswith(" off")
