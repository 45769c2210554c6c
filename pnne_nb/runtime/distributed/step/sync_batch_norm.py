"""Batch normalisation over a batch that several processes share, with the results of a single process.

torch's own SyncBatchNorm does this on GPUs only, and counts the example of a process that has none of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import MethodType
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from pnne_nb.runtime.faults.oom_recovery import OthersOutOfMemoryError
from pnne_nb.runtime.objective.step_logs import Peers

_KNOWN = (_BatchNorm.forward, nn.SyncBatchNorm.forward)
"""What is replaced: a class with a forward pass of its own knows what it does."""


class Whole(Peers, Protocol):
    """The collective operation of all processes, which run the same layers in the same order."""

    def add(self, tensor: Tensor) -> Tensor:
        """Return the sum over all processes, on the device of `tensor`."""


def join_batch_norms(model: nn.Module, whole: Whole) -> None:
    """Let batch norm layers in `model` use all parts of a batch in training; names and state do not change."""
    for layer in model.modules():
        if isinstance(layer, _BatchNorm) and type(layer).forward in _KNOWN:
            # An attribute of the object, so that neither its class nor its type's name changes.
            layer.forward = MethodType(_joint(whole), layer)  # type: ignore[method-assign]  # the forward of this one layer is replaced


def _joint(whole: Whole) -> Any:
    def forward(layer: _BatchNorm, x: Tensor) -> Tensor:
        if not layer.training:
            # SyncBatchNorm would look for a GPU here, too.
            return nn.BatchNorm1d.forward(layer, x)
        if whole.any(False):
            raise OthersOutOfMemoryError("Another process of the group is out of memory.")
        made: Any = _Normalized.apply(x, layer.weight, layer.bias, layer.eps, whole)  # type: ignore[no-untyped-call]  # torch leaves it untyped
        y, mean, variance, count = made
        _remember(layer, mean, variance * (count / (count - 1)))
        normalized: Tensor = y
        return normalized

    return forward


@torch.no_grad()
def _remember(layer: _BatchNorm, mean: Tensor, variance: Tensor) -> None:
    if not layer.track_running_stats or layer.running_mean is None or layer.running_var is None:
        return
    momentum = layer.momentum
    if layer.num_batches_tracked is not None:
        layer.num_batches_tracked.add_(1)
        if momentum is None:
            momentum = 1.0 / float(layer.num_batches_tracked)
    for running, new in ((layer.running_mean, mean), (layer.running_var, variance)):
        running.mul_(1 - (momentum or 0.0)).add_(new.to(running.dtype), alpha=momentum or 0.0)


class _Normalized(torch.autograd.Function):
    """Shapes: x ``[n, c, …]``, of which this process has some of the n; mean and variance ``[c]`` are of all of them."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float, whole: Whole
    ) -> tuple[Tensor, Tensor, Tensor, int]:
        axes = [axis for axis in range(x.dim()) if axis != 1]
        values = x.float() if x.dtype in {torch.float16, torch.bfloat16} else x
        own = values.numel() // values.shape[1] if whole.present else 0
        sums = whole.add(torch.cat([values.sum(axes) * bool(own), values.new_tensor([float(own)])]))
        count = int(sums[-1])
        if count < 2:
            # In the words of one process, which are explained there.
            raise ValueError(f"Expected more than 1 value per channel when training, got input size {x.size()}")
        mean = sums[:-1] / count
        centred = values - _along(mean, x)
        variance = whole.add(centred.square().sum(axes) * bool(own)) / count
        inverse = torch.rsqrt(variance + eps)
        normal = centred * _along(inverse, x)
        ctx.save_for_backward(normal, inverse, weight)
        ctx.whole, ctx.count, ctx.axes, ctx.present = whole, count, axes, bool(own)
        y = normal if weight is None else normal * _along(weight, x)
        y = y if bias is None else y + _along(bias, x)
        ctx.mark_non_differentiable(mean, variance)
        return y.to(x.dtype), mean, variance, count

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Tensor | None, ...]:
        normal, inverse, weight = ctx.saved_tensors
        given = gradients[0].to(normal.dtype)
        of_bias, of_weight = given.sum(ctx.axes), (given * normal).sum(ctx.axes)
        everywhere = ctx.whole.add(torch.cat([of_bias, of_weight])) / ctx.count
        scale = inverse if weight is None else inverse * weight
        through = given
        if ctx.present:
            # What this part has moved the mean and the variance by.
            by_mean, by_variance = everywhere.chunk(2)
            through = given - _along(by_mean, given) - normal * _along(by_variance, given)
        own = (through * _along(scale, given)).to(gradients[0].dtype)
        return own, *_wanted(ctx.needs_input_grad[1:3], (of_weight, of_bias)), None, None


def _wanted(needed: Sequence[bool], found: Sequence[Tensor]) -> list[Tensor | None]:
    return [gradient if needs else None for needs, gradient in zip(needed, found, strict=True)]


def _along(values: Tensor, x: Tensor) -> Tensor:
    """Return one value for each channel as a tensor that broadcasts with x ``[n, c, …]``."""
    return values.reshape(1, -1, *[1] * (x.dim() - 2))
