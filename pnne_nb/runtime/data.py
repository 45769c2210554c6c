"""Training data in every form that people have it, as batches in an order that can be repeated and resumed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sized
from typing import Any, Protocol, TypeAlias, final

import msgspec
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    Sampler,
    SequentialSampler,
    TensorDataset,
)
from torch.utils.data.dataloader import _MultiProcessingDataLoaderIter

from pnne_nb.errors import Diagnostic, TrainingError
from pnne_nb.runtime.randomness import key_of, seeded_globals
from pnne_nb.runtime.samples import Samples, are_samples
from pnne_nb.runtime.workers import WorkerStart, explained

Array: TypeAlias = Tensor | NDArray[Any]
Data: TypeAlias = DataLoader[Any] | Dataset[Any] | tuple[Array, ...] | list[Array] | list[Any]

InputShapes: TypeAlias = tuple[tuple[str, tuple[int | str, ...] | None], ...]
"""Name and shape of each Input node; None stands for any shape, a name in a shape for any size."""

TARGET_KEYS = ("target", "targets", "label", "labels", "y")
"""Under which of these a mapping holds what the loss compares with."""

_ACCEPTED = (
    "Give a DataLoader, a Dataset, a tuple of tensors or numpy arrays such as (X, y), or a list of examples such as "
    "[(x0, y0), (x1, y1)]."
)


class Batch(msgspec.Struct, frozen=True):
    """What one forward pass and one loss need.

    Attributes:
        inputs: Positional arguments of the model.
        named: Keyword arguments of the model, where the data is a mapping.
        target: What the loss compares with, or None.
        examples: Size of the batch dimension.
        counts: Whether it counts for losses and metrics; see `StandIn`.
    """

    inputs: tuple[Any, ...]
    named: dict[str, Any]
    target: Any
    examples: int
    counts: bool = True


@final
class StandIn(msgspec.Struct, frozen=True):
    """A raw batch for a process that has no part in a small one: it keeps step with the others, and counts for nothing."""

    raw: Any


class Source(Protocol):
    """Raw batches by epoch, in an order that depends on the seed and the epoch only.

    Attributes:
        size: Batches in an epoch, or None where the data does not tell.
        draws: Whether making a batch may draw from the global random generators.
    """

    size: int | None
    draws: bool

    def batches(self, epoch: int, start: int = 0) -> Iterator[Any]:
        """The batches of `epoch` (from 1), beginning with number `start` (from 0)."""

    def close(self) -> None:
        """End workers; the source can be used again."""


def open_source(data: Data, *, batch_size: int, shuffle: bool, seed: int, num_workers: int, name: str) -> Source:
    """Make a source of batches.

    Args:
        data: A ``DataLoader`` (which decides itself about batch size, order and workers), a ``Dataset``,
            or arrays with the examples along the first dimension.
        batch_size: Examples in a batch.
        shuffle: Whether each epoch has an order of its own.
        seed: Decides about the order.
        num_workers: Processes that load a ``Dataset``; 0 loads in the training thread.
        name: What to call the data in messages, e.g. ``"train_data"``.

    Raises:
        TrainingError: The data is of another kind, is empty, or its parts have different lengths.
    """
    match data:
        case DataLoader():
            return _from_loader(data, seed, name)
        case TensorDataset():
            return TensorSource(data.tensors, batch_size=batch_size, shuffle=shuffle, seed=seed)
        case IterableDataset():
            loader: DataLoader[Any] = DataLoader(data, batch_size, num_workers=num_workers)
            return StreamSource(loader)
        case list() if are_samples(data):
            return open_source(
                Samples(data), batch_size=batch_size, shuffle=shuffle, seed=seed, num_workers=num_workers, name=name
            )
        case Dataset():
            require_examples(_length(data, name), name)
            template = DataLoader(data, batch_size, num_workers=num_workers, persistent_workers=num_workers > 0)
            return DatasetSource(template, shuffle=shuffle, seed=seed)
        case tuple() | list():
            tensors = as_tensors(data, name)
            return TensorSource(tensors, batch_size=batch_size, shuffle=shuffle, seed=seed)
        case _:
            raise TrainingError(f"{name} is a {type(data).__name__}. {_ACCEPTED}")


def require_count(name: str, value: Any) -> None:
    """Insist on a whole number from 1.

    Raises:
        TrainingError: It is something else; the message calls it `name`.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise TrainingError(f"{name} must be a whole number, at least 1, not {value!r}.")


def _from_loader(loader: DataLoader[Any], seed: int, name: str) -> Source:
    sampler = loader.sampler
    if isinstance(loader.dataset, IterableDataset) or type(loader.batch_sampler) is not BatchSampler:
        return StreamSource(loader)
    require_examples(_length(loader.dataset, name), name)
    if type(sampler) is SequentialSampler:
        return DatasetSource(loader, shuffle=False, seed=seed)
    plain = type(sampler) is RandomSampler and not sampler.replacement and sampler.generator is None
    if plain and isinstance(sampler, Sized) and len(sampler) == _length(loader.dataset, name):
        return DatasetSource(loader, shuffle=True, seed=seed)
    return StreamSource(loader)


def _length(dataset: object, name: str) -> int:
    if not isinstance(dataset, Sized):
        raise TrainingError(
            f"{name} has no length: define __len__ on {type(dataset).__name__}, or derive it from IterableDataset."
        )
    return len(dataset)


def require_examples(count: int, name: str) -> None:
    """Insist on at least one example.

    Raises:
        TrainingError: There is none; the message calls the data `name`.
    """
    if count == 0:
        raise TrainingError(f"{name} is empty: there is nothing to train on.")


def as_tensors(arrays: tuple[Array, ...] | list[Array], name: str) -> tuple[Tensor, ...]:
    """As tensors of equal length, of the types that layers and losses expect.

    Raises:
        TrainingError: Something is no array of numbers, or they hold different numbers of examples, or none.
    """
    tensors = []
    for index, array in enumerate(arrays):
        match array:
            case Tensor():
                tensors.append(array.detach())
            case np.ndarray():
                tensors.append(_from_numpy(array, f"{name}[{index}]"))
            case _:
                raise TrainingError(f"{name}[{index}] is a {type(array).__name__}. {_ACCEPTED}")
    if not tensors:
        raise TrainingError(f"{name} is empty. {_ACCEPTED}")
    for index, tensor in enumerate(tensors):
        if tensor.dim() == 0:
            raise TrainingError(f"{name}[{index}] is a single number; the first dimension must count the examples.")
    counts = [tensor.shape[0] for tensor in tensors]
    if len(set(counts)) > 1:
        shapes = " and ".join(str(tuple(tensor.shape)) for tensor in tensors)
        listed = " and ".join(str(count) for count in counts)
        raise TrainingError(f"The parts of {name} have different numbers of examples: {listed} (shapes {shapes}).")
    require_examples(counts[0], name)
    return tuple(tensors)


def _from_numpy(array: NDArray[Any], name: str) -> Tensor:
    """As a tensor of the types that layers and losses expect: float64 becomes float32, small integers int64."""
    match array.dtype.kind:
        case "f":
            return torch.tensor(array, dtype=torch.float32 if array.dtype.itemsize == 8 else None)
        case "i" | "u":
            return torch.tensor(array.astype(np.int64))
        case "b" | "c":
            return torch.tensor(array)
        case _:
            raise TrainingError(f"{name} holds elements of type {array.dtype}, which is no number.")


@final
class TensorSource:
    """Batches cut from tensors in memory, without a loader's work per example."""

    def __init__(self, tensors: tuple[Tensor, ...], *, batch_size: int, shuffle: bool, seed: int) -> None:
        self.tensors = tensors
        self._count = tensors[0].shape[0]
        self._batch_size = batch_size
        self._shuffle = shuffle
        self._seed = seed
        self.size: int | None = -(-self._count // batch_size)
        self.draws = False

    def first(self) -> tuple[Tensor, ...]:
        """A batch of the first example alone, to look at its shapes."""
        return tuple(tensor[:1] for tensor in self.tensors)

    def batches(self, epoch: int, start: int = 0) -> Iterator[Any]:
        """The batches of `epoch` (from 1), beginning with number `start` (from 0)."""
        step = self._batch_size
        if self._shuffle:
            order = _permutation(self._count, self._seed, epoch)
            for at in range(start * step, self._count, step):
                chosen = order[at : at + step]
                yield tuple(tensor.index_select(0, chosen) for tensor in self.tensors)
        else:
            for at in range(start * step, self._count, step):
                yield tuple(tensor[at : at + step] for tensor in self.tensors)

    def close(self) -> None:
        """Nothing is open."""


@final
class DatasetSource:
    """Batches of a map-style dataset in an order keyed by (seed, epoch), random numbers by batch.

    Because a dataset's random augmentation of a batch depends on nothing but the seed and the batch's
    place, training that resumes in the middle of an epoch sees exactly what it would have seen, with any
    number of workers.
    """

    def __init__(self, template: DataLoader[Any], *, shuffle: bool, seed: int) -> None:
        assert template.batch_size is not None
        self.template = template
        self.shuffle = shuffle
        count = _length(template.dataset, "the data")
        self._order = _KeyedOrder(
            count,
            template.batch_size,
            shuffle=shuffle,
            seed=seed,
            drop_last=template.drop_last,
        )
        self._loader: DataLoader[Any] | None = None
        self.size: int | None = self._order.size
        self.draws = False

    def batches(self, epoch: int, start: int = 0) -> Iterator[Any]:
        """The batches of `epoch` (from 1), beginning with number `start` (from 0)."""
        if self._loader is None:
            self._loader = self._build()
        self._order.epoch, self._order.start = epoch, start
        return explained(iter(self._loader))

    def close(self) -> None:
        """End the workers, also if the traceback of an error still holds on to them."""
        iterator = None if self._loader is None else self._loader._iterator
        if isinstance(iterator, _MultiProcessingDataLoaderIter):
            iterator._shutdown_workers()
        self._loader = None

    def _build(self) -> DataLoader[Any]:
        given = self.template
        return DataLoader(
            _KeyedDataset(given.dataset),
            batch_sampler=self._order,
            num_workers=given.num_workers,
            collate_fn=given.collate_fn,
            pin_memory=given.pin_memory,
            timeout=given.timeout,
            worker_init_fn=WorkerStart(given.worker_init_fn),
            multiprocessing_context=given.multiprocessing_context,
            prefetch_factor=given.prefetch_factor,
            persistent_workers=given.persistent_workers,
            # A generator of its own keeps the loader from drawing a seed from anybody's global state.
            generator=torch.Generator().manual_seed(0),
        )


@final
class StreamSource:
    """Batches of a loader that decides itself: resuming means reading again what was read."""

    def __init__(self, loader: DataLoader[Any]) -> None:
        self._loader = loader
        self.draws = True
        self.size: int | None = None
        if not isinstance(loader.dataset, IterableDataset):
            self.size = len(loader)

    def batches(self, epoch: int, start: int = 0) -> Iterator[Any]:
        """The batches of the loader's next pass, without the first `start`."""
        del epoch
        batches = explained(iter(self._loader))
        for _ in range(start):
            next(batches, None)
        return batches

    def close(self) -> None:
        """The loader belongs to whoever gave it."""


def _permutation(count: int, seed: int, epoch: int) -> Tensor:
    return torch.randperm(count, generator=torch.Generator().manual_seed(key_of(seed, epoch)))


@final
class _KeyedOrder(Sampler[Any]):
    """Yields, for each batch of the epoch, its random key and its indices."""

    def __init__(self, count: int, batch_size: int, *, shuffle: bool, seed: int, drop_last: bool) -> None:
        self.epoch = 1
        self.start = 0
        self._count = count
        self._batch_size = batch_size
        self._shuffle = shuffle
        self._seed = seed
        self.size = count // batch_size if drop_last else -(-count // batch_size)

    def __len__(self) -> int:
        return self.size

    def __iter__(self) -> Iterator[Any]:
        epoch, step = self.epoch, self._batch_size
        order = _permutation(self._count, self._seed, epoch) if self._shuffle else torch.arange(self._count)
        for position in range(self.start, self.size):
            yield key_of(self._seed, epoch, position), order[position * step : (position + 1) * step].tolist()


@final
class _KeyedDataset(Dataset[Any]):
    """Fetches a batch with random numbers that depend on its key only."""

    def __init__(self, dataset: Dataset[Any]) -> None:
        self._dataset = dataset

    def __getitem__(self, index: int) -> Any:
        return self._dataset[index]

    def __getitems__(self, keyed: tuple[int, list[int]]) -> Any:
        key, indices = keyed
        with seeded_globals(key):
            fetch = getattr(self._dataset, "__getitems__", None)
            return [self._dataset[index] for index in indices] if fetch is None else fetch(indices)


def as_batch(raw: Any, *, wants_target: bool) -> Batch:
    """Tell inputs from target in one raw batch.

    A sequence holds the inputs in the model's order and the target last; a mapping holds inputs by the
    names of ``forward``'s parameters and the target under one of `TARGET_KEYS`.

    Args:
        raw: What the data gave.
        wants_target: Whether the loss compares with something; otherwise everything goes to the model.

    Raises:
        TrainingError: There is no target, or no tensor at all.
    """
    match raw:
        case StandIn():
            return msgspec.structs.replace(as_batch(raw.raw, wants_target=wants_target), examples=0, counts=False)
        case (Tensor() as single, Tensor() as compared) if wants_target and single.dim() > 0:
            # By far the most frequent form, and this runs at every step.
            return Batch((single,), {}, compared, len(single))
        case Tensor():
            inputs: tuple[Any, ...] = (raw,)
            named: dict[str, Any] = {}
        case Mapping():
            inputs, named = (), dict(raw)
        case tuple() | list():
            inputs, named = tuple(raw), {}
        case _:
            raise TrainingError(f"A batch of the data is a {type(raw).__name__}, not tensors: give collate_fn.")
    target = None
    if wants_target:
        key = next((key for key in TARGET_KEYS if key in named), None)
        if key is not None:
            target = named.pop(key)
        elif len(inputs) >= 2:
            *rest, target = inputs
            inputs = tuple(rest)
        else:
            raise TrainingError(
                "The data has no target for the loss: give pairs such as (X, y), or loss=None if the model "
                "returns its own loss."
            )
    examples = next((len(t) for t in _tensors((inputs, named, target)) if t.dim() > 0), 0)
    return Batch(inputs, named, target, examples)


def _tensors(value: Any) -> Iterator[Tensor]:
    match value:
        case Tensor():
            yield value
        case Mapping():
            for item in value.values():
                yield from _tensors(item)
        case tuple() | list():
            for item in value:
                yield from _tensors(item)
        case _:
            return


def to_device(value: Any, device: torch.device) -> Any:
    """The same value with every tensor in it on `device`."""
    match value:
        case Tensor():
            return value.to(device, non_blocking=True)
        case Mapping():
            return {key: to_device(item, device) for key, item in value.items()}
        case tuple() if hasattr(value, "_fields"):
            return type(value)(*(to_device(item, device) for item in value))
        case tuple():
            return tuple(to_device(item, device) for item in value)
        case list():
            return [to_device(item, device) for item in value]
        case _:
            return value


def expect_shapes(batch: Batch, expected: InputShapes) -> None:
    """Compare a batch with what the graph's Input nodes say.

    Args:
        batch: The batch before the model sees it.
        expected: In the model's order.

    Raises:
        TrainingError: Another number of inputs, or a shape that does not fit; names the node and both shapes.
    """
    given = len(batch.inputs) + len(batch.named)
    if given != len(expected):
        names = ", ".join(name for name, _ in expected)
        raise TrainingError(
            f"The graph has {len(expected)} Input node{'s' * (len(expected) != 1)} ({names}), but a batch of the data "
            f"has {given} part{'s' * (given != 1)} besides the target."
        )
    for index, (name, shape) in enumerate(expected):
        value = batch.named.get(name) if batch.named else batch.inputs[index]
        if value is None:
            raise _unfit(name, f"The data has no part called {name!r}, which Input node {name!r} waits for.", "")
        if isinstance(value, Tensor) and shape is not None and not _fits(tuple(value.shape), shape):
            raise _unfit(
                name,
                f"The data does not fit Input node {name!r}: the node expects shape {_said(shape)}, the data has "
                f"{tuple(value.shape)}.",
                "Change the node's shape or reshape the data.",
            )


def _unfit(node: str, message: str, hint: str) -> TrainingError:
    found = Diagnostic(code="data-shape", message=message, node=node, hint=hint or None)
    return TrainingError(f"{message} {hint}".rstrip(), [found])


def _fits(actual: tuple[int, ...], shape: tuple[int | str, ...]) -> bool:
    if len(actual) != len(shape):
        return False
    bound: dict[str, int] = {}
    return all(
        size == want if isinstance(want, int) else bound.setdefault(want, size) == size
        for size, want in zip(actual, shape, strict=True)
    )


def _said(shape: tuple[int | str, ...]) -> str:
    return f"({', '.join(map(str, shape))}{',' * (len(shape) == 1)})"
