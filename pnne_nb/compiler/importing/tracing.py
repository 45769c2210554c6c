"""Traces one ``forward`` without entering the submodules that it calls.

Each module is traced alone, with what its caller passes: values that the caller computes become placeholders,
constants stay constants. A branch on a constant argument therefore goes the way it goes in the original.
"""

from __future__ import annotations

import dis
import functools
import inspect
import operator
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, final

import torch
from torch import fx, nn

from pnne_nb.compiler.importing.drafting import UntranslatableError

MODE = "training"
"""Target of the node that stands for ``self.training``."""

_CREATORS = ("arange", "empty", "eye", "full", "linspace", "ones", "rand", "randint", "randn", "randperm", "zeros")


@final
class Slot:
    """A place in a call's arguments where a computed value arrives.

    Attributes:
        name: Of the argument.
        tensor: Whether the value is a tensor.
    """

    def __init__(self, name: str, *, tensor: bool) -> None:
        self.name = name
        self.tensor = tensor


Arguments = tuple[tuple[Any, ...], dict[str, Any]]
"""Positional and keyword arguments, with `Slot` where values arrive."""


def trace(module: nn.Module, arguments: Arguments) -> tuple[fx.Graph, dict[str, Slot]]:
    """Record what a module's ``forward`` does.

    Args:
        module: A module that may be changed for the time of the call.
        arguments: What it is called with.

    Returns:
        The recorded calls, and the slot of each placeholder by its target.

    Raises:
        UntranslatableError: If it cannot be recorded.
    """
    if "forward" in vars(module):
        raise UntranslatableError("its forward method was replaced on the instance")
    tracer = _Tracer(arguments)
    original = type(module)
    try:
        with _creation_recorded(tracer):
            # F.dropout(x, p, self.training) would otherwise write the mode of this very moment into the graph.
            module.__class__ = type(original.__name__, (original,), {"training": property(lambda _: tracer.mode())})
            with _unassigned(module):
                try:
                    return tracer.trace(module), tracer.slots
                finally:
                    module.__class__ = original
    except UntranslatableError:
        raise
    except Exception as error:
        raise UntranslatableError(_reason(error)) from error


def _reason(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    text = lines[0] if lines else type(error).__name__
    if isinstance(error, fx.proxy.TraceError) or "symbolically traced" in text:
        return f"its forward depends on the values of its inputs ({text})"
    return f"its forward cannot be traced: {text}"


@contextmanager
def _unassigned(module: nn.Module) -> Iterator[None]:
    """Refuse a forward that assigns to the module, and take the assignment back: a graph has no place for it."""
    stores = [vars(module), module._parameters, module._buffers, module._modules]
    before: list[dict[str, Any]] = [dict(store) for store in stores]
    try:
        yield
    finally:
        changed = {
            name
            for store, old in zip(stores, before, strict=True)
            for name in {*store, *old}
            if store.get(name) is not old.get(name) and not name.startswith("_tensor_constant")
        }
        for store, old in zip(stores, before, strict=True):
            for name in changed & {*store, *old}:
                if name in old:
                    store[name] = old[name]
                else:
                    del store[name]
    if changed:
        raise UntranslatableError(f"its forward assigns to {', '.join(sorted(changed))}")


class _Proxy(fx.Proxy):
    """A traced value that also records ``x += y``, of which torch's own makes ``x = x + y``."""

    def __iadd__(self, other: Any) -> Any:
        return self.tracer.create_proxy("call_function", operator.iadd, (self, other), {})

    def __isub__(self, other: Any) -> Any:
        return self.tracer.create_proxy("call_function", operator.isub, (self, other), {})

    def __imul__(self, other: Any) -> Any:
        return self.tracer.create_proxy("call_function", operator.imul, (self, other), {})

    def __itruediv__(self, other: Any) -> Any:
        return self.tracer.create_proxy("call_function", operator.itruediv, (self, other), {})


class _Tracer(fx.Tracer):
    proxy_buffer_attributes = True

    def __init__(self, arguments: Arguments) -> None:
        super().__init__()
        self._arguments = arguments
        self.slots: dict[str, Slot] = {}

    def proxy(self, node: fx.Node) -> fx.Proxy:
        return _Proxy(node, self)

    def mode(self) -> fx.Proxy:
        return self.create_proxy("get_attr", MODE, (), {})

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:  # noqa: ARG002  # torch's signature
        return True

    def call_module(
        self, m: nn.Module, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        if self.submodule_paths is not None and m not in self.submodule_paths:
            # Made on the way, like a slice of a Sequential: what it calls has a path, itself it has none.
            return forward(*args, **kwargs)
        return super().call_module(m, forward, args, kwargs)

    def create_args_for_root(
        self,
        root_fn: Callable[..., Any],
        is_module: bool,  # noqa: ARG002  # torch's signature
        concrete_args: Any = None,  # noqa: ARG002  # torch's signature
    ) -> tuple[Callable[..., Any], list[Any]]:
        args, kwargs = fx.node.map_aggregate(self._arguments, self._placeholder)

        @functools.wraps(root_fn)
        def run(root: nn.Module) -> Any:
            return root_fn(root, *args, **kwargs)

        return run, [self.root]

    def _placeholder(self, value: Any) -> Any:
        if not isinstance(value, Slot):
            return value
        proxy = self.create_proxy("placeholder", f"slot{len(self.slots)}", (), {})
        self.slots[str(proxy.node.target)] = value
        return proxy

    def to_bool(self, obj: fx.Proxy) -> bool:
        # An assertion checks the input and decides nothing else.
        frame = inspect.currentframe()
        while frame is not None and frame.f_globals.get("__name__") in (__name__, "torch.fx.proxy"):
            frame = frame.f_back
        if frame is not None:
            rest = [step for step in dis.get_instructions(frame.f_code) if step.offset >= frame.f_lasti][:3]
            if any(step.opname == "LOAD_ASSERTION_ERROR" for step in rest):
                return True
        return super().to_bool(obj)


@contextmanager
def _creation_recorded(tracer: fx.Tracer) -> Iterator[None]:
    """Record ``torch.arange(n)`` and its like, which would otherwise run at once, or refuse a traced size."""
    originals = {name: getattr(torch, name) for name in _CREATORS}

    def recording(function: Callable[..., Any]) -> Callable[..., Any]:
        def record(*args: Any, **kwargs: Any) -> Any:
            return tracer.create_proxy("call_function", function, args, kwargs)

        return record

    for name, function in originals.items():
        setattr(torch, name, recording(function))
    try:
        yield
    finally:
        for name, function in originals.items():
            setattr(torch, name, function)
