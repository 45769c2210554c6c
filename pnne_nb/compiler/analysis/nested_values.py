"""Copies, compares and searches nested values: what a call is given, and what it returns."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import nn
from torch.utils import _pytree as pytree

from pnne_nb.compiler.module.call_errors import describe

_COMPARED = (bool, int, float, complex, str, bytes, set, frozenset, range, slice, np.generic, torch.Size, torch.device)
"""Types whose own ``==`` decides whether two values are equal."""


_PLAIN = (torch.Tensor, nn.Parameter)

Near: TypeAlias = Callable[[str, torch.Tensor, torch.Tensor], bool]
"""Says whether two tensors that are not equal count as such, given the name of their place in the results."""


def copied(value: Any) -> Any:
    """Return a deep copy of arguments, with the same ``requires_grad``; of objects too, such as a cache that is filled."""
    known: dict[int, Any] = {}

    def fresh(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return copied_object(leaf, known)
        # Sparse ones have no memory format, not even their own.
        kept = {"memory_format": torch.preserve_format} if leaf.layout == torch.strided else {}
        return leaf.detach().clone(**kept).requires_grad_(leaf.requires_grad)

    return pytree.tree_map(fresh, value)


def copied_object(value: Any, known: dict[int, Any] | None = None) -> Any:
    """Return a copy of an object that a call may fill, such as a cache; any other value, or one without copies, as it is."""
    if _is_made_of_attributes(value) and not isinstance(value, torch.Tensor):
        with contextlib.suppress(Exception):  # whatever its class says to copying
            return copy.deepcopy(value, known)
    return value


def difference(mine: Any, theirs: Any, place: str = "", *, near: Near | None = None) -> str:
    """Describe how two results differ; empty if they are equal, bit for bit, or all that differs is `near`."""
    return _difference(mine, theirs, place, frozenset(), near)


def _difference(mine: Any, theirs: Any, place: str, around: frozenset[int], near: Near | None) -> str:  # noqa: PLR0911  # one for each kind
    """Describe a difference; `around` are the objects that these are in, which some contain again."""
    if isinstance(mine, torch.Tensor) and isinstance(theirs, torch.Tensor):
        if mine.shape != theirs.shape or mine.dtype != theirs.dtype:
            return f"{place}{describe(mine)} and {describe(theirs)}"
        if mine.device.type == "meta" or _same(mine, theirs):
            return ""
        if mine.layout != torch.strided and mine.layout == theirs.layout:
            return _difference(mine.to_dense(), theirs.to_dense(), place, around, near)
        if near is not None and near(place, mine, theirs):
            return ""
        gap = (mine.detach().double() - theirs.detach().double()).abs().max().item() if not mine.is_complex() else ""
        return f"{place}differs by up to {gap}"
    if isinstance(mine, Mapping) and isinstance(theirs, Mapping):
        if type(mine) is not type(theirs):
            return f"{place}a {type(mine).__name__} and a {type(theirs).__name__}"
        if list(mine) != list(theirs):
            return f"{place}the keys {list(mine)} and {list(theirs)}"
        return next(
            (d for key in mine if (d := _difference(mine[key], theirs[key], f"{place}{key}: ", around, near))), ""
        )
    if isinstance(mine, (tuple, list)) and isinstance(theirs, (tuple, list)):
        if type(mine) is not type(theirs) or len(mine) != len(theirs):
            return f"{place}a {type(mine).__name__} of {len(mine)} and a {type(theirs).__name__} of {len(theirs)}"
        pairs = enumerate(zip(mine, theirs, strict=True))
        return next(
            (d for index, (a, b) in pairs if (d := _difference(a, b, f"{place}item {index}: ", around, near))), ""
        )
    if is_dataclass(mine) and type(mine) is type(theirs) and not isinstance(mine, type):
        one, other = ({field.name: getattr(side, field.name) for field in fields(side)} for side in (mine, theirs))
        return _difference(one, other, place, around, near)
    if isinstance(mine, np.ndarray) and isinstance(theirs, np.ndarray):
        same = mine.dtype == theirs.dtype and np.array_equal(mine, theirs, equal_nan=mine.dtype.kind in "fc")
        return "" if same else f"{place}different values in an array"
    if type(mine) is type(theirs) and _is_made_of_attributes(mine) and mine is not theirs:
        inside = around | {id(mine)}
        return "" if id(mine) in around else _difference(_attributes(mine), _attributes(theirs), place, inside, near)
    if type(mine) is type(theirs) and (mine is theirs or isinstance(mine, _COMPARED)):
        return "" if mine == theirs or mine != mine else f"{place}{mine!r} and {theirs!r}"  # noqa: PLR0124  # nan
    return f"{place}{describe(mine)} and {describe(theirs)}"


def _is_made_of_attributes(value: Any) -> bool:
    """Return whether a result is an object of a plain class, such as a cache."""
    has_attributes = hasattr(value, "__dict__") or hasattr(type(value), "__slots__")
    return has_attributes and not isinstance(value, (type, nn.Module, *_COMPARED)) and not callable(value)


def _attributes(value: Any) -> dict[str, Any]:
    slots = [name for cls in type(value).__mro__ for name in getattr(cls, "__slots__", ())]
    return {**{name: getattr(value, name) for name in slots if hasattr(value, name)}, **getattr(value, "__dict__", {})}


def _same(mine: torch.Tensor, theirs: torch.Tensor) -> bool:
    if mine.layout != torch.strided and mine.layout == theirs.layout and not mine.is_quantized:
        return _same(mine.to_dense(), theirs.to_dense())
    if type(mine) in _PLAIN and type(theirs) in _PLAIN and mine.is_set_to(theirs):
        return mine.dtype == theirs.dtype  # it is the same memory
    if mine.is_quantized or mine.layout != torch.strided:
        return torch.equal(mine, theirs)
    return torch.equal(mine, theirs) or (
        (mine.is_floating_point() or mine.is_complex()) and torch.allclose(mine, theirs, rtol=0, atol=0, equal_nan=True)
    )


def tensor_leaves(value: Any) -> list[torch.Tensor]:
    """Return the tensors in nested tuples, lists and dictionaries; `tensors_in` also looks into objects."""
    return [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def has_nan(results: Any) -> bool:
    """Return whether results have a NaN, which would hide a difference of what it was computed from."""
    kept = (each for each in tensors_in(results) if each.layout == torch.strided and not each.is_meta)
    return any(bool(each.isnan().any()) for each in kept if each.is_floating_point())


def tensors_in(value: Any, known: set[int] | None = None) -> list[torch.Tensor]:
    """Return the tensors in a nested value: in data classes and plain objects too, but for those with a `known` identity."""
    known = set() if known is None else known
    found: list[torch.Tensor] = []
    for leaf in pytree.tree_leaves(value):
        if isinstance(leaf, torch.Tensor):
            found.append(leaf)
        elif is_dataclass(leaf) and not isinstance(leaf, type):
            found += tensors_in([getattr(leaf, field.name) for field in fields(leaf)], known)
        elif _is_made_of_attributes(leaf) and id(leaf) not in known:
            known.add(id(leaf))
            found += tensors_in(list(_attributes(leaf).values()), known)
    return found
