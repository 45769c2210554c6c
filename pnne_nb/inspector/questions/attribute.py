"""`pn.attribute`: how much each value of the input counts for one number of the output."""

from __future__ import annotations

import copy
import importlib
import inspect
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Final, NoReturn, final

import numpy as np
import torch
from torch import Tensor, nn

from pnne_nb.errors import ArgumentError, InspectionError, choose, expect, near, shown
from pnne_nb.inspector.capture.preserve import uncompiled
from pnne_nb.inspector.questions import grad_cam
from pnne_nb.inspector.questions.example import Example, Target, opened
from pnne_nb.inspector.questions.leaves import Leaves
from pnne_nb.telemetry.plot_hook import installed_plots

METHODS: Final = ("gradient-x-input", "integrated-gradients", "grad-cam", "occlusion")

_TILE: Final = 64
"""Most examples that are drawn."""


@final
@dataclass(frozen=True, eq=False)
class Attribution:
    """How much each value of the input counts for one number of the output.

    Attributes:
        values: For each tensor among the arguments, a tensor of its shape; None for one that has no part in it (a mask).
        names: Names of these arguments in ``forward``.
        method: The method.
        target: The number of the output that was asked about.
        answers: Its value for each example, `[n]`.
        where: By name, where the values were taken: ``"input"``, ``"embedding 'tokens'"`` or ``"layer 'conv2'"``.
        gap: How far the sum of the values is from what they should add up to, the answer less that for the baseline: the
            largest of all examples. None where the method has no such sum.
        notes: What is not in the values, in words.
    """

    values: tuple[Tensor | None, ...]
    names: tuple[str, ...]
    method: str
    target: object
    answers: Tensor
    where: Mapping[str, str]
    gap: float | None
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        answers = ", ".join(f"{answer:.4g}" for answer in self.answers[:4].tolist())
        more = ", …" if len(self.answers) > 4 else ""
        target = "" if self.target is None else f", target={shown(self.target)}"
        gap = "" if self.gap is None else f"; completeness gap {self.gap:.2g}"
        lines = [f"Attribution({self.method}{target}; answer {answers}{more}{gap})"]
        for name, value in zip(self.names, self.values, strict=True):
            if value is None:
                lines.append(f"  {name}: no values")
                continue
            place = np.unravel_index(int(value.abs().argmax()), value.shape) if value.numel() else ()
            most = ", ".join(str(int(one)) for one in place)
            peak = f", largest {float(value[place]):.4g} at [{most}]" if value.numel() else ""
            lines.append(f"  {name}: {list(value.shape)} at the {self.where[name]}{peak}")
        return "\n".join([*lines, *self.notes])

    def _repr_html_(self) -> str:
        drawn = [
            installed_plots().tiles(_tiles(value), f"{name}: {self.method}, red for, blue against", signed=True)
            for name, value in zip(self.names, self.values, strict=True)
            if value is not None and value.numel()
        ]
        lines = repr(self).replace("&", "&amp;").replace("<", "&lt;")
        return f"{''.join(drawn)}<pre>{lines}</pre>"


def attribute(
    net: nn.Module,
    data: object,
    target: Target = None,
    method: str = "integrated-gradients",
    *,
    of: str | None = None,
    layer: str | None = None,
    baseline: object = None,
    steps: int = 50,
    window: int | tuple[int, ...] | None = None,
    options: Mapping[str, Any] | None = None,
) -> Attribution:
    """Ask how much each value of the input counts for one number of the output.

    The model answers as it predicts, in evaluation mode, and is as before afterwards. Whole numbers (tokens) have no
    gradient: they are asked about at the embeddings that read them, also through slices, views and offsets, and get the sums
    over their dimension. What has no part in the values is said in `notes`.

    Args:
        net: Any module.
        data: The examples: a tensor is the model's argument, a tuple its arguments, a mapping its keyword arguments. The first
            dimension counts examples.
        target: The number of the output of an example: a class of `[n, k]`; as many indices as the output has dimensions
            beside the first, ``(-1, 42)`` for token 42 at the last position; a tensor with a class for each example; a
            function of the output that returns `[n]`. None if there is only one number.
        method: ``"gradient-x-input"``; ``"integrated-gradients"`` (along the line from `baseline`, by Gauss-Legendre);
            ``"grad-cam"`` (where a convolution sees evidence, spread over the input's positions); ``"occlusion"`` (how much
            the answer falls where a window is replaced by `baseline`). With captum, also its methods: ``"captum.DeepLift"``.
        of: A layer, or a function of a compiled graph by the name of its node, of whose output `target` is a number: why a
            unit is as it is. None for the model's output. The first call counts.
        layer: For Grad-CAM, the layer; by default the last convolution that is called.
        baseline: What counts as nothing: 0, also as an embedding. A number, a tensor that broadcasts to the input, or for
            tokens the number of one; a tuple for several inputs.
        steps: For integrated gradients, the number of gradients.
        window: For occlusion, its size in an example, such as ``(3, 4, 4)``, or one number for all dimensions. By default
            one value, one row of `[t, c]`, one token, or an eighth of each side of an image with all channels.
        options: Further keyword arguments for a method of captum's ``attribute``.

    Returns:
        The values in the shape of the inputs, with the completeness gap for methods that have one.

    Raises:
        ArgumentError: If an argument has the wrong type or value, or captum is not installed.
        InspectionError: If the example does not fit, `target` names no number of the output, the output does not depend on
            the input, or the method does not apply; the message says why and which does.
        LayerNotFoundError: If no layer is called `layer` or `of`.
    """
    expect(steps, int, "steps", "a number of gradients")
    if steps < 1:
        raise ArgumentError(f"steps must be at least 1, not {steps}.")
    foreign = str(method).startswith(_CAPTUM)
    if not foreign and method not in METHODS:
        choose(method, all_methods(), "method")
    if foreign and method not in captum_names():
        _refuse_captum(method, METHODS)
    if layer is not None and method != "grad-cam":
        raise ArgumentError(f'layer= chooses the layer of method="grad-cam"; {method} is taken at the input.')
    model = uncompiled(net)
    # What captum does to a model is not ours to undo.
    with opened(copy.deepcopy(model) if foreign else model, data, grad=method != "occlusion") as example:
        leaves = Leaves(example, target, of)
        where = leaves.where
        starts = [leaf.start for leaf in leaves.all]
        gap: float | None = None
        with leaves:
            match method:
                case "gradient-x-input":
                    found = [g * x for g, x in zip(leaves.gradients(starts), starts, strict=True)]
                    merged = leaves.merged(found)
                case "integrated-gradients":
                    bases = leaves.baselines(baseline)
                    found = _integrated(leaves.gradients, starts, bases, steps)
                    merged = leaves.merged(found)
                    gap = _gap(leaves, merged, bases)
                case "grad-cam":
                    merged, seen = grad_cam.grad_cam(example, leaves, layer)
                    where = dict.fromkeys(merged, f"layer {seen!r}")
                case "occlusion":
                    merged = _occluded(example, leaves, leaves.baselines(baseline), window)
                case _:
                    found, gap = _run_captum(method, leaves, leaves.baselines(baseline), options or {})
                    merged = leaves.merged(found)
        values = tuple(None if name not in merged else merged[name].detach() for name in example.inputs)
        return Attribution(values, tuple(example.inputs), method, target, leaves.answers, where, gap, leaves.notes)


def _integrated(
    gradients: Callable[[list[Tensor]], list[Tensor]], starts: list[Tensor], bases: list[Tensor], steps: int
) -> list[Tensor]:
    """Return the gradients along the lines from `bases` to `starts`, integrated, times the length of the lines."""
    nodes, weights = np.polynomial.legendre.leggauss(steps)
    sums = [torch.zeros_like(start) for start in starts]
    for node, weight in zip((1 + nodes) / 2, weights / 2, strict=True):
        points = [base + float(node) * (start - base) for start, base in zip(starts, bases, strict=True)]
        for total, gradient in zip(sums, gradients(points), strict=True):
            total += float(weight) * gradient
    return [total * (start - base) for total, start, base in zip(sums, starts, bases, strict=True)]


def _gap(leaves: Leaves, merged: Mapping[str, Tensor], bases: list[Tensor]) -> float:
    expected = leaves.answers.double() - leaves.answer(bases).detach().double()
    sums = [
        value.double().flatten(1).sum(1) if value.dim() and len(value) == len(expected) else value.double().sum()
        for value in merged.values()
    ]
    total = sum(sums, torch.zeros_like(expected))
    if total.shape != expected.shape or any(one.dim() == 0 for one in sums):
        return float((sum(one.sum() for one in sums) - expected.sum()).abs())
    return float((total - expected).abs().max())


def _occluded(
    example: Example, leaves: Leaves, bases: list[Tensor], window: int | tuple[int, ...] | None
) -> dict[str, Tensor]:
    """Return by input how much the answer falls where a window is replaced by the baseline, at each place of the window."""
    count = len(leaves.answers)
    found = {}
    for name in leaves.where:
        whole = example.inputs[name]
        alone = count == 1 and (whole.dim() == 0 or len(whole) != 1)
        if not alone and len(whole) != count:
            raise InspectionError(
                f"The answer is {count} numbers, and the input {name!r} has the shape {list(whole.shape)}: occlusion needs"
                ' examples in the first dimension of both. method="integrated-gradients" does not.'
            )
        each = whole.shape if alone else whole.shape[1:]
        size = _window(window, tuple(each), name)
        values = torch.zeros(whole.shape, dtype=leaves.answers.dtype, device=leaves.answers.device)
        blocks = [range(0, long, step) for long, step in zip(each, size, strict=True)]
        for corner in np.ndindex(*map(len, blocks)):
            place = tuple(slice(at * step, at * step + step) for at, step in zip(corner, size, strict=True))
            where = place if alone else (slice(None), *place)
            hidden = torch.zeros(whole.shape, dtype=torch.bool)
            hidden[where] = True
            falls = leaves.answers - leaves.answer(leaves.without(name, hidden, bases))
            values[where] = falls if alone else falls.view(-1, *(1 for _ in each))
        found[name] = values
    return found


def _window(window: object, each: tuple[int, ...], name: str) -> tuple[int, ...]:
    if window is None:
        match each:
            case () | (_,):
                return tuple(1 for _ in each)
            case _, columns:
                return 1, columns
            case channels, *sides:
                return channels, *(max(1, -(-side // 8)) for side in sides)
    sizes = (window,) * len(each) if isinstance(window, int) else window
    if not isinstance(sizes, tuple) or len(sizes) != len(each) or not all(isinstance(s, int) and s > 0 for s in sizes):
        raise ArgumentError(
            f"window={shown(window)} does not fit an example of the input {name!r}, which has the shape {list(each)}: give a"
            " size above 0 for each dimension."
        )
    return sizes


def _tiles(value: Tensor) -> Any:
    """Return `[n, …]` as pictures `[n, h, w]`: summed over the channels of an image, a row for less."""
    flat = value.detach().float().cpu()
    while flat.dim() > 3:
        flat = flat.sum(1)
    if flat.dim() < 2:
        flat = flat.reshape(1, -1)
    return (flat if flat.dim() == 3 else flat.unsqueeze(1))[:_TILE].numpy()


_CAPTUM: Final = "captum."

_OTHERWISE = ("Layer", "Neuron", "Remote", "LLM")
"""How classes begin that answer other questions."""


def all_methods() -> list[str]:
    """Return the methods that there are here, those of captum after our own."""
    return [*METHODS, *captum_names()]


def captum_names() -> list[str]:
    """Return captum's methods, ``"captum.DeepLift"`` among them; none without captum."""
    if find_spec("captum") is None:
        return []
    module = importlib.import_module("captum.attr")
    return [f"{_CAPTUM}{name}" for name, value in sorted(vars(module).items()) if _fits(name, value)]


def _refuse_captum(method: str, others: Sequence[str]) -> NoReturn:
    """Raise the error for a method that captum does not have, or that needs captum."""
    if find_spec("captum") is None:
        raise ArgumentError(
            f"{method} comes with captum: pip install 'pnne_nb[captum]'. Without it, there are {', '.join(others)}."
        )
    known = captum_names()
    raise ArgumentError(f"method cannot be {method!r}.{near(method, known)} Of captum, there are {', '.join(known)}.")


def _run_captum(
    method: str, leaves: Leaves, bases: Sequence[Tensor], options: Mapping[str, Any]
) -> tuple[list[Tensor], float | None]:
    """Return the values of each leaf, and the completeness gap if the method measures one."""
    kind = getattr(importlib.import_module("captum.attr"), method.removeprefix(_CAPTUM))
    made = kind(_Answer(leaves))
    taken = inspect.signature(made.attribute).parameters
    given = dict(options)
    if "baselines" in taken:
        given.setdefault("baselines", tuple(bases))
    measured = "return_convergence_delta" in taken
    if measured:
        given["return_convergence_delta"] = True
    points = tuple(leaf.start.clone().requires_grad_() for leaf in leaves.all)
    try:
        with warnings.catch_warnings():
            # That it sets hooks, which are those of a copy here.
            warnings.filterwarnings("ignore", message="Setting .*hooks")
            warnings.filterwarnings("ignore", message=r"\s*Setting forward, backward hooks")
            found = made.attribute(points, **given)
    except InspectionError:
        raise
    except Exception as error:
        raise InspectionError(
            f'{method} does not apply to this model: {error} (captum). method="integrated-gradients" and "occlusion" make no'
            " demands on the layers."
        ) from error
    values, delta = found if measured else (found, None)
    return list(values), None if delta is None else float(torch.as_tensor(delta).abs().max())


class _Answer(nn.Module):
    """The answer as a module of the leaves, as captum wants it."""

    def __init__(self, leaves: Leaves) -> None:
        super().__init__()
        self.leaves = leaves
        self.model = leaves.model

    def forward(self, *points: Tensor) -> Tensor:
        return self.leaves.answer(points)


def _fits(name: str, value: object) -> bool:
    base = importlib.import_module("captum.attr").Attribution
    if not isinstance(value, type) or not issubclass(value, base) or name.startswith(_OTHERWISE):
        return False
    if not hasattr(value, "attribute"):
        return False  # the base of the others
    made = inspect.signature(value).parameters
    required = [key for key, one in made.items() if one.default is one.empty]
    asked = inspect.signature(value.attribute).parameters
    needs = {key for key, one in asked.items() if one.default is one.empty and one.kind is one.POSITIONAL_OR_KEYWORD}
    return required in (["forward_func"], ["model"]) and needs <= {"self", "inputs", "baselines"} and "inputs" in needs
