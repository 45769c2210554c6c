"""Runs a module once in each mode and records the arguments and results of each submodule.

Of tensors it keeps only shape, element type and device, as tensors on the meta device.
"""

from __future__ import annotations

import contextlib
import copy
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cached_property
from typing import Any, NamedTuple, final

import torch
from torch import nn
from torch.utils import _pytree as pytree

from pnne_nb.compiler.analysis.example_inputs import sizes_among
from pnne_nb.compiler.analysis.nested_values import copied
from pnne_nb.compiler.importing.draft.draft import UntranslatableError
from pnne_nb.compiler.importing.draft.source_lines import module_at, with_line
from pnne_nb.compiler.importing.tracing.call_site import failed_at
from pnne_nb.compiler.importing.tracing.objects import is_made, rebuilt
from pnne_nb.compiler.importing.tracing.proxies import UNKNOWN
from pnne_nb.compiler.module.call_errors import describe
from pnne_nb.compiler.shapes.autocast import casting, on_cpu
from pnne_nb.compiler.weights.deepcopy import duplicate
from pnne_nb.errors import CompileError, Diagnostic
from pnne_nb.process.random_state import private_random_state


class Types(NamedTuple):
    """Element types other than the example's in which a module may be called.

    Attributes:
        dtype: That of its tensors, after ``.half()``; with `autocast`, that of an autocast around the call.
        autocast: Whether it is called inside an autocast, with its own tensors as they are.
    """

    dtype: torch.dtype
    autocast: bool = False

    @property
    def inside(self) -> tuple[str, ...]:
        """The context around the call. The element types that an autocast gives are those of the CPU's on any device."""
        return (f"autocast cpu {str(self.dtype).removeprefix('torch.')}",) if self.autocast else ()

    def of(self, value: Any) -> Any:
        """Return a tensor of the module or of a call as it then is; anything else as it is."""
        is_number = isinstance(value, torch.Tensor) and value.layout == torch.strided and value.is_floating_point()
        return value.to(self.dtype) if is_number and not self.autocast else value


OTHER_TYPES = (
    Types(torch.float32), Types(torch.bfloat16), Types(torch.float16), Types(torch.float64),
    Types(torch.bfloat16, autocast=True), Types(torch.float16, autocast=True),
)  # fmt: skip
"""What code that asks for element types is drawn for, next to the example's."""


class EndlessError(Exception):
    """A module makes more calls than can be kept."""


@dataclass(eq=False)
class ObservedCall:
    """One call of one module, with the calls that it made.

    Attributes:
        path: The path of the module.
        args: Arguments by position.
        kwargs: Arguments by name.
        result: The returned value.
        inner: The calls that it made, in order.
        failed: Whether it raised an exception.
        count: How often the module had been called before.
        elsewhere: The same calls in other element types.
    """

    path: str
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    result: Any = UNKNOWN
    inner: list[ObservedCall] = field(default_factory=list)
    failed: bool = False
    count: int = 0
    elsewhere: OtherCalls | None = None

    def as_of(self, types: Types, *, training: bool) -> ObservedCall | None:
        """Return this call in other element types, or None if the module has no such call then."""
        found = self.elsewhere.calls(types, training=training) if self.elsewhere is not None else {}
        return found.get((self.path, self.count))

    @cached_property
    def calls(self) -> dict[str, list[ObservedCall]]:
        """The calls that it made, by path; known once it has returned."""
        found: dict[str, list[ObservedCall]] = {}
        for frame in self.inner:
            found.setdefault(frame.path, []).append(frame)
        return found


MAX_CALLS = 100_000
"""Calls that one call of a module may make; an endless loop would fill the memory with their records."""

ObservedCalls = dict[bool, ObservedCall]
"""A call in training mode (True) and in evaluation mode; one of them may be missing."""


def observe(
    net: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], tell: Callable[[str], None] = lambda _path: None
) -> ObservedCalls:
    """Call `net` in evaluation mode, and in training mode, without data where that suffices.

    Args:
        net: The module; it is not changed.
        args: Arguments by position.
        kwargs: Arguments by name.
        tell: Called with the path of each module that is called.

    Raises:
        CompileError: If it can be called in neither mode.
    """
    frames: ObservedCalls = {}
    failure: Exception | None = None
    others = OtherCalls(net, args, kwargs)
    try:
        frames[False] = _call(duplicate(net), args, kwargs, tell, training=False)
    except EndlessError as error:
        raise CompileError(f"{type(net).__name__} cannot be imported: {failed_at(error)[1]}") from None
    except Exception as error:  # noqa: BLE001  # whatever it is, the other mode may work
        failure = error
        # It may need gradients; functions such as torch.cond compile their arguments, and refuse watched ones.
        for recorded in (True, False):
            with contextlib.suppress(Exception):
                again = duplicate(net)
                frames[False] = _call(again, args, kwargs, tell, training=False, parts=recorded, recorded=recorded)
                break
    try:
        if is_recurrent(net):
            frames[True] = _call(duplicate(net), args, kwargs, tell, training=True)
        else:
            frames[True] = _call(duplicate(net, outlined), outlined(args), outlined(kwargs), tell, training=True)
    except Exception:  # noqa: BLE001  # something depends on the data
        for recorded in (False, True):
            try:
                frames[True] = _call(duplicate(net), args, kwargs, tell, training=True, recorded=recorded)
                break
            except Exception as error:  # noqa: BLE001  # as above
                failure = failure or error
    for frame in frames.values():
        for each in _within(frame):
            each.elsewhere = others
    if False in frames or (frames and failure is None):
        return frames
    if True in frames:
        with contextlib.suppress(Exception):
            # Without data, it may accept arguments that it refuses.
            return {True: _call(duplicate(net), args, kwargs, tell, training=True)}
    shown = ", ".join([*map(describe, args), *(f"{name}={describe(value)}" for name, value in kwargs.items())])
    path = innermost_failure(observe_failing(net, args, kwargs)).path
    where = f"{path}: " if path else ""
    said = with_line(failed_at(failure)[1], module_at(net.get_submodule(path)))
    message = f"{type(net).__name__} cannot be called with ({shown}): {where}{said.rstrip('.')}."
    sizes = sizes_among(args)
    hint = (
        "Pass an example of its input: args=(x,), or its shape: input_size=(2, 3)."
        if not args and not kwargs
        else f"args are inputs, not sizes: write input_size={sizes!r}."
        if sizes is not None
        else "Pass args and kwargs that the module takes; with partial=True, the node that fails is shown in a drawing."
    )
    if any(module._forward_hooks or module._forward_pre_hooks for module in net.modules()):
        hint += " Or its hooks, which still speak of the original, are in the way of calling a copy of it: remove them."
    found = Diagnostic(code="bad-inputs", message=message, node=path or None, hint=hint)
    raise CompileError(f"{message} {hint}", [found]) from failure


def _within(call: ObservedCall) -> Iterator[ObservedCall]:
    yield call
    for inner in call.inner:
        yield from _within(inner)


def is_recurrent(net: nn.Module) -> bool:
    """Return whether a module has recurrent layers, which take longer without data: torch computes each step in Python then."""
    return any(isinstance(each, nn.RNNBase) for each in net.modules())


@final
class OtherCalls:
    """The calls of a module in other element types, observed where that is asked for; without data, so in no time.

    Args:
        net: The module; it is not changed.
        args: Arguments by position.
        kwargs: Arguments by name.
    """

    def __init__(self, net: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._net = net
        self._given = args, kwargs
        self._seen: dict[tuple[Types, bool], dict[tuple[str, int], ObservedCall]] = {}

    def calls(self, types: Types, *, training: bool) -> dict[tuple[str, int], ObservedCall]:
        """Return the calls by path and number; none if the module cannot be called so."""
        key = types, training
        if key not in self._seen:
            self._seen[key] = {}
            # Something may depend on the data.
            for observed in (self._real,) if is_recurrent(self._net) else (self._outlined, self._real):
                with contextlib.suppress(Exception):
                    calls = _within(observed(types, training=training))
                    self._seen[key] = {(each.path, each.count): each for each in calls}
                    break
        return self._seen[key]

    def _outlined(self, types: Types, *, training: bool) -> ObservedCall:
        net = _typed(duplicate(self._net, outlined), types)
        args, kwargs = pytree.tree_map(types.of, outlined(self._given))
        if not types.autocast:
            return _call(net, args, kwargs, lambda _path: None, training=training)
        with casting(types.inside):
            args, kwargs = on_cpu((args, kwargs))
            call = _call(duplicate(net, on_cpu), args, kwargs, lambda _path: None, training=training)
        for each in _within(call):
            each.args, each.kwargs, each.result = map(outlined, (each.args, each.kwargs, each.result))
        return call

    def _real(self, types: Types, *, training: bool) -> ObservedCall:
        net = _typed(duplicate(self._net), types)
        args, kwargs = pytree.tree_map(types.of, self._given)
        device = next((each.device.type for each in net.parameters()), "cpu")
        with torch.autocast(device, types.dtype) if types.autocast else contextlib.nullcontext():
            return _call(net, args, kwargs, lambda _path: None, training=training)


def _typed(net: nn.Module, types: Types) -> nn.Module:
    # A module may have a method of its own that does more than convert its tensors.
    names = {torch.float32: "float", torch.float64: "double", torch.float16: "half", torch.bfloat16: "bfloat16"}
    return net if types.autocast else getattr(net, names[types.dtype])()


def observe_failing(net: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> ObservedCall:
    """Call a module that fails, in evaluation mode, and return the calls until then."""
    root = ObservedCall("")
    with contextlib.suppress(Exception):
        _call(duplicate(net), args, kwargs, lambda _path: None, training=False, root=root)
    return root.inner[0] if root.inner else ObservedCall("", failed=True)


def innermost_failure(call: ObservedCall) -> ObservedCall:
    """Return the innermost call that failed."""
    while call.inner and call.inner[-1].failed:
        call = call.inner[-1]
    return call


def _call(
    net: nn.Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    tell: Callable[[str], None],
    *,
    training: bool,
    root: ObservedCall | None = None,
    parts: bool = True,
    recorded: bool = False,
) -> ObservedCall:
    root = root or ObservedCall("")
    stack = [root]
    watched = []
    counts: Counter[str] = Counter()

    def observed(forward: Callable[..., Any], path: str) -> Callable[..., Any]:
        def run(*args: Any, **kwargs: Any) -> Any:
            tell(path)
            frame = ObservedCall(path, outlined(args), outlined(kwargs), count=counts[path])
            counts[path] += 1
            if len(stack[-1].inner) >= MAX_CALLS:
                raise EndlessError(f"{path} is called more than {MAX_CALLS:,} times in one call; does the loop end?")
            stack[-1].inner.append(frame)
            stack.append(frame)
            try:
                result = forward(*args, **kwargs)
            except Exception:
                frame.failed = True
                raise
            frame.result = outlined(result)
            stack.pop()
            return result

        return run

    for path, module in net.named_modules():
        if "forward" not in vars(module) and (parts or not path):
            vars(module)["forward"] = observed(module.forward, path)
            watched.append(module)
    given = copied((args, kwargs))
    try:
        with private_random_state(), torch.set_grad_enabled(recorded):
            net.train(training)(*given[0], **given[1])
    finally:
        for module in watched:  # a module that holds its own method is a cycle, whose memory is freed late
            vars(module).pop("forward", None)
    return root.inner[0] if root.inner else ObservedCall("")


def outlined(value: Any) -> Any:
    """Return a value with meta tensors for its tensors; `UNKNOWN` for what needs data."""
    if isinstance(value, torch.Tensor):
        if value.layout != torch.strided or value.is_quantized:
            return UNKNOWN
        return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="meta")
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        try:
            return type(value)(*map(outlined, value))
        except Exception:  # noqa: BLE001  # a class may refuse any part
            return UNKNOWN
    if isinstance(value, (tuple, list)) and type(value) in (tuple, list):
        return type(value)(map(outlined, value))
    if isinstance(value, dict) and not is_dataclass(value):
        return {key: outlined(each) for key, each in value.items()}
    if is_made(value):
        with contextlib.suppress(UntranslatableError):  # of too many parts
            return rebuilt(value, outlined)
    if is_dataclass(value) and not isinstance(value, type):
        return with_fields(value, {name: outlined(each) for name, each in fields_of(value).items()})
    return value


def structure_of(value: Any) -> Any:
    """Return how a value is built up, by which calls of one module differ; objects are only named."""
    if isinstance(value, (tuple, list)):
        return (type(value).__name__, *map(structure_of, value))
    if isinstance(value, dict):
        return {key: structure_of(each) for key, each in value.items()}
    return value if value is None or type(value) in (bool, str) else type(value).__name__


def fields_of(value: Any) -> dict[str, Any]:
    """Return the fields of a dataclass object by name."""
    return {field.name: getattr(value, field.name) for field in fields(value)}


def with_fields(value: Any, new: dict[str, Any]) -> Any:
    """Return an object of the same dataclass with other field values."""
    changed = copy.copy(value)
    for name, each in new.items():
        if getattr(value, name) is not each:
            object.__setattr__(changed, name, each)
            if isinstance(changed, dict) and name in changed:
                dict.__setitem__(changed, name, each)
    return changed
