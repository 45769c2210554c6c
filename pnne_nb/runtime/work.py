"""What the training thread does, from its first step to its last."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, assert_never, final

from pnne_nb.errors import CheckpointError, TrainingError
from pnne_nb.frames import AnomalyFrame, CheckpointFrame, EpochFrame, ProgressFrame, TrainingState
from pnne_nb.runtime import checkpoint
from pnne_nb.runtime.cadence import Every
from pnne_nb.runtime.checkpoint import CheckpointDirectory
from pnne_nb.runtime.control import Control
from pnne_nb.runtime.determinism import Determinism
from pnne_nb.runtime.distributed.training_group import TrainingGroup
from pnne_nb.runtime.easing import is_out_of_memory
from pnne_nb.runtime.failures import in_brief
from pnne_nb.runtime.loop import (
    Eased,
    EpochEnded,
    Event,
    Judged,
    Restarted,
    Restored,
    Stepped,
    TrainingLoop,
    Unsaved,
    Waiting,
)
from pnne_nb.runtime.monitor import Monitor
from pnne_nb.runtime.needs import shortage
from pnne_nb.runtime.optimizers import left_out
from pnne_nb.runtime.progress import Progress
from pnne_nb.runtime.recipe import require_validation
from pnne_nb.runtime.reports import Reports
from pnne_nb.runtime.sharing import SharedModel
from pnne_nb.runtime.sources import abandon, named
from pnne_nb.runtime.stalls import StallWatch
from pnne_nb.runtime.stepping import NotFiniteError
from pnne_nb.runtime.validating import Validated
from pnne_nb.runtime.workers import WorkerDiedError

_LESS = (
    'What is left is less to keep: precision="bf16", checkpoint=True at nodes, an optimizer with less state such as SGD, a '
    "smaller model, or another device."
)


@final
class Work:
    """Drives a loop under a control, and reports.

    Args:
        loop: Makes the steps.
        reports: Takes the news.
        shared: Guards the model meanwhile.
        control: Decides at each boundary.
        determinism: What each step runs under.
        checkpoints: Where to keep them, or None.
        save_every: When, beside the best and the last.
        state_dict: What a checkpoint holds.
        last_epoch: Where the training ends.

    Attributes:
        error: What made the training fail, or None.
        last_epoch: Where it ends.
        loaded: Whether the next run makes what is left to do, and no more: a checkpoint was loaded, or is still to be
            written.
        group: Makes the steps of the run under way in the place of the loop, or None.
    """

    def __init__(
        self,
        loop: TrainingLoop,
        reports: Reports,
        shared: SharedModel,
        control: Control,
        determinism: Determinism,
        checkpoints: CheckpointDirectory | None,
        save_every: Every,
        state_dict: Callable[[], dict[str, Any]],
        last_epoch: int,
    ) -> None:
        self.error: BaseException | None = None
        self.last_epoch = last_epoch
        self.loaded = False
        self.group: TrainingGroup | None = None
        self._loop = loop
        self._reports = reports
        self._shared = shared
        self._control = control
        self._guarded = threading.Event()
        self._validating = threading.RLock()
        self._determinism = determinism
        self._checkpoints = checkpoints
        self._save_every = save_every
        self._saved: tuple[int, int] | None = None
        self._told: set[str] = set()
        self._telling = False
        self._state_dict = state_dict
        self._progress = Progress(loop.recipe.train.size, loop.recipe.accumulate)
        self._monitor = Monitor(loop.recipe.model, loop.stages)
        self._stalls = StallWatch(
            lambda: self._source.doing,
            lambda: self._source.steps + 1,
            reports.announce,
            lambda: named(loop.recipe.train),
            self._give_up,
        )

    @property
    def progress(self) -> ProgressFrame:
        """How far training has come."""
        source = self._source
        return self._progress.frame(source.epoch, self.last_epoch, source.position, source.steps)

    @property
    def _source(self) -> TrainingLoop | TrainingGroup:
        return self._loop if self.group is None else self.group

    def sync(self) -> None:
        """Between two steps: where a group makes them, let the loop be where the group is."""
        if self.group is not None:
            self.group.sync()

    def renew(self, epochs: int) -> None:
        """A new run of the thread: what failed is forgotten, and after the last epoch there are so many more.

        But not in the first run after a checkpoint was loaded, which makes the rest: a script that resumes what was
        killed after its last checkpoint does not train again.
        """
        self.error = None
        self._telling = False
        self._guarded.clear()
        if not self.loaded:
            self._loop.be_patient()
            if self._loop.epoch > self.last_epoch:
                self.last_epoch = self._loop.epoch - 1 + epochs
        self.loaded = False

    def require_room(self) -> None:
        """Nobody wants to hear at the end of the first epoch that its checkpoint cannot be written.

        Raises:
            CheckpointError: It could not.
        """
        if self._checkpoints is not None:
            self._checkpoints.require_writable()

    def wait_for_guards(self) -> None:
        """Wait until the thread that was started has the model under guard: from then on, nobody meets a step."""
        self._guarded.wait()

    def rest(self) -> None:
        """The state changes: time that passes until the next step is nobody's speed."""
        self._progress.rest()

    def validate(self, *, wait: bool) -> dict[str, float]:
        """An extra validation between two steps, in the calling thread, or without `wait` in one of its own.

        Raises:
            TrainingError: There is no validation data, or this is inside of a validation.
        """
        require_validation(self._loop.recipe)
        if wait:
            return self._validate()
        self._later(self._validate)
        return {}

    def _validate(self) -> dict[str, float]:
        # Several may visit at once, and each would carry on the same pass.
        with self._control.visit("a validation"), self._validating:
            self.sync()
            validation = self._determinism.over(self._loop.validate())
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
        """Write a checkpoint as between two steps, to `path` or with the others; for `wait`, see `validate`.

        Raises:
            CheckpointError: It cannot be written, or there is no place for it.
        """
        if path is None and self._checkpoints is None:
            raise CheckpointError(
                "There is no place for a checkpoint: give the engine a checkpoint_dir, or save_checkpoint() a path."
            )

        def save() -> None:
            with self._control.visit("a checkpoint"):
                if path is None:
                    self._save(due=True, improved=False)
                else:
                    checkpoint.write(path, self._state_dict())
                    self._reports.saved(CheckpointFrame(self._loop.steps, str(path)))

        if wait:
            save()
        else:
            self._later(save)

    def _later(self, request: Callable[[], object]) -> None:
        """Carry out what a button asks for; what it raises is told as an anomaly."""

        def carry_out() -> None:
            try:
                request()
            except TrainingError as error:
                self._reports.announce(AnomalyFrame(self._source.steps, "request-failed", str(error)))

        threading.Thread(target=carry_out, name="pnne-request", daemon=True).start()

    def run(self) -> None:
        """Train until the end, a stop or a failure; never raises."""
        self._control.enter()
        state: TrainingState = "failed"
        try:
            try:
                self._shared.open()
            finally:
                self._guarded.set()
            self._warn_of_shortage()
            self._warn_of_left_out()
            with self._stalls:
                state = self._train()
            self._save_last()
        except BaseException as error:  # noqa: BLE001  it is kept, shown, and raised again by wait()
            state = "failed"
            self._keep(error)
        finally:
            self._shared.close()
            self.group = None
            self._reports.channel.put(self.progress, *self._monitor.look(self._loop.steps))
            self._telling = True
            self._control.end(state, self._keep)

    def _give_up(self) -> None:
        """Of a step that has stalled, nobody who wants the end waits for data that does not come."""
        if self._control.stopping and self.group is None:
            for source in (self._loop.recipe.train, self._loop.recipe.val):
                if source is not None:
                    abandon(source)

    def _warn_of_shortage(self) -> None:
        short = shortage(self._loop.recipe) if self._loop.steps == 0 and self.group is None else None
        if short is not None:
            self._reports.announce(short)

    def _warn_of_left_out(self) -> None:
        """Layers that somebody unfreezes or exchanges look as if they were trained."""
        recipe = self._loop.recipe
        if not recipe.moves_all or self.group is not None:
            return
        names = left_out(recipe.model, [recipe.optimizer, *recipe.stateful.values()])
        if not names:
            self._told.discard("not-trained")
            return
        message = (
            f"{', '.join(names[:3])}{f' and {len(names) - 3} others' * (len(names) > 3)} of the model "
            f"{'is' if len(names) == 1 else 'are'} not trained: since the optimizer was made, the model has become another, "
            "by unfreezing or in a layer, and it moves what there was then."
        )
        hint = (
            "Make a new engine of the model as it is now, or give them to this one's optimizer: with engine.paused(): "
            'engine.optimizer.add_param_group({"params": [...]}).'
        )
        self._tell_once("not-trained", message, hint)

    def _keep(self, error: BaseException) -> None:
        """What has made the training fail; of several things, the first."""
        if self.error is not None:
            self.error.add_note(f"And then: {in_brief(error)}")
            return
        told = in_brief(error)
        error.add_note("Between two steps." if self._telling else f"While {self._source.doing}.")
        self.error = error
        try:
            self._tell_why(error, told)
        except Exception as other:  # noqa: BLE001  whoever is told of a failure may fail, too
            self._keep(other)

    def _tell_why(self, error: BaseException, told: str) -> None:
        loop = self._source
        if isinstance(error, NotFiniteError):
            found = error.diagnostics[0]
            self._reports.announce(AnomalyFrame(loop.steps + 1, found.code, found.message, found.node, found.hint))
        elif is_out_of_memory(error):
            message = f"Out of memory while {loop.doing}, and no smaller pieces of a batch would help: {told}"
            self._reports.announce(AnomalyFrame(loop.steps + 1, "out-of-memory", message, hint=_LESS))
            error.add_note(_LESS)
        elif loop.fetching and not self._telling:
            message = f"The data failed while {loop.doing}: {told}"
            self._reports.announce(AnomalyFrame(step=loop.steps + 1, kind="data-failed", message=message))

    def _train(self) -> TrainingState:
        events = self._determinism.over(self._source.run(self.last_epoch))
        try:
            while self._control.boundary() == "go":
                self._stalls.began()
                event = next(events, None)
                self._stalls.ended()
                if event is None:
                    return "finished"
                self.tell(event)
            return "stopped"
        except WorkerDiedError as error:
            # The model is as after its last step. That is kept: a kernel that shuts down ends the workers first of all.
            if self._control.stopping:
                return "stopped"
            self._keep(error)
            return "failed"
        finally:
            events.close()

    def tell(self, event: Event) -> None:
        """Report what the loop has done, and save what is due."""
        self._telling = True
        now = time.monotonic()
        match event:
            case Stepped(frame=frame):
                self._control.stepped()
                self._reports.stepped(frame)
                if self._monitor.due(now):
                    self._reports.looked(*self._monitor.look(frame.step))
                if self._checkpoints is not None:
                    self._save_if_possible(due=self._save_every.after_step(frame.step), improved=False)
            case Judged(frame=judged, improved=improved):
                self._reports.announce(judged)
                self._save_if_possible(due=False, improved=improved)
            case EpochEnded(frame=epoch, improved=improved):
                self._reports.announce(epoch)
                self._warn_of_left_out()
                self._save_if_possible(due=self._save_every.after_epoch(epoch.epoch), improved=improved)
            case Eased(frame=noted) | Restarted(frame=noted) | Unsaved(frame=noted):
                self._reports.announce(noted)
            case Restored(frame=noted):
                self._reports.announce(noted)
                self._saved = None
            case Validated() | Waiting():
                pass
            case _:
                assert_never(event)
        if self._progress.due(now, self._source.steps):
            self._reports.channel.put(self.progress)
        self._telling = False

    def _save_if_possible(self, *, due: bool, improved: bool) -> None:
        """Where the disk is full, say, the training goes on: its next checkpoint may find room."""
        try:
            self._save(due=due, improved=improved)
        except CheckpointError as error:
            if not checkpoint.is_refused(error):
                raise
            assert self._checkpoints is not None
            newest = self._checkpoints.newest
            message = (
                f"{error} The training goes on, and tries again when the next one is due; until then, "
                f"{'there is none to resume from' if newest is None else f'{newest.name} is the newest'}."
            )
            self._tell_once(checkpoint.FAILED, message, "Make room, or save_checkpoint(path) writes one elsewhere.")

    def _save_last(self) -> None:
        self._telling = True
        try:
            self._save(due=self._saved != self._place, improved=False)
        except CheckpointError as error:
            error.add_note(
                "Nothing is lost: start() goes on from here and tries again; save_checkpoint(path) writes one elsewhere."
            )
            self.loaded = True
            raise

    def _tell_once(self, kind: str, message: str, hint: str) -> None:
        """Announce it, unless that was done since it was last otherwise."""
        if kind not in self._told:
            self._told.add(kind)
            self._reports.announce(AnomalyFrame(self._loop.steps, kind, message, hint=hint))

    def _save(self, *, due: bool, improved: bool) -> None:
        if self._checkpoints is None or not (due or improved):
            return
        state = self._state_dict()
        if due:
            path = self._checkpoints.save(self._loop.steps, state)
            self._saved = self._place
            self._reports.saved(CheckpointFrame(self._loop.steps, str(path)))
        if improved:
            self._checkpoints.save_best(state)
        self._told.discard(checkpoint.FAILED)
        if self._checkpoints.shared:
            message = (
                f"Another training writes its checkpoints into {self._checkpoints.directory}, too: the oldest of both are "
                "removed there, best.ckpt is of either, and resume_from goes on from whichever was the last."
            )
            self._tell_once("checkpoints-shared", message, "Give each a checkpoint_dir of its own.")

    @property
    def _place(self) -> tuple[int, int]:
        return self._loop.epoch, self._loop.position
