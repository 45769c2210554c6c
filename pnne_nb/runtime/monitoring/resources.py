"""`Monitor`: samples memory use and stage times a few times a second."""

from __future__ import annotations

from collections import deque
from typing import final

import psutil  # type: ignore[import-untyped]  # its stubs are a package of their own
from torch import nn

from pnne_nb.runtime.monitoring.stage_times import Stage, Stages, in_words, shares
from pnne_nb.runtime.setup.devices import memory_of
from pnne_nb.telemetry.frames import MemoryFrame, TimeFrame

_EVERY = 0.5
"""Seconds between two looks."""
_LOOKS = 10
"""Looks that shares of the time are of: between two alone is, for one, nothing but a validation."""


@final
class Monitor:
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
