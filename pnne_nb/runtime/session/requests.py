"""Requests of a cell or a button that run between two steps: an extra validation, a checkpoint."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import final

from pnne_nb.errors import CheckpointError, TrainingError
from pnne_nb.process.fork import fork_safe
from pnne_nb.runtime.loop.loop_events import Eased
from pnne_nb.runtime.monitoring.reporter import Reports
from pnne_nb.runtime.session.checkpoint_schedule import CheckpointSchedule
from pnne_nb.runtime.session.execution import Execution
from pnne_nb.runtime.setup.recipe import require_validation
from pnne_nb.runtime.thread.control import Control
from pnne_nb.telemetry.frames import AnomalyFrame, EpochFrame


@final
class Requests:
    """Carries out requests in the calling thread, or for a button in a separate thread."""

    def __init__(
        self, control: Control, execution: Execution, reports: Reports, checkpoints: CheckpointSchedule
    ) -> None:
        self._control = control
        self._execution = execution
        self._reports = reports
        self._checkpoints = checkpoints
        self._validating = fork_safe(threading.RLock())

    def validate(self, *, wait: bool) -> dict[str, float]:
        """Validate between two steps, in the calling thread, or without `wait` in a separate one.

        Raises:
            TrainingError: There is no validation data, or this is inside a validation.
        """
        require_validation(self._execution.loop.recipe)
        if wait:
            return self._validate()
        self._later(self._validate)
        return {}

    def _validate(self) -> dict[str, float]:
        # Several may visit at once, and each would carry on the same pass.
        with self._control.visit("a validation"), self._validating:
            self._execution.executor.sync()
            validation = self._execution.loop.validate()
            while True:
                try:
                    event = next(validation)
                except StopIteration as end:
                    frame: EpochFrame = end.value
                    break
                if isinstance(event, Eased):
                    self._reports.announce(event.frame)
            self._reports.announce(frame)
        return dict(frame.metrics)

    def save(self, path: Path | None, *, wait: bool) -> None:
        """Write a checkpoint between two steps, to `path` or the directory; for `wait`, see `validate`.

        Raises:
            CheckpointError: It cannot be written, or there is no place for it.
        """
        if path is None and self._checkpoints.directory is None:
            raise CheckpointError(
                "There is no place for a checkpoint: give the engine a checkpoint_dir, or save_checkpoint() a path."
            )

        def save() -> None:
            with self._control.visit("a checkpoint"):
                self._checkpoints.write(path)

        if wait:
            save()
        else:
            self._later(save)

    def _later(self, request: Callable[[], object]) -> None:
        """Carry out a button's request; an error becomes an anomaly event."""

        def carry_out() -> None:
            try:
                request()
            except TrainingError as error:
                self._reports.announce(AnomalyFrame(self._execution.executor.steps, "request-failed", str(error)))

        threading.Thread(target=carry_out, name="pnne-request", daemon=True).start()
