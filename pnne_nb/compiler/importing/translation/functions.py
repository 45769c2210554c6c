"""Maps calls of functions and methods to node types, with arguments by name."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Mapping
from dataclasses import is_dataclass
from typing import Any

import torch
from torch import Tensor, fx

from pnne_nb.catalog.custom import CALLED, ObjectMaker, called_function, names_of, object_class, result_class
from pnne_nb.catalog.functions import FROM_TORCH
from pnne_nb.catalog.introspection.schemas import positions
from pnne_nb.catalog.operators import CHECK, choose, if_else
from pnne_nb.catalog.tables.function_list import METHOD_NAMES
from pnne_nb.compiler.importing.draft.draft import UntranslatableError
from pnne_nb.compiler.importing.tracing.call_effects import TYPE
from pnne_nb.compiler.importing.tracing.proxies import EXAMPLE
from pnne_nb.errors import RegistrationError
from pnne_nb.graph.schema.property_types import OptionalType, PropertyType, TupleType
from pnne_nb.graph.schema.registry import registry
from pnne_nb.graph.schema.spec import NodeSpec, Property

_ALIASES = {
    "axis": "dim", "keepdims": "keepdim", "self": "input", "x": "input", "tensor": "input",
    "split_size": "split_size_or_sections", "indices": "indices_or_sections", "sections": "indices_or_sections",
}  # fmt: skip
"""Names of arguments that are NumPy's, or those of a method, and which torch takes too."""

_TENSOR_OPERATORS: Mapping[Callable[..., Any], str] = {
    operator.add: "add", operator.sub: "sub", operator.mul: "mul", operator.truediv: "div",
    operator.floordiv: "floor_divide", operator.mod: "remainder", operator.pow: "pow", operator.matmul: "matmul",
    operator.eq: "eq", operator.ne: "ne", operator.lt: "lt", operator.le: "le", operator.gt: "gt",
    operator.ge: "ge", operator.and_: "bitwise_and", operator.or_: "bitwise_or", operator.xor: "bitwise_xor",
    operator.abs: "abs", operator.neg: "neg", operator.invert: "bitwise_not",
}  # fmt: skip
"""Functions of operators between tensors."""

_IN_PLACE: Mapping[Callable[..., Any], tuple[str, Callable[..., Any]]] = {
    operator.iadd: ("add_", operator.add),
    operator.isub: ("sub_", operator.sub),
    operator.imul: ("mul_", operator.mul),
    operator.itruediv: ("div_", operator.truediv),
    operator.ipow: ("pow_", operator.pow),
}
"""Methods of ``x += y`` for a tensor, and its operators for anything else."""

_ORDERS: Mapping[str, tuple[str, ...]] = {
    "view": ("input", "size"),
    "max": ("input", "dim", "keepdim"),
    "min": ("input", "dim", "keepdim"),
    "sort": ("input", "dim", "descending"),
    "sum": ("input", "dim", "keepdim"),
    "mean": ("input", "dim", "keepdim"),
    "var": ("input", "dim", "unbiased", "keepdim"),
    "std": ("input", "dim", "unbiased", "keepdim"),
    "norm": ("input", "p", "dim", "keepdim"),
    "softmax": ("input", "dim"),
    "log_softmax": ("input", "dim"),
    "size": ("input", "dim"),
}
"""Orders of arguments that the merged signature of several overloads does not have."""

_OF_TWO = {"min": "minimum", "max": "maximum"}
"""Functions that reductions become if they are given two tensors."""

_METHOD_TYPES = {method: name for name, method in METHOD_NAMES.items()}

_SIZES = frozenset(("view", "reshape", "permute", "expand", "repeat", "tile", "flip", "sum_to_size", "zeros", "ones", "empty",
                    "rand", "randn", "new_zeros", "new_ones", "new_empty"))  # fmt: skip
"""Functions and methods whose sizes may be written one by one."""


def method_call(node: fx.Node, kind: Callable[[Any], str]) -> tuple[NodeSpec, dict[str, Any]]:
    """Return the node type of a method call, and its arguments by port or property.

    Raises:
        UntranslatableError: If there is no type for it.
    """
    name = str(node.target)
    if name == "size" and len(node.args) == 1 and not node.kwargs:
        return registry["getattr"], {"input": node.args[0], "name": "shape"}
    if name in _OF_TWO and len(node.args) == 2 and kind(node.args[1]) == "tensor":
        name = _OF_TWO[name]
    spec = registry.get(_METHOD_TYPES.get(name, name))
    is_method = spec is not None and spec.kind in ("method", "function") and hasattr(Tensor, name)
    if spec is None or not is_method or not (spec.positional or spec.inputs):
        raise UntranslatableError(f"there is no node type for the method {name!r} of a tensor")
    return spec, _by_name(spec, name, node.args, node.kwargs, kind)


def function_call(node: fx.Node, kind: Callable[[Any], str]) -> tuple[NodeSpec, dict[str, Any]]:
    """Return the node type of a function call, and its arguments by port or property.

    Raises:
        UntranslatableError: If there is no type for it.
    """
    target: Any = node.target
    args = node.args
    in_place = _IN_PLACE.get(target)
    if in_place is not None:
        # What a function gives that is not torch's may be a tensor too.
        if kind(args[0]) == "tensor" or getattr(args[0], "meta", {}).get(TYPE) is torch.Tensor:
            spec = registry[in_place[0]]
            return spec, _by_name(spec, in_place[0], args, node.kwargs, kind)
        target = in_place[1]
    name = _TENSOR_OPERATORS.get(target, "")
    if name and kind(args[0]) == "tensor":
        spec = registry[name]
        return spec, _by_name(spec, name, args, {}, kind)
    if target in (torch.min, torch.max) and len(args) == 2 and kind(args[1]) == "tensor":
        target = getattr(torch, _OF_TWO[target.__name__])
    spec = _find(target)
    return spec, _by_name(spec, spec.type, args, node.kwargs, kind)


def _find(target: Any) -> NodeSpec:
    if isinstance(target, type) and (is_dataclass(target) or hasattr(target, "_fields")):
        try:
            return result_class(target)
        except RegistrationError as error:
            raise UntranslatableError(f"its result is a {target.__name__}, and no node type can be: {error}") from error
    if isinstance(target, ObjectMaker):
        try:
            return object_class(target)
        except RegistrationError as error:
            raise UntranslatableError(f"it makes a {target.__name__}, and no node type can be: {error}") from error
    name = getattr(target, "__name__", str(target))
    module = getattr(target, "__module__", None) or ""
    candidates = [name]
    if target in (choose, if_else, operator.setitem):
        return registry[name]
    if target is torch._assert:
        return registry[CHECK]
    if module in ("_operator", "operator"):
        candidates = [name, f"operator_{name.strip('_')}"]
    elif module == "math":
        candidates = [f"math_{name}"]
    for candidate in candidates:
        spec = registry.get(candidate)
        if spec is not None and spec.kind in ("function", "method") and spec.category != CALLED:
            if spec.torch is target:
                return spec
            # torch.relu, torch.nn.functional.relu and Tensor.relu are one type.
            if module.startswith("torch") or getattr(torch, name, None) is target:
                return _with_order(spec, name) if inspect.isbuiltin(target) else spec
    for spec in registry.values():
        if spec.torch is target and spec.kind == "function" and spec.category != CALLED:
            return spec  # torch._C._nn.log_sigmoid is torch.nn.functional.logsigmoid
    try:
        return called_function(target)
    except RegistrationError as error:
        shown = f"{module}.{name}" if module and module != "builtins" else name
        raise UntranslatableError(f"there is no node type for the function {shown}: {error}") from error


def _with_order(spec: NodeSpec, name: str) -> NodeSpec:
    """Return the type of a function of ``torch``, where that of ``torch.nn.functional`` takes its arguments otherwise."""
    other = registry.get(f"{FROM_TORCH}{name}") if spec.target.startswith("torch.nn.functional.") else None
    if other is None:
        return spec
    same = all(one == two for one, two in zip(other.positional, spec.positional, strict=False))
    same &= len(other.outputs) == len(spec.present_outputs({}))
    shared = [(prop, spec.property_named(prop.name)) for prop in other.properties]
    return spec if same and all(two is None or one.default == two.default for one, two in shared) else other


def _by_name(
    spec: NodeSpec, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any], kind: Callable[[Any], str]
) -> dict[str, Any]:
    if spec.type == "to":
        return _to(args, kwargs, kind)
    if spec.type == "arange":
        starts = {1: ("end",), 2: ("start", "end"), 3: ("start", "end", "step")}
        given = zip(starts[len(args)], args, strict=True) if args else ()
        return {**dict(given), **{key: value for key, value in kwargs.items() if spec.property_named(key)}}
    if spec.type in ("scatter", "scatter_") and len(args) == 4:
        last = "src" if kind(args[3]) == "tensor" else "value"
        return {**dict(zip(("input", "dim", "index", last), args, strict=True)), **kwargs}
    if spec.type == "einsum" and not isinstance(args[1], (tuple, list)):
        args = (args[0], args[1:])
    order = _ORDERS.get(name) or spec.positional or tuple(port.name for port in spec.inputs)
    found: dict[str, Any] = {}
    if names := names_of(spec):
        more = {key: value for key, value in kwargs.items() if spec.property_named(key) is None or key == names}
        kwargs = {key: value for key, value in kwargs.items() if key not in more}
        found = {names.removesuffix("_names"): tuple(more.values()), names: tuple(more)} if more else {}
        order = order[:-1]
    rest = list(args)
    for position, plain in enumerate(order):
        if not rest:
            break
        if plain.startswith("*"):
            found[plain[1:]] = rest[0] if len(rest) == 1 and isinstance(rest[0], (tuple, list)) else tuple(rest)
            rest = []
        elif len(rest) > 1 and position == len(order) - 1 and name in _SIZES:
            found[plain] = tuple(rest)
            rest = []
        elif _takes_tuple(spec.property_named(plain)) and name in _SIZES and not isinstance(rest[0], (tuple, list)):
            # view(-1), and view(size) with a computed size that may be a number or a tuple.
            sizes = tuple(rest)
            found[plain] = (
                sizes if len(sizes) > 1 or not isinstance(sizes[0], fx.Node) or _is_number(sizes[0]) else sizes[0]
            )
            rest = []
        else:
            found[plain] = rest.pop(0)
    if rest:
        found = _by_overload(spec, name, args, kind)
    for key, value in kwargs.items():
        known = key if _takes(spec, key) else _ALIASES.get(key, key)
        if not _takes(spec, known):
            if value is None or value is False or value is torch.strided or known.startswith("_"):
                continue  # the default
            raise UntranslatableError(f"the node type of {name} has no argument {key!r}")
        found[known] = value
    training = spec.property_named("training")
    if training is not None and training.default == "auto":
        found.setdefault("training", False)  # torch.rrelu(x)
    return found


def _by_overload(spec: NodeSpec, name: str, args: tuple[Any, ...], kind: Callable[[Any], str]) -> dict[str, Any]:
    """Name arguments whose order depends on their types: ``split(x, 2)`` and ``split(x, (1, 2))``."""
    # Computed numbers are 1 in the example of the call.
    given = fx.node.map_arg(args, lambda node: 1 if _is_number(node) else (1,))
    kinds = ["Tensor" if kind(value) == "tensor" else each for value, each in zip(args, given, strict=True)]
    names = positions(name.removeprefix(FROM_TORCH), kinds, method=spec.kind == "method")
    if names is None or not all(spec.property_named(each) or spec.input_named(each) for each in names):
        raise UntranslatableError(f"{name} is called with more arguments than its node type has")
    return dict(zip(names, args, strict=True))


def _takes(spec: NodeSpec, name: str) -> bool:
    is_variadic = any(port.variadic and port.name == name for port in spec.inputs)
    return is_variadic or spec.property_named(name) is not None or spec.input_named(name) is not None


def _is_number(node: fx.Node) -> bool:
    """Return whether a computed value is one size rather than a tuple of sizes."""
    if TYPE in node.meta:
        return issubclass(node.meta[TYPE], int)
    if node.target == "size" or node.target is getattr:
        return len(node.args) > 1 and node.target == "size"
    return True


def _takes_tuple(prop: Property | None) -> bool:
    kind: PropertyType | None = prop.type if prop is not None else None
    return isinstance(kind.item if isinstance(kind, OptionalType) else kind, TupleType)


def _to(args: tuple[Any, ...], kwargs: Mapping[str, Any], kind: Callable[[Any], str]) -> dict[str, Any]:
    found: dict[str, Any] = {"input": args[0], **kwargs}
    names = iter(("non_blocking", "copy"))
    for value in args[1:]:
        if isinstance(value, torch.dtype) or (
            isinstance(value, fx.Node) and (_reads(value, "dtype") or isinstance(value.meta.get(EXAMPLE), torch.dtype))
        ):
            found["dtype"] = value
        elif isinstance(value, (str, torch.device)) or (isinstance(value, fx.Node) and _reads(value, "device")):
            found["device"] = value
        elif isinstance(value, fx.Node) and kind(value) == "tensor":
            found["other"] = value
        elif isinstance(value, bool):
            found[next(names)] = value
        else:
            raise UntranslatableError("a call of Tensor.to cannot be read")
    return found


def _reads(node: fx.Node, name: str) -> bool:
    return node.target is getattr and node.args[1:] == (name,)
