"""Draws loss and metrics of a training's history."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from pnne_nb.runtime.monitoring.history import History
from pnne_nb.widgets.plots.curves import Curve
from pnne_nb.widgets.plots.svg_chart import PALETTE, TRAINING_COLOUR, VALIDATION_COLOUR, Chart, ChartLine, Panel

_SIDES = ("train_", "val_")


def history_chart(
    history: History,
    names: Sequence[str] = (),
    *,
    log: bool = False,
    title: str = "Training history",
    said: Sequence[str] = (),
    beside: Sequence[History] = (),
    labels: Sequence[str] = (),
) -> Chart:
    """Draw the series of a history, and of others over it in a colour of their own.

    Args:
        history: Of a training.
        names: Of series; training and validation of one metric share a panel. None: the loss and every metric.
        log: Whether vertical axes are logarithmic.
        title: Above the panels.
        said: What to say before the numbers of the history: a line each.
        beside: Other histories, of any length.
        labels: What to call each history in the legend; by default its number.

    Raises:
        UnknownSeriesError: No history has such a name.
    """
    runs = [history, *beside]
    chosen = list(dict.fromkeys(name for run in runs for name in names or _important(run)))
    panels: dict[str, list[str]] = {}
    for name in chosen:
        if not any(name in run for run in runs):
            history.points(name)  # says which names there are
        base = next((name.removeprefix(side) for side in _SIDES if name.startswith(side)), name)
        panels.setdefault(base, []).append(name)
    if beside:
        return _together(
            runs, labels or [f"run {number}" for number in range(1, len(runs) + 1)], panels, title, log=log
        )
    cuts = [step + 0.5 for step in history.cuts.tolist()]
    drawn = [
        Panel(_title(base), "step", [line for name in members for line in _lines(history, name, members)], log, cuts)
        for base, members in panels.items()
    ]
    return Chart(title, drawn, [*said, *_facts(history, chosen)])


def _important(history: History) -> list[str]:
    return [name for name in history if name == "loss" or name.startswith(_SIDES)]


def _together(
    runs: Sequence[History], labels: Sequence[str], panels: Mapping[str, list[str]], title: str, *, log: bool
) -> Chart:
    """Draw several histories over each other: a colour for each, and a panel for each series, validation apart."""
    drawn, facts = [], list[str]()
    for members in panels.values():
        # The loss of each epoch is the mean of what the panel of the loss shows already.
        for name in (each for each in members if each != "train_loss" or "loss" not in members):
            lines = [
                line._replace(colour=PALETTE[number % len(PALETTE)], label=label if line.label else "")
                for number, (run, label) in enumerate(zip(runs, labels, strict=True))
                if name in run
                for line in _lines(run, name, [name])
            ]
            drawn.append(Panel(_title(name), "step", lines, log, []))
    for run, label in zip(runs, labels, strict=True):
        facts += [f"{label}: {fact}" for fact in _facts(run, [name for members in panels.values() for name in members])]
    return Chart(title, drawn, facts)


def _title(base: str) -> str:
    return base.replace("_", " ").capitalize() if base.islower() else base


def _lines(history: History, name: str, beside: Sequence[str]) -> list[ChartLine]:
    x, y = history.points(name)
    if name in history.over_epochs:
        measured = ~np.isnan(y)
        of_loss = name == "train_loss" and "loss" in beside
        if of_loss or not measured.any():
            return []  # the loss of every step is there already
        colour = VALIDATION_COLOUR if name.startswith("val_") else TRAINING_COLOUR
        return [ChartLine(name, x[measured].astype(float), y[measured], colour, dots=True)]
    colour = TRAINING_COLOUR if name == "loss" else PALETTE[beside.index(name) % len(PALETTE)]
    steps, values, smooth = _decimated(x, y, history.cuts)
    return [ChartLine("", steps, values, colour, faint=True), ChartLine(name, steps, smooth, colour)]


def _decimated(
    x: NDArray[np.int64], y: NDArray[np.float64], cuts: NDArray[np.int64]
) -> tuple[NDArray[np.floating], NDArray[np.floating], NDArray[np.floating]]:
    """Return a decimated curve and its smoothed form, as in the dashboard."""
    curve, after = Curve(), sorted(cuts.tolist())
    for step, value in zip(x.tolist(), y.tolist(), strict=True):
        while after and step > after[0]:
            after.pop(0)
            curve.cut()
        curve.append(step, value)
    return curve.points()


def _facts(history: History, names: Sequence[str]) -> list[str]:
    """Return the last number of each name, and the best of a loss."""
    summary = history.summary()
    facts = [f"{summary['steps']:.0f} steps in {summary['seconds']:.1f} s."]
    for name in names:
        if name in summary:
            best = summary.get(f"best_{name}")
            where = "at the end" if name in history.over_epochs else "in the last batch"
            facts.append(f"{name}: {summary[name]:.4g} {where}{'' if best is None else f', least {best:.4g}'}.")
    return [*facts, *(f"{found}" for found in summary["anomalies"])]
