"""`sweep`: trains each combination of some settings with several seeds, and says which is best."""

from __future__ import annotations

import copy
import inspect
import itertools
import math
import statistics
import sys
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, final

from torch import nn

from pnne_nb.compiler.weights.deepcopy import duplicate
from pnne_nb.errors import ArgumentError, PnneError, TrainingError, UnknownNodeError, expect, near, shown
from pnne_nb.graph.document import NodeGraph
from pnne_nb.process.progress_line import ProgressLine, is_watched
from pnne_nb.runtime.data.open_data import require_count
from pnne_nb.runtime.engine import TrainingEngine
from pnne_nb.runtime.faults.error_messages import in_brief
from pnne_nb.runtime.monitoring.progress import line
from pnne_nb.runtime.objective.objective import as_goal
from pnne_nb.telemetry.bar_chart import Bar, bar_chart
from pnne_nb.telemetry.frames import ENDED, StateFrame

if TYPE_CHECKING:
    import pandas as pd

_ARGUMENTS: Final = tuple(
    name
    for name in inspect.signature(TrainingEngine.__init__).parameters
    if name not in {"self", "model", "train_data", "val_data", "seed", "checkpoint_dir"}
)
_PARTS: Final = ("optimizer", "scheduler", "loss")
"""Arguments whose options can be named, as in ``optimizer.lr``."""
_LOOK: Final = 0.2
"""Seconds between two looks at a training that is waited for."""


@final
@dataclass(frozen=True)
class SweepRow:
    """One combination of a sweep.

    Attributes:
        settings: The value of each key.
        scores: The final value of the metric by seed; of trainings that have failed, NaN.
        errors: What made trainings fail, by seed.
    """

    settings: Mapping[str, Any]
    scores: Mapping[int, float]
    errors: Mapping[int, str]

    @property
    def mean(self) -> float:
        """The mean over the seeds that have not failed; NaN if all have."""
        good = self._good
        return statistics.fmean(good) if good else math.nan

    @property
    def spread(self) -> float:
        """The standard deviation over these seeds; NaN of fewer than two."""
        good = self._good
        return statistics.stdev(good) if len(good) > 1 else math.nan

    @property
    def _good(self) -> list[float]:
        return [value for value in self.scores.values() if math.isfinite(value)]

    def __str__(self) -> str:
        settings = ", ".join(f"{key}={value!r}" for key, value in self.settings.items())
        if not self._good:
            return f"{settings}: failed"
        spread = "" if math.isnan(self.spread) else f" ± {self.spread:.2g}"
        return f"{settings}: {self.mean:.4g}{spread}"


@final
@dataclass(frozen=True, repr=False)
class Sweep:
    """The result of `sweep`.

    Attributes:
        rows: The combinations that were trained, in their order.
        metric: What they are compared by: its value after the last epoch.
        more: Whether more of it is better.
        interrupted: Whether the sweep was interrupted; the rows are what was done before.
        weights_of: What every training's first weights came from; empty if they were drawn, or those of a given module.
    """

    rows: Sequence[SweepRow]
    metric: str
    more: bool
    interrupted: bool
    weights_of: str = ""

    @property
    def ranking(self) -> list[SweepRow]:
        """The combinations, best first; those that have failed come last."""
        sign = -1 if self.more else 1
        return sorted(self.rows, key=lambda row: (math.isnan(row.mean), 0 if math.isnan(row.mean) else sign * row.mean))

    @property
    def best(self) -> SweepRow | None:
        """The combination with the best mean; None if none was trained."""
        first = self.ranking[:1]
        return first[0] if first and not math.isnan(first[0].mean) else None

    def to_frame(self) -> pd.DataFrame:
        """Return a row for each combination: its settings, mean, spread, and the value of each seed."""
        import pandas as pd  # noqa: PLC0415  # takes a while, and most sweeps make no table

        return pd.DataFrame(
            [
                {
                    **row.settings,
                    "mean": row.mean,
                    "spread": row.spread,
                    **{f"seed {seed}": value for seed, value in row.scores.items()},
                }
                for row in self.rows
            ]
        )

    def __repr__(self) -> str:
        return "\n".join([self._headline(), *(f"  {row}" for row in self.ranking), *self._failures()])

    def _headline(self) -> str:
        stopped = "Interrupted: " if self.interrupted else ""
        if self.best is None:
            return f"{stopped}no training has given a {self.metric}."
        close = sum(_is_close(row, self.best) for row in self.ranking[1:])
        doubt = f" {close} more {'is' if close == 1 else 'are'} within the spread of the seeds." if close else ""
        if math.isnan(self.best.spread):
            doubt = " One seed says little: seeds=3 shows the spread."
        begun = (
            f" Each began with the weights of {self.weights_of}; reuse=None begins afresh." if self.weights_of else ""
        )
        return f"{stopped}{self.metric} is best with {self.best}.{doubt}{begun}"

    def _failures(self) -> list[str]:
        return [f"{row}, seed {seed}: {text}" for row in self.rows for seed, text in row.errors.items()]

    def _repr_html_(self) -> str:
        bars = []
        for row in (row for row in self.ranking if not math.isnan(row.mean)):
            spread = 0.0 if math.isnan(row.spread) else row.spread
            name, _, text = str(row).rpartition(": ")
            low, high = abs(row.mean) - spread, abs(row.mean) + spread
            bars.append(Bar(name, abs(row.mean), max(0.0, low), high, text, row is self.best))
        failed = "".join(f"<p>{escape(text)}</p>" for text in self._failures())
        return f"<p>{escape(self._headline())}</p>{bar_chart(self.metric, bars) if bars else ''}{failed}"


def _is_close(row: SweepRow, best: SweepRow) -> bool:
    """Return whether two means differ by less than the seeds do."""
    return abs(row.mean - best.mean) <= math.hypot(row.spread, best.spread)


def sweep(
    graph: NodeGraph | nn.Module,
    grid: Mapping[str, Iterable[Any]],
    *,
    data: Any,
    val_data: Any = None,
    seeds: int | Iterable[int] = 3,
    **options: Any,
) -> Sweep:
    """Train each combination of the values of `grid` with each seed, one after the other.

    ::

        result = pn.sweep(graph, {"optimizer.lr": [1e-3, 1e-2], "fc1.out_features": [32, 64]}, data=(X, y), epochs=3)
        result.best.settings

    Every value is tried out before the first training, so that no wrong name or size ends it in the middle. An interrupt ends
    the running training and returns what was done before. `pn.runs.keep` keeps the trainings of a sweep too.

    Args:
        graph: A graph, of which each training gets a copy, with the weights that belong to it, or fresh ones by the seed;
            or a module, copied with its weights.
        grid: Values by key: a property of a node (``"fc1.out_features"``), a size of the graph (``"sizes.hidden"``), an
            option of ``optimizer``, ``scheduler`` or ``loss`` (``"optimizer.lr"``), or an argument of `TrainingEngine`
            (``"batch_size"``).
        data: The training data.
        val_data: The validation data; see `TrainingEngine`.
        seeds: How many, or which.
        options: Other arguments of `TrainingEngine`, for all of them. ``monitor`` says what is best: otherwise the least
            validation loss, without validation data the training loss. Each training has a folder of its own in the
            ``checkpoint_dir``.

    Raises:
        ArgumentError: `graph` or `grid` is no such thing, or a key means nothing.
        TrainingError: An option cannot be, or every training has failed.
        GraphError: A node cannot have such a value.
        CompileError: A value makes the graph impossible.
    """
    expect(graph, (NodeGraph, nn.Module), "graph", "a graph or a module")
    expect(grid, Mapping, "grid", "values by name", 'Write {"optimizer.lr": [1e-3, 1e-2]}.')
    values = {key: _listed(key, choices) for key, choices in grid.items()}
    if not values:
        raise ArgumentError('grid is empty. Write {"optimizer.lr": [1e-3, 1e-2]}.')
    chosen = _seeds(seeds)
    goal = as_goal(options.get("monitor"), options.get("min_delta", 0.0))
    metric = goal.called(validates=val_data is not None)
    combinations = [dict(zip(values, each, strict=True)) for each in itertools.product(*values.values())]
    plan = _Plan(graph, data, val_data, options)
    weights_of = ""
    for key, choices in values.items():
        for choice in choices:
            weights_of = plan.engine({**combinations[0], key: choice}, chosen[0]).weights_of
    rows: list[SweepRow] = []
    interrupted = False
    with _Waiting(len(combinations) * len(chosen)) as waiting:
        for settings in combinations:
            scores, errors = dict[int, float](), dict[int, str]()
            try:
                for seed in chosen:
                    scores[seed], error = waiting.train(plan, settings, seed, metric)
                    if error is not None:
                        errors[seed] = error
            except KeyboardInterrupt:
                interrupted = True
            if scores:
                rows.append(SweepRow(settings, scores, errors))
            if interrupted:
                break
    result = Sweep(tuple(rows), metric, goal.more, interrupted, weights_of)
    if result.best is None and not interrupted:
        raise TrainingError("Every training of the sweep has failed: " + next(iter(result._failures()), "no number"))
    return result


@final
class _Plan:
    """Makes the engine of a combination."""

    def __init__(self, model: NodeGraph | nn.Module, data: Any, val_data: Any, options: Mapping[str, Any]) -> None:
        self._model, self._data, self._val_data, self._options = model, data, val_data, dict(options)
        self._folder = self._options.pop("checkpoint_dir", None)

    def engine(self, settings: Mapping[str, Any], seed: int, number: int | None = None) -> TrainingEngine:
        """Return the engine of a combination; `number` is that of the training, None if it is only tried out."""
        model = copy.copy(self._model) if isinstance(self._model, NodeGraph) else duplicate(self._model)
        options = dict(self._options)
        if self._folder is not None and number is not None:
            options["checkpoint_dir"] = Path(self._folder, f"{number:04d}-seed-{seed}")
        # A whole argument first, so that its options come into it.
        for key, value in sorted(settings.items(), key=lambda item: "." in item[0]):
            self._apply(model, options, key, value)
        return TrainingEngine(model, self._data, self._val_data, seed=seed, **options)

    def _apply(self, model: NodeGraph | nn.Module, options: dict[str, Any], key: str, value: Any) -> None:
        owner, _, name = key.rpartition(".")
        if owner and isinstance(model, NodeGraph) and _has_node(model, owner):
            model.set(owner, **{name: value})
        elif owner == "sizes" and isinstance(model, NodeGraph):
            model.sizes[name] = value
        elif owner in _PARTS:
            options[owner] = _with_option(owner, options.get(owner), name, value)
        elif not owner and key in _ARGUMENTS:
            options[key] = value
        else:
            nodes = list(model.nodes) if isinstance(model, NodeGraph) else []
            raise ArgumentError(
                f'grid has the key {shown(key)}, which is neither a property of a node, such as "fc1.out_features", nor a '
                'size of the graph, such as "sizes.hidden", nor an option, such as "optimizer.lr", nor an '
                f"argument of TrainingEngine.{near(owner or key, [*nodes, *_PARTS, *_ARGUMENTS])}"
            )


def _has_node(graph: NodeGraph, path: str) -> bool:
    try:
        graph[path]
    except UnknownNodeError:
        return False
    return True


def _with_option(part: str, choice: Any, name: str, value: Any) -> Any:
    """Return the optimizer, scheduler or loss with one option changed."""
    if choice is None and part == "optimizer":
        choice = inspect.signature(TrainingEngine.__init__).parameters[part].default
    match choice:
        case (str() | type() as kind, Mapping() as given, *rest):
            return (kind, {**given, name: value}, *rest)
        case str() | type() as kind if choice != "auto":
            return (kind, {name: value})
        case _:
            example = {"optimizer": '("AdamW", {})', "scheduler": '("StepLR", {"step_size": 1})'}.get(
                part, '("CrossEntropyLoss", {})'
            )
            raise ArgumentError(
                f"grid has the key {part}.{name}, so the {part} must be given by name: {part}={example}, not {shown(choice)}."
            )


def _listed(key: object, choices: Any) -> list[Any]:
    expect(key, str, "A key of grid", "a name", 'Write {"optimizer.lr": [1e-3, 1e-2]}.')
    if isinstance(choices, str) or not isinstance(choices, Iterable):
        raise ArgumentError(f"grid[{key!r}] must be a list of values, not {shown(choices)}. Write [{choices!r}].")
    listed = list(choices)
    if not listed:
        raise ArgumentError(f"grid[{key!r}] has no values.")
    return listed


def _seeds(seeds: Any) -> list[int]:
    if isinstance(seeds, Iterable) and not isinstance(seeds, str):
        listed = list(dict.fromkeys(seeds))
        if listed:
            return listed
    require_count("seeds", seeds)
    return list(range(seeds))


@final
class _Waiting:
    """Makes the trainings one after the other, and tells how far they are."""

    def __init__(self, total: int) -> None:
        self._total, self._number = total, 0
        self._line = ProgressLine(sys.stderr) if is_watched(sys.stderr) else None

    def __enter__(self) -> _Waiting:
        return self

    def __exit__(self, *_: object) -> None:
        if self._line is not None:
            self._line.clear()

    def train(self, plan: _Plan, settings: Mapping[str, Any], seed: int, metric: str) -> tuple[float, str | None]:
        """Return the metric after the last epoch, and what made the training fail."""
        self._number += 1
        try:
            engine = plan.engine(settings, seed, self._number)
        except PnneError as error:  # of values that fit one by one, and not together
            return math.nan, str(error)
        ended = threading.Event()

        def look(frame: StateFrame) -> None:
            if frame.state in ENDED:
                ended.set()

        engine.on("state", look, waits=False)
        said = ", ".join(f"{key}={value!r}" for key, value in settings.items())
        try:
            engine.start()
            while not ended.wait(_LOOK):
                if self._line is not None and self._line.is_due():
                    about = line(engine.progress, lambda: float(engine.history["loss"][-1]))
                    self._line.write(f"training {self._number} of {self._total}, {said}, seed {seed}: {about}")
        except KeyboardInterrupt:
            engine.stop()
            raise
        if engine.error is not None:
            return math.nan, in_brief(engine.error)
        return float(engine.history[metric][-1]), None
