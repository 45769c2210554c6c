"""Records batches with the model's outputs, for a later comparison of any runtime."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from pnne_nb.compiler.analysis.device_rule import on_cpu
from pnne_nb.compiler.analysis.example_inputs import example_inputs
from pnne_nb.compiler.analysis.nested_values import difference, tensors_in
from pnne_nb.compiler.weights.deepcopy import duplicate
from pnne_nb.errors import ExportError, shown
from pnne_nb.graph.document import NodeGraph
from pnne_nb.process.random_state import private_random_state

BATCHES = 2
"""Recorded at most."""

EXAMPLES = 8
"""Of each batch at most."""

LOOSEST = 1e-3
"""Tolerance of a model whose rounding errors cannot be measured."""

_FACTOR = 32.0
"""Another runtime adds up in another order; its rounding errors are of the same size, not the same."""


class RecordedBatch(NamedTuple):
    """One recorded batch.

    Attributes:
        inputs: By the names of the Input nodes.
        outputs: All tensors of the result, in order.
    """

    inputs: dict[str, Tensor]
    outputs: list[Tensor]


class RecordedRun(NamedTuple):
    """The outputs of a model in eval mode.

    Attributes:
        batches: At least one.
        random: Whether the outputs depend on random numbers.
        tolerance: The largest deviation of another runtime, relative to the largest output.
    """

    batches: list[RecordedBatch]
    random: bool
    tolerance: float


def record(graph: NodeGraph, model: nn.Module, data: Any = None) -> RecordedRun:
    """Run a copy of `model` in eval mode on a few batches.

    Args:
        graph: What the model was compiled from.
        model: It is not changed.
        data: Batches or one batch: an array, a tuple of arrays in the order of the inputs, arrays by the names of the
            inputs, a Dataset or a DataLoader of them; a target behind them is left out. None makes examples from the
            shapes of the Input nodes.

    Raises:
        ExportError: If `data` does not fit the inputs, or the model fails on it.
        CompileError: If there is no `data`, and no examples can be made.
    """
    names = [node.name for node in graph.nodes.values() if node.type == "Input"]
    twin = duplicate(on_cpu(model)).eval()
    given = [example_inputs(graph, twin)] if data is None else batches_of(data, names)
    batches: list[RecordedBatch] = []
    is_random = False
    for index, inputs in enumerate(given):
        try:
            outputs = run(twin, inputs)
            again = run(twin, inputs, seed=1)
        except Exception as error:
            raise ExportError(f"The model fails on batch {index + 1} of data: {error}") from error
        is_random = is_random or bool(difference(outputs, again))
        batches.append(RecordedBatch(dict(zip(names, inputs, strict=True)), outputs))
    return RecordedRun(batches, is_random, _tolerance(twin, batches))


def run(model: nn.Module, inputs: Sequence[Tensor], seed: int | None = None) -> list[Tensor]:
    """Return the output tensors of a model in eval mode, under a fixed seed."""
    with private_random_state(), torch.no_grad():
        if seed is not None:
            torch.manual_seed(seed)
        return [tensor.detach().cpu().contiguous() for tensor in tensors_in(model(*(one.clone() for one in inputs)))]


def batches_of(data: Any, names: Sequence[str]) -> list[tuple[Tensor, ...]]:
    """Return the first batches of `data` as input tensors, with few examples each.

    Args:
        data: As of `record`.
        names: Of the inputs, in order.

    Raises:
        ExportError: If `data` is nothing of the kind.
    """
    match data:
        case Tensor() | np.ndarray():
            found = [(data,)]
        case Mapping():
            found = [_as_tuple(data, names)]
        case [Tensor() | np.ndarray(), *_]:
            found = [tuple(data)]
        case Dataset():
            found = [_as_tuple(batch, names) for batch in islice(DataLoader(data, EXAMPLES), BATCHES)]
        case Iterable():
            found = [_as_tuple(batch, names) for batch in islice(data, BATCHES)]
        case _:
            raise ExportError(f"data must be batches of arrays, such as a DataLoader or (X,), not {shown(data)}.")
    count = len(names)
    if not found:
        raise ExportError("data is empty: there was no batch in it.")
    for batch in found:
        if len(batch) not in (count, count + 1) or not all(isinstance(one, Tensor | np.ndarray) for one in batch):
            kinds = ", ".join(type(one).__name__ for one in batch)
            raise ExportError(
                f"A batch of data has {len(batch)} items ({kinds}), and the model takes {count} arrays; one target behind "
                "them is left out."
            )
    return [tuple(torch.as_tensor(one)[:EXAMPLES].detach().cpu() for one in batch[:count]) for batch in found]


def _as_tuple(batch: Any, names: Sequence[str]) -> tuple[Any, ...]:
    match batch:
        case Mapping():
            if missing := [name for name in names if name not in batch]:
                raise ExportError(
                    f"The data has no {', '.join(map(repr, missing))}; it has {', '.join(map(repr, batch))}."
                )
            return tuple(batch[name] for name in names)
        case tuple() | list():
            return tuple(batch)
        case _:
            return (batch,)


def _tolerance(model: nn.Module, batches: Sequence[RecordedBatch]) -> float:
    """Return a multiple of the model's own rounding error, measured against the same model in double precision."""
    try:
        double = duplicate(model).double()
        found = 0.0
        for batch in batches:
            inputs = [one.double() if one.is_floating_point() else one for one in batch.inputs.values()]
            found = max(found, *map(deviation, batch.outputs, run(double, inputs)))
    except Exception:  # noqa: BLE001  # a model may insist on its element type
        return LOOSEST
    return min(max(_FACTOR * found, 1e-6), LOOSEST)


def deviation(one: Tensor, other: Tensor) -> float:
    """Return the largest difference of two tensors, relative to the largest magnitude of the second."""
    if one.shape != other.shape:
        return float("inf")
    if not one.numel():
        return 0.0
    pair = [tensor.to(torch.complex128 if tensor.is_complex() else torch.float64) for tensor in (one, other)]
    gap = torch.where((pair[0] == pair[1]) | (pair[0].isnan() & pair[1].isnan()), 0, (pair[0] - pair[1]).abs())
    largest = pair[1][pair[1].isfinite()].abs()
    scale = largest.max().item() if largest.numel() else 0.0
    return float(gap.max().item() / (scale or 1.0))
