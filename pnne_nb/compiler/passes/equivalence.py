"""Compares a transformed model with the original on the same inputs and random numbers."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from typing import Any

import msgspec
import torch
from torch import nn
from torch.utils import _pytree as pytree

from pnne_nb.compiler.analysis.device_rule import comparable
from pnne_nb.compiler.analysis.dispatch_modes import FillEmptyTensors
from pnne_nb.compiler.analysis.nested_values import copied, tensor_leaves
from pnne_nb.compiler.analysis.verify import Mode
from pnne_nb.process.random_state import private_random_state

Found = dict[str, Any]
"""What a run gave, by place: ``"output 0"``, ``"gradient of fc.weight"`` …"""


class Promise(msgspec.Struct, frozen=True):
    """What a pass promises to keep equal.

    Attributes:
        modes: In which modes of the model.
        outputs: How far results may differ, relative to the largest value of the tensor; 0: not in a single bit.
        gradients: The same for gradients of inputs and of parameters that are still there, and for buffers; None:
            nothing is promised, the model is for inference.
    """

    modes: tuple[Mode, ...] = ("train", "eval")
    outputs: float = 0.0
    gradients: float | None = 0.0

    def __str__(self) -> str:
        said = [f"outputs {_tolerance(self.outputs)}"]
        if self.gradients is not None:
            said.append(f"gradients and buffers {_tolerance(self.gradients)}")
        return f"{', '.join(said)}, in {' and '.join(self.modes)} mode"


class EquivalenceProof(msgspec.Struct, frozen=True):
    """A comparison of two models on example inputs.

    Attributes:
        promise: What was compared, and how far it may differ.
        difference: Where it differs further; empty if it holds.
        worst: The largest difference found, relative to the largest value of its tensor.
    """

    promise: Promise
    difference: str
    worst: float

    @property
    def holds(self) -> bool:
        """Whether the models are equal as promised."""
        return not self.difference

    def __str__(self) -> str:
        if self.difference:
            return f"not equal: {self.difference}"
        seen = f" (seen: {self.worst:.1e})" if self.worst else ""
        return f"proved equal on the example inputs: {self.promise}{seen}"


def prove(
    before: nn.Module, after: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any], promise: Promise
) -> EquivalenceProof:
    """Compare copies of two models on copies of the inputs; torch's random state is restored."""
    worst = 0.0
    for mode in promise.modes:
        for memory in (nullcontext, FillEmptyTensors):  # what nobody has written makes no difference
            with memory():
                proof = _prove_in(mode, before, after, args, kwargs, promise)
            if proof.holds:
                break
        if not proof.holds:
            return proof
        worst = max(worst, proof.worst)
    return EquivalenceProof(promise, "", worst)


def _prove_in(
    mode: Mode, before: nn.Module, after: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any], promise: Promise
) -> EquivalenceProof:
    results = [_run(model, args, kwargs, mode, gradients=promise.gradients is not None) for model in (before, after)]
    (one, failed), (other, failed_too) = results
    if failed is not None and failed_too is not None:
        return EquivalenceProof(promise, "", 0.0)  # BatchNorm refuses a single sample in training mode: so do both
    if failed is not None or failed_too is not None:
        return EquivalenceProof(
            promise, f"only one of them refuses the inputs in {mode} mode: {failed or failed_too}", 0.0
        )
    return compare(one, other, promise, mode)


def compare(one: Found, other: Found, promise: Promise, mode: Mode) -> EquivalenceProof:
    """Compare the results of two models in one mode, by path."""
    worst = 0.0
    for place, mine, theirs in _pairs(one, other):
        allowed = promise.outputs if place.startswith("output") else promise.gradients or 0.0
        gap = _gap(mine, theirs)
        if not gap <= allowed:
            said = f"by {gap:.1e} of the largest value" if gap < float("inf") else "in kind or shape"
            return EquivalenceProof(promise, f"{place} differs {said} in {mode} mode", gap)
        worst = max(worst, gap)
    return EquivalenceProof(promise, "", worst)


def outputs_of(result: Any) -> Found:
    """Return the tensors in the result of a model, by path."""
    return {f"output {index}": leaf for index, leaf in enumerate(pytree.tree_leaves(result))}


def _run(
    model: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any], mode: Mode, *, gradients: bool
) -> tuple[Found, Exception | None]:
    """Return results, gradients and buffers by place, or why there are none."""
    model = copy.deepcopy(model).train(mode == "train")
    given = copied((args, dict(kwargs)))
    with private_random_state(), torch.set_grad_enabled(gradients):
        try:
            result = model(*given[0], **given[1])
        except Exception as error:  # noqa: BLE001  # what it is does not matter: the other model must fail too
            return {}, error
        found = outputs_of(result)
        leaves = list(found.values())
        if not gradients:
            return found, None
        traced = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
        # Squares, so that every element has a gradient of its own.
        torch.stack(
            [leaf.abs().square().mean().double() for leaf in traced] or [torch.zeros((), requires_grad=True)]
        ).sum().backward()  # type: ignore[no-untyped-call]  # torch does not say
    found |= {f"gradient of input {index}": leaf.grad for index, leaf in enumerate(tensor_leaves(given))}
    found |= {f"gradient of {name}": parameter.grad for name, parameter in model.named_parameters()}
    found |= {f"buffer {name}": buffer for name, buffer in model.named_buffers()}
    return found, None


def _pairs(one: Found, other: Found) -> Iterator[tuple[str, Any, Any]]:
    """Yield what both have, and every result."""
    for place in one:
        if place in other or place.startswith("output"):
            yield place, one[place], other.get(place)
    for place in other:
        if place not in one and place.startswith("output"):
            yield place, None, other[place]


def _gap(mine: Any, theirs: Any) -> float:
    """Return how far two values are apart, relative to the largest; infinity if they cannot be compared."""
    if not isinstance(mine, torch.Tensor) or not isinstance(theirs, torch.Tensor):
        # A gradient of zeros and none at all are the same to an optimizer that was not told.
        known = mine if theirs is None else theirs if mine is None else None
        if isinstance(known, torch.Tensor):
            return 0.0 if not known.any() else float("inf")
        return 0.0 if type(mine) is type(theirs) and mine == theirs else float("inf")
    if mine.shape != theirs.shape or mine.dtype != theirs.dtype or mine.layout != theirs.layout:
        return float("inf")
    if mine.device.type == "meta" or mine.numel() == 0:
        return 0.0
    mine, theirs = comparable(mine.detach(), theirs.detach())
    if torch.equal(mine, theirs):
        return 0.0
    if not (mine.is_floating_point() or mine.is_complex()) or mine.is_quantized:
        return float("inf")
    wide = torch.complex128 if mine.is_complex() else torch.float64
    mine, theirs = mine.to(wide), theirs.to(wide)
    same = (mine == theirs) | (mine.isnan() & theirs.isnan())
    gaps = torch.where(same, 0.0, (mine - theirs).abs())
    if same.all():
        return 0.0
    scale = torch.where(mine.isfinite(), mine.abs(), 0.0).max()
    return float(gaps.max() / scale) if scale > 0 else float("inf")


def _tolerance(relative: float) -> str:
    return f"within {relative:.0e} of the largest value" if relative else "bit for bit"
