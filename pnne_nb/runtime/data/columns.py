"""`columns`: texts, sequences, pictures and numbers in the columns of a table, as a dataset by the names of a model's inputs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias, final

import numpy as np
import torch
from torch import Tensor

from pnne_nb.compiler.analysis.example_inputs import TARGET_KEYS
from pnne_nb.errors import ArgumentError, TrainingError, expect, near, shown
from pnne_nb.runtime.data.batches import PaddedExample
from pnne_nb.runtime.data.image_folder import MODES, WHITE
from pnne_nb.runtime.data.open_data import DescribedDataset, from_numpy
from pnne_nb.runtime.data.tables import TableReader, listed, table_of

Inputs: TypeAlias = Mapping[str, "str | tuple[str, str]"]

_TARGET: Final = TARGET_KEYS[0]
_IGNORED: Final = -100
"""What ``CrossEntropyLoss`` leaves out."""


@final
class Columns(DescribedDataset):
    """Examples by the names of a model's inputs, and their ``"target"``; see `columns`."""

    def __init__(self, table: Any, inputs: Inputs, target: str | None, tokenizer: Any, length: int | None) -> None:
        self._inputs = {
            column: (given, None) if isinstance(given, str) else tuple(given) for column, given in inputs.items()
        }
        self._target, self._tokenizer, self._length = target, tokenizer, length
        self._names = TableReader(None)
        self._take(table, learns=True)

    @property
    def classes(self) -> tuple[str, ...] | None:
        """The names of the classes, in the order of their numbers, if the targets are names; otherwise None."""
        return self._names.classes

    def read(self, data: Any) -> Columns:
        """Return other data in the same form; it may have no targets, and be a list where one column is the input.

        Raises:
            TrainingError: A column is missing or cannot be read, or the data has a class that this one has not.
        """
        other = object.__new__(Columns)
        vars(other).update(vars(self))
        other._take(data, learns=False)
        return other

    def _take(self, data: Any, *, learns: bool) -> None:
        table = _by_name(data, list(self._inputs))
        names = list(getattr(table, "column_names", None) or getattr(table, "columns", table))
        wanted = [*self._inputs, *([self._target] if self._target and (learns or self._target in names) else [])]
        found = {}
        for column in wanted:
            if column not in names:
                known = f"{near(column, map(str, names))} {listed(names)}"
                raise TrainingError(f"The data has no column {shown(column)}.{known}")
            found[column] = _items(table[column], f"The column {column} of the data")
        if len({len(items) for items in found.values()}) > 1:
            counts = ", ".join(str(len(items)) for items in found.values())
            raise TrainingError(f"The columns of the data have different lengths: {counts}.")
        self._parts: dict[str, Tensor | list[Tensor]] = {}
        self._padding: dict[str, tuple[int, str | None]] = {}
        for column, (entry, mask) in self._inputs.items():
            what, items, filler = f"The column {column} of the data", found[column], 0
            if is_text := isinstance(items[0], str):
                items, filler = self._tokens(items, what)
            if mask is not None and _is_single(items[0]):
                raise ArgumentError(f"{what} has no sequences, and so no mask: write {{{column!r}: {entry!r}}}.")
            self._parts[entry] = self._part(items, entry, what, (filler, mask), fills=is_text or mask is not None)
        if self._target in wanted:
            feature = getattr(table, "features", {}).get(self._target)
            self._read_targets(found[self._target], table[self._target], getattr(feature, "names", None), learns=learns)

    def _read_targets(self, items: list[Any], column: Any, names: Sequence[str] | None, *, learns: bool) -> None:
        """Read targets, whose numbers may have `names` in the data set."""
        if names is not None and set(items) == {-1}:
            return  # a test set of the hub without labels
        if names is not None and learns:
            self._names.classes = tuple(names)
        elif names is not None:
            items = [names[number] for number in items]
        pair = items, column if learns and hasattr(column, "dtype") else items
        read: Any = self._names.learn(pair) if learns else self._names.read(pair, "the data")
        what = f"The target {self._target} of the data"
        self._parts[_TARGET] = self._part(list(read[1]), _TARGET, what, (_IGNORED, None))

    def _part(
        self, items: list[Any], name: str, what: str, padding: tuple[int, str | None], *, fills: bool = False
    ) -> Tensor | list[Tensor]:
        """Return a column as a tensor, or as one for each example if a batch fills it up."""
        if hasattr(items[0], "getbands"):
            return _pictures(items, what)
        if _is_single(items[0]):
            numbers = from_numpy(np.asarray(items), what)
            return numbers[:, None] if numbers.is_floating_point() else numbers
        sequences = _sequences([item[: self._length] for item in items], what)
        if not fills and len({len(each) for each in sequences}) == 1:
            return torch.stack(sequences)
        self._padding[name] = padding
        return sequences

    def _tokens(self, texts: list[str], what: str) -> tuple[list[Any], int]:
        """Return the numbers of each text's tokens, and the one that fills up a shorter text."""
        made = self._tokenizer
        if made is None:
            raise TrainingError(
                f"{what} holds texts: give tokenizer=, a function that returns the numbers of a text's tokens, or an object "
                "with encode."
            )
        if hasattr(made, "pad_token_id"):  # of transformers; it keeps the last token of what it cuts
            return made(texts, truncation=True, max_length=self._length)["input_ids"], made.pad_token_id or 0
        if hasattr(made, "encode_batch"):  # of tokenizers; it may have filled up the texts itself
            coded = made.encode_batch(texts)
            fillers = [made.token_to_id(name) for name in ("[PAD]", "<pad>")]
            ids = [[one for one, counts in zip(each.ids, each.attention_mask, strict=True) if counts] for each in coded]
            return ids, next((one for one in fillers if one is not None), 0)
        encode = getattr(made, "encode", made)
        return [list(encode(text)) for text in texts], 0

    def __len__(self) -> int:
        return len(next(iter(self._parts.values())))

    def __getitem__(self, index: int) -> dict[str, Any]:
        example = {name: part[index] for name, part in self._parts.items()}
        return PaddedExample(example, self._padding) if self._padding else example

    def __repr__(self) -> str:
        said = [f"{column} as {entry}{self._filling(entry)}" for column, (entry, _) in self._inputs.items()]
        if _TARGET in self._parts:
            kinds = f" ({len(self.classes)} classes)" if self.classes else self._filling(_TARGET)
            said.append(f"{self._target} as target{kinds}")
        return f"{len(self)} examples: {', '.join(said)}"

    def _filling(self, name: str) -> str:
        if name not in self._padding:
            return ""
        lengths = [len(each) for each in self._parts[name]]
        filler, mask = self._padding[name]
        told = "which the loss ignores" if name == _TARGET else "which no mask tells the model"
        told = told if mask is None else f"where {mask} is 0"
        return f" ({min(lengths)} to {max(lengths)} long, filled up with {filler} in a batch, {told})"


def columns(
    data: Any, inputs: Inputs, target: str | None = None, *, tokenizer: Any = None, length: int | None = None
) -> Columns:
    """Return the columns of a table as data for an engine, by the names of the model's inputs.

    A column of texts becomes the numbers of its tokens; texts and sequences of several lengths are filled up to the longest in
    each batch. Pictures are scaled as by `pn.images`, floats are `[N, 1]`, and names of classes become their numbers. The
    engine reads its other data in the same form: ``val_data=test_set``, ``engine.predict(["a text"])``.

    Args:
        data: A data set of Hugging Face, columns by name, a data frame, the path of a CSV or Parquet file, or a list of
            examples by name.
        inputs: The parameter of ``forward``, or the Input node, by column: ``{"text": "x"}``; with ``{"text": ("x", "mask")}``
            a second one is 1 where there is a token and 0 where a sequence was filled up, `[N, T]`, int64.
        target: The column that the model is to tell. Sequences of targets are filled up with -100, which
            ``CrossEntropyLoss`` leaves out.
        tokenizer: Of transformers or of tokenizers, an object with ``encode``, or a function of a text.
        length: The most tokens of a text, or entries of a sequence; the rest is cut off.

    Raises:
        TrainingError: A column is missing or empty, lacks values, or cannot be read.
        ArgumentError: Another argument is none of these.
    """
    hint = 'Write pn.columns(data, {"text": "x"}, target="label", tokenizer=tokenizer).'
    expect(inputs, Mapping, "inputs", "the names of the model's inputs by column", hint)
    if not inputs:
        raise ArgumentError(f"inputs names no column. {hint}")
    for column, given in inputs.items():
        entries: Any = (given, given) if isinstance(given, str) else given
        if not isinstance(entries, tuple) or len(entries) != 2 or not all(isinstance(each, str) for each in entries):
            raise ArgumentError(
                f"inputs[{column!r}] must be a name, or the names of sequence and mask, not {shown(given)}."
            )
    if length is not None and (type(length) is not int or length < 1):
        raise ArgumentError(f"length must be the most tokens of a text, at least 1, not {shown(length)}.")
    if tokenizer is not None and not callable(tokenizer) and not hasattr(tokenizer, "encode"):
        raise ArgumentError(f"tokenizer must have encode, or be a function of a text, not {shown(tokenizer)}.")
    return Columns(data, inputs, target, tokenizer, length)


def _by_name(data: Any, inputs: Sequence[str]) -> Any:
    """Return a table whose columns are found by name."""
    if isinstance(data, Mapping) and data and all(hasattr(part, "column_names") for part in data.values()):
        name = next(iter(data))
        raise TrainingError(f"The data has the parts {', '.join(map(str, data))}: give one of them, data[{name!r}].")
    if hasattr(data, "column_names") and not hasattr(data, "__len__"):
        raise TrainingError(
            "The data is a stream without a length. Give a part of it: pn.columns(list(stream.take(10_000)), ...)."
        )
    if isinstance(data, list | tuple) and data:
        if all(isinstance(row, Mapping) for row in data):
            return {name: [row.get(name) for row in data] for name in data[0]}
        if len(inputs) == 1:
            return {inputs[0]: data}
    table = table_of(data, "The data")
    found = data if table is None else table
    if isinstance(found, Mapping) or hasattr(found, "column_names") or table is not None:
        return found
    raise TrainingError(
        f"The data is a {type(data).__name__}, which has no columns: give a mapping such as {{{inputs[0]!r}: [...]}}, a data "
        "frame, a data set of Hugging Face, or a list of examples by name."
    )


def _items(values: Any, what: str) -> list[Any]:
    items = list(values)
    if not items:
        raise TrainingError(f"{what} is empty: there is no example in it.")
    missing = [place for place, item in enumerate(items) if _is_missing(item)]
    if missing:
        raise TrainingError(
            f"{what} lacks {len(missing)} of {len(items)} values, the first in row {missing[0]}. Leave such rows out."
        )
    return items


def _is_single(item: Any) -> bool:
    """Return whether an item is one number, also in a tensor or an array without axes."""
    return getattr(item, "ndim", 1) == 0 or not hasattr(item, "__len__")


def _is_missing(item: Any) -> bool:
    is_nan = isinstance(item, float | np.floating) and bool(np.isnan(item))
    return item is None or is_nan or (not _is_single(item) and len(item) == 0)


def _sequences(items: Iterable[Any], what: str) -> list[Tensor]:
    """Return sequences `[T, ...]` of one type, which may differ in T only."""
    found: list[Tensor] = []
    for place, item in enumerate(items):
        try:
            array = np.asarray(item)
        except ValueError as error:  # ragged inside
            raise TrainingError(f"{what} holds lists of lists of several lengths, first in row {place}.") from error
        found.append(from_numpy(array, what))
        if found[-1].shape[1:] != found[0].shape[1:]:
            raise TrainingError(
                f"{what} holds sequences whose entries have several shapes: {tuple(found[0].shape[1:])} in row 0, "
                f"{tuple(found[-1].shape[1:])} in row {place}."
            )
    return [each.float() for each in found] if any(each.is_floating_point() for each in found) else found


def _pictures(items: Sequence[Any], what: str) -> Tensor:
    """Return pictures of Pillow as `[N, channels, h, w]`, float32 from 0 to 1."""
    forms = list(dict.fromkeys((item.mode, item.size) for item in items))
    if len(forms) > 1 or forms[0][0] not in MODES.values():
        raise TrainingError(
            f"{what} holds pictures of the forms {', '.join(f'{mode} {w}×{h}' for mode, (w, h) in forms[:3])}: make them alike, "
            '[picture.convert("RGB").resize((32, 32)) for picture in pictures].'
        )
    values = torch.from_numpy(np.stack([np.asarray(item, dtype=np.float32) for item in items]) / WHITE)
    return (values[..., None] if values.dim() == 3 else values).movedim(3, 1).contiguous()
