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
from types import FunctionType, SimpleNamespace
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
_OWN = ("node", "tracer", "value", "parameter", "given", "own", "read", "first", "made")


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
        count = parts(sys._getframe(1))
        if isinstance(self.value, tuple) and not isinstance(self.value, torch.Size):
            self.tracer.assumptions.looked(self.node, "length", len(self.value))
        if count is None or self.value is not UNKNOWN:
            count = len(self) if count is None else len(self.value)
        return (self[index] for index in range(count))

    def __index__(self) -> int:
        if isinstance(self.value, (tuple, float)):
            raise TypeError(f"a {type(self.value).__name__} is no index")  # torch asks whether it is
        return operator.index(self.tracer.settle(self))

    def __int__(self) -> int:
        return int(self.tracer.settle(self))

    def __float__(self) -> float:
        return float(self.tracer.settle(self))

    def __contains__(self, item: object) -> bool:
        if type(self) is TracedTensor:
            return bool((self == item).any())  # type: ignore[attr-defined]  # as torch does
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

    def __deepcopy__(self, _: Any) -> Any:
        raise UntranslatableError(f"it makes a deep copy of a {type_of(self).__name__}, which no node does")

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
            self.tracer.assumptions.looked(self.node, "fields", tuple(names))
            return self[names.index(name)]
        if isinstance(self, TracedDict) and name in getattr(kind, "__dataclass_fields__", ()):
            return self.get(name)  # a class of results that are also dictionaries
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
            raise UntranslatableError(f"it reads {name} of a {kind.__name__}{slotted(kind)}")
        return found

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "data" and type(self) is TracedTensor:
            self.data.copy_(value)
        elif name == "requires_grad" and self.node.op in ("call_function", "call_method"):
            pass  # of a tensor made here, whose gradient nobody reads
        elif name in _OWN:
            object.__setattr__(self, name, value)
        else:
            kind = "tensor" if self.value is UNKNOWN else type_of(self).__name__
            slots = "" if self.value is UNKNOWN else slotted(type_of(self))
            raise UntranslatableError(f"it sets the attribute {name} of a {kind}{slots}")

    def opened(self) -> Any:
        """Return the tuple of proxies behind a proxy, or another value as it is."""
        return tuple(self) if isinstance(self.value, tuple) else self.value


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


class TracedContainer(Traced):
    """Proxy of a list or dictionary, which also is one.

    It holds what the example holds, and proxies in place of that as soon as the code reads them. What the code looks at
    is an assumption: how many items there are, which keys, whether an item is a tensor. What it changes is recorded when
    the container is used as a whole, or at the end.

    Attributes:
        given: What it held in the example; `value` is what it holds after the changes that are recorded.
        read: What the code has read, by index or key.
    """

    given: Any
    read: dict[Any, Any]

    def __init__(self, node: fx.Node, tracer: TraceRecorder, value: Any, made: dict[int, Any]) -> None:
        super().__init__(node, tracer, value)
        self.given, self.read = value, {}
        self.made = made  # the proxies of what is around it, by identity
        made[id(value)] = self

    def look(self, what: str, expected: Any, *keys: Any) -> None:
        """Note that the code has seen something of it, or of the item at `keys`."""
        looked = self.tracer.assumptions.looked
        looked(self.node, "kind", "a dict" if isinstance(self.given, dict) else "a list")
        if not looked(self.node, what, expected, *keys) and not keys:
            self.tracer.assumptions.counted(self)

    def part(self, key: Any, value: Any) -> Any:
        """Return the proxy of an item that the code reads, of which it may ask anything."""
        self.look(*seen(value), key)
        if value is None or type(value) in (bool, str):
            return value
        node = self.tracer.create_node("call_function", operator.getitem, (self.node, key), {})
        found = self.tracer.proxied(node, value, self.made)
        self.tracer.name(found, key)
        return found

    def assign(self, key: Any, value: Any) -> None:
        """Record an assignment to an item."""
        given = self.tracer.create_arg(value)
        self.node = self.tracer.create_node("call_function", operator.setitem, (self.node, key, given), {})


def seen(value: Any) -> tuple[str, Any]:
    """Return what any code sees of a value, and what it is."""
    if value is None or type(value) in (bool, str):
        return "is", value
    if type(value) in (int, float):
        return "kind", "a number"
    kinds = {torch.Tensor: "a tensor", dict: "a dict", list: "a list", tuple: "a tuple"}
    return "kind", next((name for kind, name in kinds.items() if isinstance(value, kind)), "an object")


def _sees_all(base: type, *names: str) -> Callable[[Any], Any]:
    """Return a decorator that lets methods of a list or dictionary look at all of it, and of what it is combined with."""

    def method(name: str) -> Callable[..., Any]:
        def call(owner: Any, *args: Any, **kwargs: Any) -> Any:
            for each in (owner, *(args if name.startswith("__") else ())):
                if issubclass(type(each), TracedContainer):
                    each.take()
            return getattr(base, name)(owner, *args, **kwargs)

        return call

    def decorate(cls: Any) -> Any:
        for name in (*names, "__eq__", "__ne__", "__repr__", "__reversed__", "__delitem__", "clear", "copy"):
            setattr(cls, name, method(name))
        cls.__copy__ = cls.copy
        return cls

    return decorate


@final
@_sees_all(
    list, "append", "extend", "insert", "remove", "pop", "index", "count", "sort", "reverse", "__add__", "__iadd__",
    "__mul__", "__rmul__", "__imul__", "__lt__", "__le__", "__gt__", "__ge__", "__contains__", "__setitem__",
)  # fmt: skip
class TracedList(TracedContainer, list):  # type: ignore[misc,type-arg]  # of anything, with a hash of its own
    """Proxy of a list.

    Attributes:
        own: Whether the code has looked at all of it, and may have changed it since.
        first: The index with which the code has first read each item: it may count from the end.
    """

    own: bool
    first: dict[int, int]

    def __init__(self, node: fx.Node, tracer: TraceRecorder, value: list[Any], made: dict[int, Any]) -> None:
        super().__init__(node, tracer, value, made)
        self.own, self.first = False, {}
        list.extend(self, value)

    def __getitem__(self, index: Any) -> Any:
        if not self.own and type(index) is int and -len(self.given) <= index < len(self.given):
            self._read(index)
        else:
            self.take()
        return list.__getitem__(self, index)

    def __iter__(self) -> Iterator[Any]:
        return (self[index] for index in range(len(self)))

    def __len__(self) -> int:
        if not self.own:
            self.look("length", len(self.given))
        return list.__len__(self)

    def __bool__(self) -> bool:
        if not self.own:
            self.look("filled", bool(self.given))
        return list.__len__(self) > 0

    def __radd__(self, other: list[Any]) -> list[Any]:
        return [*other, *self]

    def _read(self, index: int) -> None:
        place = index % len(self.given)
        if place not in self.read:
            self.first[place], self.read[place] = index, self.part(index, self.given[place])
            list.__setitem__(self, place, self.read[place])
        elif self.first[place] != index:
            self.look("length", len(self.given))

    def take(self) -> None:
        """Look at all of it: its further content is the code's own."""
        for index in range(len(self)) if not self.own else ():
            self._read(index)
        self.own = True

    def flush(self) -> None:
        """Record what the code has changed."""
        now = list.copy(self)
        if self.own and [*map(id, now)] != [id(self.read[index]) for index in range(len(self.read))]:
            self.assign(slice(None), now)
            self.value, self.read = known(now), dict(enumerate(now))


@final
@_sees_all(dict, "items", "values", "popitem", "setdefault", "update", "__or__", "__ior__", "__ror__")
class TracedDict(TracedContainer, dict):  # type: ignore[misc,type-arg]  # as above
    """Proxy of a dictionary.

    Attributes:
        own: Keys that the code has assigned or removed, or may have.
    """

    own: set[Any]

    def __init__(self, node: fx.Node, tracer: TraceRecorder, value: dict[Any, Any], made: dict[int, Any]) -> None:
        super().__init__(node, tracer, value, made)
        self.own = set()
        dict.update(self, value)

    def __getitem__(self, key: Any) -> Any:
        if key not in self.own:
            self._read(key)
        return dict.__getitem__(self, key)

    def get(self, key: Any, default: Any = None) -> Any:
        """Return the item of a key, or another value."""
        return self[key] if key in self else default  # noqa: SIM401  # which this is

    def __contains__(self, key: object) -> bool:
        if key not in self.own:
            self.look("has", key in self.given, key)
        return dict.__contains__(self, key)

    def __iter__(self) -> Iterator[Any]:
        self._look_at_keys()
        return dict.__iter__(self)

    def keys(self) -> Any:
        """Return its keys."""
        self._look_at_keys()
        return dict.keys(self)

    def __len__(self) -> int:
        self.look("length", len(self.given))
        return dict.__len__(self)

    def __bool__(self) -> bool:
        self.look("filled", bool(self.given))
        return dict.__len__(self) > 0

    def __setitem__(self, key: Any, value: Any) -> None:
        self.own.add(key)
        dict.__setitem__(self, key, value)

    def pop(self, key: Any, *default: Any) -> Any:
        """Remove an item and return it."""
        found = self.get(key, *default)
        if key not in self:
            return dict.pop(self, key, *default)
        self.own.add(key)
        dict.pop(self, key)
        return found

    def _look_at_keys(self) -> None:
        self.look("keys", tuple(self.given))

    def _read(self, key: Any) -> None:
        if key in self.read:
            return
        if key not in self.given:
            self.look("has", False, key)
            return
        self.read[key] = self.part(key, self.given[key])
        dict.__setitem__(self, key, self.read[key])

    def take(self) -> None:
        """Look at all of it: its further content is the code's own."""
        self._look_at_keys()
        for key in self.given:
            if key not in self.own:
                self._read(key)
        self.own |= {*self.given}

    def flush(self) -> None:
        """Record what the code has changed.

        Raises:
            UntranslatableError: If it has removed something, which no node does.
        """
        now = dict(dict.items(self))  # a copy would ask for the keys
        if [*now][: len(self.given)] != [*self.given]:
            raise UntranslatableError("it removes an item from a dictionary that it is given")
        changed = [key for key in now if key in self.own and now[key] is not self.read.get(key, UNKNOWN)]
        for key in changed:
            self.assign(key, now[key])
            self.read[key] = now[key]
        if changed:
            self.value = {key: known(value) if key in self.read else value for key, value in now.items()}


def wrap(node: fx.Node, tracer: TraceRecorder, value: Any, made: dict[int, Any] | None = None) -> Traced:
    """Return the proxy of the result of a recorded call; `made` are those of containers around it, by identity."""
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
    elif type(value) is list:
        found = TracedList(node, tracer, value, {} if made is None else made)
    elif isinstance(value, dict):
        found = TracedDict(node, tracer, value, {} if made is None else made)
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


def slotted(kind: type) -> str:
    """Return what to do about a class whose objects no node takes apart because it has ``__slots__``; else an empty text."""
    if issubclass(kind, (torch.Tensor, nn.Module)) or not any(vars(base).get("__slots__") for base in kind.__mro__):
        return ""
    return ": its class has __slots__, and only attributes in a __dict__ are drawn. Leave __slots__ out"


def is_plain_object(value: Any) -> bool:
    """Return whether a value is an object of a class written in Python, all of whose content is its attributes."""
    kind = type(value)
    if kind is SimpleNamespace:
        return True
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
