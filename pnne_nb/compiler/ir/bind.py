"""Binds a node to its torch call: maps properties and wires to arguments.

Generated source and shape inference both use this, so what is inferred is what will run.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping

import msgspec
import torch
from torch import nn

from pnne_nb.catalog.custom import is_autograd_function, names_of
from pnne_nb.compiler.ir.literals import TensorLiteral
from pnne_nb.compiler.ir.program import Argument, Constant, Construction, Mode, Sequence
from pnne_nb.graph.model.node import Node
from pnne_nb.graph.schema.property_types import (
    DtypeType,
    EnumType,
    ListType,
    OptionalType,
    PropertyType,
    TensorType,
    TupleType,
    UnionType,
    admits,
    check,
)
from pnne_nb.graph.schema.spec import AUTO, NodeSpec, Port, Returns
from pnne_nb.graph.schema.values import DTYPES, MEMORY_FORMATS, TorchConstant, Value

ELEMENT = "dtype"
"""Argument of torch's layers that sets their element type; it is no property of a node."""


class BoundCall(msgspec.Struct, frozen=True):
    """The call of a node with its arguments, before it is known which module or function is called.

    Attributes:
        arguments: Of the call, by position.
        keywords: Of the call, by name.
        results: As `Call.results`.
        single: As `Call.single`.
    """

    arguments: tuple[Argument, ...]
    keywords: tuple[tuple[str, Argument], ...]
    results: Returns
    single: bool


def automatic_properties(spec: NodeSpec, properties: Mapping[str, Value]) -> list[str]:
    """Return the properties of a node that are left ``"auto"``."""
    return [prop.name for prop in spec.inferable if properties.get(prop.name, prop.default) == AUTO]


def bind(
    spec: NodeSpec, properties: Mapping[str, Value], wires: Mapping[str, Argument], resolved: Mapping[str, Value]
) -> BoundCall:
    """Bind the call of a module, function or method node to its arguments.

    `resolved` are the values of ``"auto"`` properties. The wires of a variadic port are ``tensors_0``, ``tensors_1`` …
    """
    arguments, keywords = passed(spec, {**properties, **resolved} if resolved else properties, wires)
    return BoundCall(arguments, keywords, *spec.taken_apart(properties))


def with_element_type(node: Node) -> Mapping[str, Value]:
    """Return the properties of a node with the element type of the layer that it was imported from."""
    if node.origin is None or node.origin.dtype is None or ELEMENT in node.properties:
        return node.properties
    return {**node.properties, ELEMENT: check(DtypeType(), node.origin.dtype)}


def element_type(module: nn.Module) -> str:
    """Return the element type of a layer that was constructed with it; empty for the usual one."""
    kinds = {parameter.dtype for parameter in module.parameters()}
    if len(kinds) != 1 or kinds == {torch.float32}:
        return ""
    if not isinstance(module, nn.RNNBase) and ELEMENT not in inspect.signature(type(module)).parameters:
        return ""
    return str(kinds.pop()).removeprefix("torch.")


def construct(spec: NodeSpec, values: Mapping[str, Value]) -> Construction:
    """Return the constructor call of a module node, from its properties and inferred sizes."""
    owned = {name for part in spec.parts for _, name in part.properties} | {part.when for part in spec.parts}
    arguments: list[Argument] = []
    keywords: list[tuple[str, Argument]] = []
    by_position = not spec.parts
    for prop in spec.properties:
        if prop.role != "init" or prop.name in owned:
            continue
        value = values.get(prop.name, prop.default)
        by_position = by_position and (prop.required or prop.default == AUTO)
        if by_position:
            arguments.append(Constant(constant(prop.type, value)))
        elif not _same(value, prop.default):
            keywords.append((prop.name, Constant(constant(prop.type, value))))
    parts: list[tuple[str, Argument]] = []
    for part in spec.parts:
        if not part.when or values.get(part.when):
            made = []
            for argument, name in part.properties:
                owner = spec.property_named(name)
                if owner is not None and (owner.required or not _same(values.get(name, owner.default), owner.default)):
                    made.append((argument, Constant(constant(owner.type, values.get(name, owner.default)))))
            parts.append((part.argument, Construction(part.target, (), tuple(made))))
    if ELEMENT in values and spec.property_named(ELEMENT) is None:
        keywords.append((ELEMENT, Constant(constant(DtypeType(), values[ELEMENT]))))
    return Construction(spec.target, tuple(arguments), (*parts, *keywords))


def passed(
    spec: NodeSpec, values: Mapping[str, Value], wires: Mapping[str, Argument]
) -> tuple[tuple[Argument, ...], tuple[tuple[str, Argument], ...]]:
    """Return the arguments of a node's call, by position and by name."""
    names = spec.wired_inputs
    if names is not None:  # what most calls of layers are
        try:
            return tuple([wires[name] for name in names]), ()
        except KeyError:  # some are left out
            pass
    given = _given(spec, values, wires)
    arguments: list[Argument] = []
    keywords: list[tuple[str, Argument]] = []
    contiguous = True
    if spec.target == "torch.arange" and "start" not in given:  # as range does, it takes one number for the end
        arguments += [Constant(0)] if "step" in given else []
        arguments += [given.pop(name) for name in ("end", "step") if name in given]
    shown = spec.input_names
    for name in spec.positional or shown:
        plain = name.lstrip("*")
        argument = given.pop(plain, None)
        if name.startswith("**"):
            named = values.get(names_of(spec))
            for index, keyword in enumerate(named if isinstance(named, tuple) else ()):
                if f"{plain}_{index}" in wires:
                    keywords.append((str(keyword), wires[f"{plain}_{index}"]))
            continue
        if argument is None:
            contiguous = False
        elif plain != name and isinstance(argument, Sequence):
            arguments.extend(argument.items)
        elif contiguous and (plain in shown or _reads_well_by_position(spec, plain)):
            arguments.append(argument)
        else:
            contiguous = False
            keywords.append((plain, argument))
    keywords.extend(given.items())
    return tuple(arguments), tuple(keywords)


def _given(spec: NodeSpec, values: Mapping[str, Value], wires: Mapping[str, Argument]) -> dict[str, Argument]:
    """Return the arguments that are wired, or typed in and different from their default."""
    given: dict[str, Argument] = {}
    for port in spec.inputs:
        if port.variadic:
            items = variadic_items(port, wires)
            if items:
                given[port.name] = Sequence(tuple(wires[name] for name in items))
        elif port.name in wires:
            given[port.name] = wires[port.name]
    for prop in spec.passed:
        if prop.name in wires:
            given.setdefault(prop.name, wires[prop.name])
            continue
        value = values.get(prop.name, prop.default)
        if value == AUTO and admits(prop.type, AUTO):
            given[prop.name] = Mode()
        elif prop.required or not _same(value, prop.default):
            given[prop.name] = Constant(constant(prop.type, value))
    return given


def variadic_items(port: Port, wires: Mapping[str, object]) -> list[str]:
    """Return the connected inputs (``tensors_0`` …) of a variadic port, by index."""
    found = []
    for name in wires:
        stem, _, index = name.rpartition("_")
        if stem == port.name and index.isdecimal():
            found.append((int(index), name))
    return [name for _, name in sorted(found)]


def _reads_well_by_position(spec: NodeSpec, name: str) -> bool:
    """Return whether this typed-in argument is usually unnamed: ``flatten(x, 1)``, but ``softmax(x, dim=1)``."""
    prop = spec.property_named(name)
    if prop is None or name in ("start_dim", "end_dim") or is_autograd_function(spec):
        return True
    return prop.required and not (name == "dim" and spec.target.startswith("torch.nn.functional."))


def _same(value: object, default: object) -> bool:
    """Return whether a value is its property's default; 1, 1.0 and True are different values."""
    if type(value) is not type(default) or value != default:
        return False
    if isinstance(value, (tuple, list)) and isinstance(default, (tuple, list)):
        return all(_same(one, other) for one, other in zip(value, default, strict=True))
    return True


def constant(kind: PropertyType, value: object) -> object:
    """Return the value of a property as the constant that torch expects: a dtype for its name."""
    if value is None or type(value) in (bool, int):
        return value
    match kind:
        case TensorType():
            return TensorLiteral(value)
        case DtypeType() if isinstance(value, str) and value in DTYPES:
            return TorchConstant(value)
        case EnumType(choices) if choices == MEMORY_FORMATS and isinstance(value, str):
            return TorchConstant(value)
        case OptionalType(item):
            return constant(item, value)
        case UnionType(options):
            changed = (constant(option, value) for option in options)
            return next((each for each in changed if each is not value), value)
        case TupleType(item) if isinstance(value, tuple):
            return tuple(constant(item, each) for each in value)
        case ListType(item) if isinstance(value, list):
            return [constant(item, each) for each in value]
    return value
