"""Budgets and rates as people write them."""

from __future__ import annotations

from pnne_nb.errors import ArgumentError, expect, shown
from pnne_nb.probe import Cadence


def cadence(hz: float, budget: str | float) -> Cadence:
    """Observations at most `hz` times a second, within a share of the running time.

    Raises:
        ArgumentError: If `hz` is no number of at least 0, or `budget` no share.
    """
    expect(hz, int | float, "hz", "a number of observed steps a second")
    if not hz >= 0:
        raise ArgumentError(f"hz must be at least 0 observed steps a second, not {hz!r}; 0 observes none.")
    return Cadence(hz, parse_share(budget))


def parse_share(budget: str | float) -> float:
    """The share that ``"1%"`` or 0.01 stands for.

    Raises:
        ArgumentError: If it is neither, or not within (0, 1].
    """
    try:
        share = float(budget[:-1]) / 100 if isinstance(budget, str) and budget.endswith("%") else float(budget)
    except (TypeError, ValueError):
        share = -1.0
    if not 0 < share <= 1:
        raise ArgumentError(f"budget must be a share of the running time such as '1%' or 0.01, not {shown(budget)}.")
    return share
