"""Strided samples of tensors, and their way to the host: one transfer per device and collection."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

FloatArray = npt.NDArray[np.floating[Any]]

LIVE_SAMPLE = 2048
"""Elements that a live frame looks at, at most, per layer and quantity: each is a cache line of its own to fetch."""


def measurable(tensor: Tensor) -> bool:
    """Whether the tensor has values in memory that can be read: not on the meta device, not sparse or nested."""
    return tensor.layout == torch.strided and tensor.device.type != "meta" and not tensor.is_nested


def values_of(tensor: Tensor) -> Tensor:
    """The stored values without their graph: those of a sparse tensor, magnitudes of a complex one, 0/1 of bools."""
    tensor = tensor.detach()
    if tensor.layout == torch.sparse_coo:
        tensor = tensor.coalesce().values()
    if tensor.is_complex():
        tensor = tensor.abs()
    return tensor.to(torch.uint8) if tensor.dtype == torch.bool else tensor


def sample_stride(count: int, limit: int) -> int:
    """The step that takes at most `limit` of `count` elements and visits every row, column and channel evenly.

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


def to_host(tensors: Sequence[Tensor]) -> list[FloatArray]:
    """Bring 1-D tensors to the host as float32 (float64 where one of them is), in one transfer per device."""
    by_device: dict[torch.device, list[int]] = {}
    for index, tensor in enumerate(tensors):
        by_device.setdefault(tensor.device, []).append(index)
    arrays: dict[int, FloatArray] = {}
    for indices in by_device.values():
        parts = [tensors[index] for index in indices]
        wide = any(part.dtype in (torch.float64, torch.int64, torch.int32) for part in parts)
        # MPS has no float64; its tensors are never wider than float32.
        dtype = torch.float64 if wide and parts[0].device.type != "mps" else torch.float32
        joined = torch.cat([part.to(dtype) for part in parts]).cpu().numpy()
        start = 0
        for index, part in zip(indices, parts, strict=True):
            arrays[index] = joined[start : start + part.numel()]
            start += part.numel()
    return [arrays[index] for index in range(len(tensors))]


def to_array(tensor: Tensor) -> npt.NDArray[Any]:
    """`tensor` as an array of its own shape on the host; a sparse one dense, bfloat16 as float32."""
    tensor = tensor.detach().to_dense() if tensor.layout != torch.strided else tensor.detach()
    array: npt.NDArray[Any] = (
        (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).cpu().resolve_conj().numpy()
    )
    return array


def _is_dense(tensor: Tensor) -> bool:
    """Whether the elements fill one block of memory without gaps or overlaps, in whatever order of dimensions."""
    order = sorted(range(tensor.dim()), key=lambda dim: (tensor.stride(dim), tensor.size(dim)), reverse=True)
    return tensor.permute(order).is_contiguous()
