"""What goes into the files of a run comes out of them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils.data import BatchSampler, DataLoader, DistributedSampler, IterableDataset, TensorDataset

from pnne_nb.errors import TrainingError
from pnne_nb.runtime.data.open_data import Data, open_source
from pnne_nb.runtime.data.sources import BatchSource
from pnne_nb.runtime.distributed.transport.dataset_files import Drawing, Packing, unpack
from pnne_nb.runtime.distributed.transport.pickled_objects import Luggage, unpacked
from tests.runtime import tasks


def _opened(train: Data, val: Data | None) -> tuple[BatchSource, BatchSource | None]:
    def opened(data: Data, *, shuffle: bool) -> BatchSource:
        return open_source(data, batch_size=7, shuffle=shuffle, seed=0, num_workers=0, name="the data")

    return opened(train, shuffle=True), None if val is None else opened(val, shuffle=False)


def _flat(value: Any) -> list[Tensor]:
    return [value] if isinstance(value, Tensor) else [tensor for item in value for tensor in _flat(item)]


def _same(one: BatchSource | None, other: BatchSource | None) -> None:
    assert one is not None
    assert other is not None
    for epoch in (1, 2):
        batches = zip(one.batches(epoch, 1), other.batches(epoch, 1), strict=True)
        for mine, yours in batches:
            assert all(map(torch.equal, _flat(mine), _flat(yours)))


@pytest.mark.parametrize(
    "train",
    [
        tasks.images(),
        (np.arange(40.0).reshape(20, 2), np.arange(20)),
        (torch.ones(9, 2, dtype=torch.bfloat16), torch.zeros(9, dtype=torch.bool)),
        # Two views of one memory, and one that is not contiguous.
        (torch.arange(40.0).reshape(20, 2)[:, 0], torch.arange(40.0).reshape(2, 20).T),
        TensorDataset(*tasks.images()),
        DataLoader(TensorDataset(*tasks.images()), batch_size=10, shuffle=True, drop_last=True),
        DataLoader(TensorDataset(*tasks.images()), batch_size=10),
    ],
)
def test_the_same_batches_come_in_the_same_order(train: Data, tmp_path: Path) -> None:
    sources = _opened(train, tasks.images(2))
    Packing(*sources, None).write(tmp_path)
    found = unpack(tmp_path)
    assert found.train is not None
    for packed, source in zip(sources, _opened(found.train, found.val), strict=True):
        _same(packed, source)


def test_variables_of_a_drawn_training(tmp_path: Path) -> None:
    pictures, classes = tasks.images()
    drawing = Drawing("{}", {"pair": (pictures, classes.numpy()), "array": classes, "dataset": TensorDataset(pictures)})
    Packing(*_opened(tasks.images(), None), drawing).write(tmp_path)
    opened = unpack(tmp_path)
    assert opened.train is None
    assert opened.drawing is not None
    found = opened.drawing.variables
    assert all(map(torch.equal, _flat(found["pair"]), (pictures, classes)))
    assert torch.equal(found["array"], classes)
    assert torch.equal(found["dataset"][0], pictures)


@pytest.mark.parametrize(
    ("damage", "message"),
    [(None, "No such file"), (b"", "no data of a launched training"), (b"\x08" + bytes(7) + b"{}      ", "no data of")],
)
def test_files_that_are_none(damage: bytes | None, message: str, tmp_path: Path) -> None:
    if damage is not None:
        (tmp_path / "data.safetensors").write_bytes(damage)
    with pytest.raises(TrainingError, match=message):
        unpack(tmp_path)


def test_variables_that_are_no_arrays() -> None:
    with pytest.raises(TrainingError, match="The variable 'mine' is a Noisy, which exists in this process only"):
        Packing(*_opened(tasks.images(), None), Drawing("{}", {"mine": tasks.Noisy()}))


def test_variables_of_one_s_own_classes_are_handed_over_beside_the_file(tmp_path: Path) -> None:
    drawing = Drawing("{}", {"mine": tasks.Noisy(), "array": tasks.images()[1]})
    packing = Packing(*_opened(tasks.images(), None), drawing, hands_over=True)
    packing.write(tmp_path)
    opened = unpack(tmp_path, unpacked(Luggage(**packing.handed).packed()))
    assert opened.drawing is not None
    assert isinstance(opened.drawing.variables["mine"], tasks.Noisy)
    assert torch.equal(opened.drawing.variables["array"], tasks.images()[1])
    with pytest.raises(TrainingError, match=r"The variable 'locked' cannot be handed to the processes .* pickle"):
        Luggage(variables={"mine": tasks.Noisy(), "locked": threading.Lock()}).packed()


class _Stream(IterableDataset[Any]):
    def __iter__(self) -> Iterator[Any]:
        yield from zip(*tasks.images(), strict=True)


def _loaders() -> list[DataLoader[Any]]:
    data = TensorDataset(*tasks.images())
    backwards = range(tasks.EXAMPLES - 1, -1, -1)
    return [
        DataLoader(_Stream(), batch_size=7, drop_last=True),
        DataLoader(data, batch_size=7, sampler=backwards),
        DataLoader(data, batch_size=7, shuffle=True, generator=torch.Generator().manual_seed(3)),
        DataLoader(data, batch_sampler=BatchSampler(backwards, 5, drop_last=False)),
        DataLoader(data, batch_size=None, sampler=BatchSampler(backwards, 5, drop_last=False)),
    ]


@pytest.mark.parametrize("number", range(5))
def test_loaders_with_an_order_of_their_own_are_handed_over(number: int, tmp_path: Path) -> None:
    sources = _opened(_loaders()[number], None)
    packing = Packing(*sources, None, hands_over=True)
    packing.write(tmp_path)
    packed = Luggage(train=packing.handed["train"]).packed()
    found = unpack(tmp_path, unpacked(packed)).train
    assert isinstance(found, DataLoader)
    _same(sources[0], _opened(found, None)[0])


def test_a_loader_that_is_shared_already() -> None:
    data = TensorDataset(*tasks.images())
    loader: DataLoader[Any] = DataLoader(data, sampler=DistributedSampler(data, num_replicas=2, rank=0))
    with pytest.raises(TrainingError, match="a group cuts each batch by itself: give the loader without one"):
        Packing(*_opened(loader, None), None, hands_over=True)
