"""Detects compiled and TorchScript modules, which silently ignore hooks on their layers."""

from __future__ import annotations

import torch
from torch import nn

from pnne_nb.errors import expect


def uncompiled(model: nn.Module) -> nn.Module:
    """Return the module that ``torch.compile(module)`` wraps, or the module itself.

    Raises:
        ArgumentError: It is no module.
    """
    expect(model, nn.Module, "net", "an nn.Module", "pn.compile(graph) makes one of a graph.")
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
