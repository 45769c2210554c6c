"""Opens the data of a Dataset node: packaged data, variables of a notebook, files, or a registered data set."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias, TypeVar, final

import msgspec
import torch
from torch import Tensor
from torch.utils.data import Dataset, IterableDataset, Subset

from pnne_nb.errors import TrainingError, expect, near, registers
from pnne_nb.runtime.data.image_folder import images
from pnne_nb.runtime.data.open_data import as_tensors, count_examples
from pnne_nb.runtime.data.packaged_data import datasets as packaged
from pnne_nb.runtime.data.tables import is_table, read_table
from pnne_nb.runtime.thread.rng import key_of

Examples: TypeAlias = "Dataset[Any] | tuple[Tensor, ...]"
Factory = TypeVar("Factory", bound=Callable[[], Any])

_registered: dict[str, Callable[[], Any]] = {}


def register_dataset(name: str) -> Callable[[Factory], Factory]:
    """Return a decorator that registers a dataset for Dataset nodes with ``source="registered"`` and its name.

    What is decorated takes no arguments and returns arrays such as ``(X, y)`` or a ``Dataset`` (a ``Dataset`` class
    that can be made without arguments will do). Registering a name again replaces it.

    Raises:
        ArgumentError: `name` is no text, or what is decorated cannot be called.
    """
    expect(name, str, "name", "the name that Dataset nodes find it by", 'Write @pn.register_dataset("mine").')
    return registers(lambda factory: _registered.update({name: factory}), "returns the dataset")


class DatasetNode(msgspec.Struct, frozen=True):
    """The properties of one Dataset node; see its spec. The `label` is its name, for messages."""

    label: str
    source: str = "digits"
    data: str = ""
    target: str | None = None
    split: str = "all"
    fraction: float = 0.8
    seed: int = 0
    standardize: bool = False

    def open(self, given: Mapping[str, Any], sample: tuple[int | str, ...] | None = None) -> Dataset[Any]:
        """Return the examples, as a dataset of (input, target); `given` are the notebook's variables by name.

        Digits are laid out as the shape of the Input node that they are for, `sample`, says.

        Raises:
            TrainingError: There are none, or they cannot be trained on; the message names the node.
        """
        try:
            return self._split(self._load(given, sample))
        except TrainingError as error:
            raise TrainingError(f"{self.label}: {error}") from error

    def _load(self, given: Mapping[str, Any], sample: tuple[int | str, ...] | None) -> Examples:
        match self.source:
            case "variable":
                return self._variable(given)
            case "registered":
                if self.data not in _registered:
                    known = f" Known are {', '.join(_registered)}." if _registered else ""
                    raise TrainingError(
                        f"No dataset is registered as {self.data!r}.{near(self.data, _registered)}{known} "
                        f"Register one: @pn.register_dataset({self.data!r})."
                    )
                return _examples(_registered[self.data](), self.data)
            case "images":
                return images(self.data)
            case "csv" | "parquet":
                return read_table(Path(self.data), self.target, f"The file {self.data!r}", self.source)
            case _:
                return _packaged(self.source, sample)

    def _variable(self, given: Mapping[str, Any]) -> Examples:
        value = given.get(self.data)
        if is_table(value) and self.target not in given:
            return read_table(value, self.target, f"The table {self.data!r}")
        names = [name for name in (self.data, self.target) if name]
        for name in names:
            if name not in given:
                raise TrainingError(
                    f"There is no variable {name!r}.{near(name, given)} Give it: "
                    f'TrainingEngine.from_graph(graph, data={{"{name}": (X, y)}}), or namespace=globals().'
                )
        if not names:
            raise TrainingError("Its data is empty: set it to the variable that holds the samples.")
        if self.target:
            value = (*value, given[self.target]) if isinstance(value, (tuple, list)) else (value, given[self.target])
        return _examples(value, self.data)

    def _split(self, examples: Examples) -> Dataset[Any]:
        if isinstance(examples, IterableDataset):
            if self.split != "all":
                raise TrainingError("An IterableDataset has no length, so it cannot be split: set split to 'all'.")
            return examples
        count = examples[0].shape[0] if isinstance(examples, tuple) else count_examples(examples, "The dataset")
        learned = chosen = torch.arange(count)
        if self.split != "all":
            order = torch.randperm(count, generator=torch.Generator().manual_seed(key_of(self.seed, 0)))
            cut = round(count * self.fraction)
            learned = order[:cut].sort().values
            chosen = learned if self.split == "train" else order[cut:].sort().values
            if not len(chosen):
                raise TrainingError(f"The {self.split} split of {count} samples at fraction {self.fraction} is empty.")
        if not isinstance(examples, tuple):
            return examples if self.split == "all" else Subset(examples, chosen.tolist())
        *inputs, target = examples
        if self.standardize:
            # By the training part alone: validation must not leak into it.
            inputs = [_standardized(values, learned) for values in inputs]
        return Rows(tuple(values[chosen] for values in (*inputs, target)))


@final
class Rows(Dataset[Any]):
    """Arrays of examples; a whole batch is sliced from them at once."""

    def __init__(self, parts: tuple[Tensor, ...]) -> None:
        self.parts = parts

    def __len__(self) -> int:
        return self.parts[0].shape[0]

    def __getitem__(self, index: int) -> tuple[Tensor, ...]:
        return tuple(part[index] for part in self.parts)

    def __getitems__(self, indices: Sequence[int]) -> Batched:
        """Return a batch that needs no collating."""
        chosen = torch.tensor(indices)
        return Batched([part.index_select(0, chosen) for part in self.parts])


@final
class Batched(list[Any]):
    """The parts of a batch, already with the examples along the first dimension."""


def _examples(value: Any, name: str) -> Examples:
    match value:
        case Dataset():
            return value
        case tuple() | list():
            return as_tensors(value, name)
        case _:
            raise TrainingError(
                f"{name!r} is a {type(value).__name__}: it must be a pair of arrays such as (X, y), or a Dataset. "
                "For an array alone, set target to the variable that holds the targets."
            )


def _packaged(source: str, sample: tuple[int | str, ...] | None) -> Examples:
    inputs, target = getattr(packaged, source)()
    if source == "digits" and sample is not None:
        sizes = tuple(size for size in sample[1:] if isinstance(size, int))
        inputs = inputs.reshape(-1, *(sizes if sizes in {(64,), (8, 8)} else (1, 8, 8)))
    return inputs, target


def _standardized(values: Tensor, learned: Tensor) -> Tensor:
    if not values.is_floating_point():
        return values
    known = values[learned]
    deviation, mean = torch.std_mean(known, 0, correction=0)
    return (values - mean) / torch.where(deviation > 0, deviation, 1)
