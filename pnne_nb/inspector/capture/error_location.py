"""Adds a note to a model's error that names the running layer; the type of the error stays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import final

from torch import Tensor, nn

from pnne_nb.inspector.capture.call_arguments import fitting
from pnne_nb.inspector.capture.hooks import HookOwner, in_backward, tensors_in


@contextmanager
def placed(model: nn.Module, args: tuple[object, ...], kwargs: Mapping[str, object]) -> Iterator[None]:
    """Add a note to an error that `model` raises in this block: the layer, and the tensors that it received.

    Raises:
        InspectionError: If ``forward`` does not take the arguments.
    """
    with fitting(model, args, kwargs), HookOwner() as hooks:
        running = _Running(model, hooks)
        try:
            yield
        except Exception as error:
            note = running.why()
            if note is not None:
                error.add_note(note)
            raise


@final
class _Running:
    """The stack of layers that are being called, each with the tensors that it received."""

    def __init__(self, model: nn.Module, hooks: HookOwner) -> None:
        self._stack: list[tuple[str, nn.Module, list[Tensor]]] = []
        self._modules = dict(model.named_modules())
        hooks.on_calls(model, self._enter, self._leave)

    def why(self) -> str | None:
        if not self._stack:
            return None
        name, module, inputs = self._stack[-1]
        kind = type(module).__name__
        where = f"in layer {name!r} ({kind})" if name else f"in the model ({kind})"
        received = ", ".join(map(described, inputs))
        devices = sorted({str(parameter.device) for parameter in module.parameters()})
        owns = f"; its parameters are on {', '.join(devices)}" if devices else ""
        return f"While inspecting, {where}, which received {received or 'no tensor'}{owns}."

    def _enter(self, name: str, args: tuple[object, ...], kwargs: dict[str, object]) -> None:
        if not in_backward():
            self._stack.append((name, self._modules[name], [tensor for _, tensor in tensors_in((args, kwargs))]))

    def _leave(self, _name: str, _output: object) -> None:
        if not in_backward():
            self._stack.pop()


def described(tensor: Tensor) -> str:
    """Return shape, dtype and device of a tensor for a message."""
    shape = "nested" if tensor.is_nested else str(list(tensor.shape))
    return f"{shape} {str(tensor.dtype).removeprefix('torch.')} on {tensor.device}"
