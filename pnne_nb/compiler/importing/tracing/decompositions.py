"""Rewrites methods and functions without a node type in terms of those that have one.

``x.lerp_(y, 0.1)`` becomes ``x.copy_(x.lerp(y, 0.1))``, ``x.type(dtype)`` becomes ``x.to(dtype)``, and
``x.is_floating_point()`` is known from the element type.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, fx
from torch.utils import _pytree as pytree

from pnne_nb.compiler.importing.draft.draft import UntranslatableError
from pnne_nb.compiler.importing.tracing.proxies import UNKNOWN, TracedTensor, is_traced, known
from pnne_nb.compiler.importing.tracing.recorder import TraceRecorder
from pnne_nb.graph.schema.registry import registry

ABSENT = object()
"""Returned where there is nothing to rewrite."""

_KNOWN = frozenset(("dim", "ndimension", "is_signed"))
"""Methods whose result follows from the element type and the number of dimensions."""

_OF_TYPE = {"is_floating_point": "is_floating_point", "is_complex": "is_complex", "element_size": "itemsize"}
"""Methods that are attributes of the element type."""

_SYNONYMS = {
    "_is_all_true": "all",
    "absolute": "abs", "arccos": "acos", "arccosh": "acosh", "arcsin": "asin", "arcsinh": "asinh", "arctan": "atan",
    "arctan2": "atan2", "arctanh": "atanh", "divide": "div", "fix": "trunc", "ger": "outer", "greater": "gt",
    "greater_equal": "ge", "less": "lt", "less_equal": "le", "multiply": "mul", "negative": "neg", "nelement": "numel",
    "not_equal": "ne", "row_stack": "vstack", "split_with_sizes": "split", "subtract": "sub", "true_divide": "div",
}  # fmt: skip
_TO = {"byte": torch.uint8, "char": torch.int8, "cdouble": torch.complex128, "cfloat": torch.complex64, "cpu": "cpu",
       "cuda": "cuda"}  # fmt: skip
"""Methods that are ``to`` with an argument."""

_TYPES = {"Float": "float32", "Double": "float64", "Half": "float16", "BFloat16": "bfloat16", "Long": "int64",
          "Int": "int32", "Short": "int16", "Byte": "uint8", "Char": "int8", "Bool": "bool"}  # fmt: skip
_VIEWS = frozenset((
    "chunk", "data", "detach", "diagonal", "expand", "expand_as", "flatten", "getattr", "getitem", "imag", "movedim",
    "narrow", "permute", "real", "reshape", "select", "split", "squeeze", "swapaxes", "t", "to", "transpose",
    "type_as", "unbind", "unflatten", "unfold", "unsqueeze", "view", "view_as", "view_as_complex", "view_as_real",
))  # fmt: skip
"""Methods that may return the same memory in a new tensor."""

_RESHAPES = frozenset(("detach_", "squeeze_", "swapaxes_", "swapdims_", "t_", "transpose_", "unsqueeze_"))
"""Methods in place that change the shape of a tensor, and none of its elements."""


_OTHER_TYPE = frozenset((
    "eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_not", "logical_or", "logical_xor",
))  # fmt: skip
"""Functions whose result has another element type, unless they are called in place."""


def method(recorder: TraceRecorder, name: str, owner: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Record a method of a traced tensor in terms of others, or return `ABSENT`."""
    if name in _KNOWN and type(owner) is TracedTensor and owner.value is not UNKNOWN:
        recorder.assumptions.ranked |= name in ("dim", "ndimension")
        return getattr(owner.value, name)()
    if name in _OF_TYPE and type(owner) is TracedTensor and owner.value is not UNKNOWN:
        return getattr(owner.dtype, _OF_TYPE[name])
    if name in _METHODS:
        return _METHODS[name](recorder, owner, *args, **kwargs)
    if name == "to" and type(args[0] if args else None) is TracedTensor:
        args = args[0].device, args[0].dtype, *args[1:]
        return recorder.create_proxy("call_method", name, (owner, *args), kwargs)
    if name == "view" and isinstance(args[0] if args else None, torch.dtype):
        return recorder.create_proxy("call_method", name, (owner,), {"dtype": args[0]})
    if registry.listed(name) is not None:
        return ABSENT
    if name in _SPECIAL:
        return _SPECIAL[name](recorder, owner, *args, **kwargs)
    if name in _SYNONYMS:
        return recorder.call_method(owner, _SYNONYMS[name], args, kwargs)
    if name in _TO:
        return recorder.call_method(owner, "to", (_TO[name],), {})
    base = name.removesuffix("_")
    base = _SYNONYMS.get(base, base)
    if base != name and registry.listed(base) is not None and hasattr(Tensor, base) and base not in _OTHER_TYPE:
        changed = recorder.call_method(owner, base, args, kwargs)
        if name in _RESHAPES or _is_own(owner.node):
            if any(type(each) is TracedTensor for each in (*args, *kwargs.values())):
                # In place, it keeps its element type: in an autocast, another tensor may have a wider one.
                changed = recorder.call_method(changed, "to", (owner.dtype,), {})
            owner.node = changed.node
            owner.value = changed.value
            return owner
        return recorder.call_method(owner, "copy_", (changed,), {})
    return ABSENT


def _is_own(node: fx.Node) -> bool:
    """Return whether a tensor was made here and is no view of another, so that a new one can replace it."""
    while node.op == "call_method" and str(node.target).endswith("_") and isinstance(node.args[0], fx.Node):
        node = node.args[0]
    name = str(getattr(node.target, "__name__", node.target))
    return node.op in ("call_function", "call_method") and name not in _VIEWS


def function(recorder: TraceRecorder, target: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Record a torch function in terms of others, or return `ABSENT`."""
    name = str(getattr(target, "__name__", ""))
    if target in (torch.tensor, torch.as_tensor, torch.asarray):
        return _tensor(recorder, *args, **kwargs)
    if target is torch.nonzero and kwargs.get("as_tuple"):
        target, kwargs = torch.where, {}
    if target is torch.where and len(args) == 1 and not kwargs:
        return recorder.call_method(recorder.call_method(args[0], "nonzero", (), {}), "unbind", (1,), {})
    if registry.listed(name) is not None and name not in (*_KNOWN, *_OF_TYPE):
        return ABSENT
    if getattr(torch, name, None) is not target or not is_traced(args[:1]) or not hasattr(Tensor, name):
        return ABSENT
    return method(recorder, name, args[0], args[1:], kwargs)


def _type(recorder: TraceRecorder, owner: Any, dtype: Any = None, *_: Any, **__: Any) -> Any:
    if dtype is None:
        raise UntranslatableError("it asks for the type of a tensor as text")
    if isinstance(dtype, str):
        short = dtype.rpartition(".")[2].removesuffix("Tensor")
        if short not in _TYPES:
            raise UntranslatableError(f"it asks for a tensor of type {dtype!r}")
        dtype = getattr(torch, _TYPES[short])
    elif isinstance(dtype, type):
        dtype = getattr(torch, _TYPES.get(dtype.__name__.removesuffix("Tensor"), "float32"))
    return recorder.call_method(owner, "to", (dtype,), {})


def _index_put_(recorder: TraceRecorder, owner: Any, indices: Any, values: Any, accumulate: bool = False) -> Any:
    if accumulate:
        changed = recorder.call_method(owner, "index_put", (indices, values, True), {})
        return recorder.call_method(owner, "copy_", (changed,), {})
    owner[tuple(indices)] = values
    return owner


def _uniform_(recorder: TraceRecorder, owner: Any, low: Any = 0.0, high: Any = 1.0) -> Any:
    drawn = recorder.create_proxy("call_function", torch.rand_like, (owner,), {})
    if (low, high) != (0.0, 1.0):
        drawn = drawn * (high - low) + low
    return recorder.call_method(owner, "copy_", (drawn,), {})


def _tolist(_recorder: TraceRecorder, owner: Any) -> Any:
    def items(part: Any, shape: tuple[int, ...]) -> Any:
        if not shape:
            return part.item()
        return [items(part[index], shape[1:]) for index in range(shape[0])]

    if owner.value is UNKNOWN:
        raise UntranslatableError("it makes a list of a tensor whose size is only known when it runs")
    return items(owner, tuple(owner.value.shape))


def _new_tensor(recorder: TraceRecorder, owner: Any, data: Any, dtype: Any = None, device: Any = None, **_: Any) -> Any:
    dtype = owner.dtype if dtype is None else dtype
    return _tensor(recorder, data, dtype, device if device is not None or is_traced(data) else owner.device)


def _tensor(recorder: TraceRecorder, data: Any, dtype: Any = None, device: Any = None, **_: Any) -> Any:
    """Return a tensor of constants, or of numbers that are computed from sizes."""
    element = known(dtype)
    if not is_traced(data):
        asked = {name: value for name, value in (("dtype", dtype), ("device", device)) if value is not None}
        if not is_traced(asked) or not {*map(type, pytree.tree_leaves(data))} <= {bool, int, float}:
            return torch.tensor(data, dtype=element)
        # The element type and the device follow the input.
        return recorder.create_proxy("call_function", torch.as_tensor, (data,), asked)
    if type(data) is TracedTensor:
        return data if dtype is None and device is None else data.to(dtype=dtype) if device is None else data.to(device)
    if isinstance(data, (tuple, list)):
        parts = [_tensor(recorder, part, dtype) for part in data]
        return recorder.create_proxy("call_function", torch.stack, (parts,), {})
    number = known(data)
    if number is UNKNOWN:
        raise UntranslatableError("it makes a tensor of a number that is only known when it runs")
    if element is None:
        element = torch.tensor(number).dtype
    return recorder.create_proxy("call_function", torch.full, ((), data), {"dtype": element})


_SPECIAL: Mapping[str, Callable[..., Any]] = {
    "index_put_": _index_put_,
    "new_tensor": _new_tensor,
    "reshape_as": lambda recorder, owner, other: recorder.call_method(owner, "reshape", (other.shape,), {}),
    "tolist": _tolist,
    "type": _type,
    "uniform_": _uniform_,
}


_METHODS: Mapping[str, Callable[..., Any]] = {
    "where": lambda recorder, owner, condition, other: recorder.create_proxy(
        "call_function", torch.where, (condition, owner, other), {}
    ),
    "polygamma": lambda recorder, owner, n: recorder.create_proxy("call_function", torch.polygamma, (n, owner), {}),
}
"""Methods whose tensor is not the first argument of the function of that name."""
