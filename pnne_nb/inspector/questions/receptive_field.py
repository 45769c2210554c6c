"""`pn.receptive_field`: the part of the input that a number of a layer's output depends on."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, final

import torch
from torch import Tensor, nn

from pnne_nb.inspector.capture.preserve import uncompiled
from pnne_nb.inspector.questions.example import element_index, opened, require_element
from pnne_nb.inspector.questions.leaves import Leaves

DRAWS: Final = 8
"""Inputs and signs of weights that are drawn: where a ReLU shuts one path, it leaves another open."""


@final
@dataclass(frozen=True, eq=False)
class ReceptiveField:
    """The part of the input that a number of a layer's output depends on.

    Attributes:
        layer: Path of the layer, or of a function of a compiled graph.
        index: Index of the number in its output, the example first.
        reads: For each input, which of its values count: true and false, in the shape of the input.
    """

    layer: str
    index: tuple[int, ...]
    reads: Mapping[str, Tensor]

    def boxes(self) -> dict[str, tuple[tuple[int, int], ...]]:
        """Return for each input the first and last index of what counts, by dimension; ``()`` if nothing does."""
        found = {}
        for name, reads in self.reads.items():
            places = reads.nonzero()
            ends = zip(places.amin(0).tolist(), places.amax(0).tolist(), strict=True) if len(places) else ()
            found[name] = tuple(ends)
        return found

    def __repr__(self) -> str:
        place = ", ".join(map(str, self.index))
        parts = [
            f"{name}: {int(self.reads[name].sum()):,} of {self.reads[name].numel():,} values"
            + (f", [{', '.join(f'{low}' if low == high else f'{low}–{high}' for low, high in box)}]" if box else "")
            for name, box in self.boxes().items()
        ]
        return f"{self.layer}[{place}] depends on {'; '.join(parts)}"


def receptive_field(
    net: nn.Module, data: object, layer: str, index: int | tuple[int, ...], *, draws: int = DRAWS
) -> ReceptiveField:
    """Find the part of the input that a number of a layer's output depends on, through any module.

    It is where the gradient of the number is not zero: for the example, and for inputs that are drawn with its mean and
    spread and read by a copy of the model whose weights have other signs, so that no path stays shut by chance. Of whole
    numbers (tokens), it is the gradient at their embedding. The model is as before afterwards.

    Args:
        net: Any module.
        data: A tensor is the model's argument, a tuple its arguments, a mapping its keyword arguments.
        layer: Path of the layer, or of a function of a compiled graph.
        index: Index of the number in the layer's output, the example first: ``(0, 3, 5, 5)``.
        draws: Inputs that are drawn; with 0, it is what counts for this example alone.

    Raises:
        LayerNotFoundError: If there is no such layer; near names are suggested.
        ArgumentError: If `index` is none.
        InspectionError: If the layer is not called, has no such element, or has no gradient there.
    """
    places = element_index(index)

    def number(output: Tensor) -> Tensor:
        return output[require_element(layer, places, output)].reshape(1)

    model = copy.deepcopy(uncompiled(net)) if draws else uncompiled(net)
    weights = [(parameter, parameter.detach()) for parameter in model.parameters()]
    with opened(model, data, grad=True) as example:
        leaves = Leaves(example, number, layer)
        drawn = torch.Generator().manual_seed(0)
        reads: dict[str, Tensor] = {}
        with leaves:
            for draw in range(draws + 1):
                points = [leaf.start if draw == 0 else _like(leaf.start, drawn) for leaf in leaves.all]
                reads |= {name: found | reads.get(name, found) for name, found in leaves.reached(points).items()}
                for parameter, weight in weights if draw < draws else ():
                    signs = torch.randint(0, 2, weight.shape, generator=drawn).mul(2).sub(1).to(weight)
                    parameter.data = weight * signs
    return ReceptiveField(layer, places, reads)


def _like(tensor: Tensor, drawn: torch.Generator) -> Tensor:
    mean, spread = float(tensor.mean()), float(tensor.std(correction=0)) or 1.0
    return (mean + spread * torch.randn(tensor.shape, generator=drawn)).to(tensor)
