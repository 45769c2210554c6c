"""Figures beside their budgets."""

from __future__ import annotations

from benchmarks.paired import Comparison, Verdict


class Budgets:
    """Prints figures beside their budgets, and fails at the end if one is over."""

    def __init__(self) -> None:
        self._over: list[str] = []

    def report(self, what: str, value: float, budget: float, unit: str, *, least: bool = False) -> None:
        """Print a figure beside the most that it may be, or with `least`, the least."""
        kept = value >= budget if least else value <= budget
        bound = f"{'at least' if least else 'budget'} {budget:g}"
        print(f"{what:<66} {value:9.3f} {unit:<3} ({bound}){'' if kept else '   OVER'}", flush=True)
        if not kept:
            self._over.append(what)

    def judge(self, what: str, found: Comparison, budget: float) -> Verdict:
        """Return whether a comparison keeps its budget; a broken one counts as over."""
        verdict = found.verdict(budget)
        if verdict == "broken":
            self._over.append(f"{what} ({found.ratio} > {budget:g})")
        return verdict

    def fail(self, what: str) -> None:
        """Count something else as over."""
        self._over.append(what)

    def end(self) -> None:
        """Raise `SystemExit` with what is over."""
        if self._over:
            raise SystemExit(f"Over budget: {'; '.join(self._over)}.")
