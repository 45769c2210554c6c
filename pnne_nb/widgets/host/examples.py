"""`Examples`: the inputs and targets that an explorer or an editor has, of which it shows one at a time."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, final

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, TensorDataset, default_collate

from pnne_nb.compiler.analysis.example_inputs import TARGET_KEYS, argument_names, spread_inputs
from pnne_nb.errors import ArgumentError, shown
from pnne_nb.inspector.capture.call_arguments import call_arguments
from pnne_nb.runtime.data.open_data import Table, as_tensors, count_examples
from pnne_nb.runtime.evaluation import fingerprint

OWN: Final = -1
"""The number of an example that a person has brought."""

MAX_BATCH: Final = 256
"""Most examples over which the statistics of a layer are taken."""


class Cut(NamedTuple):
    """Some of the examples.

    Attributes:
        inputs: What the model takes: its argument, a tuple of arguments, or a mapping of keyword arguments.
        target: What the loss compares with, or None.
        place: Where in it the current example is.
    """

    inputs: Any
    target: Any
    place: int


@final
class Examples:
    """The inputs and targets that an explorer has, by the number of the example.

    Args:
        net: The model.
        data: A tensor, an array or a table, a tuple of arguments, a mapping of keyword arguments, a ``Dataset`` or a
            ``DataLoader``. The first dimension counts examples. A tuple with one part more than the model has arguments ends
            with the target.
        target: The targets, one for each example.
        free: Whether `target` may have any form, because a function takes it as it is.

    Attributes:
        count: Number of examples.
        columns: Names of the columns of a table.
        names: Names of the model's arguments, or None if it takes any number.
        own: An example that a person has brought, as the model takes it; `OWN` is its number.

    Raises:
        ArgumentError: If `target` has another number of entries than there are examples, or there is no data for it.
        TrainingError: If the data holds no numbers, no example, or has no length.
    """

    def __init__(self, net: nn.Module, data: object, target: object = None, *, free: bool = False) -> None:
        if isinstance(data, DataLoader):
            data = data.dataset
        self.names = argument_names(net)
        self.columns: tuple[str, ...] = tuple(map(str, getattr(data, "columns", ())))
        if isinstance(data, TensorDataset):
            data = tuple(data.tensors)
            if target is None and len(data) > 1:
                data, target = data[:-1], data[-1]
        self._dataset: Dataset[Any] | None = data if isinstance(data, Dataset) else None
        if target is None:
            data, target = _split(net, data)
        self._source = _parts(data)
        self._data, self._target = _read(data, "data"), _read(target, "target")
        self._split = False
        self.own: Any = None
        self.count = self._counted()
        if self._data is None and target is not None:
            raise ArgumentError("There is a target and no data: write ModuleExplorer(net, data=x, target=y).")
        listed = isinstance(self._target, Tensor) and self._target.dim() > 0
        if listed and len(self._target) != self.count and not free:
            raise ArgumentError(
                f"target has {len(self._target)} entries, and data has {self.count} examples: give one target for each"
                " example."
            )

    def __repr__(self) -> str:
        return f"Examples({self.count})"

    @property
    def given(self) -> bool:
        """Whether there is anything to run the model on."""
        return self._data is not None

    @property
    def many(self) -> bool:
        """Whether the data can be taken apart into examples."""
        return self._split or self._dataset is not None

    def cut(self, places: Sequence[int], place: int = 0) -> Cut:
        """Return the examples at `places`; all of the data if it cannot be taken apart."""
        if OWN in places:
            return Cut(self.own, None, 0)
        if self._dataset is not None:
            batch = default_collate([self._dataset[index] for index in places])
            inputs = tuple(batch) if isinstance(batch, list) else batch
            if self._target is None and isinstance(inputs, tuple) and isinstance(inputs[0], list):
                inputs = spread_inputs((tuple(inputs[0]), *inputs[1:]), self.names)
            if self._target is None and isinstance(inputs, tuple) and len(inputs) > 1:
                return Cut(inputs[:-1], inputs[-1], place)
            return Cut(inputs, self._some(self._target, places), place)
        if not self._split:
            return Cut(self._data, self._target, 0)
        return Cut(self._some(self._data, places), self._some(self._target, places), place)

    def around(self, place: int) -> Cut:
        """Return the examples over which statistics are taken, with the one at `place` among them; `OWN` is alone."""
        if place == OWN:
            return self.cut([OWN])
        if self.count <= MAX_BATCH and self._dataset is None:
            return Cut(self._data, self._target, place)
        first = min(self.count, MAX_BATCH)
        return self.cut(range(first), place) if place < first else self.cut([*range(first - 1), place], first - 1)

    def call(self, net: nn.Module, place: int | None = None) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments of a call of `net` with the example at `place`; with None, with the first two."""
        return call_arguments(self.cut(range(min(2, self.count)) if place is None else [place]).inputs, net)

    def same(self, other: Examples) -> bool:
        """Return whether the inputs are the same objects."""
        pairs = zip(self._source, other._source, strict=False)
        return self.given and len(self._source) == len(other._source) and all(one is two for one, two in pairs)

    def fingerprint(self) -> str:
        """Return what names the targets in this order; empty where they are not at hand."""
        found = self._target if isinstance(self._target, Tensor) and len(self._target) == self.count else None
        return "" if found is None else fingerprint(found)

    def _counted(self) -> int:
        if self._dataset is not None:
            return count_examples(self._dataset, "data")
        parts = [part for part in _parts(self._data) if isinstance(part, Tensor) and not part.is_nested]
        lengths = [len(part) for part in parts if part.dim() > 1]
        if isinstance(self._target, Tensor) and self._target.dim():
            # A category alone is one number for each example.
            lengths += [len(part) for part in parts if part.dim() == 1 and len(part) == len(self._target)]
        self._split = bool(lengths) and lengths[0] > 0
        return lengths[0] if self._split else 1

    def _some(self, value: Any, places: Sequence[int]) -> Any:
        match value:
            case Tensor() if value.dim() and not value.is_nested and len(value) == self.count:
                return value[torch.as_tensor(list(places), device=value.device)]
            case Mapping():
                return {name: self._some(part, places) for name, part in value.items()}
            case tuple() if type(value) is tuple:
                return tuple(self._some(part, places) for part in value)
            case _:
                return value


def _split(net: nn.Module, data: object) -> tuple[object, object]:
    """Return inputs and target of data that holds both."""
    parameters = inspect.signature(net.forward).parameters
    kinds = [one.kind for one in parameters.values()]
    data = spread_inputs(data, argument_names(net))
    match data:
        case tuple() if type(data) is tuple and inspect.Parameter.VAR_POSITIONAL not in kinds:
            most = sum(
                kind in (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD) for kind in kinds
            )
            if len(data) == most + 1 > 1:
                return data[0] if most == 1 else data[:-1], data[-1]
        case Mapping() if inspect.Parameter.VAR_KEYWORD not in kinds:
            key = next((key for key in TARGET_KEYS if key in data and key not in parameters), None)
            if key is not None:
                return {name: part for name, part in data.items() if name != key}, data[key]
        case _:
            pass
    return data, None


def _read(value: Any, name: str) -> Any:
    """Return arrays and tables as tensors, in the tuples and mappings that hold them; anything else as it is."""
    match value:
        case np.ndarray() | Table() if not isinstance(value, Tensor):
            return as_tensors([value], name)[0]
        case list() if value and all(isinstance(part, int | float) for part in value):
            return as_tensors([value], name)[0]
        case Mapping():
            return {key: _read(part, name) for key, part in value.items()}
        case tuple() if type(value) is tuple:
            return tuple(_read(part, name) for part in value)
        case _:
            return value


def _parts(value: Any) -> list[Any]:
    if isinstance(value, Mapping):
        return list(value.values())
    return list(value) if type(value) is tuple else [value]


def require_place(place: object, count: int, name: str = "example") -> int:
    """Return the number of an example, or of another thing called `name` of which there are `count`.

    Raises:
        ArgumentError: If there is no such one.
    """
    if not isinstance(place, int | np.integer) or isinstance(place, bool) or not 0 <= place < count:
        raise ArgumentError(f"{name} must be a whole number from 0 to {count - 1}, not {shown(place)}.")
    return int(place)
