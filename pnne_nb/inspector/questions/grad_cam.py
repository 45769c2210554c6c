"""Grad-CAM: where the channels of a layer that speak for an answer are active."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pnne_nb.errors import InspectionError
from pnne_nb.inspector.questions.changes import channel_axis
from pnne_nb.inspector.questions.example import Example
from pnne_nb.inspector.questions.leaves import Leaves
from pnne_nb.inspector.questions.sites import edited
from pnne_nb.inspector.statistics.patterns import match_layers

_CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
_BETWEEN = {1: "linear", 2: "bilinear", 3: "trilinear"}


def grad_cam(example: Example, leaves: Leaves, layer: str | None) -> tuple[dict[str, Tensor], str]:
    """Return the map of `layer` for each input that has its positions, and the path of the layer.

    The map is the sum over channels of output times mean gradient, where it is above 0, interpolated to the input's
    positions and equal for all its channels.

    Args:
        example: The open example.
        leaves: Its leaves, watched.
        layer: The layer; None for the last convolution that is called.

    Raises:
        LayerNotFoundError: If there is no such layer.
        InspectionError: If there is no convolution, the layer has no positions, is called several times, or the answer does
            not depend on it, or no input has its positions.
    """
    modules = dict(example.model.named_modules())
    if layer is None:
        asked: dict[str, nn.Module] = {
            name: module for name, module in modules.items() if isinstance(module, _CONVOLUTIONS)
        }
        if not asked:
            raise InspectionError(
                'Grad-CAM is about positions of a convolution, and the model has none: method="integrated-gradients" or'
                ' "occlusion" applies, or layer= names a layer whose output is [n, c, …].'
            )
    else:
        asked = match_layers(example.model, layer)
        if len(asked) > 1:
            raise InspectionError(f"Grad-CAM takes one layer, and {layer!r} matches {', '.join(map(repr, asked))}.")
    seen: list[tuple[str, Tensor]] = []

    def see(name: str, tensor: Tensor) -> Tensor:
        seen.append((name, tensor))
        return tensor

    with edited(example.model, {name: partial(see, name) for name in asked}):
        answers = leaves.answer([leaf.start.detach().requires_grad_() for leaf in leaves.all])
    if not seen:
        raise InspectionError(f"The layer {next(iter(asked))!r} is not called for this example.")
    name, output = seen[-1]
    if sum(one == name for one, _ in seen) > 1:
        raise InspectionError(f"The layer {name!r} is called several times: name one that is called once, layer=….")
    if output.dim() < 3:
        raise InspectionError(
            f"The layer {name!r} returns {list(output.shape)}, which has no positions. Grad-CAM needs a layer such as a"
            ' convolution; method="integrated-gradients" needs none.'
        )
    [gradient] = torch.autograd.grad(answers.sum(), [output], allow_unused=True) if answers.requires_grad else [None]
    if gradient is None:
        raise InspectionError(f"The answer does not depend on the layer {name!r}: name another one, layer=….")
    axis = channel_axis(type(modules[name]), output.dim())
    positions = [place for place in range(1, output.dim()) if place != axis]
    weighted = (gradient.mean(positions, keepdim=True) * output).sum(axis, keepdim=True).relu()
    return _spread(weighted.movedim(axis, 1).detach(), example.inputs, leaves, name), name


def _spread(found: Tensor, inputs: Mapping[str, Tensor], leaves: Leaves, layer: str) -> dict[str, Tensor]:
    """Return the map `[n, 1, …]` in the shape of each input that has as many positions."""
    sides = found.dim() - 2
    maps = {}
    for name in leaves.where:
        whole = inputs[name]
        tokens = not whole.is_floating_point()
        if whole.dim() == sides + (1 if tokens else 2) and sides in _BETWEEN:
            size = whole.shape[1:] if tokens else whole.shape[2:]
            spread = F.interpolate(found, size=size, mode=_BETWEEN[sides], align_corners=False)
            maps[name] = spread.squeeze(1) if tokens else spread.expand(whole.shape)
    if not maps:
        shapes = ", ".join(f"{name} {list(value.shape)}" for name, value in inputs.items())
        raise InspectionError(
            f"The layer {layer!r} has positions {list(found.shape[2:])}, which no input has: {shapes}. Name another layer, or"
            ' use method="integrated-gradients".'
        )
    return maps
