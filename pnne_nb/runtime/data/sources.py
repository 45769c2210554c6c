"""Defines sources of raw batches, in an order that can be repeated and resumed."""

from __future__ import annotations

import copy
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sized
from itertools import islice
from typing import Any, Protocol, final

import msgspec
import torch
from torch import Tensor
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    Sampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
    default_collate,
    get_worker_info,
)

from pnne_nb.errors import TrainingError
from pnne_nb.runtime.data.batches import StandIn, collated
from pnne_nb.runtime.data.workers import WorkerStart, dismiss_workers, end_workers, explained
from pnne_nb.runtime.thread.rng import key_of, seeded_globals


class BatchSource(Protocol):
    """Raw batches by epoch, in an order that depends on the seed and the epoch only.

    Attributes:
        size: Batches in an epoch, or None where the data does not tell.
        draws: Whether making a batch may draw from the global random generators.
    """

    size: int | None
    draws: bool

    def batches(self, epoch: int, start: int = 0) -> Iterator[Any]:
        """Return the batches of `epoch` (from 1), beginning with number `start` (from 0)."""

    def close(self) -> None:
        """End workers; the source can be used again."""

    def forget(self) -> None:
        """Make the source usable again, although an abandoned thread may still use it."""


class Share(msgspec.Struct, frozen=True):
    """The part of each batch that process number `rank`, from 0, of `count` processes takes in a joint training."""

    rank: int = 0
    count: int = 1

    def of(self, examples: int) -> slice:
        """Return the part's slice of a batch; it may be empty, except for the first process."""
        start, stop = (-(-examples * edge // self.count) for edge in (self.rank, self.rank + 1))
        return slice(start, stop)


_ALL = Share()


class DeviceRoom(msgspec.Struct, frozen=True):
    """Memory of an accelerator that data in memory may take, in bytes."""

    device: torch.device
    bytes: int


@final
class TensorSource:
    """Batches cut from tensors in memory, without a loader's work per example.

    Where an accelerator has room for all of them, they are copied there once, for as long as batches are read, and batches
    are cut there. Otherwise each batch is put where a GPU can fetch it while it computes, and can be made before its turn.

    Args:
        tensors: With the examples along the first dimension.
        batch_size: Examples in a batch.
        shuffle: Whether each epoch has an order of its own.
        seed: Decides about the order.
        room: Of the accelerator that trains, if there is one.
    """

    def __init__(
        self, tensors: tuple[Tensor, ...], *, batch_size: int, shuffle: bool, seed: int, room: DeviceRoom | None = None
    ) -> None:
        self.tensors = tensors
        self._room = room
        self._copies: tuple[Tensor, ...] | None = None
        self._count = tensors[0].shape[0]
        self.batch_size = batch_size
        self._shuffle = shuffle
        self._seed = seed
        self.size: int | None = -(-self._count // batch_size)
        self.draws = False

    @property
    def last(self) -> int:
        """Examples in the last batch of an epoch."""
        return self._count % self.batch_size or self.batch_size

    def first(self, count: int = 1) -> tuple[Tensor, ...]:
        """Return a batch of the first example, or the first `count`, for their shapes."""
        return tuple(tensor[:count].clone() for tensor in self.tensors)

    def order(self, epoch: int) -> Tensor:
        """Return the numbers of all examples `[N]` in the order of `epoch` (from 1)."""
        return _order(self._count, self._seed, epoch, shuffle=self._shuffle)

    @property
    def lives_on(self) -> torch.device | None:
        """The accelerator that all of the data is copied to; None if they are not."""
        room = self._room
        on_cpu = all(tensor.device.type == "cpu" for tensor in self.tensors)
        fits = room is not None and on_cpu and sum(tensor.nbytes for tensor in self.tensors) <= room.bytes
        return room.device if room is not None and fits else None

    def batches(self, epoch: int, start: int = 0) -> Iterator[Any]:
        """Return the batches of `epoch` (from 1), beginning with number `start` (from 0)."""
        batches = self._cut(epoch, start)
        return batches if self._room is None or self.lives_on is not None else ReadAhead(batches)

    def _cut(self, epoch: int, start: int) -> Iterator[Any]:
        step, tensors = self.batch_size, self._placed()
        is_pinned = self._room is not None and self._room.device.type == "cuda" and tensors is self.tensors
        if self._shuffle:
            order = self.order(epoch)
            # Tensors may be on an accelerator already, and are chosen from there.
            orders = {device: order.to(device) for device in {tensor.device for tensor in tensors}}
            parts = [(tensor, tensor.device) for tensor in tensors]
            for at in range(start * step, self._count, step):
                chosen = {device: order[at : at + step] for device, order in orders.items()}
                batch = [tensor.index_select(0, chosen[device]) for tensor, device in parts]
                yield tuple(map(_pinned, batch)) if is_pinned else tuple(batch)
        else:
            for at in range(start * step, self._count, step):
                # Copies, as above: a model may change its input in place, and these are somebody's arrays.
                batch = [tensor[at : at + step].clone() for tensor in tensors]
                yield tuple(map(_pinned, batch)) if is_pinned else tuple(batch)

    def _placed(self) -> tuple[Tensor, ...]:
        if self._copies is None and (device := self.lives_on) is not None:
            try:
                self._copies = tuple(tensor.to(device) for tensor in self.tensors)
            except torch.OutOfMemoryError:
                self._room = None  # somebody else has taken it meanwhile
        return self.tensors if self._copies is None else self._copies

    def close(self) -> None:
        """Give up the copies on an accelerator; there are no workers."""
        self._copies = None

    def forget(self) -> None:
        """Give up the copies on an accelerator; there are no workers."""
        self._copies = None


@final
class ReadAhead(Iterator[Any]):
    """Batches in their order, the next of which can be made while an accelerator computes."""

    def __init__(self, batches: Iterator[Any]) -> None:
        self._batches = batches
        self._made: deque[Any] = deque()

    def __next__(self) -> Any:
        return self._made.popleft() if self._made else next(self._batches)

    def make(self, count: int) -> None:
        """Make batches, if there are more, until `count` are ready."""
        self._made.extend(islice(self._batches, max(0, count - len(self._made))))


def _pinned(tensor: Tensor) -> Tensor:
    return tensor.pin_memory() if tensor.device.type == "cpu" else tensor


@final
class DatasetSource:
    """Batches of a map-style dataset in an order keyed by (seed, epoch), random numbers by batch.

    Because a dataset's random augmentation of a batch depends on nothing but the seed and the batch's
    place, training that resumes in the middle of an epoch sees exactly what it would have seen, with any
    number of workers.

    Args:
        template: Says what is loaded, how, and how many at once.
        shuffle: Whether each epoch has an order of its own.
        seed: Decides about order and random numbers.
        share: Which part of each batch is loaded; for the rest, the order is as for all of it.

    Attributes:
        batch_size: Examples in a batch of all processes.
    """

    def __init__(self, template: DataLoader[Any], *, shuffle: bool, seed: int, share: Share = _ALL) -> None:
        assert template.batch_size is not None
        self.template = template
        self.shuffle = shuffle
        self.batch_size = template.batch_size
        assert isinstance(template.dataset, Sized)
        self._order = _KeyedOrder(
            len(template.dataset),
            template.batch_size,
            shuffle=shuffle,
            seed=seed,
            drop_last=template.drop_last,
            share=share,
        )
        self._seed = seed
        self._loader: DataLoader[Any] | None = None
        self._reading: Iterator[Any] | None = None
        self.size: int | None = self._order.size
        self.draws = False

    @property
    def last(self) -> int:
        """Examples in the last batch of an epoch, of all processes."""
        return self._order.last

    def first(self, count: int = 1) -> Any:
        """Return a batch of the first examples, one or at most `count`, read in this process."""
        return _first(self.template, count)

    def batches(self, epoch: int, start: int = 0) -> Iterator[Any]:
        """Return the batches of `epoch` (from 1), beginning with number `start` (from 0)."""
        if self._loader is None:
            self._loader = self._build()
        self._order.epoch, self._order.start = epoch, start
        reading = iter(self._loader)
        self._reading = reading
        batches = explained(reading)
        return batches if self._order.share == _ALL else self._marked(batches, start)

    def order(self, epoch: int) -> Tensor:
        """Return the numbers of all examples `[N]` in the order of `epoch` (from 1)."""
        return self._order.of(epoch)

    def _marked(self, batches: Iterator[Any], start: int) -> Iterator[Any]:
        for position, raw in enumerate(batches, start):
            yield raw if self._order.has_part(position) else StandIn(raw)

    def shared(self, share: Share) -> DatasetSource:
        """Return the source for one of several processes, which loads only its part of each batch."""
        return DatasetSource(self.template, shuffle=self.shuffle, seed=self._seed, share=share)

    def close(self) -> None:
        """End the workers, also if the traceback of an error still refers to them."""
        end_workers(self._reading)
        self.forget()

    def forget(self) -> None:
        """Use a new loader for the next pass."""
        self._loader = self._reading = None

    def _build(self) -> DataLoader[Any]:
        given = self.template
        return DataLoader(
            _KeyedDataset(given.dataset),
            batch_sampler=self._order,
            num_workers=given.num_workers,
            collate_fn=_collate(given),
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
    """Batches of a loader with an order of its own: to resume, the batches before are read again.

    It reads through a copy of the loader, because a cell may read the loader meanwhile, and would share its workers and
    generators.
    """

    def __init__(self, loader: DataLoader[Any]) -> None:
        self.loader = loader
        self._own: DataLoader[Any] | None = None
        self._reading: Iterator[Any] | None = None
        self.draws = True
        self.size: int | None = None
        if not isinstance(loader.dataset, IterableDataset):
            self.size = len(loader)

    def first(self, count: int = 1) -> Any:
        """Return a batch of the first examples, at most `count`; None of data that is read only once."""
        return None if isinstance(self.loader.dataset, IterableDataset) else _first(self.loader, count)

    def batches(self, epoch: int, start: int = 0) -> Iterator[Any]:
        """Return the batches of the loader's next pass, without the first `start`."""
        del epoch
        if self._own is None:
            self._own = _own_copy(self.loader)
        reading = iter(self._own)
        self._reading = reading
        batches = explained(reading)
        for _ in range(start):
            next(batches, None)
        return batches

    def close(self) -> None:
        """End the workers, also if the traceback of an error still refers to them."""
        end_workers(self._reading)
        self.forget()

    def forget(self) -> None:
        """Use new workers for the next pass."""
        if self._own is not None:
            self._own._iterator = None
        self._reading = None


def _own_copy(loader: DataLoader[Any]) -> DataLoader[Any]:
    """Return a copy of a loader that shares neither workers nor generators with it."""
    generators: dict[int, torch.Generator] = {}

    def own(part: Any, **replaced: Any) -> Any:
        copied = copy.copy(part)
        if isinstance(generator := getattr(part, "generator", None), torch.Generator):
            replaced["generator"] = generators.setdefault(id(generator), generator.clone_state())
        # The loader refuses some of these as attributes.
        vars(copied).update(replaced)
        return copied

    sampler, batches = loader.sampler, loader.batch_sampler
    if type(sampler) in _SAMPLERS:
        sampler = own(sampler)
    if type(batches) is BatchSampler and type(batches.sampler) in _SAMPLERS:
        batches = own(batches, sampler=sampler if batches.sampler is loader.sampler else own(batches.sampler))
    start = WorkerStart(loader.worker_init_fn)
    copied: DataLoader[Any] = own(loader, sampler=sampler, batch_sampler=batches, worker_init_fn=start, _iterator=None)
    return copied


_SAMPLERS = {RandomSampler, SubsetRandomSampler, WeightedRandomSampler}
"""Those that draw from a generator that they are given."""


def _first(loader: DataLoader[Any], count: int) -> Any:
    dataset = loader.dataset
    assert isinstance(dataset, Sized)
    return _collate(loader)(_KeyedDataset(dataset).__getitems__((0, list(range(min(count, len(dataset)))))))


def _collate(loader: DataLoader[Any]) -> Callable[[list[Any]], Any]:
    given = loader.collate_fn
    return collated if given is default_collate else given


def _order(count: int, seed: int, epoch: int, *, shuffle: bool) -> Tensor:
    """Return the numbers of all examples `[N]` in the order of `epoch` (from 1)."""
    if not shuffle:
        return torch.arange(count)
    return torch.randperm(count, generator=torch.Generator().manual_seed(key_of(seed, epoch)))


@final
class _KeyedOrder(Sampler[Any]):
    """Yields, for each batch of the epoch, its random key and the indices of this process's share."""

    def __init__(self, count: int, batch_size: int, *, shuffle: bool, seed: int, drop_last: bool, share: Share) -> None:
        self.share = share
        self.epoch = 1
        self.start = 0
        self._count = count
        self._batch_size = batch_size
        self._shuffle = shuffle
        self._seed = seed
        self.size = count // batch_size if drop_last else -(-count // batch_size)
        self.last = batch_size if drop_last else count % batch_size or batch_size

    def __len__(self) -> int:
        return self.size

    def __iter__(self) -> Iterator[Any]:
        epoch, step = self.epoch, self._batch_size
        order = self.of(epoch)
        # Two processes must not draw the same noise for different examples.
        own = (self.share.rank,) if self.share.rank > 0 else ()
        for position in range(self.start, self.size):
            chosen = order[position * step : (position + 1) * step].tolist()
            yield key_of(self._seed, epoch, position, *own), chosen[self.share.of(len(chosen))] or chosen[:1]

    def of(self, epoch: int) -> Tensor:
        """Return the numbers of all examples `[N]` in the order of `epoch`."""
        return _order(self._count, self._seed, epoch, shuffle=self._shuffle)

    def has_part(self, position: int) -> bool:
        """Return whether this process's share of the batch has an example."""
        part = self.share.of(min(self._batch_size, self._count - position * self._batch_size))
        return bool(part.start < part.stop)


def examples_of(source: BatchSource, epoch: int, position: int) -> list[int] | None:
    """Return the indices of the examples in batch `position` (from 0) of `epoch` (from 1); None if the data has no indices."""
    if not isinstance(source, TensorSource | DatasetSource):
        return None
    start, size = position * source.batch_size, source.batch_size
    numbers: list[int] = source.order(epoch)[start : start + size].tolist()
    return numbers


def workers_of(source: BatchSource) -> int | None:
    """Return the number of worker processes; None for data in memory."""
    match source:
        case TensorSource():
            return None
        case DatasetSource(template=loader) | StreamSource(loader=loader):
            return loader.num_workers
        case _:
            return 0


def named(source: BatchSource) -> str:
    """Return a description of the data."""
    match source:
        case DatasetSource(template=loader) | StreamSource(loader=loader):
            name, count = type(loader.dataset).__name__, loader.num_workers
            by = f", which {count} worker{'s read' if count > 1 else ' reads'}," if count else ""
            return f"the dataset {name}{by}"
        case _:
            return "the dataset"


def dismiss(source: BatchSource | None, *, at_once: bool) -> None:
    """End the workers, from another thread, so that one that waits for their next batch fails; see `dismiss_workers`."""
    if isinstance(source, (DatasetSource, StreamSource)):
        dismiss_workers(source._reading, at_once=at_once)


_SILENT = (StopIteration, KeyboardInterrupt, SystemExit, GeneratorExit)
"""What would end an epoch, a worker or a thread as if nothing was wrong with the dataset that raises it."""


def _reaches_people() -> bool:
    """Return whether an interrupt can arrive here: only in the main thread of a process that is not a worker."""
    return get_worker_info() is None and threading.current_thread() is threading.main_thread()


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
            return [self._example(index) for index in indices] if fetch is None else fetch(indices)

    def _example(self, index: int) -> Any:
        try:
            return self._dataset[index]
        except _SILENT as error:
            if isinstance(error, KeyboardInterrupt) and _reaches_people():
                raise
            told = f"The dataset raised {type(error).__name__} while reading example {index}."
            raise TrainingError(told) from error
        except Exception as error:
            error.add_note(f"While reading example {index}.")
            raise
