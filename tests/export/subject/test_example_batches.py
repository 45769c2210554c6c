"""Inputs to export and to prove with."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given
from torch import Tensor, nn
from torch.utils.data import TensorDataset

import pnne_nb as pn
from pnne_nb.export.formats.base import TensorInfo
from pnne_nb.export.subject.example_batches import SAMPLES, BatchMaker, first_batch


class Any(nn.Module):
    def forward(self, *tensors: Tensor) -> Tensor:
        return tensors[0]


@given(st.lists(st.sampled_from(["A", "B", "C", "D", 5, 7]), min_size=1, max_size=5))
def test_no_size_is_0_or_1_and_no_two_are_equal(shape: list[str | int]) -> None:
    sizes = BatchMaker(Any(), (TensorInfo("x", "float32", tuple(shape)),), {}).example()
    assert set(sizes) == {size for size in shape if isinstance(size, str)}
    assert min(sizes.values(), default=2) > 1
    assert len({*sizes.values()}) == len(sizes)
    assert not {5, 7} & {*shape} & {*sizes.values()}


class Halving(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.reshape(x.shape[0], x.shape[1] // 8, 8)


def test_a_model_that_asks_for_multiples_gets_them() -> None:
    maker = BatchMaker(Halving(), (TensorInfo("x", "float32", ("N", "T")),), {})
    sizes = maker.example()
    assert sizes["T"] % 8 == 0
    others = maker.other_values("T", sizes, 1, None)
    assert len({*others, sizes["T"]}) == 3
    assert all(each % 8 == 0 for each in others)


def test_limits_are_kept() -> None:
    info = (TensorInfo("x", "float32", ("N", "T")),)
    maker = BatchMaker(Any(), info, {"T": (30, 33)})
    assert 30 <= maker.example()["T"] <= 33


class Never(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        raise ValueError("not today")


def test_a_model_that_takes_nothing_is_told() -> None:
    with pytest.raises(
        pn.ExportError, match=r"No example was found that the model takes for the free sizes N.*not today"
    ):
        BatchMaker(Never(), (TensorInfo("x", "float32", ("N", 3)),), {}).example()


def test_indices_are_valid_for_the_table() -> None:
    model = nn.Sequential(nn.Embedding(4, 2))
    (indices,) = BatchMaker(model, (TensorInfo("x", "int64", ("N", "T")),), {}).tensors({"N": 50, "T": 10})
    assert indices.min() == 0
    assert indices.max() == 3


def test_batches_come_in_many_forms() -> None:
    x, y = torch.randn(20, 3), torch.arange(20)
    for data in (x, (x, y), {"x": x}, TensorDataset(x, y), iter([(x, y)]), x.numpy().astype(np.float64)):
        found = first_batch(data, ("x",))
        assert found is not None
        torch.testing.assert_close(found[0], x[:SAMPLES])
        assert len(found) == 1
    assert first_batch(None, ("x",)) is None


class Packing(nn.Module):
    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        return packed.data.sum(0)


LENGTHS = (TensorInfo("x", "float32", ("N", 6, 2)), TensorInfo("lengths", "int64", ("N",)))


def test_lengths_are_at_least_one() -> None:
    maker = BatchMaker(Packing(), LENGTHS, {})
    assert maker.example() == {"N": 3}
    assert maker.tensors({"N": 3})[1].tolist() == [1, 1, 1]


def test_whole_numbers_are_taken_from_the_data() -> None:
    maker = BatchMaker(Packing(), LENGTHS, {}, {"lengths": torch.tensor([6, 4, 2])})
    assert {*maker.tensors({"N": 40})[1].tolist()} == {2, 4, 6}
