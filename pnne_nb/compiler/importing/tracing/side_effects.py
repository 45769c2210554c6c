"""Finds attributes that a ``forward`` assigns to its own module, and which of them an import may leave out.

A document has no attributes to assign. An assignment may be left out if no later call reads it: an attention map that is
kept for a person to look at, or a table that each call could compute again.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from typing import Any, final

import torch
from torch import fx, nn
from torch.utils import _pytree as pytree

from pnne_nb.compiler.importing.draft.draft import UntranslatableError
from pnne_nb.compiler.importing.tracing.proxies import Traced

_MODULES_OWN = frozenset(vars(nn.Module()))
_SIZES = frozenset(("shape", "dtype", "device", "ndim", "size", "dim", "numel"))


@final
class Attributes:
    """Watches plain attributes of one module during one call.

    Attributes:
        methods: Methods of a class of the module, by name, by which it is watched.
    """

    def __init__(self, module: nn.Module) -> None:
        self._own = vars(module)
        self._before = dict(self._own)
        self._contents = {
            name: _copied(value)
            for name, value in self._own.items()
            if name not in _MODULES_OWN and type(value) in (list, dict)
        }
        self._read: set[str] = set()
        self._written: set[str] = set()
        cls = type(module)

        def reading(owner: Any, name: str) -> Any:
            if owner is module and name not in self._written:
                self._read.add(name)
            return cls.__getattribute__(owner, name)

        def writing(owner: Any, name: str, value: Any) -> None:
            cls.__setattr__(owner, name, value)
            if owner is module:
                self._written.add(name)

        self.methods: Mapping[str, Any] = {"__getattribute__": reading, "__setattr__": writing}

    def refuse_state(self) -> None:
        """Raise if a later call would read what this one has assigned.

        Raises:
            UntranslatableError: If a value is assigned that was read before, and is no table that every call could make.
        """
        kept = []
        for name in {*self._own, *self._before}:
            value, before = self._own.get(name), self._before.get(name)
            if value is not before:
                if name in self._read and not _is_table(value):
                    kept.append(name)
            elif name in self._contents and not _same(value, self._contents[name]):
                kept.append(name)
        if kept:
            raise UntranslatableError(
                f"its forward assigns to {', '.join(sorted(kept))}, which its next call reads (a buffer, made by "
                "register_buffer, could be imported)"
            )

    def restore(self) -> None:
        """Restore the content of lists and dictionaries."""
        for name, content in self._contents.items():
            value: Any = self._before[name]
            if not _same(value, content):
                value.clear()
                value.update(content) if isinstance(value, dict) else value.extend(content)


def _copied(value: Any) -> Any:
    return dict(value) if isinstance(value, dict) else list(value)


def _same(value: Any, content: Any) -> bool:
    if len(value) != len(content):
        return False
    if isinstance(value, dict):
        return all(key in content and content[key] is each for key, each in value.items())
    return all(one is other for one, other in zip(value, content, strict=True))


def _is_table(value: Any) -> bool:
    """Return whether a value is made of sizes and constants alone, and not of what it was."""
    leaves: list[Any] = [leaf() if isinstance(leaf, weakref.ref) else leaf for leaf in pytree.tree_leaves(value)]
    traced = [leaf.node for leaf in leaves if issubclass(type(leaf), Traced)]
    if not traced and not any(isinstance(leaf, torch.Tensor) for leaf in leaves):
        return False  # a counter, or a flag
    seen: set[fx.Node] = set()
    pending = traced
    while pending:
        node = pending.pop()
        if node in seen:
            continue
        seen.add(node)
        if node.op in ("placeholder", "call_module"):
            return False
        name = str(node.args[1]) if node.target is getattr else str(node.target)
        if name not in _SIZES:
            pending += node.all_input_nodes
    return True
