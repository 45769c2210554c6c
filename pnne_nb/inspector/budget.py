"""Budgets as people write them."""

from __future__ import annotations

from pnne_nb.errors import ArgumentError


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
        raise ArgumentError(f"budget must be a share of the running time such as '1%' or 0.01, not {budget!r}.")
    return share
