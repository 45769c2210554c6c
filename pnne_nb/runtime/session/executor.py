"""`Executor`: runs the steps of a training in the training thread or in other processes."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar, final

from pnne_nb.errors import TrainingError
from pnne_nb.runtime.data.sources import named
from pnne_nb.runtime.distributed.training_group import TrainingGroup
from pnne_nb.runtime.faults.watchdog import AT_MOST, StallWatch
from pnne_nb.runtime.loop.forced_stop import SLOWER, ForcedStop
from pnne_nb.runtime.loop.loop import TrainingLoop
from pnne_nb.runtime.loop.loop_events import Event
from pnne_nb.runtime.thread.control import Control
from pnne_nb.runtime.thread.torch_switches import Determinism
from pnne_nb.runtime.training_process.training_process import TrainingProcess
from pnne_nb.telemetry.frames import AnomalyFrame

R = TypeVar("R")


@final
class Executor:
    """Yields the events of a run, and gives the state of the loop or of the processes that run the steps.

    Attributes:
        processes: Make the steps of the run under way in the place of the loop, or None.
        in_process: Whether the next run makes its steps in a process of its own.
    """

    def __init__(
        self, loop: TrainingLoop, control: Control, determinism: Determinism, state_dict: Callable[[], dict[str, Any]]
    ) -> None:
        self.loop = loop
        self.processes: TrainingGroup | TrainingProcess | None = None
        self.in_process = False
        self._control = control
        self._determinism = determinism
        self._state_dict = state_dict

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
        control, calls = self._control, self.loop.foreign_calls
        if self.processes is not None and control.state == "running" and self.processes.waiting_for is not None:
            return self.processes.waiting_for
        asked = control.asked
        if asked is None or self.group is not None:
            return control.waiting_for
        doing, function, within = self.source.doing, calls.function, calls.within(control.trainer)
        if self.process is not None:
            function, within = "", self.process.fetching
        if not within:
            return f"{asked}: {doing}{', which is not cut short' * doing.startswith(('training', 'validating'))}"
        waits_for = function or f"the data, {doing.removeprefix('fetching ')}"
        seconds = AT_MOST * SLOWER if function else AT_MOST
        return f"{asked}: waiting for {waits_for}{f'; ends in at most {seconds} s' * (asked == 'stopping')}"

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

    def stall_watch(self, announce: Callable[[AnomalyFrame], None], left: Callable[[], None]) -> StallWatch:
        """Return a watchdog over the steps, which announces stalls and ends a training that is stuck in its data.

        When the training thread was `left` behind, that function ends the training in its place.
        """
        control, loop = self._control, self.loop
        forced = ForcedStop(loop, lambda: control.trainer, lambda: control.stopping and self.processes is None, left)
        return StallWatch(
            lambda: self.source.doing,
            lambda: self.source.steps + 1,
            announce,
            lambda: named(loop.recipe.train),
            control.stop_asked,
            forced.look,
        )

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
        return self._determinism.over(events, self.loop.turn, self.loop.foreign_calls)

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

    @contextmanager
    def lent(self) -> Iterator[None]:
        """Give this block exclusive use of the loop and the model; the processes of the run take over its changes."""
        if self.process is not None:
            with self.process.lent():
                yield
            return
        self.sync()
        yield
        if self.group is not None:
            self.group.push(self._state_dict())
