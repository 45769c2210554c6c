"""`pn.patch_effects`: how much of the difference between two examples passes through each layer, or each position of it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, final

import numpy as np
import numpy.typing as npt
import pandas as pd
from torch import Tensor, nn

from pnne_nb.errors import InspectionError, choose
from pnne_nb.inspector.capture.preserve import uncompiled
from pnne_nb.inspector.questions.changes import patch
from pnne_nb.inspector.questions.example import Target, opened, scores_of
from pnne_nb.inspector.questions.intervene import intervene
from pnne_nb.inspector.questions.sites import edited
from pnne_nb.inspector.statistics.patterns import Patterns, match_layers
from pnne_nb.telemetry.plot_hook import installed_plots


@final
@dataclass(frozen=True, eq=False)
class PatchEffects:
    """What patching each layer from one example into another does to an answer.

    Attributes:
        layers: Paths of the layers, in the model's order.
        effects: Shares of the way from the answer for the corrupted example (0) to that for the clean one (1):
            `[layers]`, or `[layers, tokens]` with ``by="tokens"``. NaN where a layer has no such position.
        clean: The answer for the clean example, as mean over examples.
        corrupted: The answer for the corrupted example.
        target: The number of the output that is the answer.
    """

    layers: tuple[str, ...]
    effects: npt.NDArray[np.float64]
    clean: float
    corrupted: float
    target: object

    def __repr__(self) -> str:
        head = f"PatchEffects({len(self.layers)} layers; corrupted {self.corrupted:.4g}, clean {self.clean:.4g})"
        return f"{head}\n{self.to_frame().to_string(float_format=lambda value: f'{value:.3f}')}"

    def _repr_html_(self) -> str:
        caption = (
            f"Effect of patching, from corrupted ({self.corrupted:.4g}) to clean ({self.clean:.4g}); a row is a layer"
        )
        picture = installed_plots().tiles(np.atleast_2d(self.effects.T).T[None], caption, signed=True)
        return f"{picture}{self.to_frame().to_html(float_format=lambda value: f'{value:.3f}')}"

    def to_frame(self) -> pd.DataFrame:
        """Return the effects with a row for each layer, and a column for each position if there are several."""
        columns = ["effect"] if self.effects.ndim == 1 else [f"token {place}" for place in range(self.effects.shape[1])]
        return pd.DataFrame(self.effects, index=pd.Index(self.layers, name="layer"), columns=columns)


def patch_effects(
    net: nn.Module,
    clean: object,
    corrupted: object,
    at: Patterns = "*",
    *,
    target: Target = None,
    by: Literal["layer", "tokens"] = "layer",
) -> PatchEffects:
    """Run `corrupted`, each time with the output of one layer as it is for `clean`, and see how the answer changes.

    The model predicts, as in evaluation mode, and is as before afterwards. It runs once for each layer or position.

    Args:
        net: Any module.
        clean: The example with the right answer: a tensor is the model's argument, a tuple its arguments, a mapping its
            keyword arguments.
        corrupted: An example of the same size with another answer.
        at: Patterns of layers, as for ``Inspector.watch``.
        target: The number of the output that is the answer, as for `pn.attribute`.
        by: ``"tokens"`` patches one position of a sequence `[n, t, c]` at a time.

    Raises:
        LayerNotFoundError: If no layer matches.
        ArgumentError: If `by` is something else.
        InspectionError: If the answers for both examples are the same, an example does not fit, `target` names no number
            of the output, or a layer was not called, returns no tensor or one of another size for both examples.
    """
    choose(by, ("layer", "tokens"), "by")
    model = uncompiled(net)
    layers = match_layers(model, at)
    sizes: dict[str, tuple[int, ...]] = {}

    def record(name: str, tensor: Tensor) -> Tensor:
        sizes[name] = tuple(tensor.shape)
        return tensor

    with (
        opened(model, clean, grad=False) as example,
        edited(example.model, {name: partial(record, name) for name in layers}),
    ):
        top = _answer(example.run(), target)
    missing = [name for name in layers if name not in sizes]
    if missing:
        raise InspectionError(
            f"The layer {missing[0]!r} is not called, and cannot be patched: leave it out, at=[…, {'!' + missing[0]!r}]."
        )
    places: dict[str, list[dict[str, Any]]] = {name: [{}] for name in layers}
    if by == "tokens":
        flat = [name for name, size in sizes.items() if len(size) != 3]
        if flat:
            raise InspectionError(
                f"The layer {flat[0]!r} returns {list(sizes[flat[0]])}, and tokens are positions of a sequence [n, t, c]:"
                f' leave it out, at=[…, {"!" + flat[0]!r}], or write by="layer".'
            )
        places = {name: [{"tokens": token} for token in range(sizes[name][1])] for name in layers}
    with opened(model, corrupted, grad=False) as example:
        bottom = _answer(example.run(), target)
        if not abs(top - bottom) > 0:
            raise InspectionError(
                f"The answer is {top:.6g} for both examples: there is no difference that a patch could explain. Choose another"
                " target, or other examples."
            )
        effects = np.full((len(layers), max(map(len, places.values()))), np.nan)
        patches = {name: [patch(clean, **part) for part in parts] for name, parts in places.items()}
        with intervene(model, patches) as what_if:
            for row in what_if.rows:
                row.on = False
            cells = [(row, column) for row, parts in enumerate(patches.values()) for column in range(len(parts))]
            for cell, change in zip(cells, what_if.rows, strict=True):
                change.on = True
                effects[cell] = (_answer(example.run(), target) - bottom) / (top - bottom)
                change.on = False
    shares = effects if by == "tokens" else effects[:, 0]
    return PatchEffects(tuple(layers), shares, top, bottom, target)


def _answer(output: object, target: Target) -> float:
    return float(scores_of(output, target).double().mean())
