"""Writes the data of a group to files that any process may open: tensors and plain values, no code.

What is code is handed over in another way, and only on one machine; see `pickled_objects`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, final

import numpy as np
from torch import Tensor
from torch.utils.data import DataLoader, DistributedSampler, IterableDataset, TensorDataset, default_collate

from pnne_nb.compiler.weights import tensor_file
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


_CUTTING = ("batch_size", "shuffle", "drop_last", "num_workers")
"""Settings of a DataLoader that batches tensors."""


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
        self._state: dict[str, Any]
        if drawing is None:
            judged = None if val is None else self._part(val, "val_data")
            self._state = {"train": self._part(train, "train_data"), "val": judged}
        else:
            own = {name: value for name, value in drawing.variables.items() if not _are_arrays(value)}
            if own and not hands_over:
                raise _in_this_process(*next(iter(own.items())))
            held = {name: _variable(name, value) for name, value in drawing.variables.items() if name not in own}
            self._state = {"graph": drawing.graph, "variables": held, "handed": tuple(own)}
            self.handed["variables"] = own

    def write(self, directory: Path) -> None:
        """Write the file.

        Raises:
            TrainingError: It cannot be written.
        """
        try:
            directory.mkdir(parents=True, exist_ok=True)
            text, tensors = tensor_file.pack(self._state)
            tensor_file.write(directory / _FILE, tensors, {_LAYOUT: text})
        except (OSError, ValueError) as error:
            raise TrainingError(f"The data cannot be written to {directory / _FILE}: {error}") from error

    def _part(self, source: BatchSource, name: str) -> dict[str, Any]:
        """Return data as a state: its tensors, with how a loader batches them; empty if it is handed over."""
        match source:
            case TensorSource():
                return {"tensors": source.tensors}
            case DatasetSource(template=DataLoader() as loader) if loader.collate_fn is default_collate:
                tensors = _tensors_of(loader.dataset)
                if tensors is not None and loader.batch_size is not None:
                    workers = {"shuffle": source.shuffle, "num_workers": loader.num_workers}
                    return {"tensors": tensors, "loader": {**_cut_by_size(loader), **workers}}
        loading = _loading(source)
        if self._hands_over:
            self.handed[name.removesuffix("_data")] = loading
            return {}
        kind = type(loading.dataset).__name__
        raise TrainingError(
            f"{name} is a {kind}, which exists in this process only: the processes of a group cannot be given it "
            f"without running code from a file. {ARRAYS_NEEDED}"
        )


def _variable(name: str, value: Any) -> Any:
    tensors = _tensors_of(value)
    if tensors is not None:
        return tensors
    if isinstance(value, (tuple, list)):
        return as_tensors(tuple(value), name)
    return as_tensors((value,), name)[0]


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
    luggage = luggage or Luggage()
    try:
        tensors, texts = tensor_file.read(directory / _FILE)
        state = tensor_file.unpack(texts.get(_LAYOUT, ""), tensors)
        if "graph" in state:
            own = {name: luggage.variables[name] for name in state["handed"]}
            return Unpacked(None, None, Drawing(state["graph"], {**state["variables"], **own}))
        val = None if state["val"] is None else _opened(state["val"], luggage.val)
        return Unpacked(_opened(state["train"], luggage.train), val, None)
    except (ValueError, KeyError, TypeError) as error:
        raise TrainingError(f"{directory / _FILE} is no data of a launched training: {error}") from error


def _opened(part: Mapping[str, Any], handed: Loading | None) -> Data:
    if not part:
        assert handed is not None
        return DataLoader(handed.dataset, **handed.options)
    if "loader" not in part:
        return tuple(part["tensors"])
    cutting = {name: part["loader"][name] for name in _CUTTING}
    return DataLoader(TensorDataset(*part["tensors"]), **cutting, persistent_workers=cutting["num_workers"] > 0)
