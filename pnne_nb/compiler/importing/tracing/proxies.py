"""Proxies of values in a traced ``forward``, with their nodes in the recording and their values in the example.

A traced size is an ``int`` and a traced shape a ``tuple``, so that ``torch.zeros(x.shape[0], 4)`` accepts them. Where
Python itself needs a size (a branch, a loop, an index), the proxy answers as in the example; it refuses where the
answer depends on the data of a tensor.
"""

from __future__ import annotations

import operator
import sys
from collections import OrderedDict
from collections.abc import Callable, Iterator
from enum import Enum
from itertools import repeat
from types import FunctionType
from typing import Any, final

import torch
from torch import fx, nn
from torch.utils import _pytree as pytree

from pnne_nb.catalog.operators import ATTRIBUTES
from pnne_nb.compiler.analysis.nested_values import tensor_leaves
from pnne_nb.compiler.importing.draft.draft import UntranslatableError
from pnne_nb.compiler.importing.draft.variable_names import parts
from pnne_nb.compiler.importing.tracing.call_effects import AUTOCAST, CREATORS, TYPE
from pnne_nb.compiler.importing.tracing.recorder import TraceRecorder
from pnne_nb.compiler.ir.program import Inside
from pnne_nb.compiler.shapes.autocast import cast, casts

UNKNOWN = object()
"""The value of a proxy that depends on the data of a tensor."""

EXAMPLE = "example"
"""Key of a recorded call's ``meta`` for its result in the example, if that is known."""

_HEAP_TYPE = 1 << 9
"""Flag of classes that are written in Python."""

TYPE_ATTRIBUTES = ("is_floating_point", "is_complex", "itemsize")
"""Attributes of an element type."""

_RECORDED = frozenset(ATTRIBUTES) - {"ndim", "is_cuda", *TYPE_ATTRIBUTES}
_RECURRENT = ("lstm", "gru", "rnn_tanh", "rnn_relu")
"""Functions that torch computes step by step in Python where there is no data."""

_OF_GRADIENTS = frozenset(("grad", "grad_fn", "is_leaf", "retains_grad"))
_OWN = ("node", "tracer", "value", "parameter")


def _recorded(function: Callable[..., Any]) -> Callable[[Any, Any], Any]:
    return lambda owner, other: owner.tracer.create_proxy("call_function", function, (owner, other), {})


class Traced(fx.Proxy):
    """Proxy of a traced value.

    Attributes:
        value: Its value in the example; tensors have no data; `UNKNOWN` if it depends on data.
    """

    tracer: TraceRecorder
    value: Any

    def __init__(self, node: fx.Node, tracer: TraceRecorder, value: Any) -> None:
        super().__init__(node, tracer)
        self.value = value

    __getitem__ = _recorded(operator.getitem)
    __iadd__ = _recorded(operator.iadd)
    __isub__ = _recorded(operator.isub)
    __imul__ = _recorded(operator.imul)
    __itruediv__ = _recorded(operator.itruediv)
    __ipow__ = _recorded(operator.ipow)

    def __bool__(self) -> bool:
        return self.tracer.decide(self)

    def __len__(self) -> int:
        if self.value is UNKNOWN:
            raise self.tracer.unknown(self)
        self.tracer.assumptions.counted(self)
        return len(self.value)

    def __iter__(self) -> Iterator[Any]:
        if isinstance(self.value, dict):
            return iter(self.value)
        count = parts(sys._getframe(1))
        if count is None or self.value is not UNKNOWN:
            count = len(self) if count is None else len(self.value)
        return (self[index] for index in range(count))

    def keys(self) -> Any:
        """Return the keys of a dictionary, or record the method of another value."""
        return self.tracer.call_method(self, "keys", (), {})

    def __index__(self) -> int:
        if isinstance(self.value, (tuple, float)):
            raise TypeError(f"a {type(self.value).__name__} is no index")  # torch asks whether it is
        return operator.index(self.tracer.settle(self))

    def __int__(self) -> int:
        return int(self.tracer.settle(self))

    def __float__(self) -> float:
        return float(self.tracer.settle(self))

    def __contains__(self, item: object) -> bool:
        return any(bool(each == item) for each in self)

    def __round__(self, digits: int | None = None) -> Any:
        return self.round() if type(self) is TracedTensor else round(self.tracer.settle(self), digits)

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> Any:
        return other // self, other % self

    def __hash__(self) -> int:
        # The key of a dictionary: another type or size may have another value.
        is_key = type(self.value) in (int, float, torch.dtype)
        return hash(self.tracer.settle(self)) if is_key else id(self)

    def __setitem__(self, index: Any, value: Any) -> None:
        self.node = self.tracer.create_proxy("call_function", operator.setitem, (self, index, value), {}).node

    def __getattr__(self, name: str) -> Any:
        if name in _OWN:
            raise AttributeError(name)
        kind = torch.Tensor if self.value is UNKNOWN else type(self.value)
        if callable(getattr(kind, name, None)):
            return lambda *args, **kwargs: self.tracer.call_method(self, name, args, kwargs)
        if issubclass(kind, torch.Tensor) and name in _RECORDED:
            return self.tracer.create_proxy("call_function", getattr, (self, name), {})
        if self.value is UNKNOWN:
            raise self.tracer.unknown(self)
        names = getattr(kind, "_fields", getattr(kind, "__match_args__", ())) if issubclass(kind, tuple) else ()
        if name in names:
            return self[names.index(name)]
        if name in _OF_GRADIENTS and type(self) is TracedTensor:
            raise UntranslatableError(f"it asks for {name} of a tensor, which goes by whether gradients are recorded")
        self.tracer.assumptions.ranked |= name == "ndim"
        if name in ("is_cuda", "is_cpu") and isinstance(self.value, torch.Tensor):
            return self.tracer.kind_of(self.node) == name.removeprefix("is_")
        # Without data, every tensor is on the meta device.
        source: Any = self.node.args[0] if self.node.args else None
        if name in TYPE_ATTRIBUTES and isinstance(self.value, torch.dtype) and getattr(source, "op", "") != "get_attr":
            return self.tracer.create_proxy("call_function", getattr, (self, name), {})
        found = getattr(self.tracer.device if isinstance(self.value, torch.device) else self.value, name)
        if isinstance(self.value, torch.device) and name == "type":
            return self.tracer.kind_of(self.node.args[0])
        if isinstance(found, torch.Tensor):
            raise UntranslatableError(f"it reads {name} of a {kind.__name__}")
        return found

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "data" and type(self) is TracedTensor:
            self.data.copy_(value)
        elif name == "requires_grad" and self.node.op in ("call_function", "call_method"):
            pass  # of a tensor made here, whose gradient nobody reads
        elif name in _OWN:
            object.__setattr__(self, name, value)
        else:
            raise UntranslatableError(f"it sets the attribute {name} of a tensor")

    def opened(self) -> Any:
        """Return the tuple, list or dictionary of proxies behind a proxy."""
        if isinstance(self.value, dict):
            return {key: self[key] for key in self.value}
        if isinstance(self.value, (tuple, list)):
            return (tuple if isinstance(self.value, tuple) else list)(self)
        return self.value


@final
class TracedTensor(Traced):
    """Proxy of a tensor with known shape and element type.

    It does not pretend to be a ``torch.Tensor``: torch's compiled code would believe it, and read its memory.

    Attributes:
        parameter: Whether it is a parameter.
    """

    parameter: bool = False


@final
class TracedInt(Traced, int):  # type: ignore[misc]  # abs() is recorded
    """Proxy of a size."""

    # It takes the place of an int, not of a tensor.
    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]  # as torch's own classes

    def __new__(cls, _node: fx.Node, _tracer: TraceRecorder, value: int) -> TracedInt:
        return int.__new__(cls, value)


@final
class TracedFloat(Traced, float):  # type: ignore[misc]  # abs() is recorded
    """Proxy of a number that is computed from sizes."""

    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]  # as above

    def __new__(cls, _node: fx.Node, _tracer: TraceRecorder, value: float) -> TracedFloat:
        return float.__new__(cls, value)


@final
class TracedTuple(Traced, tuple):  # type: ignore[type-arg]  # noqa: SLOT001  # of anything; a proxy has a dictionary
    """Proxy of a shape, or of several results."""

    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]  # as above

    def __new__(cls, _node: fx.Node, _tracer: TraceRecorder, value: tuple[Any, ...]) -> TracedTuple:
        return tuple.__new__(cls, value)

    def __hash__(self) -> int:
        return hash(tuple(self))


def wrap(node: fx.Node, tracer: TraceRecorder, value: Any) -> Traced:
    """Return the proxy of the result of a recorded call."""
    if isinstance(value, torch.Tensor):
        found: Traced = TracedTensor(node, tracer, value)
    elif type(value) is int:
        found = TracedInt(node, tracer, value)
    elif type(value) is float:
        found = TracedFloat(node, tracer, value)
    elif isinstance(value, torch.Size):
        # Compiled code, such as that of torch.Size, reads the items without asking.
        sizes = (
            node.graph.create_node("call_function", operator.getitem, (node, index)) for index in range(len(value))
        )
        found = TracedTuple(node, tracer, tuple(map(wrap, sizes, repeat(tracer), value)))
        found.value = value
    elif isinstance(value, tuple):
        found = TracedTuple(node, tracer, value)
    else:
        found = Traced(node, tracer, value)
    if value is not UNKNOWN:
        node.meta.update({TYPE: type(value), EXAMPLE: value})
    return found


def type_of(value: Any) -> type:
    """Return the type of the value behind a proxy."""
    if type(value) is TracedTensor:
        return nn.Parameter if value.parameter else torch.Tensor
    return type(value.value) if issubclass(type(value), Traced) and value.value is not UNKNOWN else type(value)


def is_traced(value: Any) -> bool:
    """Return whether a value, or a part of it, is a proxy."""
    if issubclass(type(value), Traced):
        return True
    if isinstance(value, (tuple, list)):
        return any(map(is_traced, value))
    if isinstance(value, dict):
        return any(map(is_traced, value.values()))
    return isinstance(value, slice) and any(map(is_traced, (value.start, value.stop, value.step)))


def known(value: Any) -> Any:
    """Return an argument as in the example; `UNKNOWN` if a part of it depends on data."""
    made: Callable[[list[Any]], Any]
    if issubclass(type(value), Traced):
        return value.value
    if type(value) in (tuple, list, torch.Size):
        parts, made = value, list if type(value) is list else tuple
    elif isinstance(value, tuple) and hasattr(value, "_fields"):
        parts, made = value, lambda parts: type(value)(*parts)
    elif type(value) in (dict, OrderedDict):
        parts, made = value.values(), lambda parts: dict(zip(value, parts, strict=True))
    elif isinstance(value, slice):
        parts, made = (value.start, value.stop, value.step), lambda parts: slice(*parts)
    elif isinstance(value, torch.Tensor):
        return value.to("meta")
    else:
        return UNKNOWN if is_plain_object(value) else value
    found = [known(each) for each in parts]
    return UNKNOWN if any(each is UNKNOWN for each in found) else made(found)


def is_plain_object(value: Any) -> bool:
    """Return whether a value is an object of a class written in Python, all of whose content is its attributes."""
    kind = type(value)
    if not kind.__dictoffset__ or issubclass(kind, (type, nn.Module, Traced, BaseException, Enum)) or callable(value):
        return False
    return all(base.__flags__ & _HEAP_TYPE and not vars(base).get("__slots__") for base in kind.__mro__[:-1])


def evaluated(kind: str, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], within: Inside) -> Any:
    """Return the result of a call in the example."""
    given, named = known(args), known(kwargs)
    if given is UNKNOWN or named is UNKNOWN:
        return UNKNOWN
    if target in CREATORS or "device" in named:
        named = {**named, "device": "meta"}
    call: Any = target
    if kind == "call_method":
        call = getattr(torch.Tensor, target) if isinstance(given[0], torch.Tensor) else getattr(type(given[0]), target)
    elif isinstance(target, type) and issubclass(target, torch.autograd.Function):
        call = target.apply
    if target is getattr and args[1] == "requires_grad":
        return UNKNOWN  # the caller decides for each call which tensors have gradients
    try:
        # Autocast changes what tensors are computed, not what is read of them.
        computes = target is not getattr and bool(tensor_leaves((given, named)))
        if getattr(target, "__name__", "") in _RECURRENT:
            given = pytree.tree_map_only(torch.Tensor, lambda each: torch.zeros(each.shape, dtype=each.dtype), given)
            return pytree.tree_map_only(torch.Tensor, lambda each: each.to("meta"), call(*given, **named))
        with torch.no_grad():
            is_cast = casts(within) and (computes or target in AUTOCAST)
            return cast(call, given, named, within) if is_cast else call(*given, **named)
    except Exception as error:
        if isinstance(error, (RuntimeError, NotImplementedError)) or isinstance(target, FunctionType):
            return UNKNOWN  # the result depends on data
        raise
