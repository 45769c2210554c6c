"""Makes specs of ``torch.nn`` module classes."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

import msgspec
from torch import nn

from pnne_nb.catalog.introspection import docstrings, signatures
from pnne_nb.catalog.introspection.arguments import Argument, port, property_of, typed_in
from pnne_nb.catalog.tables import overrides
from pnne_nb.catalog.tables.overrides import AUTOMATIC
from pnne_nb.graph.schema.property_types import BoolType, EnumType, OptionalType, PropertyType, UnionType
from pnne_nb.graph.schema.spec import NodeSpec, Port, Property, Required, Returns
from pnne_nb.graph.schema.structural import EVAL_MODE, MODULE_PROPERTIES, TRAINABLE

URL = "https://docs.pytorch.org/docs/stable/generated/{}.html"


def specs() -> Iterator[NodeSpec]:
    """Yield the spec of every layer and loss: the public module classes of ``torch.nn`` that can be instantiated and called."""
    for name, value in vars(nn).items():
        is_listed = name not in overrides.NOT_LAYERS and not name.startswith(("_", "Lazy"))
        if is_listed and isinstance(value, type) and issubclass(value, nn.Module):
            yield _spec(value)


def _spec(cls: type[nn.Module]) -> NodeSpec:
    """Return the spec of one module class, read from its constructor and its ``forward``."""
    name, module = cls.__name__, cls.__module__.rpartition(".")[2]
    parts = overrides.PARTS.get(name, ())
    owners = [getattr(nn, part.target.rpartition(".")[2]) for part in parts]
    calls = [_as_tensor(name, argument) for argument in signatures.arguments(cls.forward, method=True)]
    built = {argument.name: argument for argument in _constructor(cls)}
    for part, owner in zip(parts, owners, strict=True):
        shared = [a for a in _constructor(owner) if (a.name, a.name) in part.properties]
        built = {**{a.name: a for a in shared}, **built}
    returns = overrides.OUTPUTS.get(name, ())
    results = output_ports(name, returns)
    about = _argument_docs(
        [cls, *owners],
        {*built, *(argument.name for argument in calls), *(part.when for part in parts)},
        {port.name for port in results} | {argument.name for argument in calls if argument.kind is not None},
    )
    passed = {part.argument for part in parts}
    properties = [_init_property(name, a, about) for a in built.values() if a.name not in passed]
    properties += [Property(part.when, BoolType(), False, doc=about[part.when]) for part in parts if part.when]
    # In torch, what has weights takes their device.
    has_weights = "device" in inspect.signature(cls).parameters or issubclass(cls, nn.RNNBase) or parts
    has_modes = has_weights and any(prop.name in ("track_running_stats", "dropout") for prop in properties)
    left_out = [prop for prop, given in ((TRAINABLE, has_weights), (EVAL_MODE, has_modes)) if not given]
    common = [prop for prop in MODULE_PROPERTIES if prop not in left_out]
    return NodeSpec(
        type=name,
        category=overrides.CATEGORIES.get(name) or overrides.MODULE_CATEGORIES.get(module, module.capitalize()),
        kind="module",
        target=f"torch.nn.{name}",
        inputs=tuple(port(name, a, about.get(a.name, "")) for a in calls if a.kind is not None),
        outputs=tuple(msgspec.structs.replace(port, doc=about[port.name]) for port in results),
        properties=(*properties, *call_properties(name, calls, about), *common),
        positional=positional(calls),
        returns=returns if any(isinstance(item, tuple) for item in returns) else (),
        parts=parts,
        doc=overrides.DOCS.get(name) or docstrings.summary(cls.__doc__),
        url=URL.format(f"torch.nn.{name}"),
        torch=cls,
    )


def call_properties(name: str, calls: Iterable[Argument], about: dict[str, str]) -> tuple[Property, ...]:
    """Return the ``call`` properties among the arguments of a call."""
    return tuple(property_of(name, a, "call", about.get(a.name, "")) for a in calls if a.type is not None)


def positional(calls: Iterable[Argument]) -> tuple[str, ...]:
    """Return the names of positional arguments, with ``*`` before a variadic one."""
    return tuple(f"*{a.name}" if a.spread else a.name for a in calls if a.positional)


def output_ports(name: str, returns: Returns) -> tuple[Port, ...]:
    """Return the output ports of a type whose results are named by `returns`."""
    ports = tuple(Port(output) for output in _flat(returns or ("output",)))
    extra = overrides.lookup(overrides.CONDITIONAL_OUTPUTS, name) or ()
    return (*ports, *(Port(output, when=when) for output, when in extra))


def _flat(returns: Returns) -> Iterator[str]:
    for item in returns:
        if isinstance(item, str):
            yield item
        else:
            yield from _flat(item)


def _as_tensor(name: str, argument: Argument) -> Argument:
    declared = overrides.lookup(overrides.PORT_KINDS, name, argument.name)
    if declared is None and argument.kind is None and argument.type is None:
        declared = "tensor"
    if declared is None:
        return argument
    return Argument(argument.name, declared, argument.type, argument.default, argument.variadic, argument.spread)


def _constructor(cls: type[nn.Module]) -> list[Argument]:
    """Return the constructor's arguments that can be typed in."""
    init: Callable[..., None] = cls.__init__
    fixed: frozenset[str] = frozenset()
    if issubclass(cls, nn.RNNBase) and cls is not nn.RNNBase:
        # RNN, LSTM and GRU take *args; their base class has the signature, their docs say what it lacks.
        init, fixed = nn.RNNBase.__init__, frozenset(("mode",) if cls is nn.LSTM else ("mode", "proj_size"))
    found = [
        a
        for a in signatures.arguments(init, method=True)
        if a.name not in overrides.SKIPPED | fixed and not a.name.startswith("_") and not a.spread
    ]
    found = [a for a in map(functools.partial(_typed, cls.__name__), found) if a.type is not None]
    if cls is nn.RNN:
        found.insert(3, Argument("nonlinearity", type=EnumType(("tanh", "relu")), default="tanh"))
    return found


def _typed(name: str, argument: Argument) -> Argument:
    """Give an argument without a hint the type of `overrides` or of its default; a tensor is typed in as numbers."""
    if argument.type is not None:
        return argument
    if argument.kind is not None:
        return typed_in(argument)
    return msgspec.structs.replace(
        argument,
        type=overrides.lookup(overrides.TYPES, name, argument.name) or signatures.property_type(type(argument.default)),
    )


def _init_property(name: str, argument: Argument, about: dict[str, str]) -> Property:
    prop = property_of(name, argument, "init", about.get(argument.name, ""))
    if (name, prop.name) not in AUTOMATIC:
        return prop
    kind: PropertyType = UnionType((prop.type, EnumType(("auto",))))
    if isinstance(prop.type, OptionalType):
        kind = OptionalType(UnionType((prop.type.item, EnumType(("auto",)))))
    default = "auto" if isinstance(prop.default, Required) else prop.default
    return Property(prop.name, kind, default, "init", prop.doc)


def _argument_docs(
    classes: Sequence[type[nn.Module]], wanted: Collection[str], ports: Collection[str]
) -> dict[str, str]:
    about: dict[str, str] = {}
    for cls in classes:
        for doc in (cls.__doc__, cls.forward.__doc__):
            about |= docstrings.arguments(doc, set(wanted).difference(about))
    about |= docstrings.ports(classes[0].__doc__, set(ports).difference(about))
    missing = {*wanted, *ports}.difference(about)
    return {
        **about,
        **{name: overrides.lookup(overrides.ARGUMENT_DOCS, classes[0].__name__, name) or "" for name in missing},
    }
