"""`Executor`: runs the steps of a training in the training thread or in other processes."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeVar, final

from pnne_nb.errors import TrainingError
from pnne_nb.runtime.data.sources import dismiss, named
from pnne_nb.runtime.distributed.training_group import TrainingGroup
from pnne_nb.runtime.faults.watchdog import StallWatch
from pnne_nb.runtime.loop.loop import TrainingLoop
from pnne_nb.runtime.loop.loop_events import Event
from pnne_nb.runtime.thread.control import Control
from pnne_nb.runtime.thread.determinism import Determinism
from pnne_nb.runtime.training_process.training_process import TrainingProcess
from pnne_nb.telemetry.frames import AnomalyFrame

R = TypeVar("R")

_ENDED = 1.0
"""Seconds after which workers are ended that do not answer while the training is to end."""
_KILLED = 2.0
"""Seconds after which those are killed that have not ended by then."""


@final
class Executor:
    """Yields the events of a run, and gives the state of the loop or of the processes that run the steps.

    Attributes:
        processes: Make the steps of the run under way in the place of the loop, or None.
        in_process: Whether the next run makes its steps in a process of its own.
    """

    def __init__(self, loop: TrainingLoop, control: Control, determinism: Determinism) -> None:
        self.loop = loop
        self.processes: TrainingGroup | TrainingProcess | None = None
        self.in_process = False
        self._control = control
        self._determinism = determinism

    @property
    def source(self) -> TrainingLoop | TrainingGroup | TrainingProcess:
        return self.loop if self.processes is None else self.processes

    @property
    def process(self) -> TrainingProcess | None:
        return self.processes if isinstance(self.processes, TrainingProcess) else None

    @property
    def group(self) -> TrainingGroup | None:
        return self.processes if isinstance(self.processes, TrainingGroup) else None

    @property
    def place(self) -> tuple[int, int]:
        """The epoch, from 1, and the number of its batches that were used."""
        source = self.source
        return source.epoch, source.position

    @property
    def waiting_for(self) -> str | None:
        """What a pending command, or else the training itself, waits for; None if nothing."""
        control = self._control
        if self.processes is not None and control.state == "running" and self.processes.waiting_for is not None:
            return self.processes.waiting_for
        asked = control.asked
        if asked is None or self.group is not None:
            return control.waiting_for
        doing = self.source.doing
        if doing.startswith("fetching "):
            return f"{asked}: waiting for the data, {doing.removeprefix('fetching ')}"
        return f"{asked}: {doing}{', which is not cut short' * doing.startswith(('training', 'validating'))}"

    def choose(self, *, process: bool) -> None:
        """Choose whether the next run uses a thread or a training process.

        Raises:
            TrainingError: A run is under way elsewhere.
        """
        if self._control.alive and self.processes is None and process:
            raise TrainingError(
                f"The training is {self._control.state} in a thread of the kernel: stop() it, and start(process=True) goes "
                "on from there in a process of its own."
            )
        if not self._control.alive:
            self.in_process = process

    def stall_watch(self, announce: Callable[[AnomalyFrame], None]) -> StallWatch:
        """Return a watchdog over the steps, which announces stalls, and ends workers for which a stop waits."""
        control, loop = self._control, self.loop
        return StallWatch(
            lambda: self.source.doing,
            lambda: self.source.steps + 1,
            announce,
            lambda: named(loop.recipe.train),
            control.stop_asked,
            self._dismiss,
        )

    def _dismiss(self, seconds: float) -> None:
        """End the workers of the data, for which the training has waited so long although it is to end."""
        loop = self.loop
        if self.processes is None and self._control.stopping and loop.doing.startswith("fetching") and seconds > _ENDED:
            for source in (loop.recipe.train, loop.recipe.val):
                dismiss(source, at_once=seconds > _KILLED)

    def events(self, last_epoch: int) -> Generator[Event, None, None]:
        """Train to the end of `last_epoch`; see `TrainingLoop.run`."""
        run = self.source.run(last_epoch)
        return run if self.process is not None else self.determined(run)

    @property
    def repeats(self) -> bool:
        """Whether a step made again gives the same bits."""
        return self._determinism.repeats

    def determined(self, events: Generator[Event, None, R]) -> Generator[Event, None, R]:
        """Return the events of the loop, run under the switches for determinism if they are wanted."""
        return self._determinism.over(events, self.loop.turn)

    def loop_state(self) -> dict[str, Any]:
        """Return the loop's state for a checkpoint, also from another process."""
        told = None if self.process is None else self.process.state
        if told is not None:
            return told
        self.sync()
        return self.loop.state_dict()

    def sync(self) -> None:
        """Update the loop to the state of the processes that run its steps; called between two steps."""
        if self.processes is not None:
            self.processes.sync()

    def lent(self) -> AbstractContextManager[None]:
        """Give a block exclusive use of the loop and the model; the processes of the run take over its changes."""
        return nullcontext() if self.processes is None else self.processes.lent()
