"""`ProcessLine`: the training process's end of its connection to the kernel."""

from __future__ import annotations

import os
import socket
import threading
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from typing import NoReturn, final

from pnne_nb.runtime.distributed.transport.socket import MessageSocket
from pnne_nb.runtime.distributed.transport.worker_messages import Orders
from pnne_nb.runtime.training_process.process_messages import (
    Alive,
    Ask,
    FromKernel,
    FromProcess,
    GiveUp,
    Go,
    Halt,
    Handed,
    KernelContext,
    Stop,
)

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
