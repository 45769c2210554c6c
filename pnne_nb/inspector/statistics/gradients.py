"""Computes the norms of all gradients of a model at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import final

import numpy as np
import torch
from torch import Tensor, nn

from pnne_nb.inspector.statistics.patterns import own_parameters
from pnne_nb.inspector.statistics.sampling import FloatArray, to_host, values_of


@final
@dataclass(frozen=True)
class GradientNorms:
    """Euclidean norms of gradients.

    Attributes:
        by_layer: Norms over each module's own parameters, by path; layers without gradients are left out.
        total: Norm over all parameters; 0 if there is no gradient.
    """

    by_layer: dict[str, float]
    total: float


@final
@dataclass
class PendingNorms:
    """Norms on the device, before their transfer to the host.

    Attributes:
        layers: The layer of each norm.
        norms: 1-D tensors of norms, one per device.
    """

    layers: list[str] = field(default_factory=list)
    norms: list[Tensor] = field(default_factory=list)

    def finish(self, arrays: Sequence[FloatArray]) -> GradientNorms:
        """Return the norms by layer and in total.

        Args:
            arrays: `norms`, moved to the host.
        """
        squares: dict[str, float] = {}
        flat = np.concatenate(arrays).astype(np.float64) if arrays else np.empty(0)
        for layer, norm in zip(self.layers, flat.tolist(), strict=True):
            squares[layer] = squares.get(layer, 0.0) + norm * norm
        by_layer = {layer: square**0.5 for layer, square in squares.items()}
        return GradientNorms(by_layer, sum(squares.values()) ** 0.5)


def launch_norms(parameters: Iterable[tuple[str, str, nn.Parameter]]) -> PendingNorms:
    """Start the norms of all gradients without waiting for them: one fused call per device.

    Args:
        parameters: (layer, name, parameter) as `own_parameters` yields them.
    """
    by_device: dict[torch.device, tuple[list[str], list[Tensor]]] = {}
    for layer, _, parameter in parameters:
        gradient = parameter.grad
        if gradient is not None and gradient.numel():
            layers, gradients = by_device.setdefault(gradient.device, ([], []))
            layers.append(layer)
            gradients.append(values_of(gradient))
    pending = PendingNorms()
    for layers, gradients in by_device.values():
        pending.layers += layers
        pending.norms.append(torch.stack(_norms(gradients)))
    return pending


def gradient_norms(model: nn.Module) -> GradientNorms:
    """Return the norm of the gradient of each layer's own parameters, and of all together.

    Half-precision gradients are summed in float32. A NaN or infinite gradient gives a NaN or infinite norm.
    """
    pending = launch_norms(own_parameters(model))
    return pending.finish(to_host(pending.norms))


def _norms(gradients: list[Tensor]) -> list[Tensor]:
    # Half precision overflows when squared (65504), so its norms accumulate in float32.
    halves = any(gradient.dtype in (torch.float16, torch.bfloat16) for gradient in gradients)
    norms = torch._foreach_norm(gradients, 2, dtype=torch.float32) if halves else torch._foreach_norm(gradients, 2)
    # Mixed float32 and float64 parameters: stack needs one dtype.
    wide = {norm.dtype for norm in norms}
    return [norm.double() for norm in norms] if len(wide) > 1 else list(norms)
