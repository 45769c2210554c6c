"""Opens training data of every accepted kind as batches, in an order that can be repeated and resumed."""

from __future__ import annotations

import inspect
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence, Sized
from numbers import Integral, Number
from typing import Any, Final, Protocol, TypeAlias, final, runtime_checkable

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
    SequentialSampler,
    Subset,
    TensorDataset,
    default_collate,
)

from pnne_nb.compiler.analysis.example_inputs import TARGET_KEYS
from pnne_nb.errors import ArgumentError, TrainingError, shown
from pnne_nb.runtime.data.batches import tensors_in
from pnne_nb.runtime.data.sources import BatchSource, DatasetSource, DeviceRoom, StreamSource, TensorSource


@runtime_checkable
class Table(Protocol):
    """A table that NumPy can read, such as a pandas DataFrame or Series."""

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """Return the values."""


class DescribedDataset(Dataset[Any]):
    """A dataset whose repr says how its examples were made."""

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of examples."""

    @abstractmethod
    def read(self, data: Any) -> Dataset[Any]:
        """Return other data, given as this was, in the same form."""


Array: TypeAlias = "Tensor | NDArray[Any] | Table | list[Any]"
Data: TypeAlias = DataLoader[Any] | Dataset[Any] | tuple[Any, ...] | list[Array] | list[Any] | Mapping[str, Array]

_ACCEPTED = (
    "Give a DataLoader, a Dataset, a tuple of tensors or numpy arrays such as (X, y), or (X, (y0, y1)) for two targets, a "
    "mapping of them by name, or a list of examples such as [(x0, y0), (x1, y1)]."
)


def open_source(
    data: Data | None,
    name: str,
    *,
    batch_size: int,
    shuffle: bool = False,
    seed: int = 0,
    num_workers: int = 0,
    pin_memory: bool = False,
    room: DeviceRoom | None = None,
) -> BatchSource:
    """Make a source of batches.

    Args:
        data: A ``DataLoader`` (which decides itself about batch size, order and workers), a ``Dataset``,
            or arrays with the examples along the first dimension, in a sequence or by name. None is refused.
        name: What to call the data in messages, e.g. ``"train_data"``.
        batch_size: Examples in a batch.
        shuffle: Whether each epoch has an order of its own.
        seed: Decides about the order.
        num_workers: Processes that load a ``Dataset``; 0 loads in the training thread.
        pin_memory: Whether batches of a ``Dataset`` are put where a GPU can fetch them while it computes.
        room: What data in memory may take of an accelerator.

    Raises:
        TrainingError: The data is of another kind, is empty, or its parts have different lengths.
        ArgumentError: There is none.
    """
    match data:
        case list() if _are_samples(data):
            data = Samples(data)
        case Mapping():
            data = Arrays(_tree(data, name))
        case tuple() | list() if any(isinstance(part, tuple | Mapping) for part in data):
            data = Arrays(_tree(data, name))
    match data:
        case DataLoader():
            return _from_loader(data, seed, name)
        case TensorDataset():
            count_examples(data, name)
            return TensorSource(data.tensors, batch_size=batch_size, shuffle=shuffle, seed=seed, room=room)
        case IterableDataset():
            loader: DataLoader[Any] = DataLoader(data, batch_size, num_workers=num_workers, pin_memory=pin_memory)
            return StreamSource(loader)
        case Dataset():
            count_examples(data, name)
            template = DataLoader(
                data, batch_size, num_workers=num_workers, persistent_workers=num_workers > 0, pin_memory=pin_memory
            )
            return DatasetSource(template, shuffle=shuffle, seed=seed)
        case tuple() | list():
            tensors = as_tensors(data, name)
            return TensorSource(tensors, batch_size=batch_size, shuffle=shuffle, seed=seed, room=room)
        case None:
            raise ArgumentError(
                f"There is no {name}: TrainingEngine(model, train_data) needs data to train on. {_ACCEPTED} "
                "A graph with Dataset nodes of its own is trained by TrainingEngine.from_graph(graph)."
            )
        case _ if inspect.isgeneratorfunction(data):
            raise TrainingError(
                f"{name} is a function that makes batches: give list({data.__name__}()), or an IterableDataset whose "
                "__iter__ it is."
            )
        case _:
            raise TrainingError(f"{name} is a {type(data).__name__}.{_LOSS * callable(data)} {_ACCEPTED}")


_LOSS = " A loss is given by its name: loss=function."


def require_count(name: str, value: Any, hint: str = "") -> None:
    """Raise an error unless a value is a whole number of at least 1.

    Raises:
        TrainingError: It is something else; the message calls it `name`, and ends with `hint` if it is a number.
    """
    if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
        written = f" Write {name}=5." if isinstance(value, bool) or not isinstance(value, Number) else hint
        raise TrainingError(f"{name} must be a whole number, at least 1, not {shown(value)}.{written}")


def _from_loader(loader: DataLoader[Any], seed: int, name: str) -> BatchSource:
    sampler = loader.sampler
    # A loader that was given a batch_sampler has no batch_size.
    ordered = loader.batch_size is not None and type(loader.batch_sampler) is BatchSampler
    if isinstance(loader.dataset, IterableDataset) or not ordered:
        return StreamSource(loader)
    count = count_examples(loader.dataset, name)
    if loader.drop_last and count < (size := loader.batch_size or 0):
        raise TrainingError(
            f"{name} gives no batch: {count} examples are fewer than the {size} of a batch, and drop_last leaves the rest "
            "out. Choose a smaller batch_size, or drop_last=False."
        )
    if type(sampler) is SequentialSampler:
        return DatasetSource(loader, shuffle=False, seed=seed)
    plain = type(sampler) is RandomSampler and not sampler.replacement and sampler.generator is None
    if plain and isinstance(sampler, Sized) and len(sampler) == count:
        return DatasetSource(loader, shuffle=True, seed=seed)
    return StreamSource(loader)


def count_examples(data: object, name: str) -> int:
    """Return the number of examples.

    Raises:
        TrainingError: The data, which the message calls `name`, has no length, or no example.
    """
    if not isinstance(data, Sized):
        raise TrainingError(
            f"{name} has no length: define __len__ on {type(data).__name__}, or derive it from IterableDataset."
        )
    count = len(data)
    if not count:
        raise TrainingError(f"{name} is empty: there is no example in it.")
    return count


def as_tensors(arrays: tuple[Array, ...] | list[Array], name: str) -> tuple[Tensor, ...]:
    """Return tensors of equal length, of the types that layers and losses expect.

    Raises:
        TrainingError: Something is no array of numbers, or they hold different numbers of examples, or none.
    """
    tensors = []
    for index, array in enumerate(arrays):
        match array:
            case Tensor() if array.layout is not torch.strided:
                raise TrainingError(
                    f"{name}[{index}] is a sparse tensor, from which no batch is cut: give X.to_dense()."
                )
            case Tensor():
                tensors.append(array.detach())
            case np.ndarray():
                tensors.append(from_numpy(array, f"{name}[{index}]"))
            case Table() | list():
                tensors.append(from_numpy(_values(array, f"{name}[{index}]"), f"{name}[{index}]"))
            case _:
                raise TrainingError(f"{name}[{index}] is a {type(array).__name__}.{_dense(array)} {_ACCEPTED}")
    if not tensors:
        raise TrainingError(f"{name} is empty. {_ACCEPTED}")
    for index, tensor in enumerate(tensors):
        if tensor.dim() == 0:
            raise TrainingError(f"{name}[{index}] is a single number; the first dimension must count the examples.")
    counts = [tensor.shape[0] for tensor in tensors]
    if len(set(counts)) > 1:
        shapes = " and ".join(str(tuple(tensor.shape)) for tensor in tensors)
        listed = " and ".join(str(count) for count in counts)
        raise TrainingError(
            f"The parts of {name} have different numbers of examples: {listed} (shapes {shapes}). "
            "Each input needs its own target: cut the longer one, or find the missing examples."
        )
    count_examples(tensors[0], name)
    return tuple(tensors)


def _dense(array: object) -> str:
    return " Of a sparse matrix, give X.toarray()." if hasattr(array, "toarray") else ""


def _tree(data: Any, name: str) -> Any:
    """Return tensors of equal length, in the tuples and mappings that hold them; see `as_tensors`."""
    data = tuple(data) if isinstance(data, list) else data
    flat: list[Any] = []
    _mapped(data, flat.append)
    tensors = iter(as_tensors(flat, name))
    return _mapped(data, lambda _: next(tensors))


def _mapped(part: Any, function: Callable[[Any], Any]) -> Any:
    """Apply a function to the contents of tuples and mappings, in their order."""
    match part:
        case Mapping():
            return {key: _mapped(item, function) for key, item in part.items()}
        case tuple():
            return tuple(_mapped(item, function) for item in part)
        case _:
            return function(part)


def _values(table: Table | list[Any], name: str) -> NDArray[Any]:
    try:
        return np.asarray(table)
    except ValueError as error:
        raise TrainingError(
            f"{name} is a list whose items differ in length, so it is no array. "
            'pn.columns({"x": X, "y": y}, {"x": ("x", "mask")}, target="y") fills the shorter ones up, and gives the model\'s '
            "input mask what tells them from data."
        ) from error


def _not_numbers(array: NDArray[Any], name: str) -> str:
    """Return a message about a value that is not a number, or about missing numbers, and what to do."""
    values = array.reshape(-1).tolist()
    kinds = [is_number(value) for value in values]
    if kinds and all(kinds):
        form = "texts" if any(isinstance(value, str) for value in values) else "Python objects"
        return f"{name} holds numbers as {form}: give np.asarray(values, dtype=float)."
    if any(kinds):
        place = kinds.index(False)
        among = f"{shown(values[place])} among numbers, first at place {place}"
        return f"{name} holds {among}. Leave such examples out, or give them a number."
    return (
        f"{name} holds elements of type {array.dtype}, which is no number. Of names of classes, "
        "np.unique(names, return_inverse=True) gives the numbers; of texts, "
        'pn.columns({"text": texts, "label": y}, {"text": "x"}, target="label", tokenizer=tokenizer).'
    )


def is_number(value: object) -> bool:
    """Return whether a value is a number, or a text that says one."""
    # NumPy makes texts of all where one is a text.
    try:
        float(value)  # type: ignore[arg-type]  # whatever it is
    except (TypeError, ValueError):
        return False
    return True


def from_numpy(array: NDArray[Any], name: str) -> Tensor:
    """Return a tensor of the types that layers and losses expect: float64 becomes float32, small integers int64.

    Raises:
        TrainingError: It holds no numbers; the message calls it `name`.
    """
    # A table keeps its columns together. With rows of that memory, a layer's sums may differ in the last bit.
    array = np.asarray(array, order="C")
    match array.dtype.kind:
        case "f":
            return torch.tensor(array, dtype=torch.float32 if array.dtype.itemsize == 8 else None)
        case "i" | "u":
            return torch.tensor(array.astype(np.int64))
        case "b" | "c":
            return torch.tensor(array)
        case _:
            raise TrainingError(_not_numbers(array, name))


# Examples that somebody has written by hand, in a list or by name


@final
class Samples(Dataset[Any]):
    """``[(x0, y0), (x1, y1), …]`` or ``[{"input": x0, "target": y0}, …]``.

    Numbers become tensors of the types that layers and losses expect: float32, or int64 for whole ones.
    """

    def __init__(self, samples: Sequence[Any]) -> None:
        self._samples = samples

    def __len__(self) -> int:
        return len(self._samples)

    def __getitem__(self, index: int) -> Any:
        return _as_example(self._samples[index])


@final
class Arrays(Dataset[Any]):
    """Tensors in tuples and mappings, as ``{"input": X, "target": y}`` or ``(X, (y0, y1))``.

    The first dimension of each counts the examples.
    """

    def __init__(self, arrays: Any) -> None:
        self.arrays = arrays
        self._count = len(next(tensors_in(arrays)))

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int) -> Any:
        return _mapped(self.arrays, lambda part: part[index])


def _are_samples(data: Sequence[Any]) -> bool:
    """Return whether a list holds examples, not arrays with all examples in them."""
    return bool(data) and all(isinstance(item, tuple | list | Mapping) for item in data)


def _as_example(value: Any) -> Any:
    match value:
        case bool() | np.bool_():
            return torch.tensor(bool(value))
        case int() | np.integer():
            return torch.tensor(int(value))
        case float() | np.floating():
            return torch.tensor(float(value), dtype=torch.float32)
        case np.ndarray() if value.dtype == np.float64:
            return torch.from_numpy(value.astype(np.float32))
        case Mapping():
            return {name: _as_example(item) for name, item in value.items()}
        case tuple():
            return tuple(_as_example(item) for item in value)
        case list() if value and all(isinstance(item, int | float | np.number) for item in value):
            return torch.stack([_as_example(item) for item in value])
        case list():
            return [_as_example(item) for item in value]
        case Tensor():
            return value.detach()
        case _:
            return value


_COPIED: Final = 100_000_000
"""Elements of a part of a dataset that are copied to be looked at, at most."""


def held_tensors(data: Any) -> tuple[Tensor, ...] | None:
    """Return the tensors `[N, ...]` behind a source, loader or dataset, the target last.

    None for anything else, and if examples are made one by one or sampled unevenly.
    """
    match data:
        case TensorSource():
            return data.tensors
        case DatasetSource():
            return held_tensors(data.template)
        case DataLoader():
            plain = (
                type(data.sampler) in {RandomSampler, SequentialSampler} and type(data.batch_sampler) is BatchSampler
            )
            return held_tensors(data.dataset) if plain and data.collate_fn is default_collate else None
        case TensorDataset() if type(data) is TensorDataset:
            return data.tensors
        case Arrays():
            return _of_arrays(data.arrays)
        case Subset() if type(data) is Subset:
            whole = held_tensors(data.dataset)
            if whole is None or sum(tensor[:1].numel() for tensor in whole) * len(data) > _COPIED:
                return None
            return tuple(tensor[list(data.indices)] for tensor in whole)
        case _:
            return None


def _of_arrays(arrays: Any) -> tuple[Tensor, ...] | None:
    if not isinstance(arrays, Mapping) or not all(isinstance(part, Tensor) for part in arrays.values()):
        return None
    targets = [name for name in arrays if name in TARGET_KEYS]
    return tuple(arrays[name] for name in (*(name for name in arrays if name not in targets), *targets))
