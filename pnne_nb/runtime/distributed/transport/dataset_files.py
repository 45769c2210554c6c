"""Writes the data of a group to files that any process may open: tensors and plain values, no code.

What is code is handed over in another way, and only on one machine; see `pickled_objects`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, final

import msgspec
import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor
from torch.utils.data import DataLoader, DistributedSampler, IterableDataset, TensorDataset, default_collate

from pnne_nb.errors import TrainingError
from pnne_nb.graph.document import NodeGraph
from pnne_nb.runtime.data.open_data import Data, as_tensors
from pnne_nb.runtime.data.sources import BatchSource, DatasetSource, StreamSource, TensorSource
from pnne_nb.runtime.distributed.transport.pickled_objects import Loading, Luggage

_FILE = "data.safetensors"
_LAYOUT = "pnne"

ARRAYS_NEEDED = (
    "Across machines, only arrays and drawn data can be sent: give arrays such as (X, y), or draw the training and use "
    "from_graph."
)


class _Arrays(msgspec.Struct, frozen=True, tag=True):
    """Tensors, batched by the engine's arguments."""

    count: int


class _Loader(msgspec.Struct, frozen=True, tag=True):
    """Tensors, batched by the settings of a DataLoader."""

    count: int
    batch_size: int
    shuffle: bool
    drop_last: bool
    num_workers: int


class _HandedOver(msgspec.Struct, frozen=True, tag=True):
    """A dataset of a user's class, which is pickled; see `pickled_objects`."""


_Part: TypeAlias = _Arrays | _Loader | _HandedOver


class _Given(msgspec.Struct, frozen=True, tag=True):
    """Training and validation data that were given to the engine."""

    train: _Part
    val: _Part | None


class _Drawn(msgspec.Struct, frozen=True, tag=True):
    """A training graph, and which variables its Dataset nodes find: with None for one array, else how many.

    What no file holds is `handed` over by name, see `pickled_objects`.
    """

    graph: str
    variables: dict[str, int | None]
    handed: tuple[str, ...] = ()


class Drawing(NamedTuple):
    """A training that was drawn: its graph as text, and the variables of its Dataset nodes, by name."""

    graph: str
    variables: Mapping[str, Any]

    @classmethod
    def of(cls, graph: NodeGraph, variables: Mapping[str, Any]) -> Drawing:
        """Return the training graph with the `variables` that it uses."""
        datasets = [node.properties for node in graph.nodes.values() if node.type == "Dataset"]
        named = [each.get(key) for each in datasets if each.get("source") == "variable" for key in ("data", "target")]
        return cls(graph.to_json(), {name: variables[name] for name in map(str, named) if name in variables})


@final
class Packing:
    """The data of one run, on its way into a file; of a drawn training, it is made again from the settings of the nodes.

    What no file can hold is `handed` over to the processes, by its name in the `Luggage`, if `hands_over` allows that.

    Raises:
        TrainingError: The data exists in this process only.
    """

    def __init__(
        self, train: BatchSource, val: BatchSource | None, drawing: Drawing | None, *, hands_over: bool = False
    ) -> None:
        self.handed: dict[str, Any] = {}
        self._hands_over = hands_over
        self._tensors: dict[str, Tensor] = {}
        self._layout: _Given | _Drawn
        if drawing is None:
            judged = None if val is None else self._part(val, "val_data")
            self._layout = _Given(self._part(train, "train_data"), judged)
        else:
            own = {name: value for name, value in drawing.variables.items() if not _are_arrays(value)}
            if own and not hands_over:
                raise _in_this_process(*next(iter(own.items())))
            held = {name: self._variable(name, value) for name, value in drawing.variables.items() if name not in own}
            self._layout = _Drawn(drawing.graph, held, tuple(own))
            self.handed["variables"] = own

    def write(self, directory: Path) -> None:
        """Write the file.

        Raises:
            TrainingError: It cannot be written.
        """
        try:
            directory.mkdir(parents=True, exist_ok=True)
            save_file(self._tensors, directory / _FILE, {_LAYOUT: msgspec.json.encode(self._layout).decode()})
        except (OSError, SafetensorError, KeyError, ValueError) as error:
            raise TrainingError(f"The data cannot be written to {directory / _FILE}: {error}") from error

    def _part(self, source: BatchSource, name: str) -> _Part:
        match source:
            case TensorSource():
                return _Arrays(self._add(name, source.tensors))
            case DatasetSource(template=DataLoader() as loader) if loader.collate_fn is default_collate:
                tensors = _tensors_of(loader.dataset)
                if tensors is not None and loader.batch_size is not None:
                    return _Loader(
                        self._add(name, tensors),
                        loader.batch_size,
                        source.shuffle,
                        loader.drop_last,
                        loader.num_workers,
                    )
        loading = _loading(source)
        if self._hands_over:
            self.handed[name.removesuffix("_data")] = loading
            return _HandedOver()
        kind = type(loading.dataset).__name__
        raise TrainingError(
            f"{name} is a {kind}, which exists in this process only: the processes of a group cannot be given it "
            f"without running code from a file. {ARRAYS_NEEDED}"
        )

    def _variable(self, name: str, value: Any) -> int | None:
        tensors = _tensors_of(value)
        if tensors is not None:
            return self._add(name, tensors)
        if isinstance(value, (tuple, list)):
            return self._add(name, as_tensors(tuple(value), name))
        self._add(name, as_tensors((value,), name))
        return None

    def _add(self, name: str, tensors: tuple[Tensor, ...]) -> int:
        for index, tensor in enumerate(tensors):
            # Views of one memory would be refused.
            self._tensors[f"{name}/{index}"] = tensor.detach().cpu().contiguous().clone()
        return len(tensors)


def _are_arrays(value: Any) -> bool:
    return _tensors_of(value) is not None or isinstance(value, (tuple, list, Tensor, np.ndarray))


def _in_this_process(name: str, value: Any) -> TrainingError:
    return TrainingError(
        f"The variable {name!r} is a {type(value).__name__}, which exists in this process only, and other machines cannot "
        "be given it. Give the Dataset node arrays such as (X, y), or register the dataset in a module that imports= names."
    )


def _loading(source: BatchSource) -> Loading:
    """Return the description from which another process opens the same source."""
    assert isinstance(source, DatasetSource | StreamSource)
    loader = source.template if isinstance(source, DatasetSource) else source.loader
    named = ("num_workers", "collate_fn", "worker_init_fn", "persistent_workers", "timeout", "prefetch_factor")
    options = {name: getattr(loader, name) for name in named}
    if isinstance(source, DatasetSource):
        return Loading(loader.dataset, {**options, **_cut_by_size(loader), "shuffle": source.shuffle})
    if isinstance(loader.sampler, DistributedSampler):
        raise TrainingError(
            "A DistributedSampler gives each process examples of its own, but a group cuts each batch by itself: give the "
            "loader without one, with shuffle=True say."
        )
    if loader.batch_size is None and loader.batch_sampler is not None:
        return Loading(loader.dataset, {**options, "batch_sampler": loader.batch_sampler})
    order = {} if isinstance(loader.dataset, IterableDataset) else {"sampler": loader.sampler}
    return Loading(loader.dataset, {**options, **_cut_by_size(loader), **order, "generator": loader.generator})


def _cut_by_size(loader: DataLoader[Any]) -> dict[str, Any]:
    return {"batch_size": loader.batch_size, "drop_last": loader.drop_last}


def _tensors_of(dataset: object) -> tuple[Tensor, ...] | None:
    return tuple(dataset.tensors) if isinstance(dataset, TensorDataset) else None


class Unpacked(NamedTuple):
    """The data of a run; of one that was drawn, only the drawing."""

    train: Data | None
    val: Data | None
    drawing: Drawing | None


def unpack(directory: Path, luggage: Luggage | None = None) -> Unpacked:
    """Read what `Packing` wrote; `luggage` was handed over beside it.

    Raises:
        TrainingError: The file is missing or damaged.
    """
    try:
        with safe_open(directory / _FILE, framework="pt") as file:
            layout = msgspec.json.decode((file.metadata() or {}).get(_LAYOUT, ""), type=_Given | _Drawn)
            return _unpacked(layout, file.get_tensor, luggage or Luggage())
    except (OSError, SafetensorError, msgspec.DecodeError) as error:
        raise TrainingError(f"{directory / _FILE} is no data of a launched training: {error}") from error


def _unpacked(layout: _Given | _Drawn, tensor: Callable[[str], Tensor], luggage: Luggage) -> Unpacked:
    def tensors(name: str, count: int) -> tuple[Tensor, ...]:
        return tuple(tensor(f"{name}/{index}") for index in range(count))

    def opened(part: _Part, name: str) -> Data:
        match part:
            case _HandedOver():
                handed = luggage.train if name == "train_data" else luggage.val
                assert handed is not None
                return DataLoader(handed.dataset, **handed.options)
            case _Arrays():
                return tensors(name, part.count)
            case _Loader():
                return DataLoader(
                    TensorDataset(*tensors(name, part.count)),
                    batch_size=part.batch_size,
                    shuffle=part.shuffle,
                    drop_last=part.drop_last,
                    num_workers=part.num_workers,
                    persistent_workers=part.num_workers > 0,
                )

    match layout:
        case _Given():
            val = None if layout.val is None else opened(layout.val, "val_data")
            return Unpacked(opened(layout.train, "train_data"), val, None)
        case _Drawn():
            variables = {
                name: tensor(f"{name}/0") if count is None else tensors(name, count)
                for name, count in layout.variables.items()
            }
            own = {name: luggage.variables[name] for name in layout.handed}
            return Unpacked(None, None, Drawing(layout.graph, {**variables, **own}))
