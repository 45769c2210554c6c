"""Converts results of a model to containers that every exporter knows: data classes become dictionaries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from torch import nn
from torch.utils import _pytree as pytree


def plain_result(model: nn.Module, result: object) -> Any:
    """Return a model's result with dictionaries instead of data classes and of mappings that torch does not know.

    If it holds any, or None, the model is changed: from now on it gives the values in order, without None.

    Args:
        model: A copy that belongs to the export alone.
        result: Of one call of it.
    """
    if any(leaf is None or _entries(leaf) is not None for leaf in pytree.tree_leaves(result)):
        model.register_forward_hook(_in_order)
    return _plain(result)


def _in_order(_model: nn.Module, _args: object, result: object) -> Any:
    values = tuple(leaf for leaf in pytree.tree_leaves(_plain(result)) if leaf is not None)
    return values[0] if len(values) == 1 else values


def _plain(result: object) -> Any:
    def opened(leaf: object) -> Any:
        entries = _entries(leaf)
        return leaf if entries is None else {name: _plain(value) for name, value in entries.items()}

    return pytree.tree_map(opened, result)


def _entries(leaf: object) -> Mapping[str, Any] | None:
    """Return the named contents of a leaf that is a container unknown to torch."""
    if is_dataclass(leaf) and not isinstance(leaf, type):
        return {each.name: getattr(leaf, each.name) for each in fields(leaf)}
    return {str(name): value for name, value in leaf.items()} if isinstance(leaf, Mapping) else None
