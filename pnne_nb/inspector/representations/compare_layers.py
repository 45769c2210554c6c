"""`pn.compare_layers`: where two models, or the answers of one to two examples, begin to differ, and how alike layers are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, final

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from torch import Tensor, nn

from pnne_nb.compiler import load_weights
from pnne_nb.compiler.weights.deepcopy import duplicate
from pnne_nb.errors import ArgumentError, InspectionError
from pnne_nb.inspector.capture.preserve import uncompiled
from pnne_nb.inspector.questions.example import opened
from pnne_nb.inspector.questions.sites import edited
from pnne_nb.inspector.statistics.patterns import Patterns, match_layers
from pnne_nb.telemetry.plot_hook import installed_plots

MOST: Final = 4096
"""Most numbers of each example that are kept, evenly spread over the output of a layer."""

ROUNDING: Final = 1e-6
"""Relative difference from which outputs differ."""


@final
@dataclass(frozen=True, eq=False)
class LayerComparison:
    """How the outputs of layers differ.

    Attributes:
        differences: For each layer that both have, the norm of the difference of its outputs by that of the first ones; NaN
            where they have other sizes. In the order of calls.
        layers: The layers of the first and of the second model, in the order of calls.
        similarity: Linear CKA of their outputs over the examples, `[first, second]`: 1 if one is the other turned and scaled,
            0 if they have nothing in common. NaN for fewer than three examples.
    """

    differences: Mapping[str, float]
    layers: tuple[tuple[str, ...], tuple[str, ...]]
    similarity: npt.NDArray[np.float64]

    @property
    def first(self) -> str | None:
        """The first layer whose outputs differ by more than rounding, or None."""
        return next((layer for layer, found in self.differences.items() if not found <= ROUNDING), None)

    def __repr__(self) -> str:
        first = "no layer differs" if self.first is None else f"the first that differs is {self.first!r}"
        text = self.to_frame().to_string(float_format=lambda value: f"{value:.3g}")
        return f"LayerComparison({len(self.differences)} layers; {first})\n{text}"

    def _repr_html_(self) -> str:
        picture = ""
        if np.isfinite(self.similarity).all():
            caption = (
                "CKA, from 0 to 1: rows are layers of the first, columns of the second, both in the order of calls"
            )
            picture = installed_plots().tiles(self.similarity[None], caption)
        return f"{picture}{self.to_frame().to_html(float_format=lambda value: f'{value:.3g}')}"

    def to_frame(self) -> pd.DataFrame:
        """Return the difference and the CKA of each layer that both have."""
        rows = {name: place for place, name in enumerate(self.layers[0])}
        columns = {name: place for place, name in enumerate(self.layers[1])}
        alike = [self.similarity[rows[name], columns[name]] for name in self.differences]
        index = pd.Index(list(self.differences), name="layer")
        return pd.DataFrame({"difference": list(self.differences.values()), "CKA": alike}, index=index)


def compare_layers(
    net: nn.Module,
    data: object,
    other: nn.Module | str | Path | None = None,
    *,
    other_data: object = None,
    at: Patterns = "*",
) -> LayerComparison:
    """Compare the outputs of layers: of two models, of a model and one of its checkpoints, or for two examples.

    The models predict, as in evaluation mode, and are as before afterwards. Of large outputs, 4,096 numbers of each example
    are compared.

    Args:
        net: Any module.
        data: The examples: a tensor is the model's argument, a tuple its arguments, a mapping its keyword arguments.
        other: The second model, whose layers of the same path are compared; or a checkpoint or file of weights, which a copy
            of `net` gets. None for the same model.
        other_data: The examples for the second model; None for the same ones.
        at: Patterns of layers, as for ``Inspector.watch``.

    Raises:
        ArgumentError: If there is neither another model nor another example.
        LayerNotFoundError: If no layer matches.
        InspectionError: If both have no layer in common, other numbers of examples, or an example or the file does not fit.
    """
    if other is None and other_data is None:
        raise ArgumentError("There is nothing to compare with: give another model, other=net2, or other_data=x2.")
    first = uncompiled(net)
    match other:
        case str() | Path():
            second = with_weights(first, other)
        case _:
            second = first if other is None else uncompiled(other)
    one = outputs_of(first, data, match_layers(first, at))
    two = outputs_of(second, data if other_data is None else other_data, match_layers(second, at))
    both = [layer for layer in one if layer in two]
    if not both:
        raise InspectionError(
            f"The models have no layer in common: the first has {', '.join(map(repr, list(one)[:5]))}, the second"
            f" {', '.join(map(repr, list(two)[:5]))}."
        )
    counts = len(one[both[0]]), len(two[both[0]])
    if counts[0] != counts[1]:
        raise InspectionError(f"There are {counts[0]} examples and {counts[1]} other ones: give as many.")
    differences = {
        layer: float((one[layer] - two[layer]).norm() / one[layer].norm().clamp_min(1e-300))
        if one[layer].shape == two[layer].shape
        else float("nan")
        for layer in both
    }
    return LayerComparison(differences, (tuple(one), tuple(two)), _similarity(one, two))


def with_weights(net: nn.Module, path: str | Path) -> nn.Module:
    """Return a copy of a network with the weights of a checkpoint or of a file of weights.

    Raises:
        ArgumentError: If there are no weights in it.
        InspectionError: If it lacks a weight of the network, or has it in another shape.
    """
    other = duplicate(net)
    report = load_weights(other, path)
    if lacking := [*report.reshaped, *report.new]:
        raise InspectionError(
            f"{Path(path).name} was written by another network: it has no {', '.join(lacking[:5])} of the same shape. Compare"
            " with a model that has these weights."
        )
    return other


def _similarity(one: Mapping[str, Tensor], two: Mapping[str, Tensor]) -> npt.NDArray[np.float64]:
    """Return the linear CKA of each pair."""
    if min(map(len, (*one.values(), *two.values()))) < 3:
        return np.full((len(one), len(two)), np.nan)
    flat = []
    for outputs in (one, two):
        grams = []
        for output in outputs.values():
            centred = output - output.mean(0)
            gram = (centred @ centred.T).flatten()
            grams.append(gram / gram.norm().clamp_min(1e-300))
        flat.append(torch.stack(grams))
    return (flat[0] @ flat[1].T).numpy()


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
