"""How a number that a function of a compiled graph returned came about: its line, run again in float64."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

import torch
from torch import Tensor, nn

from pnne_nb.compiler.analysis.interpreter import NodeExecution
from pnne_nb.graph.model.node import Node
from pnne_nb.inspector.capture.hooks import primary_tensor
from pnne_nb.inspector.questions.formulas import FORMULAS, Formula, Index, linear

_LAYERS: Final = {kind.__name__.lower(): kind for kind in FORMULAS if kind is not nn.Linear}
"""Layers that compute what a function of their name does: ``F.relu`` is what ``nn.ReLU`` computes."""


def function_formula(step: NodeExecution, node: Node, index: Index) -> Formula:
    """Return the formula of a function at one place of its result.

    That of the layer of the same name; a sum of products where the function is linear in one of its operands; or else its
    line in the source, with those numbers of its operands on which the result depends.

    Args:
        step: The call.
        node: Its node.
        index: The place.
    """
    values = {name: value for name, value in step.inputs.items() if isinstance(value, Tensor)}
    real = {name: value for name, value in values.items() if value.is_floating_point()}
    layer = _LAYERS.get(node.type.removeprefix("torch_").replace("_", ""))
    if layer is not None and len(values) == 1:
        with suppress(TypeError, AttributeError):  # the function takes other arguments than the layer
            return FORMULAS[layer](layer(**node.properties), index, *values.values())
    for name, value in real.items():

        def at(x: Tensor, name: str = name) -> Tensor:
            return _again(step, real | {name: x})

        found = linear(at, index, value)
        if found is not None:
            terms = tuple((words.replace("input", name, 1), product) for words, product in found.terms)
            return replace(found, text=f"{_line(step)} = Σ {name} · weight", terms=terms)
    followed = {name: value.detach().double().requires_grad_() for name, value in real.items()}
    with torch.enable_grad():
        result = _again(step, followed)[index]
    operands = {name: value for name, value in values.items() if name not in real}
    if result.requires_grad:
        gradients = torch.autograd.grad(result, list(followed.values()), allow_unused=True)
        for (name, value), gradient in zip(real.items(), gradients, strict=True):
            if gradient is not None:
                used = value.double()[gradient != 0]
                operands[name] = used.reshape(()) if used.numel() == 1 else used
    scale = max((float(value.abs().max()) for value in operands.values() if value.numel()), default=0.0)
    return Formula(_line(step), operands, float(result.detach()), scale=scale)


def _line(step: NodeExecution) -> str:
    return step.source.strip().partition(" = ")[2]


def _again(step: NodeExecution, instead: Mapping[str, Tensor]) -> Tensor:
    """Run the line of a call once more with other tensors, in float64."""
    doubled = {name: value.double() if isinstance(value, Tensor) and value.is_floating_point() else value
               for name, value in step.inputs.items()}  # fmt: skip
    scope = {**doubled, **instead, "self": _Doubled(step.module)}
    names = vars(type(step.module))["forward"].__globals__
    found = primary_tensor(eval(_line(step), names, scope))  # noqa: S307  # the line of the model that has just run
    assert found is not None  # as when it ran
    return found


class _Doubled:
    """A module whose own tensors are in float64."""

    def __init__(self, module: nn.Module) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._module, name)
        return value.detach().double() if isinstance(value, Tensor) and value.is_floating_point() else value
