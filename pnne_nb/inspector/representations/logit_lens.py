"""`pn.logit_lens`: what a model would say if it stopped after each of its blocks."""

from __future__ import annotations

import html
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import final

import numpy as np
import numpy.typing as npt
from torch import Tensor, nn

from pnne_nb.errors import InspectionError
from pnne_nb.inspector.capture.hooks import primary_tensor
from pnne_nb.inspector.capture.preserve import uncompiled
from pnne_nb.inspector.questions.example import opened
from pnne_nb.inspector.questions.sites import edited
from pnne_nb.inspector.statistics.patterns import Patterns, match_layers


@final
@dataclass(frozen=True, eq=False)
class LogitLens:
    """The likeliest answer after each block, at each position of the first example.

    Attributes:
        blocks: Paths of the blocks, in the model's order.
        best: The likeliest class (token), `[blocks, positions]`.
        shares: Its probability.
        added: Norm of what each block adds to the output of the one before, by that: `[blocks, positions]`; NaN for the first.
        name: Returns the text of a class.
    """

    blocks: tuple[str, ...]
    best: npt.NDArray[np.int64]
    shares: npt.NDArray[np.float64]
    added: npt.NDArray[np.float64]
    name: Callable[[int], str] = str

    def __repr__(self) -> str:
        rows = (
            f"  {block}: "
            + " ".join(f"{self.name(int(best))} {share:.0%}" for best, share in zip(row[-4:], shares[-4:], strict=True))
            for block, row, shares in zip(self.blocks, self.best, self.shares, strict=True)
        )
        return "\n".join([f"LogitLens({len(self.blocks)} blocks, the last of {self.best.shape[1]} positions)", *rows])

    def _repr_html_(self) -> str:
        rows = ""
        for block, row, shares, added in zip(self.blocks, self.best, self.shares, self.added, strict=True):
            cells = "".join(
                f'<td style="background:rgba(70,130,220,{0.5 * share:.2f})" title="{share:.1%}; adds {more:.2g}">'
                f"{html.escape(self.name(int(best)))}</td>"
                for best, share, more in zip(row, shares, added, strict=True)
            )
            rows += f"<tr><th>{html.escape(block)}</th>{cells}</tr>"
        return (
            '<div style="overflow-x:auto" tabindex="0" role="region" aria-label="Likeliest answer after each block">'
            f'<table class="pnne-facts pnne-lens"><tbody>{rows}</tbody></table></div>'
        )


def logit_lens(
    net: nn.Module, data: object, at: Patterns | None = None, *, name: Callable[[int], str] = str
) -> LogitLens:
    """Ask what a model would say if it stopped after each block: what follows the last block is given the output of each.

    It takes no knowledge of the model, and runs it once for each block, as it predicts; it is as before afterwards.

    Args:
        net: A module that returns scores `[n, k]`, or `[n, t, k]` for positions.
        data: An example: a tensor is the model's argument, a tuple its arguments, a mapping its keyword arguments.
        at: Patterns of the blocks, such as ``"blocks.?"``; None for the longest row of layers of one class and one size.
        name: Returns the text of a class, for what is shown.

    Raises:
        LayerNotFoundError: If no layer matches.
        InspectionError: If there are no blocks, they return tensors of other sizes, or the model returns no scores.
    """
    model = uncompiled(net)
    seen: dict[str, Tensor] = {}

    def keep(block: str, tensor: Tensor) -> Tensor:
        seen.setdefault(block, tensor.detach().clone())
        return tensor

    named = _rows(model) if at is None else [list(match_layers(model, at))]
    with opened(model, data, grad=False) as example:
        with edited(model, {block: partial(keep, block) for row in named for block in row}):
            example.run()
        called = [[block for block in row if block in seen] for row in named]
        fit = [row for row in called if len({seen[block].shape for block in row}) == 1]
        blocks = max(fit, key=len, default=[])
        if len(blocks) < 2:
            raise InspectionError(
                'There is no row of blocks that return tensors of one size: name them, pn.logit_lens(net, x, at="blocks.?").'
            )
        best, shares, added = [], [], []
        before: Tensor | None = None
        for block in blocks:
            instead = seen[block]
            with edited(model, {blocks[-1]: partial(_instead, instead)}):
                scores = primary_tensor(example.run())
            if scores is None or not scores.is_floating_point() or scores.dim() not in (2, 3):
                raise InspectionError(
                    "The model returns no scores [n, k] or [n, t, k], which could be read as answers."
                )
            top = scores[0].double().softmax(-1).reshape(-1, scores.shape[-1]).max(-1)
            best.append(top.indices.cpu().numpy())
            shares.append(top.values.cpu().numpy())
            ratio = np.full(best[-1].shape, np.nan)
            if before is not None and before.dim() == scores.dim():
                ratio[:] = ((instead - before)[0].norm(dim=-1) / before[0].norm(dim=-1)).flatten().cpu().numpy()
            added.append(ratio)
            before = instead
    return LogitLens(tuple(blocks), np.stack(best), np.stack(shares), np.stack(added), name)


def _rows(model: nn.Module) -> Sequence[list[str]]:
    """Return the layers of each container whose layers are of one class."""
    rows: Mapping[str, list[str]] = {
        path: [f"{path}.{name}" if path else name for name, _ in module.named_children()]
        for path, module in model.named_modules()
        if len({type(child) for child in module.children()}) == 1
    }
    return list(rows.values())


def _instead(new: Tensor, _old: Tensor) -> Tensor:
    return new
