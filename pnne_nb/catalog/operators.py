"""Python's operators and constructors, for values other than tensors: sizes, tuples, items.

``torch.add`` needs a tensor; ``x.size(0) * 2`` is arithmetic of numbers. These types work on both.
"""

from __future__ import annotations

import math
import operator
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any

import torch
from msgspec.structs import replace

from pnne_nb.graph.schema.property_types import (
    ConstantType,
    EnumType,
    NumberType,
    OptionalType,
    PropertyType,
    StringType,
)
from pnne_nb.graph.schema.spec import NodeSpec, Port, Property
from pnne_nb.graph.schema.structural import DEVICES

CATEGORY = "Python"
CHECK = "check"
"""Name of the type that stops where a condition does not hold."""

CHECK_STRUCTURE = "check_structure"
"""Name of the type that stops where an argument has another structure."""

ATTRIBUTES = (
    "shape", "dtype", "device", "ndim", "T", "mT", "H", "mH", "real", "imag", "data", "values", "indices",
    "requires_grad", "is_cuda", "is_floating_point", "is_complex", "itemsize",
)  # fmt: skip
"""What ``getattr`` reads of a tensor or its element type: a closed set, because a file may name it."""

RESULT = "return_type"
"""Name of the type that gives what a function of torch's with several results gives."""

RESULTS = tuple(sorted(name for name, value in vars(torch.return_types).items() if isinstance(value, type)))
"""Functions whose results have names."""

_BINARY = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "eq", "ne", "lt", "le", "gt", "ge",
           "and_", "or_", "xor", "is_", "is_not")  # fmt: skip
_UNARY = ("neg", "pos", "invert", "not_", "truth", "abs")
_DOCS = {
    "index": "A number, a slice, or a tuple of them.",
    "name": "Which attribute.",
    "kind": "The function that returns them.",
    "keys": "A tuple of names, one for each item.",
    "start": "First index; None: from the beginning.",
    "stop": "Index after the last; None: to the end.",
    "step": "Distance between indices; None: 1.",
    "a": "The first operand.",
    "b": "The second operand.",
    "value": "What is assigned.",
    "train": "The value in training mode.",
    "eval": "The value in evaluation mode.",
    "yes": "The value where the condition holds.",
    "no": "The value where it does not.",
    "device_type": "The kind of device.",
    "message": "The message if the condition is false.",
    "attributes": "A dictionary of values by name.",
    "facts": "What the graph was drawn for: the keys that lead there, what is looked at, and what it is.",
    "argument": "What messages call it.",
}
_AUTOCAST = {
    "is_autocast_enabled": "Whether an autocast is on where the model is called.",
    "get_autocast_dtype": "The element type of the autocast where the model is called.",
}
_VALUE = Port("output", kind="value")
_MATHEMATICS: dict[Callable[..., Any], str] = {
    math.sqrt: "The square root of a number, such as a size.",
    math.floor: "The largest integer that is not larger than a number.",
    math.ceil: "The smallest integer that is not smaller than a number.",
    math.trunc: "A number without its fraction, as int gives it.",
}


def specs() -> Iterator[NodeSpec]:
    """Yield the specs of item and attribute access, of tuples, lists and slices, and of the operators."""
    constant, optional = ConstantType(), OptionalType(ConstantType())
    named = replace(
        _sequence("dict", mapping, "A dictionary of values, such as what some models return."),
        properties=(Property("keys", constant, role="call", doc=_DOCS["keys"]),),
        positional=("items", "keys"),
    )
    yield from (
        _spec("getitem", "operator.getitem", operator.getitem,
              "One item or slice of a tensor, tuple or size: input[index].", input=None, index=constant),
        _spec("getattr", "getattr", getattr,
              "An attribute of a tensor: its shape, dtype, transpose …", input=None, name=EnumType(ATTRIBUTES)),
        _sequence("tuple", tuple, "A tuple of values, such as a size with computed parts."),
        _sequence("list", list, "A list of values."),
        named,
        replace(named, type="OrderedDict", target="collections.OrderedDict", torch=ordered,
                doc="A dictionary of the class OrderedDict, such as what some models return."),
        replace(
            _sequence(RESULT, result, "Several results under their names, as torch returns them: (values, indices)."),
            properties=(Property("name", EnumType(RESULTS), role="call", doc=_DOCS["kind"]),),
            target="torch.return_types", positional=("items", "name"),
        ),
        _spec("len", "len", len, "How many items a tuple or list has, or how many rows a tensor.", input=None),
        _spec("vars", "vars", vars, "The attributes of an object, such as a cache of keys, by name.", input=None),
        _spec("set_attributes_", "set_attributes_", set_attributes_,
              "Sets attributes of an object that a call is given, such as a cache of keys. Gives the object.",
              input=None, attributes=constant),
        *(_spec(f"math_{function.__name__}", f"math.{function.__name__}", function, doc, a=NumberType())
          for function, doc in _MATHEMATICS.items()),
        _spec("setitem", "operator.setitem", setitem,
              "Assigns to an item or slice of a tensor, in place: input[index] = value. Gives the tensor.",
              input=None, index=constant, value=constant),
        replace(
            _spec("choose", "choose", choose,
                  "One value while training, and another in evaluation: train if self.training else eval.",
                  train=optional, eval=optional),
            inputs=(Port("train", kind="value"), Port("eval", kind="value")),
        ),
        replace(
            _spec("if_else", "if_else", if_else,
                  "One of two values: yes if condition else no. What only the other one needs is not computed.",
                  condition=None, yes=optional, no=optional),
            inputs=(Port("condition", kind="value"), Port("yes", kind="value"), Port("no", kind="value")),
        ),
        *(_spec(name, f"torch.{name}", getattr(torch, name), doc, device_type=EnumType(DEVICES))
          for name, doc in _AUTOCAST.items()),
        replace(
            _spec(CHECK, "torch._assert", torch._assert,
                  "Stops with a message where a condition does not hold, such as a size that a drawing was made for.",
                  condition=None, message=StringType()),
            outputs=(),
        ),
        replace(
            _spec(CHECK_STRUCTURE, CHECK_STRUCTURE, check_structure,
                  "Stops with a message where an argument has another structure than the one that a graph was drawn for: "
                  "other keys, another length, None instead of a tensor.",
                  value=None, facts=constant, argument=StringType()),
            outputs=(),
        ),
        _spec("slice", "slice", slice, "A slice start:stop:step with computed parts, for getitem.",
              start=optional, stop=optional, step=optional),
    )  # fmt: skip
    operands: tuple[tuple[tuple[str, ...], dict[str, PropertyType | None]], ...] = (
        (_BINARY, {"a": NumberType(), "b": NumberType()}),
        (_UNARY, {"a": None}),
    )
    for names, arguments in operands:
        for name in names:
            function = getattr(operator, name)
            doc = f"{(function.__doc__ or '').removeprefix('Same as ')} For numbers and tensors alike."
            yield _spec(f"operator_{name.strip('_')}", f"operator.{name}", function, doc, **arguments)


def mapping(items: list[Any], keys: tuple[str, ...]) -> dict[str, Any]:
    """Return a dictionary of `items` under `keys`."""
    return dict(zip(keys, items, strict=True))


def ordered(items: list[Any], keys: tuple[str, ...]) -> OrderedDict[str, Any]:
    """Return an ordered dictionary of `items` under `keys`."""
    return OrderedDict(zip(keys, items, strict=True))


def result(items: list[Any], name: str) -> Any:
    """Return `items` as the result type of torch's function `name`."""
    return getattr(torch.return_types, name)(items)


def setitem(input: Any, index: Any, value: Any) -> Any:
    """Assign to an item of `input` and return it."""
    input[index] = value
    return input


def set_attributes_(input: Any, attributes: dict[str, Any]) -> Any:
    """Set attributes of an object and return it."""
    vars(input).update(attributes)
    return input


def check_structure(value: Any, facts: list, argument: str) -> None:  # type: ignore[type-arg]  # as source shows it
    """Raise an error where an argument has another structure than in the example.

    A fact is a path of keys (an attribute is a tuple of its name), what the original
    looks at there, what it was, and the line of its code.
    """
    kinds = {"a tensor": torch.Tensor, "a number": (int, float), "a dict": dict}
    kinds |= {"a list": list, "a tuple": tuple, "a list or tuple": (list, tuple)}
    for path, what, expected, line in facts:
        found, place = value, argument
        for key in path[:-1] if what == "has" else path:
            fields = getattr(found, "_fields", None)
            if isinstance(key, tuple):
                found, place = getattr(found, key[0]), f"{place}.{key[0]}"
            else:
                place += f".{fields[key]}" if fields else f"[{key!r}]"
                found = found[key]
        if what == "has":
            same = (path[-1] in found) == expected
            said = f"{'with' if expected else 'without'} {path[-1]!r}"
        elif what == "keys":
            same = [*found] == [*expected]
            said = f"with the keys {[*expected]} in order"
        elif what == "length":
            same, said = len(found) == expected, f"of length {expected}"
        elif what == "filled":
            same, said = bool(found) == expected, f"that is {'not ' * expected}empty"
        elif what == "fields":
            same = getattr(found, "_fields", None) == expected
            said = f"with the fields {', '.join(expected)}"
        elif what == "is":
            same, said = found == expected, f"that is {expected!r}"
            same = same and type(found) is type(expected)
        else:
            kind: Any = kinds.get(expected, object)
            same = isinstance(found, kind) and found is not None
            same, said = same and not isinstance(found, bool), f"that is {expected}"
        if not same:
            is_plain = found is None or isinstance(found, (bool, int, float, str))
            now = repr(found) if is_plain else type(found).__name__
            now += f" with {[*found]}" if isinstance(found, dict) else ""
            if isinstance(found, (list, tuple)):
                now += f" of length {len(found)}"
            said = f"imported for {place} {said}, and it is {now} here; import again"
            raise AssertionError(f"{said} with such an example{line and f' ({line})'}")


def choose(train: Any, eval: Any, training: bool = True) -> Any:
    """Return `train` or `eval`."""
    return train if training else eval


def if_else(condition: Any, yes: Any, no: Any) -> Any:
    """Return `yes` or `no`."""
    return yes if condition else no


def _spec(
    name: str, target: str, function: Callable[..., Any], doc: str, /, **arguments: PropertyType | None
) -> NodeSpec:
    """Return the spec of a function; an argument is wired if its type is None, and wired or typed in if it is a number."""
    return NodeSpec(
        type=name,
        category=CATEGORY,
        kind="function",
        target=target,
        inputs=tuple(
            Port(argument, kind="value") for argument, kind in arguments.items() if kind in (None, NumberType())
        ),
        outputs=(_VALUE,),
        properties=tuple(
            Property(argument, kind, role="call", doc=_DOCS[argument])
            for argument, kind in arguments.items()
            if kind is not None
        ),
        positional=tuple(arguments),
        doc=doc,
        torch=function,
    )


def _sequence(name: str, function: Callable[..., Any], doc: str) -> NodeSpec:
    items = Port("items", kind="value", variadic=True)
    return replace(_spec(name, name, function, doc, items=None), inputs=(items,))
