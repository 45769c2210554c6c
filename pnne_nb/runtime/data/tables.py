"""`TableReader`: data frames, files of them and names of classes as tensors, in the same way for every later piece of data."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, IterableDataset, Subset

from pnne_nb.errors import TrainingError, near, shown
from pnne_nb.runtime.data.open_data import Data, DescribedDataset, Table, count_examples, from_numpy, is_number

if TYPE_CHECKING:
    import pandas as pd

Given: TypeAlias = "Data | Table | str | Path"
"""Data as a person has it: what `open_source` takes, a data frame, or the path of one."""

_TABLE_FILES: Final = {".csv": "read_csv", ".parquet": "read_parquet"}
_LISTED: Final = 12
_MOST_NAMES: Final = 100
"""Different texts in a column above which it is no category: a name, a date, an address."""


@final
class TableReader:
    """Reads data frames, and targets that are names, as tensors.

    `learn` reads the training data and keeps what it has found; `read` and `inputs` read other data in the same way. Data
    of other kinds goes through unchanged.

    A column of numbers or truth values is an input of its own. A column of texts or categories is one input for each of its
    values, 1 where the row has it and 0 elsewhere. A target of texts or categories becomes numbers of classes.

    Args:
        target: The column of a data frame that holds the target, or None.

    Attributes:
        classes: The names of the classes, in the order of their numbers, if the targets are names.
        columns: The columns of a data frame in their order, each with its categories; None for a column of numbers.
    """

    def __init__(self, target: str | None) -> None:
        self.classes: tuple[str, ...] | None = None
        self.columns: dict[str, tuple[Any, ...] | None] = {}
        self._target = target
        self._is_quantity = False
        self._like: DescribedDataset | None = None

    @property
    def tells(self) -> bool:
        """Whether the repr has something to tell of the data."""
        return bool(self.columns or self.classes or self._like is not None)

    def __repr__(self) -> str:
        if self._like is not None:
            return repr(self._like)
        if not self.columns:
            return f"{len(self.classes or ())} classes"
        split = [f"{name} as {len(values)}" for name, values in self.columns.items() if values is not None]
        numbers = len(self.columns) - len(split)
        said = ", ".join([f"{numbers} columns of numbers"] * bool(numbers) + split)
        return f"{self._target} from {self.width} inputs ({said})"

    @property
    def width(self) -> int:
        """The inputs that the columns become."""
        return sum(1 if values is None else len(values) for values in self.columns.values())

    def parts(self, train: Given | None, val: Given | float | None, seed: int) -> tuple[Data | None, Data | None]:
        """Return training and validation data for `open_source`; a share for `val` is taken from `train`; see `part_of`.

        Raises:
            TrainingError: See `learn`, `read` and `part_of`.
        """
        learned = self.learn(train)
        if isinstance(val, float | int) and learned is not None:
            return part_of(learned, val, seed)
        return learned, None if val is None else self.read(val, "val_data")  # type: ignore[arg-type]  # no number any more

    def learn(self, data: Given | None) -> Data | None:
        """Return training data as tensors.

        Raises:
            TrainingError: The target column is missing, values are missing, or a column cannot be read.
        """
        table = table_of(_frame(data, by_name=self._target is not None), "train_data")
        if table is not None:
            return self.learn_table(table, "train_data")
        if isinstance(data, DescribedDataset):
            self._like = data
        if isinstance(data, tuple | list) and len(data) >= 2 and (names := _names_in(data[-1])) is not None:
            self.classes = tuple(map(str, _categories(names, "The target of train_data")))
        elif isinstance(data, Dataset) and isinstance(named := getattr(data, "classes", None), list | tuple):
            self.classes = tuple(map(str, named))  # as torchvision's data sets name them
        return self.read(data, "train_data")

    def read(self, data: Given | None, name: str) -> Data | None:
        """Return data that has what the training data has.

        Raises:
            TrainingError: A column or a class is not in the training data, or one of its columns is missing.
        """
        if self._reads(data):
            return self._like.read(data)  # type: ignore[union-attr]  # asked just before
        table = table_of(_frame(data, by_name=bool(self.columns)), name)
        if table is not None:
            self._require_table(name)
            self._require_columns(table, name, [*self.columns, str(self._target)])
            return (self._encoded(table, name), self._targets(table[self._target], name))
        if isinstance(data, Iterator):
            raise TrainingError(
                f"{name} is a {type(data).__name__}, which gives its batches once, and each epoch needs them: "
                f"{name}=list(batches), or an IterableDataset whose __iter__ makes them."
            )
        named = getattr(data, "classes", None) if isinstance(data, Dataset) else None
        if self.classes is not None and isinstance(named, list | tuple) and tuple(map(str, named)) != self.classes:
            raise TrainingError(
                f"{name} has the classes {_few(named)}, and train_data has {_few(self.classes)}: the same number would mean "
                "two classes. Give both the same classes, for pictures a folder for each (it may be empty), for columns "
                f"{name}=train_data.read(...)."
            )
        if self.classes is not None and isinstance(data, tuple | list) and len(data) >= 2:
            names = _names_in(data[-1])
            if names is not None:
                return (*data[:-1], self._numbers_of_classes(names, name))
        return data  # type: ignore[return-value]  # a path or a frame is a table, and read above

    def inputs(self, data: Any) -> Any:
        """Return the inputs of new data, in which a target column may be missing.

        Raises:
            TrainingError: A column of the training data is missing, or has a value that it has not there.
        """
        if self._reads(data):
            return self._like.read(data)  # type: ignore[union-attr]  # asked just before
        table = table_of(_frame(data, by_name=bool(self.columns)), "data")
        if table is None or not self.columns:
            return data
        self._require_columns(table, "data", list(self.columns))
        return self._encoded(table, "data")

    def _reads(self, data: object) -> bool:
        """Return whether data has the form that the training data was made from."""
        return self._like is not None and not isinstance(data, Dataset | DataLoader | tuple | Tensor | np.ndarray)

    def learn_table(self, table: pd.DataFrame, name: str) -> tuple[Tensor, Tensor]:
        """Return inputs `[N, width]` and target of a data frame, called `name` in messages; see `learn`."""
        columns = listed(map(str, table.columns))
        if not table.columns.is_unique:
            raise TrainingError(f"{name} has several columns of one name. {columns} Write df.columns = [...].")
        if self._target is None:
            raise TrainingError(
                f"{name} is a table: say which column is the target, as in target={table.columns[-1]!r}. {columns} Texts, "
                'sequences and pictures are read by pn.columns(data, {"text": "x"}, target="label", tokenizer=tokenizer).'
            )
        if self._target not in table.columns:
            raise TrainingError(
                f"{name} has no column {shown(self._target)}.{near(self._target, map(str, table.columns))} {columns}"
            )
        if table.shape[1] < 2:
            raise TrainingError(f"{name} has no column besides the target {self._target!r}.")
        count_examples(table, name)
        _require_whole(table, name)
        self.columns = {
            str(column): None
            if _is_of_numbers(table[column])
            else _categories(table[column], f"The column {column} of {name}")
            for column in table.columns
            if column != self._target
        }
        wanted = table[self._target]
        self._is_quantity = wanted.dtype.kind == "f"
        if not _is_of_numbers(wanted) or wanted.dtype.kind == "b":
            self.classes = tuple(map(str, _categories(wanted, f"The target {self._target} of {name}")))
        return (self._encoded(table, name), self._targets(wanted, name))

    def _require_table(self, name: str) -> None:
        if not self.columns:
            raise TrainingError(f"{name} is a table, and train_data is none: give both in the same form.")

    def _require_columns(self, table: pd.DataFrame, name: str, wanted: Sequence[str]) -> None:
        missing = [column for column in wanted if column not in table.columns]
        if missing:
            raise TrainingError(
                f"{name} has no column {', '.join(missing)}, which train_data has.{near(missing[0], map(str, table.columns))} "
                f"{listed(map(str, table.columns))}"
            )
        _require_whole(table[list(wanted)], name)

    def _encoded(self, table: pd.DataFrame, name: str) -> Tensor:
        """Return the inputs `[N, width]`, float32."""
        parts: list[NDArray[np.float32]] = []
        for column, values in self.columns.items():
            given = table[column]
            if values is None:
                parts.append(given.to_numpy(np.float32)[:, None])
            else:
                parts.append(
                    np.eye(len(values), dtype=np.float32)[_places(given, values, f"The column {column} of {name}")]
                )
        return torch.from_numpy(np.concatenate(parts, axis=1))

    def _targets(self, column: pd.Series[Any], name: str) -> Tensor:
        """Return the targets: numbers of classes `[N]`, or quantities `[N, 1]`."""
        if self.classes is not None:
            return self._numbers_of_classes(column, name)
        numbers = from_numpy(column.to_numpy(), f"The target of {name}")
        return numbers[:, None] if self._is_quantity else numbers

    def _numbers_of_classes(self, names: Any, name: str) -> Tensor:
        assert self.classes is not None, "asked before"
        texts = np.asarray(names).astype(str)
        return torch.from_numpy(_places(texts, self.classes, f"The target of {name}"))


def is_table(data: object) -> bool:
    """Return whether data has columns by name: a data frame, a data set of Hugging Face, or a mapping of lists."""
    return table_of(None if isinstance(data, str | Path) else _frame(data), "") is not None


def read_table(data: object, target: str | None, name: str, kind: str = "") -> tuple[Tensor, Tensor]:
    """Return inputs and target of a table or of a file, ``"csv"`` or ``"parquet"``; without `target`, of its last column.

    Raises:
        TrainingError: As `TableReader.learn`.
    """
    table = table_of(_frame(data), name, kind)
    assert table is not None, "the caller has asked"
    table = table.rename(columns=str)
    return TableReader(str(table.columns[-1]) if target is None else target).learn_table(table, name)


def part_of(data: Data, share: float, seed: int) -> tuple[Any, Any]:
    """Return training and validation data, split at random.

    Where the targets are classes with at least two examples each, both parts have each class in the same share.

    Args:
        data: All examples: arrays, a mapping of them, or a ``Dataset`` with a length.
        share: Of the validation data, between 0 and 1.
        seed: Decides about the examples; equal seeds give equal parts.

    Raises:
        TrainingError: The share is not between 0 and 1, one part would be empty, or the data cannot be split.
    """
    if isinstance(share, bool) or not 0 < share < 1:
        raise TrainingError(f"val_data={shown(share)} must be a share between 0 and 1, such as val_data=0.2, or data.")
    draws = np.random.default_rng(abs(seed))
    if isinstance(data, Dataset) and not isinstance(data, IterableDataset) and hasattr(data, "__len__"):
        kept, held = _split(len(data), share, draws)
        return Subset(data, kept.tolist()), Subset(data, held.tolist())
    parts = list(data.values()) if isinstance(data, Mapping) else list(data) if isinstance(data, tuple | list) else []
    if not parts or not all(isinstance(part, Tensor | np.ndarray) or hasattr(part, "__array__") for part in parts):
        raise TrainingError(
            f"val_data={shown(share)} cannot split a {type(data).__name__}: give arrays such as (X, y) or a "
            "Dataset, or split it yourself."
        )
    arrays = [part if isinstance(part, Tensor) else np.asarray(part) for part in parts]
    kept, held = _stratified(np.asarray(arrays[-1]), share, draws)
    names = list(data) if isinstance(data, Mapping) else None
    first, second = ([array[place] for array in arrays] for place in (kept, held))
    return (
        (dict(zip(names, first, strict=True)), dict(zip(names, second, strict=True)))
        if names
        else (tuple(first), tuple(second))
    )


def _split(count: int, share: float, draws: np.random.Generator) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    held = round(share * count)
    if not 0 < held < count:
        raise TrainingError(f"val_data={shown(share)} of {count} examples leaves one part empty.")
    order = draws.permutation(count)
    return np.sort(order[held:]), np.sort(order[:held])


def _stratified(
    target: NDArray[Any], share: float, draws: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    if target.ndim != 1 or target.dtype.kind == "f":
        return _split(len(target), share, draws)
    classes, numbers, counts = np.unique(target, return_inverse=True, return_counts=True)
    if counts.min() < 2 or len(classes) > share * len(target) or len(classes) > (1 - share) * len(target):
        return _split(len(target), share, draws)
    held: list[NDArray[np.int64]] = []
    for number, count in enumerate(counts):
        places = draws.permutation(np.flatnonzero(numbers == number))
        held.append(places[: min(max(1, round(share * count)), count - 1)])
    chosen = np.sort(np.concatenate(held))
    return np.setdiff1d(np.arange(len(target)), chosen), chosen


def table_of(data: object, name: str, kind: str = "") -> pd.DataFrame | None:
    """Return a data frame, also one in a file, which is of the `kind` that its name ends in; None for anything else."""
    if isinstance(data, str | Path):
        path = Path(data)
        reader = _TABLE_FILES.get(f".{kind}" if kind else path.suffix.lower())
        if reader is None:
            raise TrainingError(
                f"{name} is {shown(str(path))}, and a file of data ends in {' or '.join(_TABLE_FILES)}."
            )
        import pandas  # noqa: ICN001,PLC0415  # it takes half a second, and most trainings never read a table

        try:
            found: pd.DataFrame = getattr(pandas, reader)(path)
        except (OSError, ValueError, ImportError) as error:
            what = name if kind else f"{name}: {path.name}"
            raise TrainingError(f"{what} cannot be read: {str(error).partition(chr(10))[0]}") from error
        return found
    # Another thread may be importing it, and has not made the class yet.
    frame = getattr(sys.modules.get("pandas"), "DataFrame", None)
    return data if frame is not None and isinstance(data, frame) else None


def _frame(data: Any, *, by_name: bool = True) -> Any:
    """Return a data set of Hugging Face, and lists or records `by_name`, as a data frame; other data as it is."""
    if hasattr(data, "column_names") and hasattr(data, "to_pandas"):
        return data.to_pandas()
    lists = isinstance(data, Mapping) and data and all(np.ndim(part) == 1 for part in data.values())
    records = isinstance(data, list) and data and all(isinstance(row, Mapping) and _is_record(row) for row in data)
    if by_name and (lists or records):
        import pandas  # noqa: ICN001,PLC0415  # it takes half a second, and most trainings never read a table

        return pandas.DataFrame(data)
    return data


def _is_record(row: Mapping[Any, Any]) -> bool:
    return all(value is None or isinstance(value, str | int | float | np.generic) for value in row.values())


def listed(names: Iterable[str]) -> str:
    """Return a sentence that names the columns of a table, the first of many."""
    names = list(names)
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return f"Its columns are {', '.join(names[:_LISTED])}{more}."


def _require_whole(table: pd.DataFrame, name: str) -> None:
    missing = {str(column): int(count) for column, count in table.isna().sum().items() if count}
    if not missing:
        return
    column = next(iter(missing))
    said = ", ".join(f"{each} lacks {count} of {len(table)} values" for each, count in missing.items())
    fill = f"df[{column!r}].{'median()' if _is_of_numbers(table[column]) else 'mode()[0]'}"
    raise TrainingError(
        f"{name} lacks values: {said}. Leave such rows out, df.dropna(), or fill them: "
        f"df[{column!r}] = df[{column!r}].fillna({fill})."
    )


def _is_of_numbers(column: pd.Series[Any]) -> bool:
    return getattr(column.dtype, "kind", "O") in "fiub" and not hasattr(column, "cat")


def _categories(column: Any, what: str) -> tuple[Any, ...]:
    """Return the values of a column of texts, categories or truth values, in their order."""
    dtype = getattr(column, "dtype", None)
    known = getattr(dtype, "categories", None)
    if known is not None:
        return tuple(known)
    if getattr(dtype, "kind", "O") in "Mm":
        raise TrainingError(
            f"{what} holds times. Make numbers of them, such as df[name].dt.dayofyear, or leave the column out: "
            "df.drop(columns=name)."
        )
    values = np.asarray(column).astype(str)
    found = np.unique(values)
    if len(found) > _MOST_NAMES and len(found) > len(values) / 10:
        raise TrainingError(
            f"{what} holds {len(found)} different texts in {len(values)} rows, which are no categories. Leave it out, "
            'df.drop(columns=name), or read it as text: pn.columns(df, {"text": "x"}, target="label", tokenizer=tokenizer).'
        )
    return tuple(found.tolist())


def _places(column: Any, values: Sequence[Any], what: str) -> NDArray[np.int64]:
    """Return the place of each entry among `values`."""
    places = {str(value): place for place, value in enumerate(values)}
    texts = np.asarray(column).astype(str)
    unknown = sorted(set(texts.tolist()) - places.keys())
    if unknown:
        raise TrainingError(
            f"{what} has {', '.join(map(repr, unknown[:5]))}, which train_data has not. It has {_few(places)}."
        )
    return np.array([places[text] for text in texts.tolist()], dtype=np.int64)


def _few(values: Iterable[Any]) -> str:
    return ", ".join(map(repr, list(map(str, values))[:_LISTED]))


def _names_in(target: Any) -> Any:
    """Return a target that holds names of classes: texts, or a pandas categorical; None for anything else."""
    if isinstance(target, Tensor) or not hasattr(target, "__array__"):
        return np.asarray(target) if isinstance(target, list | tuple) and _are_names(target) else None
    if hasattr(getattr(target, "dtype", None), "categories"):
        return target
    values = np.asarray(target)
    if values.ndim != 1 or values.dtype.kind not in "UO" or not len(values):
        return None
    return values if _are_names(values.tolist()) else None


def _are_names(values: Sequence[Any]) -> bool:
    """Return whether values are texts, and not numbers that were written as texts: those may be quantities."""
    return bool(values) and all(isinstance(each, str) for each in values) and not all(map(is_number, values))
