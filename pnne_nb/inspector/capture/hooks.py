"""`HookOwner`: attaches hooks, and detaches all of them when it closes."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from types import TracebackType
from typing import final

import torch
from torch import Tensor, nn
from torch._C import _functorch
from torch.utils.hooks import RemovableHandle
from torch.utils.module_tracker import ModuleTracker

OnOutput = Callable[[object], None]
OnInputs = Callable[[tuple[object, ...], dict[str, object]], None]
OnGradient = Callable[[Tensor], None]
OnEnter = Callable[[str, tuple[object, ...], dict[str, object]], None]
OnLeave = Callable[[str, object], None]

# The public way to ask autograd whether a backward pass is running in this thread.
_backward = ModuleTracker()

# Outputs nest a few levels at most (LSTM: two); the bound ends the search in a structure that contains itself.
_DEPTH = 8


def in_backward() -> bool:
    """Return whether this thread runs a backward pass; a forward hook that is called then sees a recomputation."""
    return bool(_backward.is_bw)


def tensors_in(value: object, label: str = "", depth: int = 0) -> Iterator[tuple[str, Tensor]]:
    """Yield the tensors in a nested output with their labels: ``""`` alone, ``"0"``, ``"1.0"``, ``"logits"``."""
    if isinstance(value, Tensor):
        yield label, _unwrapped(value)
        return
    items: Iterator[tuple[object, object]]
    if depth >= _DEPTH:
        return
    if isinstance(value, Mapping):
        items = iter(value.items())
    elif isinstance(value, (tuple, list)):
        items = iter(enumerate(value))
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        items = ((field.name, getattr(value, field.name)) for field in dataclasses.fields(value))
    else:
        return
    for key, item in items:
        yield from tensors_in(item, f"{label}.{key}" if label else str(key), depth + 1)


def primary_tensor(value: object) -> Tensor | None:
    """Return the first floating or complex tensor in a nested output, else the first tensor, else None."""
    if isinstance(value, Tensor):
        return _unwrapped(value)
    first: Tensor | None = None
    for _, tensor in tensors_in(value):
        if tensor.is_floating_point() or tensor.is_complex():
            return tensor
        first = tensor if first is None else first
    return first


def _unwatched(_module: nn.Module, _first: object, _second: object) -> None: ...


def _copied_hook() -> Callable[..., None]:
    return _unwatched


class _Hook:
    """A hook that calls `_receive`; copies and pickles of the module get one that does nothing."""

    __slots__ = ("_receive",)

    def __init__(self, receive: Callable[..., None]) -> None:
        self._receive = receive

    def __reduce__(self) -> tuple[Callable[[], Callable[..., None]], tuple[()]]:
        return _copied_hook, ()


@final
class _OutputHook(_Hook):
    __slots__ = ()

    def __call__(self, _module: nn.Module, _args: object, output: object) -> None:
        # torch.compile would include the hook in its code, which would call it even after its removal.
        if not torch.compiler.is_compiling():
            self._receive(output)


@final
class _InputsHook(_Hook):
    __slots__ = ()

    def __call__(self, _module: nn.Module, args: tuple[object, ...], kwargs: dict[str, object]) -> None:
        if not torch.compiler.is_compiling():
            self._receive(args, kwargs)


def _unwrapped(tensor: Tensor) -> Tensor:
    """Return the batched tensor that the wrappers of ``torch.vmap`` and ``torch.func.grad`` hold."""
    while _functorch.is_functorch_wrapped_tensor(tensor):
        tensor = _functorch.get_unwrapped(tensor)
    return tensor


@final
class HookOwner:
    """Attaches hooks, and detaches all of them on `close`.

    Gradients come from hooks on tensors. Full backward hooks on modules cost far more, and raise an error if an in-place
    module follows. A tensor's hook that is attached before an in-place change receives the gradient of the value before it.
    """

    def __init__(self) -> None:
        self._handles: list[RemovableHandle] = []

    def __enter__(self) -> HookOwner:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __len__(self) -> int:
        return len(self._handles)

    def on_output(self, module: nn.Module, receive: OnOutput) -> None:
        """Call `receive` with each output of `module`."""
        self._handles.append(module.register_forward_hook(_OutputHook(receive)))

    def on_inputs(self, module: nn.Module, receive: OnInputs) -> None:
        """Call `receive` with the positional and keyword arguments of each call, before the module may change them."""
        self._handles.append(module.register_forward_pre_hook(_InputsHook(receive), with_kwargs=True))

    def on_calls(self, model: nn.Module, enter: OnEnter, leave: OnLeave) -> None:
        """Call `enter` and `leave` with the path of each layer, around each of its calls."""
        for name, module in model.named_modules():
            self.on_inputs(module, partial(enter, name))
            self.on_output(module, partial(leave, name))

    def on_gradient(self, tensor: Tensor, receive: OnGradient) -> None:
        """Call `receive` with the gradient of `tensor` in each backward pass, if it requires one."""
        if tensor.requires_grad:
            self._handles.append(tensor.register_hook(receive))  # type: ignore[no-untyped-call]  # torch leaves it untyped

    def close(self) -> None:
        """Detach every hook; may be called twice."""
        while self._handles:
            self._handles.pop().remove()
