"""`TrainingGroup`: a group of processes as a source of events for the engine, like a `TrainingLoop`."""

from __future__ import annotations

import errno
import shutil
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, final

from pnne_nb.errors import CheckpointError, PnneError, TrainingError
from pnne_nb.runtime.checkpointing import files
from pnne_nb.runtime.distributed.launch.launcher import LaunchedRun
from pnne_nb.runtime.distributed.launch.torchrun import TorchrunAgent
from pnne_nb.runtime.distributed.remote_probes import RemoteProbes
from pnne_nb.runtime.distributed.transport.worker_messages import (
    Broke,
    Ended,
    FromWorker,
    Happened,
    Hello,
    Kept,
    Obeyed,
    Observed,
    Place,
    Ready,
    Refused,
    Verdict,
)
from pnne_nb.runtime.distributed.transport.worker_server import (
    WorkerLine,
    WorkerServer,
    as_error,
    cause,
    hear,
    is_cut_off,
)
from pnne_nb.runtime.loop.loop import TrainingLoop
from pnne_nb.runtime.loop.loop_events import Eased, Event, Restarted, Unsaved, Waiting
from pnne_nb.runtime.monitoring.history import History
from pnne_nb.runtime.monitoring.probes import Observers
from pnne_nb.telemetry.frames import AnomalyFrame

_SLICE = 0.2
"""Seconds after which a group that is at work lets its engine look whether somebody wants something."""
_STARTING = 120.0
"""Seconds that processes have at least for importing torch and opening what was packed."""
_LEAVING = 30.0
"""Seconds that processes have for leaving when the training has ended."""


@final
class TrainingGroup:
    """Processes that train what an engine has packed. They halt after each event until they are told to go on.

    The loop of the engine follows: whenever the group has written a checkpoint, the loop is where the group is.

    Args:
        packed: What it trains.
        loop: Of the engine.
        history: Of the engine; it goes back if a failure does.
        observers: Of the engine; what its probes want to know is measured in one of the processes.
        tell: Takes events that come between two calls of the iterator.
        state_dict: Returns what a checkpoint of the engine holds.

    Attributes:
        command: For the other machines, to be typed by a person.
        steps: Optimizer steps done.
        epoch: The epoch under way, from 1.
        position: Batches of that epoch already used.
        directory: Where checkpoints, data and logs are.
        restarts: How often the group was started again.
    """

    def __init__(
        self,
        packed: LaunchedRun,
        loop: TrainingLoop,
        history: History,
        observers: Observers,
        tell: Callable[[Event], None],
        state_dict: Callable[[], dict[str, Any]],
    ) -> None:
        self.steps, self.epoch, self.position = loop.steps, loop.epoch, loop.position
        self.directory = packed.directory
        self.restarts = 0
        self._plan = packed.plan
        self.command = packed.printed
        self._here = packed.here
        self._luggage = packed.luggage
        self._loop = loop
        self._history = history
        self._spectators = RemoteProbes(observers)
        self._tell = tell
        self._state_dict = state_dict
        self._open: tuple[WorkerServer, TorchrunAgent] | None = None
        self._inbox: deque[tuple[WorkerLine, FromWorker | None]] = deque()
        self._speaker: WorkerLine | None = None
        self._waits = False
        self._started = False
        self._ended = False
        self._obeyed = False
        self._kept = Kept(written=True)
        self._behind = False
        self._is_current = True
        self._lost: str | None = None
        self._broke: Broke | None = None
        self._silence = 0.0
        self._told: Place = (loop.epoch, loop.position, 0, 0)

    def __repr__(self) -> str:
        machines = "" if self._plan.nnodes == 1 else f" on each of {self._plan.nnodes} machines"
        processes = "1 process" if self._plan.nproc == 1 else f"{self._plan.nproc} processes"
        return f"TrainingGroup({processes}{machines}: epoch {self.epoch}, step {self.steps}, in {self.directory})"

    is_here = knows_model = measures = at_work = False
    is_group = counts = True
    buttons = ""

    def halt(self) -> None:
        """Do nothing: it halts after each event."""

    @property
    def doing(self) -> str:
        """The current activity, or the one at the failure, for messages."""
        if self._broke is not None:
            return f"process {self._broke.rank} of the group was {self._broke.doing}"
        return f"{self._plan.nproc} processes made step {self.steps + 1}"

    @property
    def waiting_for(self) -> str | None:
        """What must happen before it makes steps, in words, or None."""
        if self._started and self._lost is None:
            return None
        nproc, again = self._plan.nproc, "" if self._lost is None else " again"
        processes = "a process" if nproc == 1 else f"{nproc} processes"
        return f"{processes}{'' if self._plan.nnodes == 1 else ' on each machine'} to start{again}"

    @property
    def fetching(self) -> bool:
        """Whether the data failed."""
        return self._broke is not None and self._broke.fetching

    @property
    def processes(self) -> dict[int, int]:
        """The processes of this machine: their numbers in the operating system by their ranks."""
        lines = () if self._open is None else self._open[0].lines
        return {line.hello.rank: line.hello.pid for line in lines if line.hello is not None}

    def events(self, last_epoch: int) -> Generator[Event, None, None]:
        """Train to the end of the epoch that was packed; closing the generator stops the group at its next event.

        Raises:
            TrainingError: A process has failed, died too often, or hangs; or torchrun cannot be started.
        """
        del last_epoch
        with ExitStack() as stack:
            if self._plan.directory is None:
                stack.callback(shutil.rmtree, self.directory, ignore_errors=True)
            board = WorkerServer(self._luggage)
            stack.callback(board.close)
            agent = TorchrunAgent(self._here, board.address, self.directory / "logs")
            stack.callback(agent.kill)
            self._open = board, agent
            stack.callback(self._leave)
            try:
                yield from self._events_until_closed()
            except PnneError:
                self._go_back()
                raise
            if self._plan.nnodes != 1:
                # Others still leave, and torchrun here may be where they meet.
                agent.wait(_LEAVING)

    def _events_until_closed(self) -> Generator[Event, None, None]:
        try:
            while not self._ended:
                if self._waits:
                    self._say(Verdict.GO)
                event = self._next()
                yield Waiting() if event is None else event
        except GeneratorExit:
            self._stop()
            raise

    # What the engine wants in between

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the engine's loop, brought to where the group is."""
        self.sync()
        return self._loop.state_dict()

    def sync(self) -> None:
        """Update the engine's loop to the group's state at the end of its running step."""
        if self._open is None:
            return
        self._settle()
        if not (self._is_current or self._ended):
            self._adopt(self._ask(Verdict.SAVE))

    @contextmanager
    def lend(self) -> Iterator[None]:
        """Allow changes of the engine's loop in this block, between two steps; the group takes them over.

        Raises:
            CheckpointError: The file in between cannot be written.
        """
        self.sync()
        yield
        if not self._ended and self._open is not None:
            state = self._state_dict()
            try:
                files.CheckpointDirectory(self.directory, state["config"]["max_to_keep"]).save(self._loop.steps, state)
            except CheckpointError as error:
                self._is_current = False
                error.add_note("The processes go on without what was changed here.")
                raise
            self._ask(Verdict.LOAD)

    def _ask(self, verdict: Verdict) -> Kept:
        self._obeyed = False
        while not (self._obeyed or self._ended):
            if self._waits:
                # Also again, if the group was started again before it could obey.
                self._settle()
                self._say(verdict)
            self._report(self._next())
        return self._kept

    def _settle(self) -> None:
        """Wait until the group waits and has reached all that it has reported before."""
        while not (self._ended or (self._waits and not self._behind)):
            if self._waits:
                self._say(Verdict.GO)
            self._report(self._next())

    def _report(self, event: Event | None) -> None:
        if event is not None:
            self._tell(event)

    def _stop(self) -> None:
        if not self._started:
            return
        self._settle()
        if not self._ended:
            # It ends, and is adopted.
            self._ask(Verdict.STOP)

    # What the group says

    def _say(self, verdict: Verdict) -> None:
        assert self._speaker is not None
        self._waits = False
        self._silence = 0.0
        news = self._spectators.news() if verdict is Verdict.GO and self._plan.strategy == "ddp" else None
        if news is not None:
            self._speaker.send(news)
        self._speaker.send(verdict)

    def _next(self) -> Event | None:
        """Wait a moment for the group's next message; return its event, if any, or raise an error that ends the group."""
        assert self._open is not None
        board, _ = self._open
        if self._broke is not None:
            # Somebody else has heard of it first, who wanted to look at the model.
            raise as_error(self._broke)
        if not self._inbox:
            began = time.monotonic()
            self._inbox.extend(board.receive(_SLICE))
            self._silence += time.monotonic() - began
        if not self._inbox:
            self._check()
            return None
        line, message = self._inbox.popleft()
        self._silence = 0.0
        match message:
            case Hello(restart=restart) if restart > self.restarts:
                # The others of the group before are gone, or about to be.
                self.restarts, self._waits = restart, False
            case Broke() if not self._lost:
                self._inquire(line, message)
            case None if self._is_of_now(line) and not self._ended:
                self._has_died(line)
            case Observed() if self._is_of_now(line):
                self._spectators.take(message)
            case Refused() if self._is_of_now(line):
                hint = "Make room, or launch with a directory elsewhere."
                return Unsaved(AnomalyFrame(message.step, files.FAILED, message.message, hint=hint))
            case Ready() | Happened() | Obeyed() | Ended() if self._is_of_now(line):
                self._speaker, self._waits = line, True
                return self._event(message)
            case _:
                pass
        return None

    def _event(self, message: Ready | Happened | Obeyed | Ended) -> Event | None:
        match message:
            case Ready():
                self._started = True
                self._spectators.forget()
                return self._restarted(message.step)
            case Happened():
                return self._happened(message)
            case Obeyed(kept=kept):
                self._obeyed, self._kept = True, kept
            case Ended(kept=kept):
                self._ended = True
                self._waits = False
                self._adopt(kept)
        return None

    def _happened(self, message: Happened) -> Event | None:
        place = message.place
        self._behind = place[:2] < self._told[:2]
        if message.saved and not self._behind:
            self._adopt(Kept(written=True))
        else:
            self._is_current = False
        if place < self._told or (place == self._told and not isinstance(message.event, Eased)):
            # Told before the group was started again.
            return None
        self._told = place
        self.steps, self.epoch, self.position = message.step, message.epoch, message.position
        return message.event

    def _restarted(self, step: int) -> Restarted | None:
        if self._lost is None:
            return None
        self._is_current = False
        self._behind = step < self.steps
        message = f"{self._lost}: all were started again, and go on from the checkpoint of step {step}."
        self._lost = None
        return Restarted(AnomalyFrame(step=self.steps, kind="worker-restarted", message=message))

    def _adopt(self, kept: Kept) -> dict[str, Any]:
        state = self._state(kept)
        self._loop.load_state_dict(state["loop"])
        self._is_current = True
        return state

    def _state(self, kept: Kept) -> dict[str, Any]:
        if kept.written:
            return files.read_newest_good(self.directory).state
        if kept.content:
            return files.stored_in(kept.content, self.directory).state
        raise CheckpointError(
            f"The group is at step {self.steps}, and could not write that into {self.directory}: make room there."
        ) from OSError(errno.ENOSPC, "no checkpoint of the group could be written")

    # What goes wrong

    def _check(self) -> None:
        assert self._open is not None
        status = self._open[1].exit_status
        if status is not None and not self._ended:
            tries, log = f" after {self.restarts} restarts" if self.restarts else "", self._open[1].log()
            ends = f" The ends of its logs:\n{log}" if log else " It was ended from outside: its logs say nothing."
            raise TrainingError(
                f"The group of {self._plan.nproc} processes ended{tries} (torchrun: exit status {status}).{ends}"
            )
        limit = self._plan.timeout if self._started and not self._lost else max(self._plan.timeout, _STARTING)
        if self._silence > limit:
            raise TrainingError(
                f"The group hangs: no news for {limit:g} seconds after step {self.steps}. All its "
                "processes were ended. If a step may take so long, launch with a larger timeout."
            )

    def _inquire(self, first: WorkerLine, complaint: Broke) -> None:
        """Raise the cause of a process's failure, unless another one has died before, which may be what it complains about."""
        assert self._open is not None
        board, _ = self._open
        silent = {line for line in board.lines if line is not first and self._is_of_now(line)}
        said = hear(board, self._inbox, silent, complaint)
        if isinstance(said, WorkerLine):
            self._has_died(said)
        elif self._plan.nnodes != 1 and is_cut_off(complaint):
            # Perhaps the fault of another machine, whose processes are not heard here: torchrun tries again.
            self._lost = self._lost or f"The connection of process {complaint.rank} to the others was lost"
            self._waits = False
        else:
            self._broke = cause(said)
            raise as_error(self._broke)

    def _is_of_now(self, line: WorkerLine) -> bool:
        return line.hello is not None and line.hello.restart == self.restarts

    def _has_died(self, line: WorkerLine) -> None:
        assert line.hello is not None
        # torchrun ends the others: only the first has died by itself.
        self._lost = self._lost or f"Process {line.hello.rank} of the group was killed, or ran out of memory"
        self._waits = False

    def _go_back(self) -> None:
        """Return the engine and its history to the newest checkpoint after a failure."""
        try:
            state = self._adopt(Kept(written=True))
        except CheckpointError:
            # What has failed before says more.
            return
        if self._loop.steps < self.steps:
            self._history.load_state_dict(state["history"])
        self.steps, self.epoch, self.position = self._loop.steps, self._loop.epoch, self._loop.position

    def _leave(self) -> None:
        self._open = None
