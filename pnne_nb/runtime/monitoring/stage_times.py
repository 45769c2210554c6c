"""Measures the time of each stage of a training: fetching data, moving it, forward, backward, update, watching."""

from __future__ import annotations

from collections.abc import Mapping
from time import perf_counter
from typing import Literal, TypeAlias, final

Stage: TypeAlias = Literal["data", "forward", "backward", "optimizer", "observe", "validation", "other"]

SLOW_DATA = 0.4
"""Share of the time from which on the data is what the training waits for."""

_WORDS: dict[str, str] = {
    "data": "fetching data",
    "forward": "forward",
    "backward": "backward",
    "optimizer": "optimizer",
    "observe": "watching",
    "validation": "validation",
    "other": "other",
}


@final
class Stages:
    """Adds up wall-clock time by stage; asynchronous work of a device counts for the stage that waits for it.

    Attributes:
        seconds: So far, by stage.
        workers: Processes that load the data; None where it is in memory.
    """

    def __init__(self) -> None:
        self.seconds: dict[Stage, float] = dict.fromkeys(
            ("data", "forward", "backward", "optimizer", "observe", "validation", "other"), 0.0
        )
        self.workers: int | None = 0
        self._since = perf_counter()

    def start(self) -> None:
        """Start measuring; the time before belongs to no stage."""
        self._since = perf_counter()

    def ended(self, stage: Stage) -> None:
        """Count the time since the last call for `stage`."""
        now = perf_counter()
        self.seconds[stage] += now - self._since
        self._since = now


def shares(seconds: Mapping[Stage, float], before: Mapping[Stage, float] | None = None) -> dict[str, float]:
    """Return the share of each stage, 0 to 1, of the time since `before`; all 0 if there was none."""
    spent = {stage: value - (0.0 if before is None else before[stage]) for stage, value in seconds.items()}
    total = sum(spent.values())
    return {stage: value / total if total > 0 else 0.0 for stage, value in spent.items()}


def in_words(found: Mapping[str, float], workers: int | None = 0) -> str:
    """Return the shares as a sentence, with advice if the data is slow; for `workers`, see `Stages`."""
    listed = ", ".join(f"{_WORDS[stage]} {share:.0%}" for stage, share in found.items() if share >= 0.005)
    if found.get("data", 0.0) < SLOW_DATA:
        return f"Time: {listed}."
    elsewhere = "prepare it beforehand, or give tensors that are in memory."
    match workers:
        case None:
            advice = "a larger batch_size takes less time for each example, as do tensors on the training's device."
        case 0:
            advice = f"load it with num_workers=2 or more, {elsewhere}"
        case _:
            advice = f"num_workers={workers} are not enough, or wait for a disk: try {2 * workers}, {elsewhere}"
    return f"Time: {listed}. The training waits for its data: {advice}"
