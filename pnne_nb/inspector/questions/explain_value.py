"""`pn.explain_value`: the formula behind one number of a layer's output, with its operands."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, final

import torch
from torch import Tensor, nn

from pnne_nb.compiler.analysis.interpreter import NodeExecution, stepping
from pnne_nb.errors import InspectionError, shown
from pnne_nb.graph.model.node import Node
from pnne_nb.inspector.capture.hooks import primary_tensor
from pnne_nb.inspector.capture.run import copied
from pnne_nb.inspector.questions.example import element_index, opened, require_element
from pnne_nb.inspector.questions.formulas import FORMULAS, Formula, Index, linear
from pnne_nb.inspector.questions.sites import functions, place_of

SHOWN: Final = 6
"""Most terms of a sum that are shown."""

ROUNDING: Final = 16
"""How many rounding errors of the layer's type the formula may be away from its output."""


@final
@dataclass(frozen=True, eq=False)
class ValueExplanation:
    """The formula behind one number of a layer's output.

    Attributes:
        layer: Path of the layer.
        kind: Its class.
        index: Index of the number in the layer's output.
        formula: The formula, in which the operands have their names.
        operands: The values that went in, in float64.
        terms: If the formula is a sum, its summands: what is multiplied, in words, and the product.
        result: What the formula gives, in float64.
        value: What the layer returned.
        error: The difference of both, relative to the magnitude of what was added up.
    """

    layer: str
    kind: str
    index: tuple[int, ...]
    formula: str
    operands: Mapping[str, Tensor]
    terms: tuple[tuple[str, float], ...]
    result: float
    value: float
    error: float

    def __repr__(self) -> str:
        place = ", ".join(map(str, self.index))
        lines = [f"{self.layer or 'the model'}[{place}] ({self.kind}) = {self.formula} = {self.result:.7g}"]
        for name, value in self.operands.items():
            said = f"{float(value):.7g}" if value.dim() == 0 else f"{list(value.shape)}, {value.numel()} values"
            lines.append(f"  {name}: {said}")
        largest = sorted(self.terms, key=lambda term: -abs(term[1]))
        lines += [f"  {words} → {product:.6g}" for words, product in largest[:SHOWN]]
        if len(largest) > SHOWN:
            rest = sum(product for _, product in largest[SHOWN:])
            lines.append(f"  {len(largest) - SHOWN} more terms → {rest:.6g}")
        return "\n".join([*lines, f"  the layer returned {self.value:.7g} (relative difference {self.error:.1g})"])


def explain_value(
    net: nn.Module, data: object, layer: str, index: int | tuple[int, ...], *, call: int = 0
) -> ValueExplanation:
    """Explain one number of a layer's output: the formula with its operands, checked against the layer.

    The model runs once as it predicts, in evaluation mode, and is as before afterwards. There are formulas for
    convolutions, linear layers, pools, norms, softmax, attention, embeddings, recurrent and element-wise layers, and for
    functions of a compiled graph, by the names of their nodes.

    Args:
        net: Any module.
        data: A tensor is the model's argument, a tuple its arguments, a mapping its keyword arguments.
        layer: Path of the layer.
        index: Index of the number in the layer's output, the example first: ``(0, 3, 5, 5)``.
        call: Which call of the layer, if it is called several times.

    Raises:
        LayerNotFoundError: If there is no such layer; near names are suggested.
        ArgumentError: If `index` is none.
        InspectionError: If the layer is not called, has no formula or no such element, or something changes its output, such
            as a hook.
    """
    places = element_index(index)
    with opened(net, data, grad=False) as example, ExitStack() as hooks:
        module = place_of(example.model, layer)
        rule = None if module is None else FORMULAS.get(type(module))
        if rule is None and module is not None:
            raise InspectionError(_no_formula(layer, module))
        received: list[Any] = []
        returned: list[Any] = []
        if module is None:
            hooks.enter_context(stepping(example.model, partial(_see, layer, received, returned)))
        else:
            see = module.register_forward_pre_hook(
                lambda _module, args, kwargs: received.append(copied((args, kwargs))), with_kwargs=True
            )
            hooks.callback(see.remove)
            hooks.callback(module.register_forward_hook(lambda *called: returned.append(copied(called[2]))).remove)
        example.run()
        hooks.close()
        if not -len(returned) <= call < len(returned):
            times = f"called {len(returned)} times" if returned else "not called for this example"
            raise InspectionError(f"The layer {layer!r} is {times}, so that there is no call {call}.")
        output = primary_tensor(returned[call])
        if output is None or not output.is_floating_point():
            raise InspectionError(f"The layer {layer!r} returns {shown(returned[call])}, and no real number.")
        where = require_element(layer, places, output)
        if module is None or rule is None:
            node = functions(example.model)[layer]
            kind, found = node.type, function_formula(received[call], node, where)
        else:
            kind, (args, kwargs) = type(module).__name__, received[call]
            if not isinstance(module, nn.MultiheadAttention | nn.EmbeddingBag):  # whose arguments may be left out
                args, kwargs = (*args, *kwargs.values()), {}
            found = rule(module, where, *args, **kwargs)
        value = float(output[where])
    scale = max(found.scale, abs(found.result), abs(value), torch.finfo(output.dtype).tiny)
    error = abs(found.result - value) / scale
    if not error <= ROUNDING * torch.finfo(output.dtype).eps and not found.result == value:
        raise InspectionError(
            f"The formula of the layer {layer!r} ({kind}) gives {found.result:.7g}, and the layer returned"
            f" {value:.7g}: a hook or a changed forward has a part in it, or the numbers are not finite."
        )
    return ValueExplanation(layer, kind, where, found.text, found.operands, found.terms, found.result, value, error)


def _see(layer: str, received: list[Any], returned: list[Any], step: NodeExecution) -> None:
    if step.node == layer:
        inputs: Any = copied(dict(step.inputs))
        received.append(step._replace(inputs=inputs))
        returned.append(copied(dict(step.outputs)))


def _no_formula(layer: str, module: nn.Module) -> str:
    kind = type(module).__name__
    inside = [name for name, part in module.named_modules() if name and type(part) in FORMULAS]
    if inside:
        asked = ", ".join(repr(f"{layer}.{name}" if layer else name) for name in inside[:8])
        return f"The layer {layer!r} ({kind}) is made of others: ask one of {asked}{', …' if len(inside) > 8 else ''}."
    return (
        f"There is no formula for the layer {layer!r} ({kind}). There are formulas for convolutions, linear layers, pools,"
        " norms, softmax, attention, embeddings, distances, recurrent, bilinear and element-wise layers."
    )


_LAYERS: Final = {kind.__name__.lower(): kind for kind in FORMULAS if kind is not nn.Linear}
"""Layers that compute what a function of their name does: ``F.relu`` is what ``nn.ReLU`` computes."""


def function_formula(step: NodeExecution, node: Node, index: Index) -> Formula:
    """Return the formula of a function at one place of its result.

    That of the layer of the same name; a sum of products where the function is linear in one of its operands; or else its
    line in the source, with those numbers of its operands on which the result depends.
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
