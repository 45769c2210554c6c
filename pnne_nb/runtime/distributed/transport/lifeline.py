"""`Lifeline`: ends a worker together with its starter, torchrun or the engine."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import threading
from multiprocessing.connection import wait
from queue import SimpleQueue
from typing import final

import psutil  # type: ignore[import-untyped]  # its stubs are a package of their own

from pnne_nb.process.fork import fork_safe
from pnne_nb.runtime.distributed.transport import worker_messages
from pnne_nb.runtime.distributed.transport.socket import MessageSocket

ADDRESS = "PNNE_LIFELINE"
"""Environment variable with the path of the engine's socket; a group that somebody started by hand has none."""


def find_launcher(run: str) -> psutil.Process:
    """Return the torchrun that started this process for the directory `run`; end the process if it is gone already."""
    with contextlib.suppress(psutil.Error):
        parent = psutil.Process(os.getppid())
        if run in parent.cmdline():
            return parent
    sys.exit(f"No torchrun for {run} has started this process, or it is gone.")


@final
class Lifeline:
    """A worker's connection to the engine, whose socket is at `address`.

    When it ends, it ends the `launcher`, which is torchrun, so that no worker is restarted, and the worker.
    """

    def __init__(self, address: str, launcher: psutil.Process) -> None:
        self._launcher = launcher
        self._heard: SimpleQueue[worker_messages.FromEngine] = SimpleQueue()
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.connect(address)
        except OSError:
            self._end()
        self._wire: MessageSocket[worker_messages.FromEngine] = MessageSocket(connection, worker_messages.FromEngine)
        self._speaking = fork_safe(threading.Lock())
        # The main thread may be in a call that never returns, where no handler of Python's would run.
        self._alarm, rings = socket.socketpair()
        rings.setblocking(False)
        signal.signal(signal.SIGTERM, lambda *_: None)
        signal.set_wakeup_fd(rings.detach())
        threading.Thread(target=self._listen, name="pnne-lifeline", daemon=True).start()

    def tell(self, message: worker_messages.FromWorker) -> None:
        """Send a message to the engine."""
        try:
            with self._speaking:
                self._wire.send(message)
        except OSError:
            self._end()

    def hear(self) -> worker_messages.Verdict | worker_messages.Orders:
        """Wait for a message of the engine."""
        heard = self._heard.get()
        assert not isinstance(heard, worker_messages.HandedOver)
        return heard

    def receive(self) -> bytes:
        """Wait for the objects that the engine hands over after the greeting."""
        heard = self._heard.get()
        assert isinstance(heard, worker_messages.HandedOver)
        return heard.luggage

    def _listen(self) -> None:
        while True:
            ready = wait([self._wire.connection, self._alarm])
            if self._alarm in ready and signal.SIGTERM in self._alarm.recv(16):
                self.tell(worker_messages.Dismissed())
                os._exit(1)
            if self._wire.connection in ready:
                heard = self._wire.receive()
                if heard is None:
                    self._end()
                for message in heard or ():
                    self._heard.put(message)

    def _end(self) -> None:
        with contextlib.suppress(psutil.NoSuchProcess):
            self._launcher.kill()
        os._exit(1)
