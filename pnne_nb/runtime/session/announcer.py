"""`Announcer`: reports the events of a run and triggers checkpoints."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import assert_never, final

from pnne_nb.runtime.loop import loop_events
from pnne_nb.runtime.monitoring.progress import Progress
from pnne_nb.runtime.monitoring.reporter import Reports
from pnne_nb.runtime.monitoring.resources import ResourceMonitor
from pnne_nb.runtime.session.checkpoint_schedule import CheckpointSchedule
from pnne_nb.runtime.session.execution import Execution
from pnne_nb.runtime.session.notices import Notices
from pnne_nb.telemetry.frames import EpochStartFrame, MemoryFrame, ProgressFrame, TimeFrame


@final
class Announcer:
    """Passes each event of a run to the reports and to the checkpoint schedule.

    Attributes:
        busy: Whether the training is telling, or saving, and in no step.
        last_epoch: Where the training ends.
    """

    def __init__(
        self,
        execution: Execution,
        reports: Reports,
        notices: Notices,
        checkpoints: CheckpointSchedule,
        stepped: Callable[[], None],
        last_epoch: int,
    ) -> None:
        self.busy = False
        self.last_epoch = last_epoch
        self._begun = 0
        self._execution = execution
        self._reports = reports
        self._notices = notices
        self._checkpoints = checkpoints
        self._stepped = stepped
        loop = execution.loop
        self._progress = Progress(loop.recipe.train.size, loop.recipe.accumulate)
        self._monitor = ResourceMonitor(loop.recipe.model, loop.stages)

    @property
    def progress(self) -> ProgressFrame:
        source = self._execution.executor
        return self._progress.frame(source.epoch, self.last_epoch, source.position, source.steps)

    def rest(self) -> None:
        """Exclude the time until the next step from the speed, because the state changes."""
        self._progress.rest()

    def look(self) -> tuple[MemoryFrame, TimeFrame] | tuple[()]:
        """Measure memory and time after the last step; a process measures its own."""
        return () if self._execution.executor.measures else self._monitor.look(self._execution.loop.steps)

    def epoch_begins(self) -> None:
        """Report the begin of an epoch once, before its first batch."""
        source = self._execution.executor
        begins = source.position == 0 and source.epoch <= self.last_epoch and not self._execution.loop.has_settled()
        if begins and source.epoch != self._begun:
            self._begun = source.epoch
            self.busy = True
            self._reports.listeners.tell(EpochStartFrame(source.epoch, source.steps))
            self.busy = False

    def tell(self, event: loop_events.Event) -> None:
        """Report an event of the loop, and write the checkpoints that are due."""
        self.busy = True
        now = time.monotonic()
        match event:
            case loop_events.Stepped(frame=frame):
                executor = self._execution.executor
                if executor.counts:
                    self._stepped()
                self._reports.stepped(frame)
                if not self._notices.goal_compared:
                    self._notices.of_goal(frame)
                if not executor.measures and self._monitor.due(now):
                    self._reports.looked(*self._monitor.look(frame.step))
                if self._checkpoints.directory is not None:
                    self._checkpoints.after_step(frame.step)
            case loop_events.Judged(frame=judged, improved=improved):
                self._reports.announce(judged)
                self._checkpoints.after_validation(improved=improved)
            case loop_events.EpochEnded(frame=epoch, improved=improved):
                self._reports.announce(epoch)
                self._notices.of_left_out()
                self._checkpoints.after_epoch(epoch.epoch, improved=improved)
            case loop_events.Eased(frame=noted) if self._reports.judge.knows(noted):
                pass  # the shapes have told it before the first step
            case loop_events.Eased(frame=noted) | loop_events.Restarted(frame=noted) | loop_events.Unsaved(frame=noted):
                self._reports.announce(noted)
            case loop_events.Restored(frame=noted):
                self._reports.announce(noted)
                self._checkpoints.weights_restored()
            case loop_events.Validated() | loop_events.Waiting():
                pass
            case _:
                assert_never(event)
        if self._progress.due(now, self._execution.executor.steps):
            self._reports.channel.put(self.progress)
        self.busy = False
