"""Measures the time of each stage of a training (data, forward, backward, update, watching), and its memory use."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from time import perf_counter
from typing import Literal, TypeAlias, final, get_args

import psutil  # type: ignore[import-untyped]  # its stubs are a package of their own
from torch import nn

from pnne_nb.runtime.setup.devices import memory_of
from pnne_nb.telemetry.frames import MemoryFrame, TimeFrame

Stage: TypeAlias = Literal["data", "forward", "backward", "optimizer", "observe", "validation", "other"]

SLOW_DATA = 0.4
"""Share of the time from which on the data is what the training waits for."""

_WORDS = {"data": "fetching data", "observe": "watching"}
"""What stages are called in a sentence, where that is not their name."""
_EVERY = 0.5
"""Seconds between two looks."""
_LOOKS = 10
"""Looks that shares of the time are of: between two alone is, for one, nothing but a validation."""


@final
class Stages:
    """Adds up wall-clock time by stage; asynchronous work of a device counts for the stage that waits for it.

    Attributes:
        seconds: So far, by stage.
        workers: Processes that load the data; None where it is in memory.
    """

    def __init__(self) -> None:
        self.seconds: dict[Stage, float] = dict.fromkeys(get_args(Stage), 0.0)
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
    listed = ", ".join(f"{_WORDS.get(stage, stage)} {share:.0%}" for stage, share in found.items() if share >= 0.005)
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


@final
class ResourceMonitor:
    """Samples the memory of a model's devices, and the stages of its training; a sample takes some 20 µs."""

    def __init__(self, model: nn.Module, stages: Stages) -> None:
        self._model = model
        self._stages = stages
        self._process = psutil.Process()
        self._before: deque[dict[Stage, float]] = deque([dict(stages.seconds)], maxlen=_LOOKS)
        self._looked = float("-inf")

    def due(self, now: float) -> bool:
        """Return whether a sample is due at `now` (seconds, monotonic), and schedule the next one."""
        if now - self._looked < _EVERY:
            return False
        self._looked = now
        return True

    def look(self, step: int) -> tuple[MemoryFrame, TimeFrame]:
        """Return the current memory use, and the stage times of the last few samples."""
        found = shares(self._stages.seconds, self._before[0])
        self._before.append(dict(self._stages.seconds))
        devices = dict.fromkeys(parameter.device for parameter in self._model.parameters())
        used = {str(device): memory_of(device) for device in devices if device.type not in {"cpu", "meta"}}
        memory = MemoryFrame(step, self._process.memory_info().rss, used)
        return memory, TimeFrame(step, found, in_words(found, self._stages.workers))
