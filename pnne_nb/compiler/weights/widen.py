"""Fits the tensors of a layer to a greater width: what it had is kept, and what reads it changes nothing at first.

The new units of a widened layer are drawn as any are. Columns that read them start at zero, in the layers behind it: where
only what works on each unit alone lies between (activations, batch norms, dropout, pooling), the model computes what it
did. Net2Net (Chen et al., 2016) reaches that with copies of units; drawn ones differ from the first step on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Final, TypeAlias, TypeGuard

import msgspec
import torch
from torch import nn

Axes: TypeAlias = tuple[str, ...]
"""Properties of a layer that are the sizes of a tensor's first axes."""

_LINEAR: Final = {"weight": ("out_features", "in_features"), "bias": ("out_features",)}
_CONV: Final = {"weight": ("out_channels", "in_channels"), "bias": ("out_channels",)}
_TRANSPOSED: Final = {"weight": ("in_channels", "out_channels"), "bias": ("out_channels",)}
_BATCH_NORM: Final = dict.fromkeys(("weight", "bias", "running_mean", "running_var"), ("num_features",))
_GROUP_NORM: Final = dict.fromkeys(("weight", "bias"), ("num_channels",))
_LAYER_NORM: Final = dict.fromkeys(("weight", "bias"), ("normalized_shape",))
_EMBEDDING: Final = {"weight": ("num_embeddings", "embedding_dim")}

AXES: Final[Mapping[type[nn.Module], Mapping[str, Axes]]] = {
    nn.Linear: _LINEAR,
    **dict.fromkeys((nn.Conv1d, nn.Conv2d, nn.Conv3d), _CONV),
    **dict.fromkeys((nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d), _TRANSPOSED),
    **dict.fromkeys((nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d), _BATCH_NORM),
    **dict.fromkeys((nn.InstanceNorm1d, nn.InstanceNorm2d, nn.InstanceNorm3d), _BATCH_NORM),
    nn.GroupNorm: _GROUP_NORM,
    **dict.fromkeys((nn.LayerNorm, nn.RMSNorm), _LAYER_NORM),
    **dict.fromkeys((nn.Embedding, nn.EmbeddingBag), _EMBEDDING),
}
"""Layers that are fitted. Others have several units in a row, as the gates of an LSTM and the heads of an attention."""

WIDTHS: Final = {"out_features", "out_channels", "embedding_dim"}
"""Properties that others follow."""

READ: Final = {"in_features", "in_channels"}
"""Properties that follow others, and whose new columns start at zero."""


class Widening(msgspec.Struct, frozen=True):
    """How a tensor of a layer that was made wider is fitted.

    Attributes:
        before: The name of the tensor that it had.
        shape: The shape of that.
        axes: The properties that are the sizes of its first axes.
    """

    before: str
    shape: torch.Size
    axes: Axes

    def fit(self, old: torch.Tensor, fresh: torch.Tensor) -> torch.Tensor:
        """Return new values: those of `old`, zero where those read new units, and those of `fresh` elsewhere.

        Args:
            old: The tensor that the layer had.
            fresh: The tensor that it was made with, no smaller along any axis.

        Returns:
            Of the shape of `fresh`, and of the device and element type of `old`.
        """
        fitted = fresh.detach().to(device=old.device, dtype=old.dtype, copy=True)
        corner = tuple(slice(0, size) for size in old.shape)
        for axis, name in enumerate(self.axes):
            if name in READ:
                fitted[(*corner[:axis], slice(old.shape[axis], None), *corner[axis + 1 :])] = 0
        fitted[corner] = old.detach()
        return fitted

    def grown(self, shape: torch.Size) -> dict[str, tuple[int, int]]:
        """Return which properties grew up to `shape`: from what, and to what."""
        sizes = zip(self.axes, self.shape, shape, strict=False)
        return {name: (old, new) for name, old, new in sizes if new > old}


def widenings(source: nn.Module, target: nn.Module, former: Callable[[str], str | None]) -> dict[str, Widening]:
    """Return the tensors of `target` that belong to layers of `source` that were narrower.

    A layer behind it counts only if it grew by the same factor: before one that was put in between, a layer reads
    something else.

    Args:
        source: A model.
        target: The model with other widths.
        former: Gives the path that a module of `target` has in `source`, by its own; None for a new one.

    Returns:
        By the names of the tensors in `target`.
    """
    pairs: dict[str, tuple[str, nn.Module, nn.Module]] = {}
    known = dict(source.named_modules(remove_duplicate=False))
    for path, module in target.named_modules(remove_duplicate=False):
        before = former(path)
        old = None if before is None else known.get(before)
        if before is not None and old is not None and type(old) is type(module) and _is_fitted(old, module):
            pairs[path] = before, old, module
    ratios = {
        Fraction(int(getattr(new, name)), int(getattr(old, name)))
        for _, old, new in pairs.values()
        for name in WIDTHS
        if 0 < getattr(old, name, 0) < getattr(new, name, 0)
    }
    found: dict[str, Widening] = {}
    for path, (before, old, new) in pairs.items():
        for name, axes in AXES[type(new)].items():
            was, now = getattr(old, name, None), getattr(new, name, None)
            if _is_plain(was) and _is_plain(now) and was.shape != now.shape and _has_grown(was, now, axes, ratios):
                own = f"{before}.{name}" if before else name
                found[f"{path}.{name}" if path else name] = Widening(own, was.shape, axes)
    return found


def _is_fitted(old: nn.Module, new: nn.Module) -> bool:
    if type(new) not in AXES:
        return False
    groups, were = getattr(new, "groups", 1), getattr(old, "groups", 1)
    if groups == were == 1:
        return True
    # As many channels in each group as before: further groups stand behind the old ones.
    return type(new) not in (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d) and all(
        int(getattr(new, name)) * were == int(getattr(old, name)) * groups for name in ("in_channels", "out_channels")
    )


def _is_plain(tensor: object) -> TypeGuard[torch.Tensor]:
    return type(tensor) in (torch.Tensor, nn.Parameter) and isinstance(tensor, torch.Tensor) and not tensor.is_sparse


def _has_grown(old: torch.Tensor, new: torch.Tensor, axes: Axes, ratios: set[Fraction]) -> bool:
    if old.dim() != new.dim() or old.shape[len(axes) :] != new.shape[len(axes) :]:
        return False
    follows = WIDTHS | {"num_embeddings"}
    return all(
        now == was or (now > was > 0 and (name in follows or Fraction(now, was) in ratios))
        for name, was, now in zip(axes, old.shape, new.shape, strict=False)
    )
