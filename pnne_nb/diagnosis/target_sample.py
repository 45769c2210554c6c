"""What the targets tell without the model: what the best constant answer costs, and whether batches are sorted."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final, final

import torch
from torch import Tensor, nn

from pnne_nb.diagnosis.finding import Finding
from pnne_nb.telemetry.frames import BaselineFrame

BATCHES: Final = 20
"""First batches whose targets are looked at."""
_FEW: Final = 8
"""Examples of a batch, at least, so that it is expected to have several classes."""
_SORTED: Final = 0.8
"""Share of batches with a single class from which on data counts as sorted."""
_WITHIN: Final = 0.1
"""Variance within batches, as a share of that of all: in batches by chance it is about 1."""
_ABSOLUTE: Final = (nn.L1Loss, nn.SmoothL1Loss, nn.HuberLoss)


def baseline_of(loss: Any, target: Any) -> BaselineFrame | None:
    """Return what always giving the best constant answer costs; None for losses and targets of which that is not known.

    Args:
        loss: The loss function.
        target: Of many examples, `[N, ...]`.
    """
    if not isinstance(target, Tensor) or target.is_complex() or not target.numel() or target.layout != torch.strided:
        return None
    if getattr(loss, "reduction", "mean") != "mean":
        return None
    with torch.no_grad():
        if isinstance(loss, nn.CrossEntropyLoss):
            return _of_classes(loss, target)
        if isinstance(loss, nn.BCEWithLogitsLoss) and loss.weight is None and loss.pos_weight is None:
            return _of_bits(target)
        return _of_quantities(loss, target) if target.is_floating_point() else None


def _of_classes(loss: nn.CrossEntropyLoss, target: Tensor) -> BaselineFrame | None:
    if loss.weight is not None or loss.label_smoothing or target.is_floating_point() or target.dim() != 1:
        return None
    counts = target[target != loss.ignore_index].unique(return_counts=True)[1].double()  # type: ignore[no-untyped-call]  # torch leaves it untyped
    if len(counts) < 2:
        return None
    shares = counts / counts.sum()
    return BaselineFrame(
        float(-(shares * shares.log()).sum()), "the frequencies of the classes", share=float(shares.max())
    )


def _of_bits(target: Tensor) -> BaselineFrame | None:
    yes = target.double().flatten(1).mean(0) if target.dim() > 1 else target.double().mean()[None]
    if bool((yes <= 0).any()) or bool((yes >= 1).any()):
        return None
    cost = -(yes * yes.log() + (1 - yes) * (1 - yes).log()).mean()
    share = float(torch.maximum(yes, 1 - yes).mean())
    return BaselineFrame(float(cost), "the frequency of 1 among the targets", share=share)


def _of_quantities(loss: Any, target: Tensor) -> BaselineFrame | None:
    rows = target.double().flatten(1) if target.dim() > 1 else target.double()[:, None]
    mean, deviation = rows.mean(0), rows.std(0, correction=0)
    if not bool(rows.isfinite().all()) or not bool((deviation > 0).any()):
        return None
    typical = float(mean.abs().max()), float(deviation.max())
    if isinstance(loss, nn.MSELoss) or loss is nn.functional.mse_loss:
        return BaselineFrame(
            float(deviation.square().mean()), "the mean of the targets", mean=typical[0], deviation=typical[1]
        )
    if isinstance(loss, _ABSOLUTE):
        middle = rows.median(0).values.expand_as(rows)
        return BaselineFrame(
            float(loss(middle, rows)), "the median of the targets", mean=typical[0], deviation=typical[1]
        )
    return None


@final
class TargetSample:
    """The targets of the first batches, each `[N]` or `[N, 1]`."""

    def __init__(self) -> None:
        self._batches: list[Tensor] | None = []

    @property
    def wants(self) -> bool:
        """Whether more batches are looked at."""
        return self._batches is not None

    def add(self, target: Any) -> bool:
        """Take the target of a batch; return whether the sample is complete."""
        if self._batches is None:
            return False
        one_each = isinstance(target, Tensor) and target.dim() and target[:1].numel() == 1 and not target.is_complex()
        if not one_each:
            self._batches = None
            return False
        self._batches.append(target.detach().flatten().clone())
        return len(self._batches) == BATCHES

    def conclude(self, loss: Any) -> tuple[list[Finding], BaselineFrame | None]:
        """Return what the batches show and the baseline of their targets, and keep nothing."""
        batches, self._batches = [batch for batch in self._batches or () if len(batch) >= _FEW], None
        if len(batches) < BATCHES // 2:
            return [], None
        whole = torch.cat(batches).cpu()  # the only time that an accelerator is waited for
        found = _sorted(whole, torch.split(whole, [len(batch) for batch in batches]))
        return found, None if found else baseline_of(loss, whole)


def _sorted(whole: Tensor, batches: Sequence[Tensor]) -> list[Finding]:
    hint = "Shuffle: DataLoader(..., shuffle=True), or give the engine the dataset itself, which it shuffles."
    if not whole.is_floating_point():
        alone = sum(bool((batch == batch[0]).all()) for batch in batches)
        if alone < _SORTED * len(batches) or bool((whole == whole[0]).all()):
            return []
        return [
            Finding(
                "sorted-batches",
                None,
                f"{alone} of the first {len(batches)} batches hold a single class each, and not the same one: each step "
                "unlearns the others.",
                hint,
                (("batches of a single class", alone), ("batches", len(batches))),
            )
        ]
    spread = float(whole.double().var(correction=0))
    within = sum(float(batch.double().var(correction=0)) for batch in batches) / len(batches)
    if not math.isfinite(spread) or spread <= 0 or within > _WITHIN * spread:
        return []
    return [
        Finding(
            "sorted-batches",
            None,
            f"The targets of a batch are alike: their variance within a batch is {within:.3g}, over the first "
            f"{len(batches)} batches {spread:.3g}.",
            hint,
            (("variance within a batch", within), ("variance of all", spread)),
        )
    ]
