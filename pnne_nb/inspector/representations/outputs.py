"""What layers return for some examples, as a row of numbers for each example."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Final

from torch import Tensor, nn

from pnne_nb.errors import InspectionError
from pnne_nb.inspector.questions.example import opened
from pnne_nb.inspector.questions.sites import edited

MOST: Final = 4096
"""Most numbers of each example that are kept, evenly spread over the output of a layer."""


def outputs_of(net: nn.Module, data: object, layers: Iterable[str]) -> dict[str, Tensor]:
    """Return what layers and functions return in their first call, `[n, numbers]` in float64 on the CPU, in order of calls.

    Layers that are not called, and outputs without a real number for each example, are left out.
    """
    found: dict[str, Tensor] = {}
    with opened(net, data, grad=False) as example:
        sizes = [len(value) for value in example.inputs.values() if value.dim()]

        def kept(layer: str, tensor: Tensor) -> Tensor:
            if layer not in found and tensor.dim() and len(tensor) in sizes and tensor.is_floating_point():
                flat = tensor.detach().flatten(1) if tensor.dim() > 1 else tensor.detach()[:, None]
                found[layer] = flat[:, :: max(1, -(-flat.shape[1] // MOST))].double().cpu()
            return tensor

        with edited(example.model, {layer: partial(kept, layer) for layer in layers}):
            example.run()
    if not found:
        raise InspectionError("None of the layers is called and returns a real number for each example.")
    return found
