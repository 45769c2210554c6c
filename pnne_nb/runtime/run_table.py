"""`RunTable` and `compare`: the trainings that `pn.runs.keep` has kept, as a table and two by two."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any, Final, TypeAlias, final

from pnne_nb.errors import ArgumentError, expect, near, shown
from pnne_nb.graph.difference import GraphDifference, diff
from pnne_nb.graph.document import NodeGraph
from pnne_nb.runtime import runs
from pnne_nb.runtime.engine import TrainingEngine
from pnne_nb.runtime.monitoring.history import History
from pnne_nb.runtime.runs import Run

if TYPE_CHECKING:
    import pandas as pd

RunRef: TypeAlias = "Run | TrainingEngine | str | Path"

_FACTS: Final = ("state", "model", "parameters")
_MEASURES: Final = ("steps", "seconds")
_SHOWN: Final = 50
"""Most rows of a table in a notebook; `to_frame` has all."""


@final
class RunTable:
    """The kept trainings, oldest first: a row for each, and a column for each setting in which they differ.

    ``table[0]`` and ``table["lenet-20260801-101500-3fa2"]`` are a `Run`.

    Args:
        folder: Where they were kept; None for that of `pn.runs.keep`.

    Attributes:
        runs: The runs.
        damaged: What is wrong with the records that cannot be read, a sentence each.

    Raises:
        ArgumentError: There is no such folder, or none was given and none is kept.
    """

    def __init__(self, folder: str | Path | None = None) -> None:
        expect(folder, (str, Path, NoneType), "folder", "the path of a folder", 'Write pn.RunTable("runs").')
        place = runs.folder() if folder is None else Path(folder)
        if place is None:
            raise ArgumentError(
                'No runs are kept. Write pn.runs.keep("runs") before the trainings, or pn.RunTable("runs").'
            )
        found, damaged = runs.read_folder(place)
        self.runs: Sequence[Run] = tuple(found)
        self.damaged: Sequence[str] = tuple(damaged)

    def __repr__(self) -> str:
        return f"RunTable({len(self.runs)} runs)"

    def __len__(self) -> int:
        return len(self.runs)

    def __iter__(self) -> Iterator[Run]:
        return iter(self.runs)

    def __getitem__(self, which: int | str) -> Run:
        """Return a run by its place or its name.

        Raises:
            ArgumentError: There is none.
        """
        named = {run.name: run for run in self.runs}
        if isinstance(which, str) and which in named:
            return named[which]
        if isinstance(which, int) and -len(self.runs) <= which < len(self.runs):
            return self.runs[which]
        raise ArgumentError(f"There is no run {shown(which)} among {len(self.runs)}.{near(which, named)}")

    def sort(self, by: str, *, descending: bool = False) -> RunTable:
        """Return the table sorted by a column; runs without a value there come last.

        Raises:
            ArgumentError: There is no such column.
        """
        columns = self._columns()
        if by not in columns:
            raise ArgumentError(f"There is no column {shown(by)}; there are {', '.join(columns)}.{near(by, columns)}")
        values = columns[by]
        order = [place for place, value in enumerate(values) if value is not None]
        numeric = all(isinstance(values[place], int | float) for place in order)
        order.sort(key=lambda place: values[place] if numeric else str(values[place]), reverse=descending)
        order += [place for place, value in enumerate(values) if value is None]
        made = object.__new__(RunTable)
        made.runs, made.damaged = tuple(self.runs[place] for place in order), self.damaged
        return made

    def to_frame(self) -> pd.DataFrame:
        """Return the table for pandas, indexed by name."""
        import pandas as pd  # noqa: PLC0415  # takes a while, and most tables need none

        return pd.DataFrame(self._columns(), index=pd.Index([run.name for run in self.runs], name="run"))

    def _repr_html_(self) -> str:
        columns = self._columns()
        rows = [(run.name, *(column[place] for column in columns.values())) for place, run in enumerate(self.runs)]
        left = f"<p>{len(rows) - _SHOWN} more rows are in to_frame().</p>" if len(rows) > _SHOWN else ""
        notes = "".join(f"<p>{escape(text)}</p>" for text in self.damaged)
        return f"<p>{escape(repr(self))}</p>{_table(['run', *columns], rows[:_SHOWN])}{left}{notes}"

    def _columns(self) -> dict[str, list[Any]]:
        names = dict.fromkeys(name for run in self.runs for name in run.settings)
        varied = [name for name in names if len({repr(run.settings.get(name)) for run in self.runs}) > 1]
        results = dict.fromkeys(
            name for run in self.runs for name in run.result if name.startswith(("train_", "val_", "best_"))
        )
        return {
            "began": [run.began for run in self.runs],
            **{name: [getattr(run, name) for run in self.runs] for name in _FACTS},
            **{name: [run.settings.get(name) for run in self.runs] for name in varied},
            **{name: [run.result.get(name) for run in self.runs] for name in (*results, *_MEASURES)},
        }


@final
@dataclass(frozen=True)
class RunComparison:
    """What differs between two trainings; a notebook also shows their curves.

    Attributes:
        names: Of both.
        settings: Both values of each argument that differs.
        graph: The differences of the graphs; None if one of the models was not compiled from a graph.
        same_architecture: Whether both models are the same but for their weights.
        result: Both values of each result.
        versions: Both versions of what differs.
        histories: Of both.
    """

    names: tuple[str, str]
    settings: dict[str, tuple[Any, Any]]
    graph: GraphDifference | None
    same_architecture: bool
    result: dict[str, tuple[float | None, float | None]]
    versions: dict[str, tuple[Any, Any]]
    histories: tuple[History, History]

    def __repr__(self) -> str:
        lines = [f"{self.names[0]} and {self.names[1]}"]
        lines += [f"{name}: {_text(a)} → {_text(b)}" for name, (a, b) in (self.settings | self.versions).items()]
        lines.append(self._architecture())
        if self.graph:
            lines += [f"  {node}" for node in self.graph]
        lines += [f"{name}: {_text(a)} → {_text(b)}" for name, (a, b) in self.result.items()]
        return "\n".join(lines)

    def _architecture(self) -> str:
        if self.same_architecture:
            return "The architecture is the same."
        return "The architecture differs." if self.graph is None else self.graph.headline

    def plot(self, *names: str, log: bool = False) -> Any:
        """Draw the curves of both over each other; see `History.plot`."""
        first, second = self.histories
        return first.plot(*names, second, log=log, labels=list(self.names))

    def _repr_html_(self) -> str:
        rows = [(name, *values) for name, values in (self.settings | self.versions | self.result).items()]
        graph = "" if self.graph is None or self.same_architecture else self.graph._repr_html_()
        curves = self.plot().to_html() if all(len(history["loss"]) for history in self.histories) else ""
        return f"{_table(['', *self.names], rows)}<p>{escape(self._architecture())}</p>{graph}{curves}"


def compare(run_a: RunRef, run_b: RunRef) -> RunComparison:
    """Compare two trainings: what differs in settings and graph, both results, and the curves over each other.

    Args:
        run_a: A run of a `RunTable`, its name in the folder of `pn.runs.keep`, the path of a record, or an engine.
        run_b: The other.

    Raises:
        ArgumentError: One is none of these, or cannot be read.
        TrainingError: The history of one cannot be read.
    """
    (a, first), (b, second) = _read(run_a, "run_a"), _read(run_b, "run_b")
    graphs = [None if run.graph is None else NodeGraph.from_json(run.graph) for run in (a, b)]
    results = dict.fromkeys((*a.result, *b.result))
    return RunComparison(
        names=(a.name, b.name) if a.name != b.name else (f"{a.name} (first)", f"{b.name} (second)"),
        settings=_differing(a.settings, b.settings),
        graph=None if graphs[0] is None or graphs[1] is None else diff(graphs[0], graphs[1]),
        same_architecture=a.digest == b.digest,
        result={name: (a.result.get(name), b.result.get(name)) for name in results},
        versions=_differing(a.versions, b.versions),
        histories=(first, second),
    )


def _read(given: RunRef, name: str) -> tuple[Run, History]:
    if isinstance(given, TrainingEngine):
        return runs.run_of(given), given.history
    expect(
        given,
        (Run, str, Path),
        name,
        "a run of a RunTable, its name, or an engine",
        "Write pn.compare(table[0], table[1]); pn.diff(graph, other) compares graphs.",
    )
    if isinstance(given, str | Path):
        path = Path(given)
        given = runs.read_run(path) if path.suffix == ".json" else RunTable()[str(given)]
    return given, given.history


def _differing(a: dict[str, Any], b: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    pairs = {name: (a.get(name), b.get(name)) for name in dict.fromkeys((*a, *b))}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


def _text(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else "–" if value is None else str(value)


def _table(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    titles = "".join(f"<th>{escape(name)}</th>" for name in head)
    body = "".join("<tr>" + "".join(f"<td>{escape(_text(value))}</td>" for value in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{titles}</tr></thead><tbody>{body}</tbody></table>"
