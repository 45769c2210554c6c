"""`TrainingProcess`: a training process as a source of events for the engine, like a `TrainingLoop`."""

from __future__ import annotations

import os
import sys
import time
from collections import deque
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, assert_never, final

from pnne_nb.errors import CheckpointError, TrainingError
from pnne_nb.runtime.distributed.remote_probes import RemoteProbes
from pnne_nb.runtime.distributed.transport.worker_messages import Observed
from pnne_nb.runtime.faults.error_messages import in_brief
from pnne_nb.runtime.loop.loop import TrainingLoop
from pnne_nb.runtime.loop.loop_events import Event, Stepped, Waiting
from pnne_nb.runtime.monitoring.probes import Observers
from pnne_nb.runtime.monitoring.reporter import Reports
from pnne_nb.runtime.thread.control import Control
from pnne_nb.runtime.training_process import handover, process_messages
from pnne_nb.runtime.training_process.handover import Handover
from pnne_nb.runtime.training_process.process_server import GoneError, ProcessLink, server
from pnne_nb.telemetry.frames import AnomalyFrame

_GIVES_UP = 2.0
"""Seconds after which a process that was told to end and waits for data is asked to end without them."""
_PATIENCE = 4.0
"""Seconds after which one that was told to end is killed, unless its steps take long."""
_TIMES_LONGEST = 3.0
_SILENCE = 300.0
"""Seconds without a sign of life after which a process that is at work is taken to hang."""
_STOPPING = 10.0
"""The same for one that has halted and shall end."""
_STARTING = 120.0
"""Seconds that it has for importing torch and unpacking what it is handed."""


@final
class TrainingProcess:
    """A process that runs the steps of an engine.

    It runs on until it is told to halt, and its events arrive here a moment later. Before the engine's control lets the
    training rest (to halt, to end, to lend the model), the process halts, and all of its events have arrived. The loop
    of the engine follows on demand only: `sync`.

    Args:
        loop: Of the engine, with what is trained.
        control: Of the engine.
        reports: Of the engine; its history goes back if steps are lost.
        observers: Of the engine; what its probes want to know is measured in the process.
        manner: How it is trained.

    Attributes:
        steps: Optimizer steps done, as far as was told.
        epoch: The epoch under way, from 1.
        position: Batches of that epoch already used.
        fetching: Whether it was the data that has failed.
        counts: Whether it makes a number of steps that `step(n)` has asked for.

    Raises:
        TrainingError: Something cannot be handed to a process; nothing has started.
    """

    def __init__(
        self, loop: TrainingLoop, control: Control, reports: Reports, observers: Observers, manner: Handover
    ) -> None:
        self.steps, self.epoch, self.position = loop.steps, loop.epoch, loop.position
        self.fetching = False
        self.counts = self._edited = False
        self.buttons = ""
        self._loop = loop
        self._control = control
        self._reports = reports
        self._spectators = RemoteProbes(observers)
        self._manner = manner
        for source in handover.sources_of(loop.recipe).values():
            source.close()
        self._recipe = handover.packed_recipe(loop.recipe)
        self._cleared = loop.ring.cleared
        # Here and not where the process starts: by then, a cell may have changed the live model.
        self._latest = handover.packed(loop.state_dict())
        self._kept = self._latest, reports.history.state_dict()
        server.start()
        self._link: ProcessLink | None = None
        self._fault: GoneError | None = None
        self._inbox: deque[process_messages.FromProcess] = deque()
        self._doing: str | None = None
        self._started = self._running = self._ended = self._finished = False
        self._is_current = True
        self._loans: set[object] = set()
        self._unsent = False
        self._fresh: process_messages.Parcel | None = None
        self._happened_at = time.monotonic()
        self._longest = 0.0
        self._told = 0
        self._asked = False
        self._stopping_since: float | None = None

    is_here = is_group = False
    measures = True

    @property
    def pid(self) -> int | None:
        return None if self._link is None else self._link.pid

    @property
    def doing(self) -> str:
        """The current activity, or the one at the failure, for messages."""
        return self._doing or f"making step {self.steps + 1}"

    @property
    def waiting_for(self) -> str | None:
        """What must happen before it makes steps, in words, or None."""
        return None if self._started else "a process to start"

    @property
    def at_work(self) -> bool:
        """Whether it runs steps, or events of its steps have not arrived; until then, no other thread gets a turn."""
        return self._running or bool(self._inbox)

    @property
    def knows_model(self) -> bool:
        """Whether what a cell has done to the kernel's model reaches the process: at the start, and where it was lent."""
        return not self._started or self._edited

    def events(self, last_epoch: int) -> Generator[Event, None, None]:
        """Train to the end of `last_epoch`; closing the generator ends the process after its running step.

        Raises:
            TrainingError: The process cannot be started, has died, or hangs.
            BaseException: What has made the training fail, as in a thread.
        """
        with closing(ProcessLink()) as self._link:
            context = process_messages.KernelContext(
                str(Path.cwd()), list(sys.path), dict(os.environ), handover.packed_nodes()
            )
            self._manner = self._manner._replace(last_epoch=last_epoch)
            self._send(context)
            self._hand_over()
            try:
                yield from self._told_events()
            except GoneError as gone:
                self._go_back()
                raise TrainingError(f"{gone} {self._place()}") from None
            except GeneratorExit:
                self._stop()
                raise

    def _hand_over(self) -> None:
        recipe, self._recipe = self._recipe, []
        cleared, self._cleared = self._cleared, self._loop.ring.cleared
        is_edited = cleared != self._cleared
        self._send(process_messages.Handed(recipe, self._latest, handover.packed(self._manner), is_edited))

    def _told_events(self) -> Generator[Event, None, None]:
        while self._inbox or not self._finished:
            if self._fault is not None and not self._inbox:
                # Somebody else has heard of it first, who wanted to look at the model.
                raise self._fault
            if self._started and not (self.at_work or self._ended):
                self._go()
            event = self._next() if self._inbox or not self._ended else None
            if event is not None:
                yield event
            elif not self._finished:
                yield Waiting()

    def _go(self) -> None:
        # Nobody has the model any more: an interrupt has cut short how one of these ended.
        self._loans.clear()
        self._send_changes()
        steps = self._control.steps_left
        self.counts = steps is not None
        self._is_current = False
        self._happened_at = time.monotonic()
        self._listen()
        assert self._link is not None
        # A word to halt that came in between would be one for the steps before.
        with self._link.speaking:
            self._asked = False
            self._send(process_messages.Go(steps, self._reports.listeners.waited_for))
            # From here on it can be told to halt: by whoever wants something by now, the next look at the control does so.
            self._running = True

    # What the engine wants in between

    def halt(self) -> None:
        """Halt the process if a request needs that."""
        if self._link is None:
            return
        with self._link.speaking:
            if self._running and not self._asked and self._is_to_halt():
                self._send_halt()

    def _send_halt(self) -> None:
        self._send(process_messages.Halt())
        # Not before: an interrupt that comes first must not leave it unsaid. Saying it twice does no harm.
        self._asked = True

    def _is_to_halt(self) -> bool:
        control, left = self._control, self._control.steps_left
        # Steps that were asked for by number are counted by the process; one that runs on has to be told.
        return control.stopping or control.visited or (left is not None and not (self.counts and left))

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the loop, after the event that is being told if a checkpoint of it was due."""
        if self._fresh is not None:
            told: dict[str, Any] = handover.unpacked(self._fresh)
            return told
        self.sync()
        return self._loop.state_dict()

    def sync(self) -> None:
        """Update the engine's loop to the state of the process at the end of its running step.

        Raises:
            TrainingError: The process is gone.
        """
        if not self._loans:
            self._control.have_done(self._sync)

    def _sync(self) -> None:
        if self._ended or self._unsent:
            # The loop is ahead of the process: whoever has changed it was cut short, or it could not be handed over.
            return
        try:
            self._settle()
            if self._is_current:
                self._adopt(self._latest)
            else:
                self._listen()
                self._send(process_messages.Ask())
                self._find(process_messages.Told, process_messages.Failed)
        except GoneError as gone:
            self._fault = gone
            raise TrainingError(str(gone)) from None

    @contextmanager
    def lend(self) -> Iterator[None]:
        """Allow changes of the engine's loop in this block, between two steps; the process takes them over.

        Raises:
            TrainingError: What it is now cannot be handed over; the training cannot go on with it.
        """
        self.sync()
        loan = object()
        self._loans.add(loan)
        try:
            # Until the process knows: an interrupt may end the block, and what comes after it, anywhere.
            self._unsent = True
            yield
        finally:
            if loan in self._loans:
                self._loans.remove(loan)
                if not self._loans:
                    self._control.have_done(self._send_changes)

    def _send_changes(self) -> None:
        if self._unsent and not self._ended:
            self._push()

    def _push(self) -> None:
        self._unsent = self._edited = True
        recipe, greeted = self._loop.recipe, self._link is not None
        self._recipe = handover.packed_recipe(recipe, handover.sources_of(recipe) if greeted else None)
        self._is_at(handover.packed(self._loop.state_dict()))
        self._fresh = None
        if greeted:
            self._hand_over()
        self._unsent = False

    def _settle(self) -> None:
        """Wait until it has halted; its events until then are reported later."""
        if self._running:
            self._send_halt()
            self._find(process_messages.Halted, process_messages.ProcessEnded, process_messages.Failed)

    def _stop(self) -> None:
        """End the process; the engine's loop takes over its state."""
        try:
            self._settle()
            if self._started and not self._ended:
                self._listen()
                self._send(process_messages.Stop())
                self._find(process_messages.ProcessEnded, process_messages.Failed, silence=_STOPPING)
        except GoneError as gone:
            self._go_back()
            self._reports.announce(AnomalyFrame(self.steps, "process-died", f"{gone} {self._place()}"))
        for message in self._inbox:
            # Of somebody who has failed on being told, nobody wants to tell more.
            if isinstance(message, process_messages.ProcessEvent) and isinstance(message.event, Stepped):
                self._reports.history.record_step(message.event.frame)
            elif isinstance(message, process_messages.Failed):
                self._take(message)

    # What the process says

    def _next(self) -> Event | None:
        """Wait for the next event; returns None where it has halted or ended, or is about to start."""
        if self._fresh is not None:
            self._keep(self._fresh)
            self._fresh = None
        while True:
            self._obey()
            while self._inbox:
                message = self._inbox.popleft()
                if isinstance(message, process_messages.ProcessEvent):
                    return self._happened(message)
                self._take(message)
            if not self._running and self._started:
                return None
            if not self._read():
                if not self._started:
                    return None
                self._insist()

    def _take(self, message: process_messages.FromProcess) -> None:
        match message:
            case process_messages.ProcessHello(pid=pid, buttons=buttons):
                assert self._link is not None
                self._link.pid, self.buttons = pid, buttons
            case process_messages.ProcessReady():
                self._started = True
                self._spectators.forget()
            case process_messages.Alive(doing=doing, fetching=fetching):
                self._doing, self.fetching = doing, fetching
            case process_messages.Looked(memory=memory, times=times):
                self._reports.looked(memory, times)
            case Observed():
                self._spectators.take(message)
            case process_messages.ProcessKept(state=state):
                self._keep(state)
            case process_messages.Pressed(press=press, at=at):
                if at > self._control.asked_at:
                    (self._control.pause if press == "pause" else self._control.stop)()
            case process_messages.Halted():
                self._running = False
            case process_messages.Told(state=state):
                self._adopt(state)
            case process_messages.ProcessEnded(state=state, finished=finished, steps=steps):
                self._running, self._ended, self._finished = False, True, finished
                self._adopt(state)
                self._loop.ring.follow(handover.unpacked(steps))
            case process_messages.Failed():
                self._running, self._ended = False, True
                self._doing, self.fetching = message.doing, message.fetching
                if message.state is None or message.steps is None:
                    self._go_back()
                else:
                    self._adopt(message.state)
                    self._loop.ring.follow(handover.unpacked(message.steps))
                raise handover.unpacked_error(message.error)
            case process_messages.ProcessEvent():
                raise AssertionError("an event is told by whoever iterates")
            case _:
                assert_never(message)

    def _happened(self, message: process_messages.ProcessEvent) -> Event:
        self.steps, self.epoch, self.position = message.step, message.epoch, message.position
        self._fresh = message.state
        self._doing, self.fetching = None, False
        now = time.monotonic()
        self._longest = max(self._longest, now - self._happened_at)
        self._happened_at = now
        return message.event

    def _find(self, *kinds: type[process_messages.FromProcess], silence: float | None = None) -> None:
        """Wait for a message of one of these kinds, and take it before earlier ones."""
        looked_at = 0
        while True:
            for index in range(looked_at, len(self._inbox)):
                message = self._inbox[index]
                if isinstance(message, kinds):
                    if isinstance(message, process_messages.Failed):
                        # It is raised where the training is made; whoever looks at it finds it where it failed.
                        self._running = False
                        if message.state is not None:
                            self._adopt(message.state)
                        return
                    del self._inbox[index]
                    self._take(message)
                    return
            looked_at = len(self._inbox)
            self._read(silence)

    def _read(self, silence: float | None = None) -> bool:
        """Wait a moment for messages of the process; return whether there are any."""
        assert self._link is not None
        usual = _SILENCE if self._started else _STARTING
        self._inbox.extend(self._link.receive(usual if silence is None else silence))
        return bool(self._inbox)

    def _listen(self) -> None:
        assert self._link is not None
        self._link.listen_from_now()

    def _send(self, message: process_messages.FromKernel) -> None:
        assert self._link is not None
        self._link.send(message)

    # Where the training is

    def _adopt(self, state: process_messages.Parcel) -> None:
        self._load(state)
        self._is_at(state)

    def _load(self, state: process_messages.Parcel) -> None:
        try:
            self._loop.load_state_dict(handover.unpacked(state))
        except CheckpointError as error:
            raise TrainingError(
                "What a process has trained does not fit the live model any more: it was changed in the kernel meanwhile "
                f"({in_brief(error)}). Change a model in training within `with engine.paused():`."
            ) from error

    def _is_at(self, state: process_messages.Parcel) -> None:
        """Note where the training is; it can fall back to that once everything up to there was told."""
        self._latest, self._is_current = state, True
        if self._inbox:
            self._inbox.append(process_messages.ProcessKept(state))
        else:
            self._keep(state)

    def _keep(self, state: process_messages.Parcel) -> None:
        """Keep the fallback state of the training, with the history so far."""
        self._kept = state, self._reports.history.state_dict()

    def _go_back(self) -> None:
        """Return the engine and its history to the last state that the ended process has sent."""
        self._running, self._ended = False, True
        self._inbox.clear()
        self._told, self._doing = self.steps, self.doing
        (self._latest, recorded), history = self._kept, self._reports.history
        self._load(self._latest)
        self._is_current = True
        self.steps, self.epoch, self.position = self._loop.steps, self._loop.epoch, self._loop.position
        noted = history.anomalies
        history.load_state_dict(recorded)
        for found in noted[len(history.anomalies) :]:
            if found.step <= self.steps:
                history.record(found)

    # What goes wrong

    def _obey(self) -> None:
        if not self._running:
            return
        self.halt()
        orders = self._spectators.news()
        if orders is not None:
            self._send(orders)
        if self._control.stopping and self._stopping_since is None:
            self._stopping_since = time.monotonic()

    def _insist(self) -> None:
        """Ask a silent process that should end to abandon its data, and finally kill it."""
        if not self._running or self._stopping_since is None:
            return
        waited = time.monotonic() - self._stopping_since
        if waited > max(_PATIENCE, _TIMES_LONGEST * self._longest):
            self._end_at_once()
        elif waited > _GIVES_UP:
            self._send(process_messages.GiveUp())

    def _end_at_once(self) -> None:
        assert self._link is not None
        self._link.kill()
        doing = self.doing
        self._go_back()
        message = f"The training process did not stop (it was {doing}), and was killed. {self._place()}"
        self._reports.announce(AnomalyFrame(self.steps, "process-killed", message))

    def _place(self) -> str:
        return (
            f"Step {self._told} was the last that it reported. The engine is at step {self.steps}, the last that it "
            "reported completely: start() or start(process=True) goes on from there."
        )
