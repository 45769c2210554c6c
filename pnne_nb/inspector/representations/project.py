"""`pn.project`: the outputs of a layer for many examples as points of a plane."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
import numpy.typing as npt
from torch import nn

from pnne_nb.errors import InspectionError
from pnne_nb.inspector.capture.preserve import uncompiled
from pnne_nb.inspector.questions.sites import place_of
from pnne_nb.inspector.representations.compare_layers import outputs_of


@final
@dataclass(frozen=True, eq=False)
class Projection:
    """The outputs of a layer as points, by principal component analysis.

    Attributes:
        layer: Path of the layer, or of a function of a compiled graph.
        points: `[n, 2]`, the first two components of each example.
        explained: Share of the variance along each of both.
    """

    layer: str
    points: npt.NDArray[np.float64]
    explained: tuple[float, float]

    def __repr__(self) -> str:
        first, second = self.explained
        return f"Projection({self.layer!r}, {len(self.points)} examples; {first:.0%} and {second:.0%} of the variance)"


def project(net: nn.Module, data: object, layer: str) -> Projection:
    """Project the outputs of a layer onto the plane in which they vary most.

    The model predicts, as in evaluation mode, and is as before afterwards. Of large outputs, 4,096 numbers of each example
    count.

    Args:
        net: Any module.
        data: The examples: a tensor is the model's argument, a tuple its arguments, a mapping its keyword arguments.
        layer: Path of the layer, or of a function of a compiled graph.

    Returns:
        The points; of both signs of a component, the one in which its largest weight is positive.

    Raises:
        LayerNotFoundError: If there is no such layer; near names are suggested.
        InspectionError: If there are fewer than two examples, or the layer returns no real number for each of them.
    """
    model = uncompiled(net)
    place_of(model, layer)
    values = outputs_of(model, data, [layer])[layer].numpy()
    if len(values) < 2:
        raise InspectionError(f"A projection needs two examples or more, and there is {len(values)}.")
    if not np.isfinite(values).all():
        raise InspectionError(f"The layer {layer!r} returns numbers that are not finite.")
    left, sizes, right = np.linalg.svd(values - values.mean(0), full_matrices=False)
    signs = np.sign(right[np.arange(len(right)), np.abs(right).argmax(1)])
    points = np.zeros((len(values), 2))
    points[:, : min(2, len(sizes))] = (left * sizes * signs)[:, :2]
    shares = [*(sizes**2 / ((sizes**2).sum() or 1.0)), 0.0]
    return Projection(layer, points, (float(shares[0]), float(shares[1])))
