"""Samples are bounded, even, and copies; the way to the host is one transfer per device."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from pnne_nb.inspector.statistics.sampling import Sampler, measurable, sample, sample_stride, to_host, values_of


@given(st.integers(0, 200_000), st.integers(1, 5000))
def test_the_stride_is_bounded_and_coprime(count: int, limit: int) -> None:
    stride = sample_stride(count, limit)
    taken = math.ceil(count / stride)
    assert taken <= limit
    assert stride == 1 or math.gcd(stride, count) == 1


def test_every_channel_is_seen_evenly() -> None:
    channels = torch.arange(64).expand(1024, 64).contiguous()
    counts = sample(channels, 4096).bincount(minlength=64)
    assert counts.min() >= 0.9 * counts.float().mean()


@pytest.mark.parametrize(
    "tensor",
    [
        torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last),
        torch.randn(6, 4).t(),
        torch.randn(6, 4)[::2, 1:],
        torch.randn(3, 1).expand(3, 4),
        torch.randn(()),
        torch.empty(0, 3),
        torch.randn(8, 4)[2:],
    ],
    ids=["channels last", "transposed", "sliced", "expanded", "scalar", "empty", "offset"],
)
def test_every_layout_gives_its_own_elements(tensor: Tensor) -> None:
    assert sorted(sample(tensor).tolist()) == sorted(tensor.reshape(-1).tolist())
    few = sample(tensor, 5)
    assert len(few) <= 5
    assert set(few.tolist()) <= set(tensor.reshape(-1).tolist())


def test_a_sample_is_a_copy() -> None:
    x, sampler = torch.ones(4), Sampler(4)
    taken = [sample(x), *(sampler(x) for _ in range(3))]
    x.zero_()
    assert all(one is not None and one.tolist() == [1, 1, 1, 1] for one in taken)


@given(st.integers(0, 20_000), st.integers(1, 600))
def test_remembered_places_are_bounded_and_different(count: int, limit: int) -> None:
    x, sampler = torch.arange(count), Sampler(limit)
    for taken in (sampler(x), sampler(x)):
        assert taken is not None
        assert (count > 0) <= len(taken) <= limit
        assert len(set(taken.tolist())) == len(taken)
        if count <= limit:
            assert taken.tolist() == x.tolist()


@pytest.mark.parametrize("shape", [(64, 32, 28, 28), (1 << 14, 64)], ids=["channels first", "channels last"])
def test_of_large_tensors_every_channel_is_seen(shape: tuple[int, ...]) -> None:
    sampler, sizes = Sampler(2048), [-1 if place == 1 else 1 for place in range(len(shape))]
    channels = torch.arange(shape[1]).view(sizes).expand(shape).contiguous()
    sampler(channels)
    taken = sampler(channels)
    assert taken is not None
    assert 1900 < len(taken) <= 2048
    counts = taken.bincount(minlength=shape[1])
    assert counts.min() >= 0.3 * counts.float().mean()
    assert counts.max() <= 2 * counts.float().mean()


def test_a_sampler_goes_on_with_other_sizes_layouts_and_kinds() -> None:
    sampler = Sampler(8)
    for _ in range(2):
        for tensor in (torch.arange(12), torch.arange(12).view(3, 4).t(), torch.arange(6.0).bfloat16()):
            taken = sampler(tensor)
            assert taken is not None
            assert len(taken) <= 8
            assert set(taken.tolist()) <= set(tensor.reshape(-1).tolist())
        for nothing in (torch.eye(6).to_sparse(), torch.empty(12, device="meta")):
            assert sampler(nothing) is None


@pytest.mark.filterwarnings("ignore:Sparse invariant checks are implicitly disabled")  # torch 2.11, although it is told
def test_complex_bool_and_sparse_values() -> None:
    assert values_of(torch.tensor([3 + 4j])).tolist() == [5.0]
    assert values_of(torch.tensor([True])).tolist() == [1]
    sparse = torch.sparse_coo_tensor(torch.tensor([[0, 0]]), torch.tensor([1.0, 2.0]), (3,), check_invariants=True)
    assert values_of(sparse).tolist() == [3.0]
    assert not measurable(sparse)
    assert not measurable(torch.empty(1, device="meta"))


def test_arrays_come_back_in_order_and_precision() -> None:
    arrays = to_host([torch.ones(2, dtype=torch.bfloat16), torch.empty(0), torch.arange(3, dtype=torch.uint8)])
    assert [array.tolist() for array in arrays] == [[1, 1], [], [0, 1, 2]]
    assert arrays[0].dtype == np.float32
    [precise] = to_host([torch.tensor([1 + 1e-12], dtype=torch.float64)])
    assert precise[0] == 1 + 1e-12
    assert to_host([]) == []
