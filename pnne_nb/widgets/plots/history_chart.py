"""Draws loss and metrics of a training's history."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pnne_nb.runtime.monitoring.history import History
from pnne_nb.widgets.plots.curves import Curve
from pnne_nb.widgets.plots.palette import PALETTE, TRAINING_COLOUR, VALIDATION_COLOUR
from pnne_nb.widgets.plots.svg_chart import Chart, ChartLine, Panel

_SIDES = ("train_", "val_")


def history_chart(
    history: History,
    names: Sequence[str] = (),
    *,
    log: bool = False,
    title: str = "Training history",
    said: Sequence[str] = (),
) -> Chart:
    """Draw the series of a history.

    Args:
        history: Of a training.
        names: Of series; training and validation of one metric share a panel. None: the loss and every metric.
        log: Whether vertical axes are logarithmic.
        title: Above the panels.
        said: What to say before the numbers of the history: a line each.

    Raises:
        UnknownSeriesError: The history has no such name.
    """
    chosen = list(names) if names else [name for name in history if name == "loss" or name.startswith(_SIDES)]
    panels: dict[str, list[str]] = {}
    for name in chosen:
        history.points(name)
        base = next((name.removeprefix(side) for side in _SIDES if name.startswith(side)), name)
        panels.setdefault(base, []).append(name)
    cuts = [step + 0.5 for step in history.cuts.tolist()]
    drawn = [
        Panel(_title(base), "step", [line for name in members for line in _lines(history, name, members)], log, cuts)
        for base, members in panels.items()
    ]
    return Chart(title, drawn, [*said, *_facts(history, chosen)])


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
