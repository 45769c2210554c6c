"""Reports of passes: changes, skipped nodes with reasons, proof, and measured gain."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping
from html import escape
from typing import Any, final

import msgspec
import torch
from torch import nn

from pnne_nb.compiler.analysis.device_rule import home_of, wait_for
from pnne_nb.compiler.passes.equivalence import EquivalenceProof
from pnne_nb.process.random_state import private_random_state

TIMING_SECONDS = 0.6
"""About how long a comparison takes."""

TIMING_ROUNDS = 15


class Change(msgspec.Struct, frozen=True):
    """One change of a document.

    Attributes:
        what: What was done, in the past tense: ``"removed"``, ``"fused"`` …
        nodes: Paths of the nodes that it was done to.
        detail: What came of it.
    """

    what: str
    nodes: tuple[str, ...]
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.what} {', '.join(self.nodes)}{f': {self.detail}' if self.detail else ''}"


class Gain(msgspec.Struct, frozen=True):
    """Gain of a pass in one measure.

    Attributes:
        what: ``"nodes"``, ``"peak memory"``, ``"forward pass"`` …
        before: The figure before.
        after: The figure after; less is better.
        unit: ``""`` for counts, ``"B"`` for bytes, ``"s"`` for seconds.
        measured: Whether it was measured on the example inputs, rather than derived.
    """

    what: str
    before: float
    after: float
    unit: str = ""
    measured: bool = False

    @property
    def factor(self) -> float:
        """Ratio of the figures before and after; 1 if nothing is gained."""
        return self.before / self.after if self.after else float("inf") if self.before else 1.0

    def __str__(self) -> str:
        how = "measured" if self.measured else "derived"
        said = "gains nothing" if self.factor <= 1.005 else f"{self.factor:.2f}× less"
        return f"{self.what} {amount(self.before, self.unit)} → {amount(self.after, self.unit)}, {said} ({how})"


@final
class Report(msgspec.Struct, frozen=True):
    """Report of one pass.

    Attributes:
        name: Of the pass.
        changes: What was changed; empty if there was nothing to do.
        skipped: Why nodes that looked fit were left alone, by path.
        gains: What it gains.
        proof: How the model after it was compared with the model before; None if nothing was changed.
        refused: Why the changes were taken back, or an empty string.
    """

    name: str
    changes: tuple[Change, ...] = ()
    skipped: dict[str, str] = {}
    gains: tuple[Gain, ...] = ()
    proof: EquivalenceProof | None = None
    refused: str = ""

    @property
    def headline(self) -> str:
        """Result in a few words."""
        if self.refused:
            return f"refused: {self.refused}"
        count = len(self.changes)
        return f"{count} change{'' if count == 1 else 's'}" if count else "nothing to do"

    def __str__(self) -> str:
        lines = [f"{self.name}: {self.headline}", *(f"  {change}" for change in self.changes)]
        lines += [f"  left {path}: {reason}" for path, reason in self.skipped.items()]
        lines += [f"  {gain}" for gain in self.gains]
        return "\n".join([*lines, *([f"  {self.proof}"] if self.proof is not None else [])])

    def _repr_html_(self) -> str:
        rows = [("", str(change)) for change in self.changes]
        rows += [("left", f"{path}: {reason}") for path, reason in self.skipped.items()]
        rows += [("gain", str(gain)) for gain in self.gains]
        rows += [("proof", str(self.proof))] if self.proof is not None else []
        cells = "".join(
            f"<tr><td>{escape(kind)}</td><td style='text-align:left'>{escape(text)}</td></tr>" for kind, text in rows
        )
        title = f"<b>{escape(self.name)}</b>: {escape(self.headline)}"
        return f"<table><caption style='text-align:left'>{title}</caption>{cells}</table>"


def amount(value: float, unit: str) -> str:
    """Return a figure with its unit, e.g. ``"14.9 MB"`` or ``"1.20 ms"``; counts are exact: ``"11,181,642"``."""
    scales = {"B": ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")), "s": ((1, "s"), (1e-3, "ms"), (1e-6, "µs"))}.get(unit, ())
    for scale, name in scales:
        if abs(value) >= scale:
            return f"{value / scale:.3g} {name}"
    number = f"{value:,.0f}" if float(value).is_integer() else f"{value:g}"
    return f"{number} {unit}".strip()


def forward_gain(before: nn.Module, after: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Gain:
    """Measure a forward pass before and after, in seconds, with both models in evaluation mode."""
    models = (before, after)
    times: list[list[float]] = [[], []]
    with torch.inference_mode(), private_random_state():
        once = [_seconds(model, args, kwargs, 1) for _ in range(2) for model in models][-2:]
        calls = max(1, int(TIMING_SECONDS / (2 * TIMING_ROUNDS * max(sum(once) / 2, 1e-7))))
        for number in range(TIMING_ROUNDS):
            for index in (0, 1) if number % 2 else (1, 0):
                times[index].append(_seconds(models[index], args, kwargs, calls) / calls)
    # The ratio of each pair: what slows one round slows both halves of it.
    ratio = statistics.median(after / before for before, after in zip(*times, strict=True))
    base = statistics.median(times[0])
    return Gain("forward pass", base, base * ratio, "s", measured=True)


def _seconds(model: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any], calls: int) -> float:
    start = time.perf_counter()
    for _ in range(calls):
        model(*args, **kwargs)
    wait_for(home_of(model))
    return time.perf_counter() - start
