"""Restores a module after a run: mode, gradients, random state and buffers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from pnne_nb.errors import InspectionError
from pnne_nb.inspector.capture.hooks import HookOwner
from pnne_nb.process.random_state import preserved_random_state


@contextmanager
def preserved(*modules: nn.Module) -> Iterator[None]:
    """Restore the state of `modules` and of all random number generators afterwards, also after an error.

    Inside, every parameter's ``grad`` is None; afterwards it is the same tensor as before. Buffers that were changed in
    place get their values back, and replaced buffers their tensors.

    Raises:
        InspectionError: If a lazy layer has no parameters yet: a run would initialise it, which cannot be undone.
    """
    for root in modules:
        refuse_lazy(root)
    every = [module for root in modules for module in root.modules()]
    modes = [(module, module.training) for module in every]
    gradients = [(parameter, parameter.grad) for root in modules for parameter in root.parameters()]
    buffers = [(module, name, buffer) for module in every for name, buffer in module._buffers.items()]
    copies = {id(buffer): buffer.detach().clone() for _, _, buffer in buffers if buffer is not None}
    with preserved_random_state({parameter.device for parameter, _ in gradients}):
        try:
            for parameter, _ in gradients:
                parameter.grad = None
            yield
        finally:
            for parameter, gradient in gradients:
                parameter.grad = gradient
            for module, name, buffer in buffers:
                module._buffers[name] = buffer
                if buffer is not None:
                    _put_back(buffer, copies[id(buffer)])
            for module, mode in modes:
                module.training = mode


@contextmanager
def hooked_run(model: nn.Module, *, grad: bool) -> Iterator[HookOwner]:
    """Run `model` in this block layer by layer, uncompiled and with hooks; it is restored afterwards, see `preserved`.

    Args:
        model: The module.
        grad: Whether autograd records the run.

    Raises:
        InspectionError: If a lazy layer has no parameters yet.
    """
    with (
        preserved(model),
        torch.set_grad_enabled(grad),
        torch.compiler.set_stance("force_eager"),
        HookOwner() as hooks,
    ):
        yield hooks


def refuse_lazy(model: nn.Module) -> None:
    """Raise an error if a run would initialise a lazy layer.

    Raises:
        InspectionError: If a lazy layer has no parameters yet.
    """
    for name, module in model.named_modules():
        own = (*module._parameters.values(), *module._buffers.values())
        if any(is_lazy(tensor) for tensor in own):
            raise InspectionError(
                f"The layer {name!r} ({type(module).__name__}) has no parameters yet: its first call makes them, and"
                " inspecting must not change a model. Call the model once first: net(data)."
            )


def _put_back(buffer: Tensor, copy: Tensor) -> None:
    # An unchanged buffer is not written: the caller's autograd graph may have saved it for a backward pass.
    if buffer.device.type != "meta" and not torch.equal(buffer, copy):
        with torch.no_grad():
            buffer.copy_(copy)
