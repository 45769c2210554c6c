"""``register_node``: a user's module, function or autograd function as a node type."""

from __future__ import annotations

import dataclasses
import importlib
import importlib.util
import inspect
import itertools
import keyword
import sys
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, TypeVar, final, overload

import msgspec
import torch
from torch import nn
from torch.autograd import Function

from pnne_nb.catalog.introspection import docstrings, signatures
from pnne_nb.catalog.introspection.arguments import Argument, typed, typed_in
from pnne_nb.catalog.layers import positional
from pnne_nb.errors import RegistrationError, expect, shown
from pnne_nb.graph.schema.names import MAX_LENGTH
from pnne_nb.graph.schema.property_types import ConstantType, OptionalType, PropertyType, StringType, TupleType
from pnne_nb.graph.schema.registry import registry
from pnne_nb.graph.schema.spec import REQUIRED, NodeSpec, Port, PortKind, Property, Required
from pnne_nb.graph.schema.structural import MODULE_PROPERTIES

Registered = TypeVar("Registered", bound=Callable[..., Any])

_PLAIN = (bool, int, float, str)

HOME = "registered"
"""First part of the targets of registered types: they are no names that anything could be imported by."""

MADE = f"{HOME}.remade"
"""First part of the targets of classes whose objects are made of attributes."""

CALLED = "Called"
"""Heading of the functions that imports have met."""

WHOLE: Mapping[str, tuple[str, ...]] = {"einops": ("rearrange", "reduce", "repeat", "einsum", "pack", "unpack")}
"""Functions of other packages that nodes stand for whether or not a model was imported that calls them."""

_met: dict[str, str] = {}
"""The types of functions and classes that imports have met, by the short names under which earlier documents have them."""

_VALUE = Port("output", kind="value")


@overload
def register_node(target: Registered, /) -> Registered: ...


@overload
def register_node(
    *, category: str = "Custom", name: str | None = None, outputs: Sequence[str] | None = None, replace: bool = False
) -> Callable[[Registered], Registered]: ...


def register_node(
    target: Registered | None = None,
    /,
    *,
    category: str = "Custom",
    name: str | None = None,
    outputs: Sequence[str] | None = None,
    replace: bool = False,
) -> Registered | Callable[[Registered], Registered]:
    """Register a class or function as a node type; without an argument, return a decorator.

    Tensors are ports, everything else is a property; types, defaults and docs are read from the signature and
    the docstring::

        @pn.register_node(category="Activation")
        class Swish(nn.Module):
            def __init__(self, beta: float = 1.0) -> None: ...
            def forward(self, x: torch.Tensor) -> torch.Tensor: ...

    Running a notebook cell again replaces what it registered before.

    Args:
        target: The class or function, as in ``@pn.register_node`` without parentheses.
        category: Heading in the palette.
        name: The type's name; the name of the class or function if None.
        outputs: Names of the results of a call that returns a tuple; if None they are read from the return
            annotation (field names of a named tuple, else ``output_0``, ``output_1`` …).
        replace: Whether a type of that name may be replaced.

    Raises:
        RegistrationError: By the decorator, if the signature does not tell what is a port and what a property,
            if the name is no identifier, or if a type of that name exists, or if a module has a ``backward``.
    """
    expect(category, str, "category", "the heading in the palette")

    def decorate(target: Registered) -> Registered:
        spec = describe(target, category=category, name=name, outputs=outputs)
        registry.register(spec, replace=replace or _is_rerun(spec))
        return target

    return decorate if target is None else decorate(target)


def is_custom(spec: NodeSpec) -> bool:
    """Return whether a type was registered in this process: others do not know it until they register it too."""
    return spec.target.startswith(f"{HOME}.")


def describe(
    target: Callable[..., Any],
    *,
    category: str = "Custom",
    name: str | None = None,
    outputs: Sequence[str] | None = None,
) -> NodeSpec:
    """Return the spec of a module class, function or autograd function, as `register_node` does.

    Raises:
        RegistrationError: See `register_node`.
    """
    label = name if name is not None else getattr(target, "__name__", type(target).__name__)
    if not _is_name(label) or label.startswith("__"):
        raise RegistrationError(
            f"{shown(label)} cannot be the name of a node type: it must be a Python identifier of A-Z a-z, digits and "
            'underscores, because generated source contains it. Pass one, for example @pn.register_node(name="my_node").'
        )
    _refuse_backward(label, target)
    reader = _reader(label, target)
    calls = [reader.argument(argument) for argument in reader.calls()]
    about = docstrings.arguments(target.__doc__, {*(a.name for a in calls), *(a.name for a in reader.inits())})
    properties = [*reader.properties(reader.inits(), "init", about), *reader.properties(calls, "call", about)]
    return NodeSpec(
        type=label,
        category=category,
        kind="module" if reader.is_module else "function",
        target=f"{HOME}.{label}",
        inputs=tuple(
            Port(a.name, kind=a.kind, optional=not isinstance(a.default, Required), variadic=a.variadic,
                 doc=about.get(a.name, ""))
            for a in calls
            if a.kind is not None
        ),
        outputs=_outputs(label, reader.result(), outputs),
        properties=(*properties, *_own(properties)) if reader.is_module else tuple(properties),
        positional=positional(calls),
        doc=docstrings.summary(target.__doc__),
        torch=target,
    )  # fmt: skip


def _refuse_backward(label: str, target: object) -> None:
    """Raise an error for a module with its own ``backward``, which torch never calls; one of a library's base class is allowed."""
    if not (isinstance(target, type) and issubclass(target, nn.Module)):
        return
    owner = next((cls for cls in target.__mro__ if "backward" in vars(cls)), None)
    if owner is not None and owner.__module__ == target.__module__:
        raise RegistrationError(
            f"{label} has a backward method, which torch never calls on a module: its gradients would be those of forward. "
            f"Write a torch.autograd.Function with static methods forward(ctx, ...) and backward(ctx, ...), and register that, "
            f"or call its apply(...) in the forward of {label}."
        )


def result_class(cls: type) -> NodeSpec:
    """Return the node type of a data class or named tuple that a model returns, registering it at first use.

    Raises:
        RegistrationError: If its name cannot stand in source.
    """
    names = getattr(cls, "_fields", None) or tuple(field.name for field in dataclasses.fields(cls))
    return _listed(
        cls,
        cls,
        inputs=tuple(Port(name, kind="value", optional=True) for name in names),
        properties=tuple(Property(name, OptionalType(ConstantType()), None, role="call") for name in names),
        doc=docstrings.summary(cls.__doc__),
    )


def empty(kind: type) -> Any:
    """Return an object of a class, made without its constructor."""
    return SimpleNamespace() if kind is SimpleNamespace else object.__new__(kind)


@final
class ObjectMaker:
    """Makes objects of a class from their attributes, without its constructor.

    Attributes:
        kind: The class.
    """

    def __init__(self, kind: type) -> None:
        self.kind = kind
        self.__name__, self.__qualname__, self.__module__ = kind.__name__, kind.__qualname__, kind.__module__

    def __call__(self, attributes: dict[str, Any]) -> Any:
        """Return a new object with these attributes."""
        made = empty(self.kind)
        vars(made).update(attributes)
        return made

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ObjectMaker) and other.kind is self.kind

    def __hash__(self) -> int:
        return hash(self.kind)


def object_class(maker: ObjectMaker) -> NodeSpec:
    """Return the node type of a plain class whose objects a model makes, registering it at first use.

    Raises:
        RegistrationError: If its name cannot stand in source.
    """
    return _listed(
        maker.kind,
        maker,
        home=MADE,
        inputs=(Port("attributes", kind="value"),),
        properties=(Property("attributes", ConstantType(), role="call", doc="By name."),),
        positional=("attributes",),
        doc=docstrings.summary(maker.kind.__doc__),
    )


def _listed(cls: type, target: object, *, home: str = HOME, **fields: Any) -> NodeSpec:
    """Return the node type that makes objects of a class by `target`, or register one with these fields.

    The name of the type is the qualified name of the class, so that no two classes share one.
    """
    if not _is_name(cls.__name__):
        raise RegistrationError(f"{shown(cls.__name__)} cannot be the name of a node type.")
    label, dotted = (name.replace(".<locals>", "") for name in _qualified(cls))
    dotted = f"{home}{dotted.removeprefix(HOME)}"
    for number in itertools.count(1):
        # A function may make several classes of one name.
        own = f"_{number}" if number > 1 else ""
        found = registry.listed(f"{label}{own}")
        if found is not None and found.torch == target:
            return found
        spec = NodeSpec(
            f"{label}{own}", "Result", "function", f"{dotted}{own}", outputs=(_VALUE,), torch=target, **fields
        )
        if found is None or _is_rerun(spec):
            break
    if not registry.exchange(found, spec):
        return _listed(cls, target, home=home, **fields)
    for short in (cls.__name__, f"{cls.__name__}Result", f"{cls.__name__}Object"):
        _met.setdefault(short, spec.type)
    return spec


def called_function(target: Callable[..., Any]) -> NodeSpec:
    """Return the node type of a function that a model calls and torch lacks, registering it at first use.

    The name of the type is the function's qualified name, so that no two functions share one.

    Args:
        target: A function that its module has under its name, or a subclass of ``torch.autograd.Function``.

    Raises:
        RegistrationError: If its name cannot stand in source, or means something else there, or it has no signature.
    """
    is_function = isinstance(target, type) and issubclass(target, Function)
    name = str(getattr(target, "__qualname__", ""))
    home = sys.modules.get(str(getattr(target, "__module__", "")))
    if not _is_name(name) or getattr(home, name, None) is not target:
        raise RegistrationError(f"{shown(name)} is not what its module has under this name, so source cannot name it.")
    label, dotted = _qualified(target)
    found = registry.listed(label)
    if found is not None and found.torch is target:
        return found
    try:
        skip = 1 if is_function and target.setup_context is Function.setup_context else 0
        call = target.forward if is_function else target
        parameters = list(inspect.signature(call).parameters.values())[skip:]
    except (TypeError, ValueError) as error:
        raise RegistrationError(f"{name} has no Python signature.") from error
    known = [p for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    named = [p.name for p in known]
    spread = [p.name for p in parameters if p.kind is p.VAR_POSITIONAL]
    more = [p.name for p in parameters if p.kind is p.VAR_KEYWORD]
    # apply takes no keywords, so that every argument is passed.
    defaults = {} if is_function else {p.name: p.default for p in known if isinstance(p.default, _PLAIN)}
    missing = REQUIRED if is_function else None
    spec = NodeSpec(
        type=label,
        category=CALLED,
        kind="function",
        target=dotted,
        inputs=(
            *(Port(each, kind="value", optional=True) for each in named),
            *(Port(each, kind="value", optional=True, variadic=True) for each in (*spread, *more)),
        ),
        outputs=(_VALUE,),
        properties=(
            *(Property(each, OptionalType(ConstantType()), defaults.get(each, missing), role="call") for each in named),
            *(Property(f"{each}_names", TupleType(StringType()), (), role="node") for each in more),
        ),
        positional=(
            *(p.name for p in known if p.kind is not p.KEYWORD_ONLY),
            *(f"*{each}" for each in spread),
            *(f"**{each}" for each in more),
        ),
        doc=docstrings.summary(target.__doc__),
        torch=target,
    )
    if not registry.exchange(found, spec):
        return called_function(target)
    _met.setdefault(name, label)
    return registry[label]


def met(type: str) -> NodeSpec | None:
    """Return the type of a function of einops, or of what an import has met, by the short name of earlier documents."""
    package, _, name = type.partition(".")
    if package in WHOLE and name in WHOLE[package] and importlib.util.find_spec(package) is not None:
        return called_function(getattr(importlib.import_module(package), name))
    found = registry.listed(_met.get(type, ""))
    return None if found is None else msgspec.structs.replace(found, type=type)


def is_whole(function: object) -> bool:
    """Return whether a function is called as one node, although its code could be followed."""
    package = str(getattr(function, "__module__", "")).partition(".")[0]
    return getattr(function, "__name__", "") in WHOLE.get(package, ())


def names_of(spec: NodeSpec) -> str:
    """Return the name of the property with the names of further keywords, ``**factors``; empty if it takes none."""
    more = spec.positional[-1] if spec.positional else ""
    return f"{more[2:]}_names" if more.startswith("**") else ""


def _qualified(target: Any) -> tuple[str, str]:
    """Return the name of the type of a function or class, and its target in source."""
    home, name = str(target.__module__), str(target.__qualname__)
    package = home.partition(".")[0]
    if is_whole(target):
        return f"{package}.{name}", f"{package}.{name}"
    return f"{home}.{name}", f"{HOME}.{home.replace('__main__', 'main__')}.{name}"


def _own(properties: Sequence[Property]) -> Iterator[Property]:
    """Yield the properties of every module node, except names that an argument of the class has."""
    taken = {prop.name for prop in properties}
    yield from (prop for prop in MODULE_PROPERTIES if prop.name not in taken)


@final
class _Reader:
    """Reads the signature of one callable, and reports what it leaves open."""

    def __init__(self, label: str, call: Callable[..., Any], *, skip: int, init: Callable[..., Any] | None) -> None:
        self._label = label
        self._call = call
        self._skip = skip
        self._init = init
        self.is_module = init is not None

    def calls(self) -> list[Argument]:
        found = list(self._arguments(self._call))[self._skip :]
        if self._skip and self._call.__qualname__.endswith("forward") and not self.is_module:
            # Function.apply takes no keywords here: only the last argument may be left out.
            found[:-1] = [msgspec.structs.replace(argument, default=REQUIRED) for argument in found[:-1]]
        return found

    def inits(self) -> list[Argument]:
        if self._init is None or self._init is object.__init__ or self._init is nn.Module.__init__:
            return []
        known = [typed_in(a) for a in self._arguments(self._init)[1:] if not a.spread]
        return [a for a in map(self._guessed, known) if a.type is not None or isinstance(a.default, Required)]

    def result(self) -> object:
        try:
            return typing.get_type_hints(self._call).get("return", torch.Tensor)
        except NameError:
            return torch.Tensor

    def argument(self, argument: Argument) -> Argument:
        """Return an argument of the call with its port or property.

        Raises:
            RegistrationError: If the signature does not tell.
        """
        guessed = self._guessed(argument)
        if guessed.kind is not None or guessed.type is not None:
            return guessed
        if self.is_module:
            # A forward takes tensors unless it says otherwise.
            return msgspec.structs.replace(argument, kind="tensor", variadic=argument.spread)
        raise self._unclear(argument.name)

    def properties(self, arguments: Sequence[Argument], role: Any, about: dict[str, str]) -> Iterator[Property]:
        for argument in arguments:
            if argument.type is not None:
                try:
                    yield typed(argument, argument.type, role, about.get(argument.name, ""))
                except ValueError as error:
                    raise RegistrationError(
                        f"{self._label} cannot become a node: the default of {argument.name!r} is "
                        f"{argument.default!r}, but by its annotation it must be {error}."
                    ) from None
            elif argument.kind is None or role == "init":
                raise self._unclear(argument.name, argument.kind)

    def _arguments(self, function: Callable[..., Any]) -> tuple[Argument, ...]:
        try:
            return signatures.arguments(function)
        except NameError as error:
            raise RegistrationError(
                f"{self._label} cannot become a node: an annotation names {error.name!r}, which is not known where it "
                "is defined. Import it, or annotate with a known type."
            ) from None
        except ValueError:
            raise RegistrationError(
                f"{self._label} cannot become a node: it has no Python signature. Wrap it: "
                f"def my_{self._label}(x: torch.Tensor) -> torch.Tensor: return {self._label}(x)"
            ) from None

    def _guessed(self, argument: Argument) -> Argument:
        """Infer the type of an argument without annotation from its default: ``scale=2.0`` is a number."""
        if argument.kind is not None or argument.type is not None:
            return argument
        kind: PropertyType | None = None
        if isinstance(argument.default, (bool, int, float, str)):
            kind = signatures.property_type(type(argument.default))
        return msgspec.structs.replace(argument, type=kind)

    def _unclear(self, name: str, kind: PortKind | None = None) -> RegistrationError:
        if self.is_module:
            why = "takes a tensor" if kind is not None else "has no annotation or one that cannot be typed in"
            return RegistrationError(
                f"{self._label} cannot become a node: the argument {name!r} of its constructor {why}, so no form can "
                f"ask for it. Annotate it with int, float, bool, str, a tuple of these or Literal, for example "
                f"def __init__(self, {name}: int), or give it a default."
            )
        return RegistrationError(
            f"{self._label} cannot become a node: {name!r} has no annotation, or one that is neither a tensor nor a "
            f"plain value, so it could be a port or a property. Annotate it, for example "
            f"def {self._label}({name}: torch.Tensor, alpha: float = 1.0) -> torch.Tensor."
        )


def _reader(label: str, target: Callable[..., Any]) -> _Reader:
    if isinstance(target, type) and issubclass(target, nn.Module):
        return _Reader(label, target.forward, skip=1, init=target.__init__)
    if isinstance(target, type) and issubclass(target, Function):
        has_context = target.setup_context is Function.setup_context
        return _Reader(label, target.forward, skip=1 if has_context else 0, init=None)
    if isinstance(target, nn.Module):
        raise RegistrationError(f"{label} cannot become a node: it is one module. Register its class.")
    if isinstance(target, type) or not callable(target):
        raise RegistrationError(
            f"{label} cannot become a node: only nn.Module subclasses, functions and torch.autograd.Function "
            "subclasses can."
        )
    return _Reader(label, target, skip=0, init=None)


def _outputs(label: str, result: object, names: Sequence[str] | None) -> tuple[Port, ...]:
    if names is not None:
        expect(names, (tuple, list), "outputs", "the names of the results, as a tuple")
    fields = getattr(result, "_fields", None)
    parts: tuple[object, ...] = (result,)
    if fields is not None:
        parts = tuple(typing.get_type_hints(result).get(field, torch.Tensor) for field in fields)
        names = names or fields
    elif typing.get_origin(result) is tuple and Ellipsis not in typing.get_args(result):
        parts = typing.get_args(result)
    if names is None:
        names = ("output",) if len(parts) == 1 else tuple(f"output_{index}" for index in range(len(parts)))
    if len(set(names)) != len(names) or not names or not all(map(_is_name, names)):
        raise RegistrationError(
            f"{label} cannot become a node: its outputs are named {', '.join(map(shown, names)) or 'nothing'}; they "
            "need different Python identifiers."
        )
    if len(parts) not in (1, len(names)):
        raise RegistrationError(
            f"{label} cannot become a node: it returns {len(parts)} values by its annotation, but {len(names)} "
            "outputs are named."
        )
    kinds = [_result_kind(part) for part in parts] * (len(names) if len(parts) == 1 else 1)
    return tuple(Port(name, kind=kind) for name, kind in zip(names, kinds, strict=True))


def _is_name(name: object) -> bool:
    """Return whether a type or result may have a name, which must be ASCII for the generated source."""
    return (
        isinstance(name, str)
        and name.isascii()
        and name.isidentifier()
        and not keyword.iskeyword(name)
        and len(name) <= MAX_LENGTH
    )


def _result_kind(result: object) -> PortKind:
    is_plain = signatures.property_type(result) is not None or typing.get_origin(result) in (tuple, list, dict)
    return "value" if is_plain else "tensor"


def _is_rerun(spec: NodeSpec) -> bool:
    """Return whether the type of that name came from an earlier run of the same notebook cell."""
    before = registry.listed(spec.type)
    return before is not None and _origin(before) == _origin(spec) and _origin(spec)[0] == "__main__"


def _origin(spec: NodeSpec) -> tuple[object, object]:
    return getattr(spec.torch, "__module__", None), getattr(spec.torch, "__qualname__", None)


def is_autograd_function(spec: NodeSpec) -> bool:
    """Return whether a type stands for a ``torch.autograd.Function``, which is called through ``apply``."""
    return inspect.isclass(spec.torch) and issubclass(spec.torch, Function)
