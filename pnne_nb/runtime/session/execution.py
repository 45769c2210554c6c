"""`Executor`: makes the steps of a run, wherever that is; `Execution`: which one does, and what it waits for."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import AbstractContextManager
from typing import Any, Protocol, final

from pnne_nb.errors import TrainingError
from pnne_nb.runtime.data.sources import dismiss, named
from pnne_nb.runtime.faults.stall_watch import StallWatch
from pnne_nb.runtime.loop.loop import TrainingLoop
from pnne_nb.runtime.loop.loop_events import Event
from pnne_nb.runtime.thread.control import Control
from pnne_nb.telemetry.frames import AnomalyFrame

_ENDED = 1.0
"""Seconds after which workers are ended that do not answer while the training is to end."""
_KILLED = 2.0
"""Seconds after which those are killed that have not ended by then."""


class Executor(Protocol):
    """Makes the steps of a run: the loop in the training thread, one process, or a group of processes.

    Attributes:
        steps: Optimizer steps done.
        epoch: The epoch under way, from 1.
        position: Batches of that epoch already used.
        doing: What is going on, for messages.
        fetching: Whether that is fetching data.
        waiting_for: What must happen before it makes steps, in words, or None.
        at_work: Whether it makes steps by itself; nobody gets a turn at the model until it has halted.
        counts: Whether each step counts as one of those that ``step(n)`` has asked for.
        measures: Whether it measures its memory and its times itself.
        is_here: Whether it trains the live model of this process.
        is_group: Whether several processes share each step; the graph cannot be edited then.
        knows_model: Whether it has what a cell has changed in the live model.
        buttons: Where pages may halt it without this process; empty if nowhere.
    """

    steps: int
    epoch: int
    position: int

    @property
    def doing(self) -> str: ...
    @property
    def fetching(self) -> bool: ...
    @property
    def waiting_for(self) -> str | None: ...
    @property
    def at_work(self) -> bool: ...
    @property
    def counts(self) -> bool: ...
    @property
    def measures(self) -> bool: ...
    @property
    def is_here(self) -> bool: ...
    @property
    def is_group(self) -> bool: ...
    @property
    def knows_model(self) -> bool: ...
    @property
    def buttons(self) -> str: ...

    def events(self, last_epoch: int) -> Generator[Event, None, None]:
        """Train to the end of `last_epoch`; closing the generator ends the run after the running step."""

    def halt(self) -> None:
        """Halt after the running step, if somebody wants that; called from any thread."""

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the loop as of the last step, for a checkpoint."""

    def sync(self) -> None:
        """Bring the loop, and the live model with it, to the last step; called between two steps."""

    def lend(self) -> AbstractContextManager[None]:
        """Return a block that may change the loop and the live model between two steps; the next step is made with that."""


@final
class Execution:
    """Which executor makes the steps of a run, and how long it takes to obey.

    Attributes:
        loop: The training; it makes the steps itself unless a run has another executor.
        executor: Makes the steps.
        in_process: Whether the next run makes its steps in a process of its own.
    """

    def __init__(self, loop: TrainingLoop, control: Control) -> None:
        self.loop = loop
        self.executor: Executor = loop
        self.in_process = False
        self._control = control

    @property
    def place(self) -> tuple[int, int]:
        """The epoch, from 1, and the number of its batches that were used."""
        return self.executor.epoch, self.executor.position

    @property
    def waiting_for(self) -> str | None:
        """What a pending command, or else the training itself, waits for; None if nothing."""
        control, executor = self._control, self.executor
        if control.state == "running" and executor.waiting_for is not None:
            return executor.waiting_for
        asked = control.asked
        if asked is None or executor.is_group:
            return control.waiting_for
        doing = executor.doing
        if doing.startswith("fetching "):
            return f"{asked}: waiting for the data, {doing.removeprefix('fetching ')}"
        return f"{asked}: {doing}{', which is not cut short' * doing.startswith(('training', 'validating'))}"

    def choose(self, *, process: bool) -> None:
        """Choose whether the next run uses a thread or a training process.

        Raises:
            TrainingError: A run is under way elsewhere.
        """
        if self._control.alive and self.executor.is_here and process:
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
            lambda: self.executor.doing,
            lambda: self.executor.steps + 1,
            announce,
            lambda: named(loop.recipe.train),
            control.stop_asked,
            self._dismiss,
        )

    def _dismiss(self, seconds: float) -> None:
        """End the workers of the data, for which the training has waited so long although it is to end."""
        loop = self.loop
        if self.executor.is_here and self._control.stopping and loop.fetching and seconds > _ENDED:
            for source in (loop.recipe.train, loop.recipe.val):
                dismiss(source, at_once=seconds > _KILLED)
