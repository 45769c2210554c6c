"""Runs a module as written, with hooks that see its layers, and restores it afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from pnne_nb.errors import InspectionError, expect
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
    """Run `model` in this block layer by layer, uncompiled and with hooks, and with `grad` recorded by autograd.

    It is restored afterwards, see `preserved`.

    Raises:
        InspectionError: If a lazy layer has no parameters yet.
    """
    with preserved(model), torch.set_grad_enabled(grad), torch.compiler.set_stance("force_eager"), HookOwner() as hooks:
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


def uncompiled(model: nn.Module) -> nn.Module:
    """Return the module that ``torch.compile(module)`` wraps, or the module itself.

    Raises:
        ArgumentError: It is no module.
    """
    expect(
        model,
        nn.Module,
        "net",
        "an nn.Module",
        "pn.compile(graph) makes one of a graph; of a training, write pn.summary(engine.model, x) and the like.",
    )
    return dict(model.named_children()).get("_orig_mod", model)


def is_compiled(model: nn.Module) -> bool:
    """Return whether `model` or a part of it was compiled by ``torch.compile``."""
    return any(_compiled(module) for module in model.modules())


def why_not_hookable(model: nn.Module) -> str | None:
    """Return why hooks cannot see the calls of layers inside `model`, or None if they can."""
    for name, module in model.named_modules():
        where = f"The layer {name!r}" if name else "The model"
        if isinstance(module, torch.jit.ScriptModule):
            return (
                f"{where} is a TorchScript module: its layers run outside Python and hooks on them are ignored."
                " Inspect the module that it was made from."
            )
        if _compiled(module):
            return (
                f"{where} was compiled by torch.compile: its layers run fused and hooks on them are ignored."
                " Watch the module before compiling it; parameters, parameter_gradients, updates and gradient"
                " norms can be watched on compiled modules too."
            )
    return None


def _compiled(module: nn.Module) -> bool:
    # A wrapper made by torch.compile(module), or the mark of module.compile().
    return "_orig_mod" in dict(module.named_children()) or module._compiled_call_impl is not None
