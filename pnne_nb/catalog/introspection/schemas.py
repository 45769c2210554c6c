"""Reads arguments and results from torch's own operator schemas.

Most functions of ``torch`` and methods of ``Tensor`` are built in and have no Python signature. The
operator schemas that the dispatcher holds (``add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1)``) are
exact. The overloads of one name are merged: an argument that is a tensor in one and a number in another can
be wired and typed in; one that some overloads lack may be left out.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeAlias, final

import msgspec
import torch

from pnne_nb.catalog.introspection.arguments import Argument, union
from pnne_nb.catalog.tables import overrides
from pnne_nb.graph.schema.property_types import (
    BoolType,
    DeviceType,
    DtypeType,
    EnumType,
    FloatType,
    IntType,
    NumberType,
    OptionalType,
    PropertyType,
    StringType,
    TupleType,
)
from pnne_nb.graph.schema.spec import REQUIRED, Port, PortKind, Required
from pnne_nb.graph.schema.values import MEMORY_FORMATS, Value

Schema: TypeAlias = Any
"""A ``torch._C.FunctionSchema``: torch's stubs do not describe it."""

_SCALARS: dict[str, PropertyType] = {
    "number": NumberType(),
    "int": IntType(),
    "float": FloatType(),
    "bool": BoolType(),
    "str": StringType(),
    "ScalarType": DtypeType(),
    "Device": DeviceType(),
    "MemoryFormat": EnumType(MEMORY_FORMATS),
}
_PYTHON: dict[str, tuple[type, ...]] = {
    "int": (int,), "float": (int, float), "number": (int, float, complex), "bool": (bool,), "str": (str,),
}  # fmt: skip
"""What each type of a schema takes from Python."""

_LEFT_OUT = frozenset(("Layout", "Generator", "Stream"))
_KNOWN = frozenset((*_SCALARS, *_LEFT_OUT, "Tensor"))


@final
class Signature(msgspec.Struct, frozen=True):
    """The merged overloads of one name.

    Attributes:
        arguments: In the order of the call.
        outputs: Ports of the results.
    """

    arguments: tuple[Argument, ...]
    outputs: tuple[Port, ...]


def signature(name: str, *, method: bool = False, without: frozenset[str] = frozenset()) -> Signature | None:
    """Return the signature of a function or method from its operator schemas, or None if there are none.

    Args:
        name: As in ``torch.ops.aten``, e.g. ``"add"``.
        method: Whether it is called on a tensor, which then is the argument ``"input"``.
        without: Overload names to leave out.
    """
    overloads = [
        overload
        for schema in torch._C._jit_get_schemas_for_operator(f"aten::{name}")
        if not (known := schema.overload_name).endswith("out") and not known.startswith("prim")
        # Until torch 2.12, most had an overload for axes with names ("Dimname", "using_names"), which was never finished.
        if "name" not in known.lower()
        if known not in without
        if (overload := _read(schema, method=method)) is not None
    ]
    if not overloads:
        return None
    richest = max(overloads, key=lambda overload: (len(overload.results), len(overload.arguments)))
    overloads = [overload for overload in overloads if overload.returns_list == richest.returns_list]
    merged = _merge([o.arguments for o in overloads]) if len(overloads) > 1 else richest.arguments.values()
    return Signature(tuple(merged), tuple(_outputs(overloads, richest)))


def positions(name: str, values: Sequence[object], *, method: bool = False) -> tuple[str, ...] | None:
    """Return the names of a call's positional arguments from the overload that accepts them, or None if none does.

    Args:
        name: As in ``torch.ops.aten``.
        values: The arguments, or others of the same types; ``"Tensor"`` for a tensor.
        method: Whether the first is the tensor that the method belongs to.
    """
    for schema in torch._C._jit_get_schemas_for_operator(f"aten::{name}"):
        taken: list[Any] = [
            argument for argument in schema.arguments if not argument.kwarg_only and not argument.is_out
        ]
        if len(taken) < len(values) or _read(schema, method=method) is None:
            continue
        pairs = zip(taken, values, strict=False)
        if all(_fits(str(argument.real_type), argument.N, value) for argument, value in pairs):
            names = [argument.name for argument in taken[: len(values)]]
            return tuple("input" if each == "self" else each for each in names)
    return None


def _fits(kind: str, length: int | None, value: object) -> bool:
    if kind.startswith("Optional["):
        return value is None or _fits(kind[9:-1], length, value)
    if kind.startswith("List["):
        inner = kind[5:-1]
        if isinstance(value, (tuple, list)):
            return all(_fits(inner, None, each) for each in value)
        return length is not None and _fits(inner, None, value)
    if kind == "Tensor" or value == "Tensor":
        return kind == value
    return type(value) in _PYTHON.get(kind, ())


class _Overload(msgspec.Struct, frozen=True):
    """One overload: its arguments by name, and the names and types of its results."""

    arguments: dict[str, Argument]
    results: tuple[tuple[str, str], ...]

    @property
    def returns_list(self) -> bool:
        return self.results[0][1].startswith("List")


def _read(schema: Schema, *, method: bool) -> _Overload | None:
    """Return one overload, or None if it is not for a forward pass on tensors."""
    raw = [(argument, str(argument.real_type)) for argument in schema.arguments]
    results = tuple([(result.name, str(result.type)) for result in schema.returns])
    if not results or (raw and raw[0][0].name in ("a", "l")) or any(argument.is_out for argument, _ in raw):
        # The operators of TorchScript on lists and numbers begin with an argument a or l.
        return None
    bases = [_base(kind) for _, kind in raw]
    if any(base not in _KNOWN for base in bases):
        return None
    if method and (not raw or raw[0][1] != "Tensor"):
        return None
    if "Tensor" not in bases and results != (("", "Tensor"),):
        return None
    arguments: dict[str, Argument] = {}
    hidden = False
    for (argument, kind), base in zip(raw, bases, strict=True):
        found = _argument(argument, kind, base, positional=not hidden and not argument.kwarg_only)
        hidden = hidden or found is None
        if found is not None:
            arguments[found.name] = found
    return _Overload(arguments, results)


def _base(kind: str) -> str:
    while kind.endswith("]"):
        kind = kind.partition("[")[2][:-1]
    return kind


def _argument(argument: Any, kind: str, base: str, *, positional: bool) -> Argument | None:
    """Return one argument of a schema; None if no form shows it."""
    name: str = argument.name
    if base in _LEFT_OUT or name in ("pin_memory", "cudnn_enable", "implicit"):
        return None
    default: Value | Required = REQUIRED
    if argument.has_default_value():
        default = _default(argument.default_value, base, scalar=argument.N is not None)
        if default == () and name in overrides.PER_AXIS:
            default = None
    elif kind.startswith("Optional"):
        default = None
    wired = base == "Tensor"
    return Argument(
        name="input" if name == "self" else name,
        kind="tensor" if wired else None,
        type=None if wired else _property_type(kind, argument.N),
        default=default,
        variadic=wired and "List[" in kind,
        positional=positional,
    )


@functools.cache
def _property_type(kind: str, length: int | None) -> PropertyType:
    if kind.startswith("Optional["):
        return OptionalType(_property_type(kind[9:-1], length))
    if kind.startswith("List["):
        item = _SCALARS[_base(kind)]
        # torch writes int[1] for a list that one bare number may stand for, whatever its length.
        return TupleType(item, length if length != 1 else None, scalar=length is not None)
    return _SCALARS[kind]


def _default(value: object, base: str, *, scalar: bool) -> Value:
    if isinstance(value, list):
        return value[0] if scalar and len(set(value)) == 1 else tuple(value)
    if base in ("ScalarType", "MemoryFormat", "Device") or not isinstance(value, (bool, int, float, str)):
        return None
    return value


def _merge(overloads: list[dict[str, Argument]]) -> Iterator[Argument]:
    longest = max(overloads, key=len)
    names = dict.fromkeys((*longest, *(name for overload in overloads for name in overload)))
    agreed = _agreed_positions(overloads)
    for name in names:
        found = [overload[name] for overload in overloads if name in overload]
        wired = [argument for argument in found if argument.kind is not None]
        types = [argument.type for argument in found if argument.type is not None]
        # The default of the overload that says most: an overload may also simply lack the argument.
        default = next((a.default for a in found if not isinstance(a.default, Required)), REQUIRED)
        if len(found) < len(overloads) and isinstance(default, Required):
            default = None
        if not wired and default is None and any(isinstance(a.default, Required) for a in found):
            types = [OptionalType(kind) if not isinstance(kind, OptionalType) else kind for kind in types]
        yield Argument(
            name=name,
            kind="tensor" if wired else None,
            type=union(types) if types else None,
            default=default,
            variadic=any(argument.variadic for argument in wired),
            positional=name in agreed,
        )


def _agreed_positions(overloads: list[dict[str, Argument]]) -> frozenset[str]:
    """Return the names that have the same position in all overloads that are long enough."""
    rows = [[a.name for a in overload.values() if a.positional] for overload in overloads]
    keyword_only = {a.name for overload in overloads for a in overload.values() if not a.positional}
    agreed: list[str] = []
    for place in range(max(map(len, rows))):
        names = {row[place] for row in rows if len(row) > place}
        if len(names) != 1 or names & keyword_only:
            break
        agreed.extend(names)
    return frozenset(agreed)


def _outputs(overloads: Iterable[_Overload], richest: _Overload) -> Iterator[Port]:
    if len(richest.results) == 1:
        yield Port("output", kind=_result_kind(richest.results[0][1]))
        return
    conditional = _condition(overloads, richest)
    for index, (name, kind) in enumerate(richest.results):
        plain = name or ("output" if index == 0 else f"output_{index}")
        if index == 0 and conditional:
            plain = "output"
        yield Port(plain, kind=_result_kind(kind), when=conditional if index else "")


def _condition(overloads: Iterable[_Overload], richest: _Overload) -> str:
    """Return the argument that makes the call return several results: ``dim`` of ``max``."""
    fewer = [overload for overload in overloads if len(overload.results) < len(richest.results)]
    if not fewer:
        return ""
    known = {name for overload in fewer for name in overload.arguments}
    return next(name for name in richest.arguments if name not in known)


def _result_kind(kind: str) -> PortKind:
    return "tensor" if kind == "Tensor" else "value"
