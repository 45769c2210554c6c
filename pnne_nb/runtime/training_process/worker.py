"""`ProcessWorker`: the training in a training process; the kernel follows its events. `ProcessLine`: its end of the line."""

from __future__ import annotations

import faulthandler
import os
import signal
import socket
import sys
import threading
import time
import traceback
import warnings
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, NoReturn, final

import torch

from pnne_nb.process.direct_buttons import DirectButtons, Press
from pnne_nb.runtime.distributed.remote_probes import Measure, Ordered
from pnne_nb.runtime.distributed.transport.connection import MessageSocket
from pnne_nb.runtime.distributed.transport.worker_messages import Orders
from pnne_nb.runtime.faults.fault_location import node_of
from pnne_nb.runtime.loop.loop import TrainingLoop
from pnne_nb.runtime.loop.loop_events import EpochEnded, Event, Judged, Stepped
from pnne_nb.runtime.monitoring.resources import ResourceMonitor
from pnne_nb.runtime.setup.recipe import Recipe
from pnne_nb.runtime.thread.determinism import set_switches
from pnne_nb.runtime.training_process import handover
from pnne_nb.runtime.training_process.handover import Handover
from pnne_nb.runtime.training_process.process_messages import (
    Alive,
    Ask,
    Failed,
    FromKernel,
    FromProcess,
    GiveUp,
    Go,
    Halt,
    Halted,
    Handed,
    KernelContext,
    Looked,
    Parcel,
    Pressed,
    ProcessEnded,
    ProcessEvent,
    ProcessHello,
    ProcessKept,
    ProcessReady,
    Stop,
    Told,
)
from pnne_nb.telemetry.frames import EpochFrame, StepFrame

_KEEP_EVERY = 10.0
"""Seconds between two states for the kernel to fall back to; more where telling one takes more than a hundredth of that."""

_BETWEEN_EPOCHS = frozenset(("epoch", "epoch_start"))
_STEP, _EPOCH, _CHECKPOINT = frozenset(("step",)), frozenset(("epoch",)), frozenset(("checkpoint",))


@final
class ProcessWorker:
    """The training of this process by `recipe`, from the `state` of a loop on; it obeys the kernel at the other end of `line`."""

    def __init__(
        self, recipe: Recipe, state: dict[str, Any], manner: Handover, line: ProcessLine, measure: Measure
    ) -> None:
        self._line = line
        self._save_every = manner.save_every
        torch.set_num_threads(manner.threads)
        self._ordered = Ordered(measure, line.tell)
        self.loop = TrainingLoop.of(recipe, manner.seed, self._ordered.observers, deterministic=manner.deterministic)
        self.loop.ring.memory = manner.rewind_memory
        self.loop.load_state_dict(state)
        self._monitor = ResourceMonitor(recipe.model, self.loop.stages)
        self._events = self.loop.events(manner.last_epoch)
        self._kept_at, self._cost = time.monotonic(), 0.0

    def run(self) -> None:
        """Obey the kernel until the training has ended."""
        self._line.give_signs_of_life(lambda: Alive(self.loop.doing, self.loop.fetching))
        self._line.tell(ProcessReady(), at_once=True)
        while True:
            match message := self._line.hear():
                case Go(steps=steps, topics=topics):
                    if self._go(steps, frozenset(topics)):
                        self._tell_end(finished=True)
                        return
                    self._line.tell(Halted(), at_once=True)
                case Ask():
                    self._line.tell(Told(self._state()), at_once=True)
                case Handed():
                    self._take_over(message)
                    self._line.tell(ProcessReady(), at_once=True)
                case Stop():
                    self._events.close()
                    self._tell_end(finished=False)
                    return
                case KernelContext():
                    raise AssertionError("a process has its context once")

    def _go(self, steps: int | None, topics: frozenset[str]) -> bool:
        """Make `steps` steps, or run to the next event of `topics`; return whether the last epoch is complete."""
        line = self._line
        line.given_up = self._leave_data
        try:
            left = -1 if steps is None else steps
            while left and not line.halt:
                if line.orders:
                    self._follow(line.orders.popleft())
                event = next(self._events, None)
                if event is None:
                    return True
                if self._tell(event) & topics:
                    break
                if isinstance(event, Stepped):
                    left -= 1
            return False
        finally:
            line.given_up = lambda: None

    def _tell(self, event: Event) -> frozenset[str]:
        """Send an event to the kernel; return its topics."""
        loop, now = self.loop, time.monotonic()
        topics, due = self._meaning(event)
        state = self._state() if due else None
        self._line.tell(ProcessEvent(event, loop.steps, loop.epoch, loop.position, state))
        if isinstance(event, Stepped) and self._monitor.due(now):
            self._line.tell(Looked(*self._monitor.look(loop.steps)))
        if not due and now - self._kept_at > max(_KEEP_EVERY, 100 * self._cost):
            self._line.tell(ProcessKept(self._state()))
        return topics | _CHECKPOINT if due else topics

    def _meaning(self, event: Event) -> tuple[frozenset[str], bool]:
        every = self._save_every
        match event:
            case Stepped(frame=StepFrame(step=step)):
                return _STEP, every is not None and every.after_step(step)
            case EpochEnded(frame=EpochFrame(epoch=epoch), improved=improved):
                return _BETWEEN_EPOCHS, every is not None and (improved or every.after_epoch(epoch))
            case Judged(improved=improved):
                return _EPOCH, every is not None and improved
            case _:
                return frozenset(), False

    def _state(self) -> Parcel:
        began = time.monotonic()
        state = handover.packed(self.loop.state_dict())
        self._kept_at = time.monotonic()
        self._cost = self._kept_at - began
        return state

    def _tell_end(self, *, finished: bool) -> None:
        steps = handover.packed(self.loop.ring.kept())
        self._line.tell(ProcessEnded(self._state(), finished, steps), at_once=True)

    def _leave_data(self) -> None:
        """Abandon the data for which a stuck training waits; all other state is as after a step."""
        if self.loop.data_calls.leave():
            self._tell_end(finished=False)
            self._line.drain()
            os._exit(0)

    # What the kernel changes while the training halts

    def _take_over(self, handed: Handed) -> None:
        recipe = handover.unpacked(handed.recipe, handover.sources_of(self.loop.recipe))
        self.loop.take_over(recipe, handover.unpacked(handed.state), is_edited=handed.is_edited)
        self._monitor = ResourceMonitor(recipe.model, self.loop.stages)
        # What is observed is the model before; the kernel orders it again.
        self._follow(Orders([]))

    def _follow(self, orders: Orders) -> None:
        self._ordered.follow(orders, self.loop.recipe.model, lambda: self.loop.recipe.precision.scale)


def main(connection: socket.socket, crashes: int, measure: Measure) -> NoReturn:
    """Run the training that the kernel hands over, and end the process.

    What Python says of a crash goes to the file `crashes`; `measure` makes the probes that the kernel orders.
    """
    faulthandler.enable(crashes)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    line = ProcessLine(connection)
    line.tell(ProcessHello(os.getpid(), _buttons(line)))
    threading.Thread(target=line.send, name="pnne-sender", daemon=True).start()
    # As in the kernel, the steps are made in a thread beside the first: what runs in them finds the same.
    threading.Thread(target=_train, args=(line, measure), name="pnne-training", daemon=True).start()
    line.listen()


def _buttons(line: ProcessLine) -> str:
    """Let pages halt the training directly; if listening is not allowed, they ask the kernel."""

    def pressed(press: Press) -> None:
        line.tell(Pressed(press, time.time()))
        line.halt = True

    try:
        return DirectButtons(pressed).address
    except OSError:
        return ""


def _train(line: ProcessLine, measure: Measure) -> None:
    worker = None
    try:
        context = line.hear()
        assert isinstance(context, KernelContext)
        _enter(context)
        handed = line.hear()
        assert isinstance(handed, Handed)
        manner = handover.unpacked(handed.manner)
        set_switches(manner.switches)
        recipe, state = handover.unpacked(handed.recipe), handover.unpacked(handed.state)
        worker = ProcessWorker(recipe, state, manner, line, measure)
        worker.run()
    except BaseException as error:  # noqa: BLE001  it is told, and the process ends
        line.tell(_failed(error, worker), at_once=True)
    line.drain()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def _enter(context: KernelContext) -> None:
    os.environ.clear()
    os.environ.update(context.environment)
    sys.path[:] = context.search_path
    os.chdir(context.directory)
    handover.register(context.nodes)
    # An optimizer comes without the step that its scheduler has wrapped to see whether this is due.
    warnings.filterwarnings("ignore", r"Seems like `optimizer.step\(\)` has been overridden", UserWarning)


def _failed(error: BaseException, worker: ProcessWorker | None) -> Failed:
    if worker is None:
        return Failed(handover.packed_error(error, None), "starting", fetching=False, state=None, steps=None)
    loop = worker.loop
    state: Parcel | None = None
    steps: Parcel | None = None
    try:
        state, steps = handover.packed(loop.state_dict()), handover.packed(loop.ring.kept())
    except Exception:  # noqa: BLE001  what has failed before says more
        traceback.print_exc()
    node = node_of(error, loop.recipe.model)
    return Failed(handover.packed_error(error, node), loop.doing, loop.fetching, state, steps)


_GATHER = 0.02
"""Seconds for which messages are gathered, to be sent at once: a small model makes two thousand steps a second."""
_HEARTBEAT = 1.0
"""Seconds between two signs of life."""
_AHEAD = 200_000
"""Messages that the training may be ahead of a kernel that does not read: some minutes of the smallest model."""


@final
class ProcessLine:
    """Exchanges messages with the kernel. `listen` runs in one thread, the training in another, and a third one sends.

    Where the line ends, the process ends.

    Attributes:
        halt: Whether the training shall halt before its next event.
        orders: The latest order of the kernel's probes, until it is followed.
        given_up: Called by `listen` when the kernel waits no longer for a training that does not halt.
    """

    def __init__(self, connection: socket.socket) -> None:
        self.halt = False
        self.orders: deque[Orders] = deque(maxlen=1)
        self.given_up: Callable[[], None] = lambda: None
        self._wire: MessageSocket[FromKernel] = MessageSocket(connection, FromKernel)
        self._heard: SimpleQueue[KernelContext | Handed | Go | Ask | Stop] = SimpleQueue()
        self._waiting: list[FromProcess] = []
        self._changed = threading.Condition()
        self._hurry = threading.Event()
        self._sending = False
        self._sign: Callable[[], Alive] | None = None

    def listen(self) -> NoReturn:
        """Receive the kernel's messages until the kernel has ended."""
        while True:
            heard = self._wire.receive()
            if heard is None:
                os._exit(1)
            for message in heard:
                match message:
                    case Halt():
                        self.halt = True
                    case Orders():
                        self.orders.append(message)
                    case GiveUp():
                        self.given_up()
                    case Go():
                        # What was said of halting before was meant for the steps before.
                        self.halt = False
                        self._heard.put(message)
                    case _:
                        self._heard.put(message)

    def hear(self) -> KernelContext | Handed | Go | Ask | Stop:
        """Wait for the next message of the kernel, and return it."""
        return self._heard.get()

    def tell(self, message: FromProcess, *, at_once: bool = False) -> None:
        """Queue a message, or send it `at_once` if the kernel waits for it; waits only for a kernel that is far behind."""
        with self._changed:
            self._waiting.append(message)
            if at_once:
                self._hurry.set()
            if len(self._waiting) == 1:
                self._changed.notify_all()
            elif len(self._waiting) > _AHEAD:
                self._changed.wait_for(lambda: len(self._waiting) <= _AHEAD)

    def give_signs_of_life(self, sign: Callable[[], Alive]) -> None:
        """Send a sign of life every second, unless another message is sent."""
        self._sign = sign

    def send(self) -> NoReturn:
        """Send the queued messages until the kernel has ended."""
        while True:
            with self._changed:
                if not self._waiting:
                    self._changed.wait(_HEARTBEAT)
                sign = None if self._waiting else self._sign
            if sign is not None:
                self.tell(sign())
            self._hurry.wait(_GATHER)
            with self._changed:
                messages, self._waiting = self._waiting, []
                self._sending = True
                self._hurry.clear()
                self._changed.notify_all()
            try:
                self._wire.send(*messages)
            except OSError:
                os._exit(1)
            with self._changed:
                self._sending = False
                self._changed.notify_all()

    def drain(self) -> None:
        with self._changed:
            self._hurry.set()
            self._changed.wait_for(lambda: not (self._waiting or self._sending))
