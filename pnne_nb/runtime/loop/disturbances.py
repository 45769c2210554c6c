"""`Disturbances`: what a cell did in the middle of a step without using the model, so that the step is made again."""

from __future__ import annotations

import time
from collections.abc import Callable
from traceback import walk_tb
from typing import Final, final

from pnne_nb.runtime.thread.mode_guard import Modes

_AT_FIRST: Final = 2
"""So often a first step is made again before the model is taken to change its modes itself."""
_LATER: Final = 50
_TRACER = "/torch/fx/"
_TRACES: Final = 1000
_MOMENT: Final = 0.01
"""Seconds until a step that has met a tracer is made again, and how often at most."""


class DisturbedError(Exception):
    """The step under way was disturbed, and must be made again."""


class ModesHeldError(Exception):
    """A cell has changed a mode and still runs: the step under way is to be made when the cell has ended."""


@final
class Disturbances:
    """Finds two kinds: ``model.eval()``, and ``torch.fx``, which takes over the calls of all modules while it traces one.

    Attributes:
        in_cell: Says whether a cell runs whose changes of modes last until it ends.
    """

    def __init__(self, modes: Modes) -> None:
        self.in_cell: Callable[[], bool] = lambda: False
        self._modes = modes
        self._repeated = 0
        self._traced = 0
        self._most: int | None = _AT_FIRST

    @property
    def held(self) -> bool:
        """Whether the running cell has changed a mode since the last batch, which the model keeps until the cell ends."""
        # Not before a first step has shown that the training's own code keeps the modes.
        return self._most == _LATER and self.in_cell() and not self._modes.are_kept

    def begin(self) -> None:
        """Undo what a cell's ``model.eval()`` did since the last batch.

        Raises:
            ModesHeldError: That cell still runs.
        """
        if self.held:
            raise ModesHeldError
        self._modes.restore()

    def look(self) -> None:
        """Check the modes before the update.

        Raises:
            DisturbedError: Somebody has changed one in this step.
            ModesHeldError: The running cell has.
        """
        if self._most is None or self._modes.are_kept:
            return
        if self.held:
            raise ModesHeldError
        self._repeated += 1
        if self._repeated > self._most:
            # Else a training whose own code does it would make each step twice.
            self._most = None
            return
        self._modes.restore()
        raise DisturbedError

    def made(self, error: BaseException) -> bool:
        """Return whether a step has failed for such a reason only."""
        if isinstance(error, DisturbedError):
            return True
        traced = any(_TRACER in frame.f_code.co_filename for frame, _ in walk_tb(error.__traceback__))
        if not (traced or "Proxy" in str(error)) or self._traced >= _TRACES:
            return False
        self._traced += 1
        time.sleep(_MOMENT)
        return True

    def over(self) -> None:
        """Record the end of a step."""
        self._repeated = self._traced = 0
        if self._most is not None:
            self._most = _LATER
