"""`Batch`: joins examples, splits inputs from target, and compares them with the Input nodes."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias, final

import msgspec
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pad_sequence
from torch.utils.data import Dataset, IterableDataset, default_collate

from pnne_nb.compiler.analysis.example_inputs import TARGET_KEYS, argument_names, is_one_argument, spread_inputs
from pnne_nb.errors import Diagnostic, TrainingError

InputShapes: TypeAlias = tuple[tuple[str, tuple[int | str, ...] | None], ...]
"""Name and shape of each Input node; None stands for any shape, a name in a shape for any size."""


class Batch(msgspec.Struct, frozen=True):
    """The tensors for one forward pass and one loss.

    Attributes:
        inputs: Positional arguments of the model.
        named: Keyword arguments of the model, where the data is a mapping.
        target: What the loss compares with, or None.
        examples: Size of the batch dimension.
        counts: Whether it counts for losses and metrics; see `StandIn`.
        span: The smallest and the largest class of the target, where a device is not to meet one that does not exist.
    """

    inputs: tuple[Any, ...]
    named: dict[str, Any]
    target: Any
    examples: int
    counts: bool = True
    span: tuple[int, int] | None = None


@final
class StandIn(msgspec.Struct, frozen=True):
    """A raw batch for a process without examples of a small batch; it keeps the process in step and does not count."""

    raw: Any


def as_batch(raw: Any, *, wants_target: bool, model: nn.Module | None = None) -> Batch:
    """Split a raw batch into inputs and, if the loss compares (`wants_target`), the target; otherwise all goes to the model.

    With a `model` that takes them so, the inputs ``[a, b]`` of ``[[a, b], y]`` are two arguments, and a mapping is the only
    argument; see `spread_inputs` and `is_one_argument`.

    A sequence holds the inputs in the model's order and the target last; a mapping holds inputs by the
    names of ``forward``'s parameters and the target under one of `TARGET_KEYS`.

    Raises:
        TrainingError: There is no target, or none that can be told from the inputs.
    """
    if (
        model is not None
        and wants_target
        and isinstance(raw, tuple | list)
        and isinstance(next(iter(raw), None), tuple | list | Mapping)
    ):
        inside, *rest = raw
        raw = spread_inputs((tuple(inside) if isinstance(inside, list) else inside, *rest), argument_names(model))
    match raw:
        case (Tensor() as single, Tensor() as compared) if wants_target and single.dim():
            # By far the most frequent form, and this runs at every step.
            return Batch((single,), {}, compared, single.shape[0])
        case StandIn():
            batch = as_batch(raw.raw, wants_target=wants_target, model=model)
            return msgspec.structs.replace(batch, examples=0, counts=False)
        case Tensor() | PackedSequence():
            inputs: tuple[Any, ...] = (raw,)
            named: dict[str, Any] = {}
        case Mapping():
            inputs, named = (), dict(raw)
        case tuple() | list():
            inputs, named = tuple(raw), {}
        case _ if not wants_target:
            inputs, named = (raw,), {}
        case _:
            raise TrainingError(
                f"A batch of the data is a {type(raw).__name__}, in which inputs and target cannot be told apart: let the "
                "collate_fn of the DataLoader return a pair of them, or give a step_function that takes it as it is."
            )
    target = None
    if wants_target:
        key = next((key for key in TARGET_KEYS if key in named), None)
        if key is not None:
            target = named.pop(key)
        elif len(inputs) >= 2:
            *rest, target = inputs
            inputs = tuple(rest)
        else:
            given = (
                f"the batches have {', '.join(map(repr, named))}: call the target {', '.join(TARGET_KEYS[:-1])} or "
                f"{TARGET_KEYS[-1]}"
                if named
                else "give pairs such as (X, y)"
            )
            raise TrainingError(
                f"The data has no target for the loss: {given}, or loss=None if the model returns its own loss; "
                'pn.columns(data, {"a": "x"}, target="b") names columns.'
            )
    if named and model is not None and is_one_argument(named, model):
        inputs, named = (named,), {}
    examples = examples_in((inputs, named, target))
    # What only the model or a step function understands counts once.
    return Batch(inputs, named, target, 1 if examples is None else examples)


def examples_in(value: Any) -> int | None:
    """Return the size of the batch dimension of a raw batch's first tensor; None if it has none."""
    match value:
        case PackedSequence():
            # Its data are the steps of all sequences, one after the other.
            return int(value.batch_sizes[0])
        case Tensor():
            return value.shape[0] if value.dim() else None
        case Mapping():
            return next((count for item in value.values() if (count := examples_in(item)) is not None), None)
        case tuple() | list():
            return next((count for item in value if (count := examples_in(item)) is not None), None)
        case _ if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return examples_in([getattr(value, field.name) for field in dataclasses.fields(value)])
        case _:
            return None


def tensors_in(value: Any) -> Iterator[Tensor]:
    """Yield every tensor in a collection of collections."""
    match value:
        case Tensor():
            yield value
        case Mapping():
            for item in value.values():
                yield from tensors_in(item)
        case tuple() | list():
            for item in value:
                yield from tensors_in(item)
        case _:
            return


def join_outputs(outputs: list[Any]) -> Any:
    """Return the outputs of several batches joined along the first dimension; single numbers become a tensor of them.

    Raises:
        TrainingError: There is none, or they cannot be joined.
    """
    if not outputs:
        raise TrainingError("data is empty: there was no batch in it.")
    match outputs[0]:
        case Tensor() as first if first.dim() == 0:
            return torch.stack(outputs)
        case Tensor() as first if len(outputs) > 1 and len({one.shape[1:] for one in outputs}) > 1:
            raise TrainingError(
                f"The model's outputs of different batches have shapes such as {tuple(first.shape)} and "
                f"{tuple(outputs[-1].shape)}, which cannot be joined along the first dimension: take them one by one, "
                "with stream()."
            )
        case Tensor():
            return torch.cat(outputs)
        case dict() as first:
            return {name: join_outputs([output[name] for output in outputs]) for name in first}
        case PackedSequence():
            return outputs
        case tuple() | list() as first:
            parts = [join_outputs([output[index] for output in outputs]) for index in range(len(first))]
            return type(first)(*parts) if hasattr(first, "_fields") else tuple(parts)
        case first if dataclasses.is_dataclass(first):
            joined = copy.copy(first)
            for field in dataclasses.fields(first):
                object.__setattr__(
                    joined, field.name, join_outputs([getattr(output, field.name) for output in outputs])
                )
            return joined
        case None:
            return None
        case _:
            return outputs


def expect_shapes(batch: Batch, expected: InputShapes) -> None:
    """Compare a batch, before the model sees it, with the graph's Input nodes in the model's order.

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
            raise _unfit(name, f"The data has no part called {name!r}, which Input node {name!r} takes.", "")
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


def said(value: Any) -> str:
    """Return shape and type of a tensor, or of each in a collection: ``(16, 1, 6, 6) float32``."""
    match value:
        case Tensor():
            return f"{tuple(value.shape)} {str(value.dtype).removeprefix('torch.')}"
        case Mapping():
            return ", ".join(f"{name}: {said(item)}" for name, item in value.items())
        case list() | tuple():
            return ", ".join(map(said, value)) or "of nothing"
        case _:
            return type(value).__name__


@final
class PaddedExample(dict[str, Any]):
    """An example by name, whose sequences `[T, ...]` a batch fills up to the longest.

    Attributes:
        padding: For each sequence the number that fills it up, and the name that its mask `[N, T]` has in the batch, or None.
    """

    def __init__(self, parts: Mapping[str, Any], padding: Mapping[str, tuple[int, str | None]]) -> None:
        super().__init__(parts)
        self.padding = padding


def has_sequences(data: Dataset[Any]) -> bool:
    """Return whether the inputs of a dataset's batches are filled up to the longest."""
    first = None if isinstance(data, IterableDataset) else data[0]
    return isinstance(first, PaddedExample) and not first.padding.keys() <= {*TARGET_KEYS}


def collated(examples: list[Any]) -> Any:
    """Return one batch of examples, as torch makes it; sequences of a `PaddedExample` are filled up.

    Raises:
        TrainingError: They do not fit together; says which two do not.
    """
    if isinstance(examples[0], PaddedExample):
        padding = examples[0].padding
        batch = collated([{name: part for name, part in one.items() if name not in padding} for one in examples])
        for name, (filler, mask) in padding.items():
            parts = [one[name] for one in examples]
            batch[name] = pad_sequence(parts, batch_first=True, padding_value=filler)
            if mask is not None:
                lengths = torch.tensor([len(part) for part in parts])
                batch[mask] = (torch.arange(batch[name].shape[1]) < lengths[:, None]).long()
        return batch
    try:
        return default_collate(examples)
    except (RuntimeError, TypeError, KeyError) as error:
        # In a worker, torch speaks of storage that cannot be resized.
        first, *rest = (said(example) for example in examples)
        other = next((one for one in rest if one != first), None)
        why = str(error).split("\n", 1)[0] if other is None else f"one is {first}, another one {other}"
        raise TrainingError(
            f"The examples of the dataset do not fit into one batch: {why}. Make them alike, or give a DataLoader with a "
            "collate_fn that does, by padding say."
        ) from error
