"""Records the contexts of traced code: ``with torch.no_grad():``, ``with torch.autocast("cuda", enabled=False):``.

Most contexts show in the state of torch: whether it records gradients, whether it casts. Contexts that change nothing in
the example, such as disabling an autocast that is not active, are known because the traced code gets context managers
of this module, which record when they are entered.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator
from itertools import groupby
from typing import Any, NamedTuple, Self, final

import torch
from torch.overrides import _get_current_function_mode_stack
from torch.utils import checkpoint as checkpointing

from pnne_nb.compiler.importing.draft.draft import UntranslatableError
from pnne_nb.compiler.ir.program import NOWHERE, Inside
from pnne_nb.graph.schema.structural import CONTEXTS, DEVICES

_GRADIENTS = (torch.no_grad, torch.enable_grad, torch.set_grad_enabled, torch.inference_mode)
_AUTOCASTS = {
    torch.autocast: "",
    torch.cuda.amp.autocast: "cuda",  # noqa: TID251  # networks still call it so
    torch.cpu.amp.autocast_mode.autocast: "cpu",
}
"""Keyed with the device type where the class implies it."""

_KINDS: tuple[type, ...] = (*_GRADIENTS, *_AUTOCASTS)

_OTHER_DEVICES = ("xpu", "mps")
"""Kinds of devices whose autocast no node can run inside."""


class DeviceKind(str):
    """Device type of a traced tensor; a comparison with it is an assumption, because the network can be moved."""

    __slots__ = ("_compared",)
    _compared: Callable[[], None]

    def __new__(cls, kind: str, compared: Callable[[], None]) -> Self:
        made = super().__new__(cls, kind)
        made._compared = compared
        return made

    def __eq__(self, other: object) -> bool:
        if other in ("cpu", "cuda"):
            self._compared()
        return str.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = str.__hash__


class _State(NamedTuple):
    """The settings of torch that nodes can have too."""

    grad: bool
    inference: bool
    casts: tuple[str, ...]  # by device: an element type, or nothing


def _state() -> _State:
    casts = (
        str(torch.get_autocast_dtype(device)).removeprefix("torch.") if torch.is_autocast_enabled(device) else ""
        for device in DEVICES
    )
    return _State(torch.is_grad_enabled(), torch.is_inference_mode_enabled(), tuple(casts))


def _others() -> dict[str, object]:
    """Return the other settings of torch, by their names in messages."""
    stack = _get_current_function_mode_stack()  # type: ignore[no-untyped-call]  # torch does not say
    own = [mode for mode in stack if not type(mode).__module__.startswith(_PACKAGE)]
    kernels: Any = torch.backends.cuda
    return {
        "autocast": [torch.is_autocast_enabled(device) for device in _OTHER_DEVICES],
        "mode for torch's functions": list(map(id, own)),
        "mode for torch's operators": torch._C._len_torch_dispatch_stack(),
        "default element type": torch.get_default_dtype(),
        "choice of attention's kernels": (
            kernels.flash_sdp_enabled(), kernels.mem_efficient_sdp_enabled(), kernels.math_sdp_enabled(),
        ),
        "choice of deterministic algorithms": torch.are_deterministic_algorithms_enabled(),
        "precision of matrix products": torch.get_float32_matmul_precision(),
        "treatment of tensors saved for the backward pass": _hooks(),
    }  # fmt: skip


def _hooks() -> object:
    """Return the hooks that pack tensors for the backward pass, except those of a checkpoint, which nodes can have."""
    found: Any = torch._C._autograd._top_saved_tensors_default_hooks(True)
    code = getattr(found[0], "__code__", None) if found is not None else None
    return None if code is not None and code.co_filename == checkpointing.__file__ else found


_PACKAGE = "pnne_nb.compiler.importing"


@final
class ActiveContexts:
    """The contexts that traced code has entered since it was called."""

    def __init__(self) -> None:
        self._known: Inside = NOWHERE
        self._state = _state()  # inside the known contexts
        self._others = _others()

    def inside(self) -> Inside:
        """Return the active contexts.

        Raises:
            UntranslatableError: If no node can be in one of them.
        """
        others = _others()
        if others != self._others:
            what = next(name for name in others if others[name] != self._others[name])
            raise UntranslatableError(
                f"it computes under {'an' if what[0] in 'aeiou' else 'a'} {what} of its own, which no node can do; put "
                "that around the call of the whole model instead"
            )
        state = _state()
        found = self._known if state == self._state else (*self._known, *_differences(self._state, state))
        for name in found:
            if name not in CONTEXTS:
                raise UntranslatableError(f"it runs inside {name}, and no node can")
        return found

    def seen(self, value: Any) -> Any:
        """Return the replacement of a torch context or its class for traced code; None for anything else."""
        if isinstance(value, type):
            return self._making(value) if value in _KINDS else None
        if isinstance(value, _KINDS):
            return _Noted(value, _name_of(value), self)
        owner = getattr(value, "__self__", None) if isinstance(value, types.MethodType) else None
        if isinstance(owner, _KINDS) and value.__name__ == "clone":  # which torch's decorators call
            return lambda: _Noted(value(), _name_of(owner), self)
        return None

    def enter(self, name: Inside) -> tuple[Inside, _State]:
        """Record that a context is entered; return the previous state."""
        before = self._known, self._state
        self._known, self._state = name, _state()
        return before

    def leave(self, before: tuple[Inside, _State]) -> None:
        """Record that a context is left."""
        self._known, self._state = before

    def _making(self, kind: type) -> Callable[..., Any]:
        def make(*args: Any, **kwargs: Any) -> Any:
            if kind in _GRADIENTS:
                args = tuple(map(bool, args)) if not any(map(callable, args)) else args
                kwargs = {key: bool(value) for key, value in kwargs.items()}
                made = kind(*args, **kwargs)
                return _Noted(made, _name_of(made), self) if isinstance(made, _KINDS) else made
            return _Noted(kind(*args, **kwargs), _autocast(kind, *args, **kwargs), self)

        return make


@final
class _Noted:
    """A context that records when it is entered and left."""

    def __init__(self, context: Any, names: Inside, surroundings: ActiveContexts) -> None:
        self._context = context
        self._names = names
        self._surroundings = surroundings

    def __enter__(self) -> Any:
        outside = self._surroundings.inside()
        found = self._context.__enter__()
        # What is entered again at once is one context.
        names = tuple(name for name, _ in groupby((*outside, *self._names)))
        self._before = self._surroundings.enter(names)
        return found

    def __exit__(self, *error: object) -> Any:
        try:
            return self._context.__exit__(*error)
        finally:
            self._surroundings.leave(self._before)

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any, **kwargs: Any) -> Any:
            with self:
                return function(*args, **kwargs)

        return run


def _name_of(context: Any) -> Inside:
    """Return the names of a context."""
    if isinstance(context, torch.no_grad):
        return ("no_grad",)
    if isinstance(context, torch.enable_grad):
        return ("enable_grad",)
    if isinstance(context, torch.set_grad_enabled):
        return ("enable_grad" if context.mode else "no_grad",)
    if isinstance(context, torch.inference_mode):
        return ("inference_mode" if context.mode else "a tensor mode that leaves inference_mode",)
    on = context._enabled
    if not on and context.device == "cuda" and not torch.cuda.is_available():
        return ("an autocast for a device that is not here, so that nobody can tell whether it is on",)
    return (f"autocast {context.device} {str(context.fast_dtype).removeprefix('torch.') if on else 'off'}",)


def _autocast(kind: type, *args: Any, **kwargs: Any) -> Inside:
    """Return the names of an autocast with these arguments, on any machine."""
    device = _AUTOCASTS[kind]
    order = ("enabled", "dtype", "cache_enabled") if device else ("device_type", "dtype", "enabled", "cache_enabled")
    given = {**dict(zip(order, args, strict=False)), **kwargs}
    device = device or given["device_type"]
    if not given.get("enabled", True):
        # It ends any autocast of the tensor's device.
        return tuple(f"autocast {each} off" for each in (DEVICES if isinstance(device, DeviceKind) else (device,)))
    if isinstance(device, DeviceKind):
        return ("an autocast for the device that a tensor happens to lie on",)
    dtype = given.get("dtype")
    return (f"autocast {device}" + (f" {str(dtype).removeprefix('torch.')}" if dtype is not None else ""),)


def _differences(before: _State, now: _State) -> Iterator[str]:
    """Yield the contexts that lead from one state to another."""
    if now.inference != before.inference:
        yield "inference_mode" if now.inference else "a tensor mode that leaves inference_mode"
    elif now.grad != before.grad:
        yield "enable_grad" if now.grad else "no_grad"
    for device, was, found in zip(DEVICES, before.casts, now.casts, strict=True):
        if found != was:
            yield f"autocast {device} {found or 'off'}"
