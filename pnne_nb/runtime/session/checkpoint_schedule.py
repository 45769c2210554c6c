"""`CheckpointSchedule`: decides when a training writes checkpoints, and reports failed writes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, final

from pnne_nb.errors import CheckpointError
from pnne_nb.runtime.checkpointing import files
from pnne_nb.runtime.checkpointing.files import CheckpointDirectory
from pnne_nb.runtime.monitoring.reporter import Reports
from pnne_nb.runtime.session.execution import Execution
from pnne_nb.runtime.session.notices import Notices
from pnne_nb.runtime.setup.recipe import Every
from pnne_nb.telemetry.frames import CheckpointFrame


@final
class CheckpointSchedule:
    """Writes the regular checkpoints, which are due at `every` interval, the best one and the last one into `directory`."""

    def __init__(
        self,
        directory: CheckpointDirectory | None,
        every: Every,
        state_dict: Callable[[], dict[str, Any]],
        execution: Execution,
        reports: Reports,
        notices: Notices,
    ) -> None:
        self.directory = directory
        self.every = every
        self._state_dict = state_dict
        self._execution = execution
        self._reports = reports
        self._notices = notices
        self._saved: tuple[int, int] | None = None

    def require_room(self) -> None:
        """Check at the start that a checkpoint can be written, instead of failing after the first epoch.

        Raises:
            CheckpointError: It could not.
        """
        if self.directory is not None:
            self.directory.require_writable()

    def weights_restored(self) -> None:
        """Record that the model's weights differ from the last checkpoint of this step."""
        self._saved = None

    def after_step(self, step: int) -> None:
        self._save_if_possible(due=self.every.after_step(step), improved=False)

    def after_epoch(self, epoch: int, *, improved: bool) -> None:
        """Write a checkpoint after an epoch, if one is due, and ``best.ckpt`` after an improvement."""
        self._save_if_possible(due=self.every.after_epoch(epoch), improved=improved)

    def after_validation(self, *, improved: bool) -> None:
        """Write ``best.ckpt`` after a validation in the middle of an epoch, if it improved."""
        self._save_if_possible(due=False, improved=improved)

    def at_end(self) -> None:
        """Write the last checkpoint, unless the newest one is from the same step.

        Raises:
            CheckpointError: It cannot be written.
        """
        self._save(due=self._saved != self._execution.place, improved=False)

    def write(self, path: Path | None) -> None:
        """Write a checkpoint now, to `path` or into the directory.

        Raises:
            CheckpointError: It cannot be written.
        """
        if path is None:
            self._save(due=True, improved=False)
        else:
            files.write(path, self._state_dict())
            self._reports.saved(CheckpointFrame(self._execution.loop.steps, str(path)))

    def _save_if_possible(self, *, due: bool, improved: bool) -> None:
        """Write a checkpoint. A failure does not end the training: a full disk may have room for the next one."""
        try:
            self._save(due=due, improved=improved)
        except CheckpointError as error:
            if not files.is_refused(error):
                raise
            assert self.directory is not None
            newest = self.directory.newest
            message = (
                f"{error} The training goes on, and tries again when the next one is due; until then, "
                f"{'there is none to resume from' if newest is None else f'{newest.name} is the newest'}."
            )
            self._notices.once(files.FAILED, message, "Make room, or save_checkpoint(path) writes one elsewhere.")

    def _save(self, *, due: bool, improved: bool) -> None:
        directory = self.directory
        if directory is None or not (due or improved):
            return
        state = self._state_dict()
        if due:
            # Where processes make the steps, the state is what they have come to by now.
            steps = self._execution.executor.steps
            path = directory.save(steps, state)
            self._saved = self._execution.place
            self._reports.saved(CheckpointFrame(steps, str(path)))
        if improved:
            directory.save_best(state)
        self._notices.take_back(files.FAILED)
        if directory.shared:
            message = (
                f"Another training writes its checkpoints into {directory.directory}, too: the oldest of both are "
                "removed there, best.ckpt is of either, and resume_from goes on from whichever was the last."
            )
            self._notices.once("checkpoints-shared", message, "Give each a checkpoint_dir of its own.")
