"""What the training thread does, from its first step to its last."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, final

from pnne_nb.frames import AnomalyFrame, EpochFrame, ProgressFrame, TrainingState
from pnne_nb.runtime.checkpoint import CheckpointDirectory
from pnne_nb.runtime.control import Control
from pnne_nb.runtime.loop import Eased, EpochEnded, Event, Stepped, TrainingLoop
from pnne_nb.runtime.progress import Progress
from pnne_nb.runtime.reports import Reports
from pnne_nb.runtime.sharing import SharedModel
from pnne_nb.runtime.stepping import NotFiniteError
from pnne_nb.runtime.validating import Validated


@final
class Work:
    """Drives a loop under a control, and reports.

    Args:
        loop: Makes the steps.
        reports: Takes the news.
        shared: Guards the model meanwhile.
        control: Decides at each boundary.
        checkpoints: Where to keep them, or None.
        state_dict: What a checkpoint holds.

    Attributes:
        error: What made the training fail, or None.
        last_epoch: Where it ends.
    """

    def __init__(
        self,
        loop: TrainingLoop,
        reports: Reports,
        shared: SharedModel,
        control: Control,
        checkpoints: CheckpointDirectory | None,
        state_dict: Callable[[], dict[str, Any]],
        last_epoch: int,
    ) -> None:
        self.error: BaseException | None = None
        self.last_epoch = last_epoch
        self._loop = loop
        self._reports = reports
        self._shared = shared
        self._control = control
        self._checkpoints = checkpoints
        self._state_dict = state_dict
        self._progress = Progress(loop.recipe.train.size, loop.recipe.accumulate)

    @property
    def progress(self) -> ProgressFrame:
        """How far training has come."""
        return self._progress.frame(self._loop.epoch, self.last_epoch, self._loop.position, self._loop.steps)

    def renew(self, epochs: int) -> None:
        """A new run of the thread: what failed is forgotten, and after the last epoch there are so many more."""
        self.error = None
        if self._loop.epoch > self.last_epoch:
            self.last_epoch = self._loop.epoch - 1 + epochs

    def rest(self) -> None:
        """The state changes: time that passes until the next step is nobody's speed."""
        self._progress.rest()

    def validate(self) -> dict[str, float]:
        """An extra validation between two steps, in the calling thread.

        Raises:
            TrainingError: There is no validation data, or a validation is under way.
        """
        with self._control.visit("a validation"):
            validation = self._loop.validate()
            while True:
                try:
                    next(validation)
                except StopIteration as end:
                    frame: EpochFrame = end.value.frame
                    break
            self._reports.announce(frame)
        return dict(frame.metrics)

    def run(self) -> None:
        """Train until the end, a stop or a failure; never raises."""
        self._control.enter()
        state: TrainingState = "failed"
        try:
            self._shared.open()
            state = self._train()
            self._save_latest()
        except BaseException as error:  # noqa: BLE001  it is kept, shown, and raised again by wait()
            state = "failed"
            self._keep(error)
        finally:
            self._shared.close()
            self._reports.channel.put(self.progress)
            self._control.end(state)

    def _keep(self, error: BaseException) -> None:
        loop = self._loop
        error.add_note(f"While {loop.doing}.")
        self.error = error
        if isinstance(error, NotFiniteError):
            found = error.diagnostics[0]
            self._reports.announce(AnomalyFrame(loop.steps + 1, found.code, found.message, found.node, found.hint))
        elif loop.fetching:
            message = f"The data failed while {loop.doing}: {type(error).__name__}: {error}"
            self._reports.announce(AnomalyFrame(step=loop.steps + 1, kind="data-failed", message=message))

    def _train(self) -> TrainingState:
        events = self._loop.run(self.last_epoch)
        try:
            while self._control.boundary() == "go":
                event = next(events, None)
                if event is None:
                    return "finished"
                self.tell(event)
            return "stopped"
        finally:
            events.close()

    def tell(self, event: Event) -> None:
        """Report what the loop has done, and save what is due."""
        match event:
            case Stepped(frame=frame):
                self._control.stepped()
                self._reports.stepped(frame)
            case EpochEnded(frame=epoch):
                self._reports.announce(epoch)
                self._save_epoch(epoch)
            case Eased(frame=eased):
                self._reports.announce(eased)
            case Validated():
                pass
        if self._progress.due(time.monotonic(), self._loop.steps):
            self._reports.channel.put(self.progress)

    def _save_epoch(self, frame: EpochFrame) -> None:
        if self._checkpoints is not None:
            state = self._state_dict()
            self._checkpoints.save(frame.step, state)
            self._checkpoints.save_if_best(frame.metrics.get("val_loss", frame.metrics["train_loss"]), state)

    def _save_latest(self) -> None:
        if self._checkpoints is not None and self._loop.position > 0:
            self._checkpoints.save(self._loop.steps, self._state_dict())
