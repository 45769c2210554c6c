"""Samples tensors evenly and moves the samples to the host, in one transfer per device."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

FloatArray = npt.NDArray[np.floating[Any]]

LIVE_SAMPLE = 2048
"""Most elements that a live frame samples per layer and quantity."""

RUN = 4
"""Neighbours that are sampled together from large tensors: fetching one from memory takes as long as fetching all."""

_SPARSE = 16
"""Stride from which each sampled element is in a cache line of its own."""


def measurable(tensor: Tensor) -> bool:
    """Return whether a tensor `[*]` can be sampled: not on the meta device, sparse, nested or quantised."""
    dense = tensor.layout == torch.strided and not tensor.is_nested and not tensor.is_quantized
    return dense and tensor.device.type != "meta"


def values_of(tensor: Tensor) -> Tensor:
    """Return the stored values without their graph, magnitudes of complex numbers, and bools as 0 and 1.

    Shape:
        - tensor: `[*]`, of any shape.
        - Returns: `[*]` as `tensor`; of a sparse one `[n, ...]`, n stored values.
    """
    if tensor.requires_grad:
        tensor = tensor.detach()
    if tensor.layout is torch.sparse_coo:
        tensor = tensor.coalesce().values()
    if tensor.is_complex():
        tensor = tensor.abs()
    return tensor.to(torch.uint8) if tensor.dtype is torch.bool else tensor


def sample_stride(count: int, limit: int) -> int:
    """Return the step that takes at most `limit` of `count` elements and visits every row, column and channel evenly.

    A step that shares a factor with a dimension would see only some of its indices (every 64th element of a
    tensor with 64 channels last is always the same channel), so the step is coprime to the number of elements.
    """
    stride = max(1, math.ceil(count / limit))
    while stride > 1 and math.gcd(stride, count) != 1:
        stride += 1
    return stride


def sample(tensor: Tensor, limit: int = LIVE_SAMPLE) -> Tensor:
    """Copy at most `limit` elements, evenly spread, to a new 1-D tensor on the same device.

    The order of the elements is that of memory where the tensor is dense, so no layout is copied as a whole.

    Shape:
        - tensor: `[*]`, of any shape.
        - Returns: `[n]`, n at most `limit`.
    """
    tensor = values_of(tensor)
    count = tensor.numel()
    stride = sample_stride(count, limit)
    if tensor.is_contiguous():
        return tensor.view(-1)[::stride].clone()
    if _is_dense(tensor):
        return tensor.as_strided((count,), (1,), tensor.storage_offset())[::stride].clone()
    if stride == 1:
        return tensor.reshape(-1).clone()
    flat = torch.arange(0, count, stride, device=tensor.device)
    return tensor[torch.unravel_index(flat, tensor.shape)]


@final
class Sampler:
    """Samples tensors that mostly have one size, such as a layer's outputs from step to step.

    It keeps the sampled positions, because computing them again for each tensor takes longer than the sampling.
    """

    __slots__ = ("_count", "_places", "limit")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._count = -1
        self._places: Tensor | None = None

    def __call__(self, tensor: Tensor) -> Tensor | None:
        """Return a new 1-D tensor of at most `limit` elements, evenly spread, or None if there are no values to read.

        Those of a complex tensor may be complex.
        """
        if self._places is not None and tensor.numel() == self._count:
            try:
                return tensor.detach().take(self._places)
            except RuntimeError:
                # It is on another device than the last tensor, or cannot be sampled.
                pass
        if not measurable(tensor):
            return None
        self._count = tensor.numel()
        self._places = _places(self._count, self.limit, tensor.device)
        return sample(tensor, self.limit)


def _places(count: int, limit: int, device: torch.device) -> Tensor:
    """Return the positions of at most `limit` of `count` elements; for large tensors, in runs of `RUN`."""
    parts = limit // RUN
    if parts == 0 or count < _SPARSE * limit:
        return torch.arange(0, count, sample_stride(count, limit), device=device)
    # One run at a random place in each part: runs at equal distances could fall on the same rows and channels.
    within = np.random.default_rng(0).integers(0, count // parts - RUN + 1, parts)
    starts = np.arange(parts) * (count // parts) + within
    return torch.from_numpy((starts[:, None] + np.arange(RUN)).reshape(-1)).to(device)


def to_host(tensors: Sequence[Tensor]) -> list[FloatArray]:
    """Bring tensors to the host as float32 (float64 where one of them is), in one transfer per device.

    Shape:
        - tensors: each `[n]`, n its own number of elements.
        - Returns: arrays `[n]` in the same order.
    """
    by_device: dict[torch.device, list[int]] = {}
    for index, tensor in enumerate(tensors):
        by_device.setdefault(tensor.device, []).append(index)
    arrays: dict[int, FloatArray] = {}
    for indices in by_device.values():
        parts = [tensors[index] for index in indices]
        wide = any(part.dtype in (torch.float64, torch.int64, torch.int32) for part in parts)
        # MPS has no float64; its tensors are never wider than float32.
        dtype = torch.float64 if wide and parts[0].device.type != "mps" else torch.float32
        joined = torch.cat([part if part.dtype is dtype else part.to(dtype) for part in parts]).cpu().numpy()
        start = 0
        for index, part in zip(indices, parts, strict=True):
            arrays[index] = joined[start : start + part.numel()]
            start += part.numel()
    return [arrays[index] for index in range(len(tensors))]


def to_array(tensor: Tensor) -> npt.NDArray[Any]:
    """Return a tensor `[*]` as an array of the same shape on the host: a sparse one dense, bfloat16 as float32."""
    tensor = tensor.detach().to_dense() if tensor.layout != torch.strided else tensor.detach()
    array: npt.NDArray[Any] = (
        (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).cpu().resolve_conj().numpy()
    )
    return array


def _is_dense(tensor: Tensor) -> bool:
    """Return whether the elements fill one block of memory without gaps or overlaps, in any order of dimensions."""
    order = sorted(range(tensor.dim()), key=lambda dim: (tensor.stride(dim), tensor.size(dim)), reverse=True)
    return tensor.permute(order).is_contiguous()
