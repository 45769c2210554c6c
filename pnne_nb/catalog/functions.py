"""Makes specs of functions of ``torch`` and ``torch.nn.functional``, methods of ``Tensor`` and operators of Python."""

from __future__ import annotations

import contextlib
import fnmatch
import inspect
import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec
import torch
import torch.nn.functional
from torch import Tensor

from pnne_nb.catalog.introspection import docstrings as docs
from pnne_nb.catalog.introspection import schemas, signatures
from pnne_nb.catalog.introspection.arguments import Argument, port
from pnne_nb.catalog.layers import URL, call_properties, output_ports, positional
from pnne_nb.catalog.tables import function_list, overrides
from pnne_nb.graph.schema.property_types import BoolType, ConstantType, OptionalType, PropertyType, TupleType
from pnne_nb.graph.schema.spec import NodeSpec, Port

_NAMESPACES = {"linalg_": torch.linalg, "fft_": torch.fft, "special_": torch.special}
FROM_TORCH = "torch_"
"""Begins the names of functions of ``torch`` that one of ``torch.nn.functional`` has the plain name of."""

OTHER = "Other functions"
"""Heading of functions that a later torch has and ``function_list`` does not list."""

_HIDDEN = overrides.SKIPPED - overrides.CALL_ARGUMENTS
_INTRODUCTION = 800
"""Characters at the beginning of a docstring in which it refers to the page that says more."""


def specs() -> Iterator[NodeSpec]:
    """Yield the specs of the functions and methods in ``function_list`` that the installed torch has, and of new ones."""
    for category, names in function_list.FUNCTIONS.items():
        for name in names.split():
            found = find(name)
            if found is not None:
                yield _function(name, category, *found)
    for name, function in unlisted():
        # One that cannot be read must not hide all the others.
        with contextlib.suppress(LookupError, NameError, TypeError, ValueError):
            yield _function(name, OTHER, f"{torch.nn.functional.__name__}.{name}", function)
    for category, names in function_list.METHODS.items():
        for name in names.split():
            if hasattr(Tensor, function_list.METHOD_NAMES.get(name, name)):
                yield _method(name, category)


def unlisted() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Yield the public functions of ``torch.nn.functional`` that ``function_list`` does not list: those of a later torch."""
    listed = {name for names in function_list.FUNCTIONS.values() for name in names.split()}
    for name, value in vars(torch.nn.functional).items():
        is_own = inspect.isfunction(value) and value.__module__ == torch.nn.functional.__name__
        if (
            is_own
            and name not in listed
            and not any(fnmatch.fnmatch(name, pattern) for pattern in ("_*", *function_list.NOT_FUNCTIONS))
        ):
            yield name, value


def operator(name: str) -> NodeSpec | None:
    """Return the spec of a function or method of torch's on tensors that ``function_list`` does not list, or None.

    Only what the dispatcher has a schema for, and what takes a tensor: a document may name it, and nothing of that
    reads a file.
    """
    if name.startswith("_") or not name.isidentifier():
        return None
    found, plain = find(name), name.removeprefix(FROM_TORCH)
    try:
        if found is not None and inspect.isbuiltin(found[1]):
            spec = _function(name, OTHER, *found)
        elif name.startswith(FROM_TORCH) and inspect.isbuiltin(getattr(torch, plain, None)):
            spec = _function(plain, OTHER, f"torch.{plain}", getattr(torch, plain))
            spec = msgspec.structs.replace(spec, type=name)
        elif inspect.ismethoddescriptor(getattr(Tensor, name, None)):
            spec = _method(name, OTHER)
        else:
            return None
    except (LookupError, NameError, TypeError, ValueError):
        return None
    return spec if spec.inputs else None


def find(name: str) -> tuple[str, Callable[..., Any]] | None:
    """Return the dotted name and the function of a type name, or None if torch lacks it.

    ``torch.nn.functional`` comes before ``torch`` (``softmax``, ``dropout``) but for names that are
    deprecated there (``sigmoid``); ``linalg_norm`` is ``torch.linalg.norm``.
    """
    for prefix, namespace in _NAMESPACES.items():
        if name.startswith(prefix):
            function = getattr(namespace, name.removeprefix(prefix), None)
            return None if function is None else (f"{namespace.__name__}.{name.removeprefix(prefix)}", function)
    homes = (torch, torch.nn.functional) if name in function_list.TORCH_FIRST else (torch.nn.functional, torch)
    for home in homes:
        function = getattr(home, name, None)
        if callable(function):
            return f"{home.__name__}.{name}", function
    return None


def _function(name: str, category: str, target: str, function: Callable[..., Any]) -> NodeSpec:
    if inspect.isbuiltin(function) or name in function_list.WITHOUT_OVERLOADS:
        merged = schemas.signature(
            function_list.OTHER_NAMES.get(name, name), without=function_list.WITHOUT_OVERLOADS.get(name, frozenset())
        )
        if merged is None:
            raise LookupError(f"torch has no operator schema for {target}")
        calls, outputs = list(merged.arguments), merged.outputs
    else:
        calls, outputs = _python_arguments(name, function), output_ports(name, overrides.OUTPUTS.get(name, ()))
    if name in overrides.OUTPUTS:
        outputs = output_ports(name, overrides.OUTPUTS[name])
    return _spec(name, category, target, function, calls, overrides.lookup(overrides.RESULTS, name) or outputs)


def _method(name: str, category: str) -> NodeSpec:
    method = function_list.METHOD_NAMES.get(name, name)
    function = getattr(Tensor, method)
    merged = schemas.signature(method, method=True, without=function_list.WITHOUT_OVERLOADS.get(name, frozenset()))
    if merged is None:
        merged = schemas.Signature((Argument("input", kind="tensor"),), (Port("output"),))
    outputs = overrides.lookup(overrides.RESULTS, name) or merged.outputs
    spec = _spec(name, category, method, function, list(merged.arguments), outputs)
    return msgspec.structs.replace(spec, kind="method", url=URL.format(f"torch.Tensor.{method}"))


def _spec(
    name: str,
    category: str,
    target: str,
    function: Callable[..., Any],
    calls: list[Argument],
    outputs: tuple[Port, ...],
) -> NodeSpec:
    # What stands after a hidden argument can no longer be passed by position.
    order = positional(itertools.takewhile(lambda argument: not _is_hidden(argument), calls))
    calls = [_adapted(name, argument) for argument in calls if not _is_hidden(argument)]
    first, second = itertools.tee(_docstrings(name, function))
    about = _argument_docs(name, first, {argument.name for argument in calls})
    return NodeSpec(
        type=name,
        category=category,
        kind="function",
        target=target,
        inputs=tuple(port(name, a, about.get(a.name, "")) for a in calls if a.kind is not None),
        outputs=outputs,
        properties=call_properties(name, calls, about),
        positional=order,
        doc=overrides.DOCS.get(name) or next(filter(None, map(docs.summary, second)), ""),
        url=URL.format(target),
        torch=function,
    )


def _docstrings(name: str, function: Callable[..., Any]) -> Iterator[str]:
    """Yield the docstrings that may describe a function: its own, those it refers to, and its methods'."""
    own = function.__doc__ or ""
    yield own
    methods = [getattr(Tensor, method, None) for method in (name, f"{name}_")]
    for doc in (own, *(getattr(method, "__doc__", None) or "" for method in methods)):
        if doc is not own:
            yield doc
        for reference in docs.references(doc[:_INTRODUCTION]):
            value: object = torch
            for part in reference.split("."):
                value = getattr(value, part, None)
            yield getattr(value, "__doc__", None) or ""


def _argument_docs(name: str, docstrings: Iterable[str], wanted: set[str]) -> dict[str, str]:
    about: dict[str, str] = {}
    for doc in docstrings:
        if len(about) == len(wanted):
            break
        about |= docs.arguments(doc, wanted.difference(about))
    for argument in wanted.difference(about):
        about[argument] = overrides.lookup(overrides.ARGUMENT_DOCS, name, argument) or ""
    return about


def _is_hidden(argument: Argument) -> bool:
    if argument.name == "reduce":
        # A deprecated switch of the losses, but the operation of scatter_reduce.
        return argument.type == OptionalType(BoolType())
    return argument.name.startswith("_") or argument.name in _HIDDEN


def _adapted(name: str, argument: Argument) -> Argument:
    """Return an argument with the port kind and the mode-dependent default of `overrides`."""
    if argument.name == "training":
        return msgspec.structs.replace(argument, type=overrides.MODE, default="auto")
    kind = overrides.lookup(overrides.PORT_KINDS, name, argument.name)
    return argument if kind is None else msgspec.structs.replace(argument, kind=kind)


def _python_arguments(name: str, function: Callable[..., Any]) -> list[Argument]:
    # A dispatcher on return_indices has the signature (*args, **kwargs).
    function = getattr(torch.nn.functional, f"{name}_with_indices", function)
    if name in function_list.SIGNATURES:
        function = getattr(torch.functional, function_list.SIGNATURES[name])
    found = []
    for argument in signatures.arguments(function):
        if argument.kind is None and argument.type is None:
            argument = msgspec.structs.replace(argument, **_guess(name, argument))
        if argument.kind is not None or argument.type is not None:
            found.append(argument)
    return found


def _guess(name: str, argument: Argument) -> dict[str, object]:
    """Return the type of an argument whose hint torch's scripting compiler has removed."""
    declared = overrides.lookup(overrides.TYPES, name, argument.name)
    if declared is not None:
        return {"type": declared}
    if argument.name in overrides.PER_AXIS:
        item: PropertyType = (
            signatures.property_type(float if argument.name == "output_ratio" else int) or ConstantType()
        )
        return {"type": TupleType(item, scalar=True)}
    if argument.spread or argument.name in overrides.UNTYPED_TENSORS:
        return {"kind": "tensor"}
    if isinstance(argument.default, (bool, int, float, str)):
        return {"type": signatures.property_type(type(argument.default))}
    return {}
