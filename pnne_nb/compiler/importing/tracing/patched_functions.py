"""Patches functions that would turn traced values into plain numbers, for the time of the trace.

``len(x)``, ``int(n / 2)`` and ``math.sqrt(n)`` return plain numbers for any argument. The traced code sees functions of
this module under these names: in copies of the class's methods and of the functions beside them, so that other code is
not affected.
"""

from __future__ import annotations

import copy
import functools
import inspect
import math
import random
import types
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any, final

import numpy as np
import torch
from torch import nn
from torch.autograd import Function
from torch.distributions import Distribution
from torch.utils import _pytree as pytree
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

from pnne_nb.catalog.custom import is_whole
from pnne_nb.compiler.importing.draft.draft import UntranslatableError
from pnne_nb.compiler.importing.tracing.call_effects import CREATORS
from pnne_nb.compiler.importing.tracing.proxies import (
    UNKNOWN,
    Traced,
    TracedFloat,
    TracedInt,
    TracedTensor,
    is_plain_object,
    is_traced,
    known,
    seen,
    type_of,
)
from pnne_nb.compiler.importing.tracing.recorder import TraceRecorder
from pnne_nb.graph.schema.structural import DEVICES

_INDEXED = (nn.ModuleList, nn.Sequential, nn.ParameterList)
"""Modules from which a number selects one."""

_CALLED_BY_TORCH = ("forward", "extra_repr", "reset_parameters", "init_weights")


def plainly(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Replace ``torch.utils.checkpoint.checkpoint``: call the function without the arguments of checkpointing."""
    own = {*inspect.signature(checkpoint).parameters, "preserve_rng_state"}
    return function(*args, **{name: value for name, value in kwargs.items() if name not in own})


def plainly_sequential(functions: Any, segments: int, input: Any, *_: Any, **__: Any) -> Any:
    """Replace ``torch.utils.checkpoint.checkpoint_sequential``, which recomputes all segments but the last."""
    functions = list(functions.children() if isinstance(functions, nn.Sequential) else functions)
    length = len(functions) // segments

    def run(first: int, last: int, value: Any) -> Any:
        for function in functions[first:last]:
            value = function(value)
        return value

    for first in range(0, length * (segments - 1), length):
        input = plainly(run, first, first + length, input)
    return run(length * (segments - 1), len(functions), input)


@final
class Rebound:
    """Classes whose methods are copies that see patched names.

    Args:
        recorder: Records what the functions are called with.
        leaves: Functions that are recorded as a whole.
    """

    def __init__(self, recorder: TraceRecorder, leaves: Collection[Any]) -> None:
        self._view = _View(recorder, leaves)
        self._classes: dict[type[nn.Module], type[nn.Module]] = {}
        self._made: set[type[nn.Module]] = set()
        self._told: dict[type[nn.Module], bool] = {}

    @contextmanager
    def among(self, modules: Iterable[nn.Module]) -> Iterator[None]:
        """Patch helper methods of modules during the block."""
        with ExitStack() as stack:
            for module in modules:
                cls = type(module)
                if cls not in self._told:
                    self._told[cls] = has_methods(cls)
                if issubclass(cls, _INDEXED):
                    stack.enter_context(self.one(module, {"__getitem__": self._view.item_of(cls)}))
                elif self._told[cls]:
                    stack.enter_context(self.one(module))
            yield

    @contextmanager
    def one(self, module: nn.Module, methods: Mapping[str, Any] | None = None) -> Iterator[None]:
        """Patch the methods of a module, which is a private copy, during the block; `methods` are further ones."""
        original = module.__class__
        if original in self._made:
            yield
            return
        if original not in self._classes:
            self._classes[original] = self._copied(original)
        made = self._classes[original]
        if methods:
            made = type(original.__name__, (made,), {**methods, "__module__": original.__module__})
        self._made.add(made)
        module.__class__ = made
        own = dict(vars(module))
        package = original.__module__.partition(".")[0]
        given = {
            name: self._view.within(value, package)
            for name, value in own.items()
            if name[:1] != "_" and name != "forward"
        }
        vars(module).update(given)
        try:
            yield
        finally:
            module.__class__ = original
            vars(module).update({name: own[name] for name, value in given.items() if vars(module).get(name) is value})

    def _copied(self, cls: type[nn.Module]) -> type[nn.Module]:
        own: dict[str, Any] = {}
        for base in reversed(cls.__mro__):
            if is_torchs(base):
                continue
            for name, value in vars(base).items():
                if isinstance(value, (staticmethod, classmethod)):
                    own[name] = type(value)(self._view.copied(value.__func__))
                elif isinstance(value, types.FunctionType) and not name.startswith("__"):
                    own[name] = self._view.copied(value)
        return type(cls.__name__, (cls,), {**own, "__module__": cls.__module__, "__reduce__": object.__reduce__})


def has_methods(cls: type[nn.Module]) -> bool:
    """Return whether a class outside of torch has methods that others may call instead of ``forward``."""
    return any(
        isinstance(value, (staticmethod, types.FunctionType))
        and not name.startswith("_")
        and name not in _CALLED_BY_TORCH
        for base in cls.__mro__
        if not is_torchs(base)
        for name, value in vars(base).items()
    )


def is_torchs(base: type) -> bool:
    """Return whether a class belongs to torch or Python."""
    return base.__module__.partition(".")[0] in ("torch", "builtins")


class Names(dict[str, Any]):
    """Global names as traced code sees them; each is patched at its first use."""

    def __init__(self, original: dict[str, Any], view: _View) -> None:
        super().__init__({name: original[name] for name in ("__name__", "__builtins__") if name in original})
        self._original = original
        self._view = view

    def __missing__(self, name: str) -> Any:
        if name in self._original:
            found = self._view.seen(self._original[name], _package(self._original))
        elif name in self._view.builtins:
            found = self._view.builtins[name]
        else:
            raise KeyError(name)
        self[name] = found
        return found


@final
class _Namespace:
    """A module as traced code sees it."""

    def __init__(self, module: types.ModuleType, view: _View, package: str) -> None:
        self._seen = module, view, package

    def __getattr__(self, name: str) -> Any:
        module, view, package = self._seen
        found = vars(self)[name] = view.seen(getattr(module, name), package)
        return found


@final
class _Applied:
    """A ``torch.autograd.Function`` whose calls are recorded as a whole."""

    def __init__(self, function: type[Function], recorder: TraceRecorder) -> None:
        self._function = function
        self._recorder = recorder

    def apply(self, *args: Any) -> Any:
        return _whole(self._function, self._recorder, args, {})

    def __getattr__(self, name: str) -> Any:
        return getattr(self._function, name)


@final
class _View:
    """Replaces the values that global names have for other code by those that traced code sees."""

    def __init__(self, recorder: TraceRecorder, leaves: Collection[Any]) -> None:
        self._recorder = recorder
        self._leaves = leaves
        self._spaces: dict[int, Names] = {}
        self._copies: dict[int, Any] = {}
        replaced = _functions(recorder)
        self.builtins = {name: replaced[name] for name in ("len", "int", "float", "isinstance", "range")}
        self._replaced = {
            id(f): self._settling(f) for f in vars(math).values() if isinstance(f, types.BuiltinFunctionType)
        }
        self._replaced |= {id(getattr(math, name)): replaced[name] for name in ("sqrt", "floor", "ceil")}
        self._replaced[id(np.sqrt)] = replaced["sqrt"]
        known = ("finfo", "iinfo", "is_tensor", "promote_types", "can_cast")
        self._replaced |= {id(getattr(torch, name)): replaced[name] for name in known}
        self._replaced[id(checkpoint)] = plainly
        self._replaced[id(checkpoint_sequential)] = plainly_sequential
        self._replaced |= {id(getattr(home, name)): _refuse_seed for home, name in _SEEDS}
        self._replaced |= {id(asked): _asking(recorder, *call) for asked, call in _AUTOCAST.items()}
        self._replaced |= {id(function): self._sized(function) for function in CREATORS}

    def seen(self, value: Any, package: str) -> Any:
        """Return the replacement of a value for traced code."""
        if id(value) in self._replaced:
            return self._replaced[id(value)]
        if (context := self._recorder.surroundings.seen(value)) is not None:
            return context
        if _is_numpys(value):
            return self._settling(value)
        if isinstance(value, types.FunctionType):
            if value in self._leaves or is_whole(value):
                return lambda *args, **kwargs: _whole(value, self._recorder, args, kwargs)
            return self.copied(value) if _package(value.__globals__) == package else value
        if isinstance(value, types.ModuleType):
            return _Namespace(value, self, package)
        if (found := self.within(value, package)) is not value:
            return found
        if isinstance(getattr(value, "__self__", None), (random.Random, np.random.RandomState, np.random.Generator)):
            return _refuse_draw
        if _is_autograd(value):
            return _Applied(value, self._recorder)
        if isinstance(value, type) and type(value) is type and issubclass(value, Distribution):
            return self._copies.setdefault(id(value), self._unchecked(value))
        owner: Any = getattr(value, "__self__", None) if isinstance(value, types.MethodType) else None
        if _is_autograd(owner) and value.__name__ == "apply":
            return _Applied(owner, self._recorder).apply
        return value

    def within(self, value: Any, package: str) -> Any:
        """Return a function, or what holds functions as a ``partial`` or a table does, as traced code sees it."""
        if isinstance(value, types.FunctionType):
            return self.seen(value, package)
        if isinstance(value, functools.partial) and isinstance(value.func, types.FunctionType):
            return functools.partial(self.seen(value.func, package), *value.args, **value.keywords)
        if type(value) in (dict, list, tuple, OrderedDict) or isinstance(value, Mapping):
            values = value.values() if isinstance(value, Mapping) else value
            if any(isinstance(each, (types.FunctionType, functools.partial)) for each in values):
                if id(value) not in self._copies:
                    self._copies[id(value)] = self._table(value, package)
                return self._copies[id(value)]
        return value

    def _table(self, value: Any, package: str) -> Any:
        if not isinstance(value, Mapping):
            return type(value)(self.within(each, package) for each in value)
        if type(value) in (dict, OrderedDict):
            return type(value)((key, self.within(each, package)) for key, each in value.items())  # type: ignore[call-arg]  # one of Python's
        return self._registry(value, package)

    def _registry(self, table: Any, package: str) -> Any:
        """Return a copy of a mapping of a class of its own; its methods see what traced code sees."""
        cls = type(table)
        usual = {"get": lambda made, key, default=None: made[key] if key in made else default}  # noqa: SIM401
        own = {
            name: self.copied(value)
            for name, value in vars(cls).items()
            if isinstance(value, types.FunctionType) and not name.startswith("__")
        }
        item = {"__getitem__": lambda made, key: self.within(cls.__getitem__(made, key), package)}
        made = copy.copy(table)
        try:
            made.__class__ = type(cls.__name__, (cls,), {**usual, **own, **item, "__module__": cls.__module__})
        except TypeError:
            return table  # of compiled code, such as a MappingProxyType
        return made

    def copied(self, function: Any) -> Any:
        """Return a copy of a function that sees patched names."""
        if not isinstance(function, types.FunctionType):
            return function
        if id(function) in self._copies:
            return self._copies[id(function)]
        space = self._spaces.setdefault(id(function.__globals__), Names(function.__globals__, self))
        # A decorator keeps the function that it wraps in a cell of its closure.
        cells = tuple(types.CellType() if self._wraps(cell) else cell for cell in function.__closure__ or ())
        package = _package(function.__globals__)
        usual = function.__defaults__ and tuple(self.within(each, package) for each in function.__defaults__)
        copied = types.FunctionType(
            function.__code__, space, function.__name__, usual, cells if function.__closure__ else None
        )
        self._copies[id(function)] = copied
        for new, old in zip(cells, function.__closure__ or (), strict=True):
            if new is not old:
                new.cell_contents = self.seen(old.cell_contents, package)
        named = function.__kwdefaults__
        copied.__kwdefaults__ = named and {name: self.within(each, package) for name, each in named.items()}
        copied.__dict__.update(function.__dict__)
        return copied

    def _wraps(self, cell: types.CellType) -> bool:
        """Return whether a cell holds a function, a module, or the context that a decorator calls one in."""
        try:
            value = cell.cell_contents
        except ValueError:
            return False  # still empty
        return (
            isinstance(value, (types.FunctionType, types.ModuleType))
            or self._recorder.surroundings.seen(value) is not None
        )

    def _unchecked(self, distribution: type[Distribution]) -> type:
        """Return a class of distributions that does not check the class of a sample, because a proxy has another one."""
        own = {
            name: self.copied(value)
            for base in reversed(distribution.__mro__)
            for name, value in vars(base).items()
            if isinstance(value, types.FunctionType) and "finfo" in value.__code__.co_names
        }
        own |= {"__module__": distribution.__module__, "_validate_sample": lambda _self, _value: None}
        return _Unchecked(distribution.__name__, (distribution,), own)

    def item_of(self, cls: Any) -> Callable[[Any, Any], Any]:
        """Return a ``__getitem__`` for a list of modules: torch's own takes a size from the example without asking."""

        def item(modules: Any, index: Any) -> Any:
            parts = (index.start, index.stop, index.step) if isinstance(index, slice) else (index,)
            plain = [self._recorder.settle(part) if type(part) is TracedInt else part for part in parts]
            return cls.__getitem__(modules, slice(*plain) if isinstance(index, slice) else plain[0])

        return item

    def _settling(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that is given the sizes of the example; it would take them without asking."""

        def plain(value: Any) -> Any:
            return self._recorder.settle(value) if type(value) in (TracedInt, TracedFloat) else value

        def call(*args: Any, **kwargs: Any) -> Any:
            return function(*pytree.tree_map(plain, args), **pytree.tree_map(plain, kwargs))

        return call

    def _sized(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that is recorded if a size is unknown, which torch's compiled code would refuse."""

        def call(*args: Any, **kwargs: Any) -> Any:
            if is_traced((args, kwargs)) and known((args, kwargs)) is UNKNOWN:
                return self._recorder.watched(function, args, kwargs)
            return function(*args, **kwargs)

        return call


class _Unchecked(type):
    """Metaclass of the replacements of distribution classes, which accept the originals' objects."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, cls.__base__ or cls)


def _is_numpys(value: Any) -> bool:
    """Return whether a value is a function of NumPy, whose compiled code takes a size from the example without asking."""
    home = str(getattr(value, "__module__", None))
    return home.partition(".")[0] == "numpy" and not isinstance(value, type) and callable(value)


def _refuse_draw(*_: Any, **__: Any) -> Any:
    raise UntranslatableError("it draws random numbers with Python or NumPy, which the graph would keep as constants")


def _refuse_seed(*_: Any, **__: Any) -> Any:
    raise UntranslatableError("it seeds random numbers, which the graph would not")


_SEEDS = (
    (torch, "manual_seed"), (torch, "seed"), (torch, "set_rng_state"), (torch.random, "manual_seed"),
    (torch.random, "set_rng_state"), (torch.random, "fork_rng"), (torch.cuda, "manual_seed"),
    (torch.cuda, "manual_seed_all"), (np.random, "seed"), (random, "seed"),
)  # fmt: skip
"""Names of the functions that seed: torch replaces its own when ``torch._dynamo`` is imported."""


_AUTOCAST: Mapping[Callable[..., Any], tuple[Callable[..., Any], str]] = {
    torch.is_autocast_enabled: (torch.is_autocast_enabled, "cuda"),
    torch.is_autocast_cpu_enabled: (torch.is_autocast_enabled, "cpu"),
    torch.get_autocast_dtype: (torch.get_autocast_dtype, "cuda"),
    torch.get_autocast_cpu_dtype: (torch.get_autocast_dtype, "cpu"),
    torch.get_autocast_gpu_dtype: (torch.get_autocast_dtype, "cuda"),
}
"""Functions that ask for the autocast around a call, each with what it is and the kind of device that it asks for."""


def _asking(recorder: TraceRecorder, function: Callable[..., Any], usual: str) -> Callable[..., Any]:
    """Return a function that records that the code asks for the autocast around its call."""

    def ask(device_type: str = usual) -> Any:
        if device_type not in DEVICES:  # which notes that the code goes by the device of a tensor
            return function(device_type)
        return recorder.create_proxy("call_function", function, (str(device_type),), {})

    return ask


def _is_autograd(value: Any) -> bool:
    return isinstance(value, type) and issubclass(value, Function)


def _whole(target: Any, recorder: TraceRecorder, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if not is_traced((args, kwargs)):
        call: Any = target.apply if _is_autograd(target) else target
        return call(*args, **kwargs)
    return recorder.create_proxy("call_function", target, args, kwargs)


def _package(space: dict[str, Any]) -> str:
    return str(space.get("__name__", "")).partition(".")[0]


def _functions(recorder: TraceRecorder) -> dict[str, Any]:
    def length(value: Any) -> int:
        if type(value) is TracedTensor:
            size: int = value.size(0)
            return size
        if is_plain_object(value) and hasattr(value.__class__, "__len__"):
            found: int = value.__class__.__len__(value)  # which may be patched
            return found
        return len(value)

    def is_instance(value: Any, kind: Any) -> bool:
        stands_for = type_of(value)
        if issubclass(type(value), Traced) and value.value is not UNKNOWN:
            recorder.assumptions.looked(value.node, *seen(value.value), exactly=True)
        return isinstance(value, kind) if stands_for is type(value) else _is_subclass(stands_for, kind)

    def recorded(plain: Callable[..., Any], target: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            value: Any = args[0] if len(args) == 1 else None
            if not issubclass(type(value), Traced):
                return plain(*args)
            if type(value) is TracedTensor:
                number = value.item()
                has_fraction = value.value is UNKNOWN or value.value.is_floating_point()
                return call(number) if plain is not float and has_fraction else number
            if isinstance(value, (int, float)) or value.value is UNKNOWN:
                return value if plain is float else recorder.create_proxy("call_function", target, (value,), {})
            return plain(value)

        return call

    def settled(value: Any) -> Any:
        return recorder.settle(value) if issubclass(type(value), Traced) else value

    def counted(*args: Any) -> range:
        return range(*map(settled, args))  # range itself takes a size without asking

    return {
        "isinstance": is_instance,
        "is_tensor": lambda value: is_instance(value, torch.Tensor),
        "finfo": lambda dtype: torch.finfo(settled(dtype)),
        "iinfo": lambda dtype: torch.iinfo(settled(dtype)),
        "promote_types": lambda *dtypes: torch.promote_types(*map(settled, dtypes)),
        "can_cast": lambda *dtypes: torch.can_cast(*map(settled, dtypes)),
        "len": length,
        "int": _Number("int", (int,), {"kind": int, "convert": staticmethod(recorded(int, math.trunc))}),
        "float": _Number("float", (float,), {"kind": float, "convert": staticmethod(recorded(float, float))}),
        "range": _Number("range", (), {"kind": range, "convert": staticmethod(counted)}),
        "sqrt": recorded(math.sqrt, math.sqrt),
        "floor": recorded(math.floor, math.floor),
        "ceil": recorded(math.ceil, math.ceil),
    }


def _is_subclass(kind: type, parent: Any) -> bool:
    if isinstance(parent, tuple):
        return any(_is_subclass(kind, each) for each in parent)
    return issubclass(kind, parent)


class _Number(type):
    """Metaclass of the replacements of ``int``, ``float`` and ``range``, for calls and ``isinstance``."""

    kind: type
    convert: Callable[..., Any]

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        return cls.kind(*args, **kwargs) if kwargs else cls.convert(*args)

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, cls.kind)

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(subclass, cls.kind)
