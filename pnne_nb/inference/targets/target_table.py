"""`TargetTable`: the deployment forms of a model, with their times and a recommendation for this machine."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Literal, final, get_args

from pnne_nb.compiler.passes.report import amount
from pnne_nb.errors import choose
from pnne_nb.telemetry.bar_chart import Bar, Column, Row, bar_table

if TYPE_CHECKING:
    import pandas as pd
import random
import statistics
import time
from collections.abc import Callable, Sequence

ROUNDS = 12
"""Turns of each implementation. The spread between them gives the interval."""

RESAMPLES = 400
"""Resamples of the rounds for an interval (the bootstrap)."""

FEW = 1.17
"""Factor by which 12 rounds widen a 95 % interval, compared with many: Student's t ÷ normal × √(12 ÷ 11)."""

DRIFT, RELATIVE_DRIFT = 1.28, 1.1
"""Factors that widen the intervals of times and of ratios. A machine's speed changes within minutes, and one run does not
show that. In twenty tables of one CNN on two shared cores, intervals without these factors held 42 % of the median times
and 66 % of the ratios of later tables; with them, they held 93 % and 90 %."""

LEAST = 3
"""Calls in each turn at least."""


@final
@dataclass(frozen=True, slots=True)
class Measured:
    """A figure with the ends of the interval that contains 95 % of later runs on the same machine."""

    value: float
    low: float
    high: float

    def overlaps(self, other: Measured) -> bool:
        return self.low <= other.high and other.low <= self.high


@final
@dataclass(frozen=True, slots=True)
class Latency:
    """The time of one call.

    Attributes:
        p50: Median in seconds.
        p95: Time in seconds that 95 of 100 calls stay below.
        ratio: Median time divided by that of the first one timed beside it, by rounds.
        calls: Number of calls timed.
    """

    p50: Measured
    p95: Measured
    ratio: Measured
    calls: int


def time_in_turns(
    calls: Mapping[str, Callable[[], object]], *, seconds: float, rounds: int = ROUNDS
) -> dict[str, Latency]:
    """Time calls in turns, each warmed up; the order changes with each round.

    Args:
        calls: By name; the first one is what the others are compared with.
        seconds: To spend on each, about.
        rounds: Turns of each.
    """
    counts = {name: _count(call, seconds / rounds) for name, call in calls.items()}
    times: dict[str, list[list[float]]] = {name: [] for name in calls}
    names = list(calls)
    for number in range(rounds):
        start = number % len(names)
        for name in names[start:] + names[:start]:
            times[name].append([_seconds(calls[name]) for _ in range(counts[name])])
    first = [statistics.median(each) for each in times[names[0]]]
    chance = random.Random(0)  # noqa: S311  # resampling, not secrets
    return {name: _latency(times[name], first, chance) for name in names}


def _count(call: Callable[[], object], seconds: float) -> int:
    _seconds(call)
    once = min(_seconds(call) for _ in range(2))
    return max(LEAST, int(seconds / max(once, 1e-7)))


def _seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return max(time.perf_counter() - start, 1e-9)


def _latency(rounds: Sequence[Sequence[float]], first: Sequence[float], chance: random.Random) -> Latency:
    medians = [statistics.median(each) for each in rounds]
    ratios = [mine / other for mine, other in zip(medians, first, strict=True)]
    count = sum(map(len, rounds))
    samples = [chance.choices(range(len(rounds)), k=len(rounds)) for _ in range(RESAMPLES)]
    pooled = [sorted(time for place in sample for time in rounds[place]) for sample in samples]
    timed = sorted(time for each in rounds for time in each)
    return Latency(
        _interval(_quantile(timed, 0.5), [_quantile(each, 0.5) for each in pooled], medians, DRIFT),
        _interval(_quantile(timed, 0.95), [_quantile(each, 0.95) for each in pooled], (), DRIFT),
        _interval(
            statistics.median(ratios),
            [statistics.median(ratios[place] for place in each) for each in samples],
            ratios,
            1.0 if medians == first else RELATIVE_DRIFT,
        ),
        count,
    )


def _quantile(ordered: Sequence[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def _interval(value: float, resampled: Sequence[float], rounds: Sequence[float], drift: float) -> Measured:
    """Return the interval of the figure in later runs: its spread is that of one resample divided by another, times `drift`.

    The median of a later run, which is made of such rounds too, is not beyond those of all rounds. Where these are far apart,
    because other programs have stopped some calls, the resamples alone would reach much further.
    """
    pairs = zip(resampled, [*resampled[1:], resampled[0]], strict=True)
    changes = sorted((one / other) ** FEW for one, other in pairs)
    low, high = value * _quantile(changes, 0.025), value * _quantile(changes, 0.975)
    least, most = min(rounds, default=0.0), max(rounds, default=float("inf"))
    return Measured(value, min(value, max(low, least)) / drift, max(value, min(high, most)) * drift)


Order = Literal["latency", "size", "memory", "metric", "error"]
"""What the forms of a table can be sorted by."""

ORDERS: tuple[Order, ...] = get_args(Order)


@final
@dataclass(frozen=True, slots=True)
class TargetRow:
    """One form of the model.

    Attributes:
        name: What it is.
        needs: What the machine that runs it needs.
        precision: What its layers compute in: ``"float32"``, or what ``pn.quantize`` converted to.
        device: Where it runs: ``"cpu"`` or ``"gpu"``. Forms are compared with the model in eager PyTorch on their device.
        missing: Why it could not be built here; empty if it could. The other figures are None then.
        latency: How long one call takes.
        throughput: Examples in a second.
        bytes: Of its file, or of its weights where there is no file.
        memory: Bytes that it takes for one call at most: of PyTorch's own forms all tensors, of a file what the process
            grew by when its runtime opened and ran it; None if that cannot be told.
        metric: The metric on the held-out data; None if there is none.
        loss: What that is worse than the model's, in the unit of the budget. Without a metric: 0 if the outputs are the
            model's but for rounding, else infinite.
        error: The largest distance to what the model computes, in the unit of the values; of nodes in lower precision, that
            of each one alone.
        error_at: The drawn node with it, or ``"output"``.
        rank: From 1, the fastest; forms whose intervals overlap with the fastest of their rank share it.
    """

    name: str
    needs: str
    precision: str
    missing: str = ""
    latency: Latency | None = None
    throughput: float | None = None
    bytes: int | None = None
    memory: int | None = None
    metric: float | None = None
    loss: float | None = None
    error: float | None = None
    error_at: str = ""
    rank: int | None = None
    device: str = "cpu"


@final
@dataclass(frozen=True, slots=True)
class TargetTable:
    """The result of `pn.compare_targets`.

    Attributes:
        rows: Every form by its name; the first one, ``"eager"``, is the model as it is.
        best: The name of the recommended form.
        recommendation: Which form to ship and why, in words.
        metric: What was measured on held-out data; empty if there was nothing to measure.
        batch_size: Examples in the batch that was timed.
        machine: Where it was measured.
        notes: What else a person should know, one sentence each.
    """

    rows: Mapping[str, TargetRow]
    best: str
    recommendation: str
    metric: str
    batch_size: int
    machine: str
    notes: tuple[str, ...] = ()

    @property
    def ranking(self) -> tuple[str, ...]:
        """Names of the forms that were built, the fastest first."""
        return tuple(row.name for row in _ordered(self.rows) if not row.missing)

    def to_frame(self) -> pd.DataFrame:
        """Return one row for each form; times in seconds, sizes in bytes."""
        import pandas as pd  # noqa: PLC0415  # takes a while, and most tables need none

        rows = []
        for row in _ordered(self.rows):
            p50, p95 = (row.latency.p50, row.latency.p95) if row.latency is not None else (None, None)
            rows.append({
                "target": row.name, "rank": row.rank, "p50": p50 and p50.value, "p50_low": p50 and p50.low,
                "p50_high": p50 and p50.high, "p95": p95 and p95.value, "p95_low": p95 and p95.low,
                "p95_high": p95 and p95.high, "throughput": row.throughput, "bytes": row.bytes, "memory": row.memory,
                "metric": row.metric, "error": row.error, "error_at": row.error_at, "needs": row.needs,
                "missing": row.missing,
            })  # fmt: skip
        return pd.DataFrame(rows).set_index("target")

    def __repr__(self) -> str:
        built = sum(not row.missing for row in self.rows.values())
        return (
            f"TargetTable({built} of {len(self.rows)} forms built, batches of {self.batch_size}: {self.recommendation})"
        )

    def _repr_html_(self) -> str:
        metric = self.metric or "metric"
        names = (
            "", "target", "p50", "p95", "examples/s", "size", "memory", metric, "worst node error", "needs",
        )  # fmt: skip
        head = "".join(f"<th style='text-align:left'>{escape(name)}</th>" for name in names)
        rows = "".join(_html(row, recommended=row.name == self.best) for row in _ordered(self.rows))
        notes = "".join(f"<li>{escape(note)}</li>" for note in self.notes)
        return (
            f"<p><b>{escape(self.recommendation)}</b></p>{self.to_svg()}<ul>{notes}</ul>"
            f"<details><summary>Figures with intervals</summary><table>"
            f"<caption>Batches of {self.batch_size} on {escape(self.machine)}; "
            f"in brackets, 95 % intervals</caption><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></details>"
        )

    def to_svg(self, by: Order = "latency") -> str:
        """Return a picture of the table: in each cell a figure with its bar, and for times their 95 % intervals.

        Args:
            by: What the forms are sorted by, the best one first.

        Raises:
            ArgumentError: If there is no such order.
        """
        choose(by, ORDERS, "by")
        rows = _ordered(self.rows, by)
        shown = [Row(row.name, row.missing or row.needs, row.name == self.best and not row.missing) for row in rows]
        titles = ("p50", "p95", "examples/s", "size", "memory", self.metric or "metric", "worst error")
        cells = [_bars(row, strong=row.name == self.best) for row in rows]
        columns = [
            Column(title, [each[place] for each in cells])
            for place, title in enumerate(titles)
            if any(each[place] is not None for each in cells)
        ]
        return bar_table(f"Batches of {self.batch_size} on {self.machine}", shown, columns)


def _bars(row: TargetRow, *, strong: bool) -> tuple[Bar | None, ...]:
    def bar(value: float | None, text: str) -> Bar | None:
        return None if value is None else Bar(row.name, max(value, 0.0), max(value, 0.0), max(value, 0.0), text, strong)

    def time(found: Measured | None) -> Bar | None:
        return found and Bar(row.name, found.value, found.low, found.high, amount(found.value, "s"), strong)

    known = row.latency
    return (
        time(known and known.p50),
        time(known and known.p95),
        bar(row.throughput, f"{row.throughput or 0:,.0f}"),
        bar(row.bytes, amount(row.bytes or 0, "B")),
        bar(row.memory, amount(row.memory or 0, "B")),
        bar(row.metric, f"{row.metric or 0:.4g}"),
        bar(row.error, f"{row.error or 0:.2g} at {row.error_at}"),
    )


def _ordered(rows: Mapping[str, TargetRow], by: Order = "latency") -> list[TargetRow]:
    """Return the built forms, the best first, and then the others."""

    def key(row: TargetRow) -> tuple[bool, float]:
        ratio = None if row.latency is None else row.latency.ratio.value
        figures = {"latency": ratio, "size": row.bytes, "memory": row.memory, "metric": row.loss, "error": row.error}
        found = figures[by]
        return row.latency is None, math.inf if found is None else found

    return sorted(rows.values(), key=key)


def _html(row: TargetRow, *, recommended: bool) -> str:
    if row.latency is None:
        left = "style='text-align:left'"
        return f"<tr><td></td><td {left}>{escape(row.name)}</td><td colspan='8' {left}>{escape(row.missing)}</td></tr>"
    times = (_time(row.latency.p50), _time(row.latency.p95))
    _, _, *others = _bars(row, strong=recommended)
    cells = (str(row.rank), row.name, *times, *("" if bar is None else bar.text for bar in others), row.needs)
    style = "text-align:left;font-weight:bold" if recommended else "text-align:left"
    return f"<tr>{''.join(f'<td style={chr(34)}{style}{chr(34)}>{escape(cell)}</td>' for cell in cells)}</tr>"


def _time(time: Measured) -> str:
    return f"{amount(time.value, 's')} [{amount(time.low, 's')}, {amount(time.high, 's')}]"
