"""Which layer was running when a model raised: its error says so, and stays what it is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import final

from torch import Tensor, nn

from pnne_nb.inspector.hooks import HookOwner, in_backward, tensors_in


@contextmanager
def placed(model: nn.Module) -> Iterator[None]:
    """A block that runs `model`: an error gets a note of the layer where it happened, and what that had received."""
    with HookOwner() as hooks:
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
    """The layers that are being called, outermost first, each with what it received."""

    def __init__(self, model: nn.Module, hooks: HookOwner) -> None:
        self._stack: list[tuple[str, nn.Module, list[Tensor]]] = []
        for name, module in model.named_modules():
            hooks.on_inputs(module, partial(self._enter, name, module))
            hooks.on_output(module, self._leave)

    def why(self) -> str | None:
        if not self._stack:
            return None
        name, module, inputs = self._stack[-1]
        kind = type(module).__name__
        where = f"in layer {name!r} ({kind})" if name else f"in the model ({kind})"
        received = ", ".join(f"{_shape(one)} {str(one.dtype).removeprefix('torch.')} on {one.device}" for one in inputs)
        devices = sorted({str(parameter.device) for parameter in module.parameters()})
        owns = f"; its parameters are on {', '.join(devices)}" if devices else ""
        asks = "" if name or received else " Give its arguments as a tensor or a tuple of them, after the model."
        return f"While inspecting, {where}, which received {received or 'no tensor'}{owns}.{asks}"

    def _enter(self, name: str, module: nn.Module, args: tuple[object, ...], kwargs: dict[str, object]) -> None:
        if not in_backward():
            self._stack.append((name, module, [tensor for _, tensor in tensors_in((args, kwargs))]))

    def _leave(self, _output: object) -> None:
        if not in_backward():
            self._stack.pop()


def _shape(tensor: Tensor) -> str:
    return "nested" if tensor.is_nested else str(list(tensor.shape))
