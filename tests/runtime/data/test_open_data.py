from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    TensorDataset,
    WeightedRandomSampler,
)

from pnne_nb.compiler.analysis.device_rule import to_device
from pnne_nb.errors import TrainingError
from pnne_nb.runtime.data.batches import Batch, as_batch, expect_shapes
from pnne_nb.runtime.data.open_data import open_source, require_count
from pnne_nb.runtime.data.sources import BatchSource, DatasetSource, StreamSource, TensorSource, workers_of
from pnne_nb.runtime.data.workers import end_workers
from pnne_nb.runtime.engine import TrainingEngine
from pnne_nb.telemetry.frames import StepFrame

X, Y = torch.arange(20.0).reshape(10, 2), torch.arange(10)


class Noisy(Dataset[tuple[Tensor, float, float, float]]):
    """Each item comes with random numbers from every generator that datasets use."""

    def __len__(self) -> int:
        return 10

    def __getitem__(self, index: int) -> tuple[Tensor, float, float, float]:
        return torch.tensor(index), torch.rand(()).item(), random.random(), float(np.random.rand())  # noqa: NPY002  datasets do


def opened(data: Any, *, batch_size: int = 4, shuffle: bool = True, seed: int = 0, num_workers: int = 0) -> BatchSource:
    return open_source(
        data, batch_size=batch_size, shuffle=shuffle, seed=seed, num_workers=num_workers, name="train_data"
    )


def order(source: BatchSource, epoch: int, start: int = 0) -> list[int]:
    return [int(index) for batch in source.batches(epoch, start) for index in batch[-1].reshape(-1)]


FORMS = [(X, Y), [X, Y], (X.numpy(), Y.numpy()), TensorDataset(X, Y), DataLoader(TensorDataset(X, Y), 4, shuffle=True)]


@pytest.mark.parametrize("data", FORMS, ids=["tuple", "list", "numpy", "dataset", "loader"])
def test_every_form_gives_every_example_once_an_epoch(data: Any) -> None:
    source = opened(data)
    assert source.size == 3
    assert sorted(order(source, 1)) == list(range(10))
    source.close()


@pytest.mark.parametrize("data", FORMS, ids=["tuple", "list", "numpy", "dataset", "loader"])
def test_the_order_depends_on_seed_and_epoch_only(data: Any) -> None:
    source = opened(data)
    first = order(source, 1)
    torch.manual_seed(99)
    assert order(source, 1) == first == order(opened(data), 1)
    assert order(source, 2) != first
    assert order(opened(data, seed=5), 1) != first


@pytest.mark.parametrize("data", FORMS, ids=["tuple", "list", "numpy", "dataset", "loader"])
def test_an_epoch_can_be_entered_in_the_middle(data: Any) -> None:
    source = opened(data)
    assert order(source, 3, start=2) == order(source, 3)[8:]


def test_without_shuffling_the_order_is_the_data_s() -> None:
    assert order(opened((X, Y), shuffle=False), 1) == list(range(10))
    assert order(opened(DataLoader(TensorDataset(X, Y), 4)), 1) == list(range(10))


@pytest.mark.parametrize("workers", [0, 2])
def test_random_numbers_of_a_dataset_depend_on_the_place_only(workers: int) -> None:
    whole = list(opened(Noisy()).batches(2))
    source = opened(Noisy(), num_workers=workers)
    again = list(source.batches(2, 1))
    source.close()
    for expected, found in zip(whole[1:], again, strict=True):
        assert all(torch.equal(a, b) for a, b in zip(expected, found, strict=True))


def test_a_dataset_in_the_training_thread_leaves_the_global_generators_alone() -> None:
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    list(opened(Noisy()).batches(1))
    assert torch.equal(torch.rand(3), expected)


def test_a_loader_s_own_settings_are_kept() -> None:
    loader = DataLoader(TensorDataset(X, Y), 4, drop_last=True, collate_fn=len)
    source = opened(loader)
    assert isinstance(source, DatasetSource)
    assert source.size == 2
    assert list(source.batches(1)) == [4, 4]


def test_a_loader_with_a_sampler_of_its_own_is_taken_as_it_is() -> None:
    loader = DataLoader(TensorDataset(X, Y), 2, sampler=WeightedRandomSampler([1.0] * 10, 6))
    source = opened(loader)
    assert isinstance(source, StreamSource)
    assert source.size == 3
    torch.manual_seed(4)
    whole = order(source, 1)
    torch.manual_seed(4)
    assert order(source, 1, start=1) == whole[2:]


class Stream(IterableDataset[tuple[Tensor, Tensor]]):
    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        yield from zip(X, Y, strict=True)


def test_a_loader_with_batches_of_its_own_decides_about_them() -> None:
    batches = BatchSampler(RandomSampler(range(10), generator=torch.Generator().manual_seed(3)), 4, drop_last=True)
    source = opened(DataLoader(TensorDataset(X, Y), batch_sampler=batches))
    found = order(source, 1)
    assert source.size == 2
    assert len(set(found)) == 8
    assert found != sorted(found)


def _by_weight(generator: torch.Generator) -> dict[str, Any]:
    return {"batch_size": 2, "sampler": WeightedRandomSampler([1.0] * 10, 40, generator=generator)}


@pytest.mark.parametrize(
    "drawing",
    [
        lambda generator: {"batch_size": 2, "shuffle": True, "generator": generator},
        lambda generator: {"batch_sampler": BatchSampler(RandomSampler(Y, generator=generator), 2, drop_last=True)},
        _by_weight,
        lambda generator: {**_by_weight(generator), "num_workers": 1, "persistent_workers": True},
    ],
)
def test_whoever_reads_the_loader_meanwhile_disturbs_no_pass(
    drawing: Callable[[torch.Generator], dict[str, Any]],
) -> None:
    def made() -> tuple[BatchSource, DataLoader[Any], torch.Generator]:
        generator = torch.Generator().manual_seed(3)
        options = drawing(generator)
        context = "fork" if "num_workers" in options else None
        loader = DataLoader(TensorDataset(X, Y), multiprocessing_context=context, **options)
        return opened(loader), loader, generator

    source, _, _ = made()
    expected = [order(source, epoch) for epoch in (1, 2)]
    source.close()
    source, loader, generator = made()
    assert isinstance(source, StreamSource)
    batches = source.batches(1)
    found = [next(batches)]
    next(iter(loader))
    torch.rand(3, generator=generator)
    found += batches
    list(loader)
    assert [int(index) for batch in found for index in batch[-1]] == expected[0]
    assert order(source, 2) == expected[1]
    source.close()
    end_workers(loader._iterator)


class Ends(Dataset[Tensor]):
    """Says of its seventh example that there are no more, as an iterator that was used up does."""

    def __len__(self) -> int:
        return 10

    def __getitem__(self, index: int) -> Tensor:
        if index == 6:
            raise StopIteration
        return torch.tensor(index)


@pytest.mark.parametrize("workers", [0, 1])
def test_a_dataset_cannot_end_an_epoch_early(workers: int) -> None:
    source = opened(Ends(), shuffle=False, num_workers=workers)
    with pytest.raises(TrainingError, match="The dataset raised StopIteration while reading example 6"):
        list(source.batches(1))
    source.close()


def test_who_loads_the_data() -> None:
    assert workers_of(opened((X, Y))) is None
    assert workers_of(opened(Noisy(), num_workers=2)) == 2
    assert workers_of(opened(DataLoader(TensorDataset(X, Y), batch_sampler=[[0, 1]], num_workers=1))) == 1


def test_a_stream_has_no_known_size() -> None:
    source = opened(Stream())
    assert source.size is None
    assert order(source, 1) == list(range(10))


@pytest.mark.parametrize("shuffle", [True, False])
def test_a_model_that_changes_its_input_in_place_leaves_the_arrays_alone(shuffle: bool) -> None:
    given = X.clone(), Y.clone()
    source = opened(given, shuffle=shuffle)
    assert isinstance(source, TensorSource)
    for inputs, targets in (source.first(), *source.batches(1)):
        inputs.zero_()
        targets.zero_()
    assert torch.equal(given[0], X)
    assert torch.equal(given[1], Y)


def test_numpy_arrays_become_what_layers_and_losses_expect() -> None:
    source = opened((np.zeros((4, 2)), np.zeros(4, dtype=np.int32), np.zeros(4, dtype=bool)))
    assert isinstance(source, TensorSource)
    assert [tensor.dtype for tensor in source.tensors] == [torch.float32, torch.int64, torch.bool]


@pytest.mark.parametrize(
    "data",
    [
        (pd.DataFrame(X.double().numpy()), pd.Series(Y.numpy(), dtype="Int64")),
        (X.tolist(), Y.tolist()),
        {"input": pd.DataFrame(X.double().numpy()), "target": Y.tolist()},
    ],
)
def test_tables_and_lists_of_numbers_are_arrays(data: Any) -> None:
    (inputs, targets), *_ = (
        batch.values() if isinstance(batch, dict) else batch for batch in opened(data, shuffle=False).batches(1)
    )
    assert torch.equal(inputs, X[:4])
    assert torch.equal(targets, Y[:4])


def _batches() -> Iterator[Any]:
    yield X, Y


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (([[1.0, 2.0], [3.0]], [1, 2]), r"train_data\[0\] is a list whose items differ in length.* pn.columns"),
        ((X, Y[:9]), r"The parts of train_data have different numbers of examples: 10 and 9 \(shapes \(10, 2\) and"),
        ((X[:0], Y[:0]), "train_data is empty: there is no example in it"),
        ((), "train_data is empty. Give a DataLoader"),
        ((X, "labels"), r"train_data\[1\] is a str. Give a DataLoader, a Dataset, a tuple"),
        ((X, torch.tensor(1)), r"train_data\[1\] is a single number; the first dimension must count the examples"),
        ((np.array(["a", "b"]),), r"train_data\[0\] holds elements of type <U1, which is no number. .*np.unique"),
        (X, "train_data is a Tensor. Give a DataLoader, a Dataset, a tuple"),
        (_batches, r"train_data is a function that makes batches: give list\(_batches\(\)\)"),
    ],
)
def test_data_that_cannot_be_used(data: Any, message: str) -> None:
    with pytest.raises(TrainingError, match=message):
        opened(data)


@pytest.mark.parametrize(
    "samples",
    [
        [(X[index], int(Y[index])) for index in range(len(X))],
        [[X[index].tolist(), int(Y[index])] for index in range(len(X))],
        [(X[index].double().numpy(), np.int64(Y[index])) for index in range(len(X))],
    ],
    ids=["tensors", "lists", "numpy"],
)
def test_a_list_of_examples_is_data(samples: Any) -> None:
    source = open_source(samples, batch_size=4, shuffle=False, seed=0, num_workers=0, name="train_data")
    inputs, targets = next(iter(source.batches(1)))
    assert torch.equal(inputs, X[:4].float())
    assert torch.equal(targets, Y[:4])
    assert (inputs.dtype, targets.dtype) == (torch.float32, torch.int64)


def test_a_list_of_mappings_and_single_numbers_is_data() -> None:
    samples = [{"x": float(index), "target": index % 2 == 0} for index in range(5)]
    source = open_source(samples, batch_size=5, shuffle=False, seed=0, num_workers=0, name="train_data")
    batch = next(iter(source.batches(1)))
    assert batch["x"].dtype == torch.float32
    assert batch["target"].dtype == torch.bool


def test_batches_for_a_gpu_are_pinned() -> None:
    for pinned in (True, False):
        source = open_source(
            TensorLike(), batch_size=2, shuffle=False, seed=0, num_workers=0, name="data", pin_memory=pinned
        )
        assert isinstance(source, DatasetSource)
        assert source._build().pin_memory is pinned


class TensorLike(Dataset[int]):
    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> int:
        return index


class Endless(Dataset[int]):
    def __getitem__(self, index: int) -> int:
        return index


def test_a_dataset_without_a_length() -> None:
    with pytest.raises(TrainingError, match="train_data has no length: define __len__ on Endless"):
        opened(Endless())


@pytest.mark.parametrize("value", [0, -1, 2.5, True, "8"])
def test_counts_are_positive_whole_numbers(value: Any) -> None:
    with pytest.raises(TrainingError, match="batch_size must be a whole number, at least 1, not "):
        require_count("batch_size", value)


def test_the_last_part_of_a_sequence_is_the_target() -> None:
    batch = as_batch((X, X, Y), wants_target=True)
    assert batch.inputs == (X, X)
    assert batch.target is Y
    assert batch.examples == 10


def test_a_mapping_names_the_inputs() -> None:
    batch = as_batch({"tokens": X, "labels": Y}, wants_target=True)
    assert batch.named == {"tokens": X}
    assert batch.target is Y


def test_without_a_target_everything_is_input() -> None:
    assert as_batch(X, wants_target=False) == Batch((X,), {}, None, 10)


@pytest.mark.parametrize("raw", [X, (X,)])
def test_a_missing_target(raw: Any) -> None:
    with pytest.raises(TrainingError, match=r"no target for the loss: give pairs such as \(X, y\), or loss=None"):
        as_batch(raw, wants_target=True)


def test_a_target_by_a_name_that_is_none() -> None:
    with pytest.raises(
        TrainingError,
        match="no target for the loss: the batches have 'tokens', 'cls': call the target target, targets, label, labels or y",
    ):
        as_batch({"tokens": X, "cls": Y}, wants_target=True)


def test_a_batch_that_is_none() -> None:
    with pytest.raises(
        TrainingError, match="A batch of the data is a str, in which inputs and target cannot be told apart"
    ):
        as_batch("text", wants_target=True)


@pytest.mark.parametrize("workers", [0, 1])
def test_examples_that_do_not_fit_together_say_how_they_differ(workers: int) -> None:
    source = opened([(torch.ones(n), 0) for n in (3, 3, 5, 5)], shuffle=False, num_workers=workers)
    message = (
        r"do not fit into one batch: one is \(3,\) float32, .*, another one \(5,\) float32, .*give a DataLoader with"
    )
    with pytest.raises(TrainingError, match=message):
        list(source.batches(1))
    source.close()


def test_a_loader_that_drops_its_only_batch() -> None:
    loader = DataLoader(TensorDataset(X, Y), 16, drop_last=True)
    with pytest.raises(TrainingError, match="train_data gives no batch: 10 examples are fewer than the 16 of a batch"):
        opened(loader)


def test_a_dataset_of_tensors_without_examples() -> None:
    with pytest.raises(TrainingError, match="train_data is empty: there is no example in it"):
        opened(TensorDataset(X[:0], Y[:0]))


@dataclass(frozen=True)
class Held:
    values: Tensor
    sequences: list[Any]


PACKED = nn.utils.rnn.pack_sequence([torch.ones(3), torch.ones(2)])


@pytest.mark.parametrize(
    ("raw", "inputs", "examples"),
    [
        (PACKED, (PACKED,), 2),
        ((PACKED, torch.ones(2)), (PACKED, torch.ones(2)), 2),
        (Held(X, []), (Held(X, []),), 10),
        ("text", ("text",), 1),
        ([["a", "b"], X], (["a", "b"], X), 10),
    ],
)
def test_the_examples_of_a_batch_are_counted_not_their_steps(raw: Any, inputs: tuple[Any, ...], examples: int) -> None:
    batch = as_batch(raw, wants_target=False)
    assert len(batch.inputs) == len(inputs)
    assert type(batch.inputs[0]) is type(inputs[0])
    assert batch.examples == examples


def test_a_step_function_takes_batches_of_any_kind() -> None:
    def collate(examples: list[tuple[Tensor, Tensor]]) -> Held:
        return Held(torch.stack([x for x, _ in examples]), [int(y) for _, y in examples])

    def step(model: nn.Module, batch: Held) -> Tensor:
        return nn.functional.cross_entropy(model(batch.values), torch.tensor(batch.sequences))

    trained = TrainingEngine(
        nn.Linear(X.shape[1], 10),
        DataLoader(TensorDataset(X, Y), 4, collate_fn=collate),
        step_function=step,
        metrics=(),
        epochs=1,
        device="cpu",
    )
    frames: list[StepFrame] = []
    trained.on("step", frames.append)
    assert trained.start().wait(60)
    assert [frame.examples for frame in frames] == [4, 4, 2]


def test_structure_is_kept_on_the_way_to_a_device() -> None:
    moved = to_device({"a": (X, [Y]), "b": "text"}, torch.device("cpu"))
    assert isinstance(moved["a"], tuple)
    assert torch.equal(moved["a"][1][0], Y)
    assert moved["b"] == "text"


def test_packed_sequences_and_data_classes_move_with_what_they_hold() -> None:
    packed = nn.utils.rnn.pack_sequence([torch.ones(3), torch.ones(2)])
    held = Held(X, [packed])
    moved = to_device(held, torch.device("meta"))
    assert moved.values.is_meta  # noqa: PD011  no pandas object
    assert held.values is X  # noqa: PD011  as above
    assert moved.sequences[0].data.is_meta
    assert torch.equal(moved.sequences[0].batch_sizes, packed.batch_sizes)


def test_shapes_that_fit_the_input_nodes() -> None:
    batch = Batch((torch.zeros(4, 1, 8, 8), torch.zeros(4, 3)), {}, None, 4)
    expect_shapes(batch, (("x", ("N", 1, "H", "H")), ("z", None)))


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        (
            ("N", 1, 28, 28),
            r"does not fit Input node 'x': the node expects shape \(N, 1, 28, 28\), the data has \(4, 8, 6\)",
        ),
        (("N", "H", "H"), r"expects shape \(N, H, H\), the data has \(4, 8, 6\)"),
        (("N",), r"expects shape \(N,\), the data has \(4, 8, 6\)"),
    ],
)
def test_shapes_that_do_not_fit_name_the_node_and_both_shapes(shape: Any, message: str) -> None:
    with pytest.raises(TrainingError, match=message) as raised:
        expect_shapes(Batch((torch.zeros(4, 8, 6),), {}, None, 4), (("x", shape),))
    assert raised.value.diagnostics[0].node == "x"


def test_another_number_of_inputs() -> None:
    with pytest.raises(TrainingError, match=r"2 Input nodes \(a, b\), but a batch of the data has 1 part besides"):
        expect_shapes(Batch((X,), {}, None, 10), (("a", None), ("b", None)))


def test_a_named_input_that_is_missing() -> None:
    with pytest.raises(TrainingError, match="The data has no part called 'x', which Input node 'x' takes"):
        expect_shapes(Batch((), {"y": X}, None, 10), (("x", None),))


def test_arrays_by_name_train_as_a_sequence_of_them_does() -> None:
    named: dict[str, Any] = {"x": X.numpy(), "y": Y}
    source = open_source(named, batch_size=4, shuffle=True, seed=3, num_workers=0, name="train_data")
    plain = open_source((X, Y), batch_size=4, shuffle=True, seed=3, num_workers=0, name="train_data")
    for one, other in zip(source.batches(1), plain.batches(1), strict=True):
        assert torch.equal(one["x"], other[0])
        assert torch.equal(one["y"], other[1])
    with pytest.raises(TrainingError, match="The parts of train_data have different numbers of examples"):
        open_source({"x": X, "y": Y[:3]}, batch_size=4, shuffle=True, seed=3, num_workers=0, name="train_data")
