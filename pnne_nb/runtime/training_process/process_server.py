"""`Server`: starts the fork server, which forks training processes; `ProcessLink`: the kernel's end of the line to one."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from multiprocessing.connection import wait
from typing import IO, final

import psutil  # type: ignore[import-untyped]  # its stubs are a package of their own

from pnne_nb.errors import TrainingError
from pnne_nb.process.fork import fork_safe
from pnne_nb.runtime.distributed.transport.connection import MessageSocket, encoded
from pnne_nb.runtime.training_process.process_messages import FromKernel, FromProcess

_LINES = 12
"""Of what a server or a process has said at its end, that a message shows."""
_LONGEST = 2000
"""Characters of what is not understood."""
_TRAINING = "in _train_epoch"
"""In the stack of the thread that trains."""
_SECONDS_TO_DIE = 5.0


@final
class Forked:
    """A training process that the server has forked or will fork; its file descriptor `status` can be read when it has ended."""

    def __init__(self, connection: socket.socket, status: int, crashes: IO[bytes]) -> None:
        self.connection = connection
        self.status = status
        self._crashes = crashes
        self._exit: int | None = None

    def exit_code(self, timeout: float) -> int | None:
        """Wait `timeout` seconds for its exit code; return it as `subprocess.Popen.returncode` does, or None if it is not known."""
        if self._exit is None and wait([self.status], timeout):
            told = os.read(self.status, 4)
            self._exit = int.from_bytes(told, "big", signed=True) if told else None
        return self._exit

    def last_words(self) -> str:
        """Return Python's traceback of a crash, the most recent call first."""
        self._crashes.seek(0)
        said = self._crashes.read().decode(errors="replace").strip()
        # Of all threads, the one that trains; the calls that led there are those of every training.
        threads = said.split("\n\n")
        found = next((one for one in threads if _TRAINING in one), "")
        return "\n".join([*threads[:1], *found.splitlines()[1:_LINES]]) if found else said[:_LONGEST]

    def close(self) -> None:
        """Release the process, which ends it."""
        self.connection.close()
        self._crashes.close()
        os.close(self.status)


@final
class Server:
    """The fork server; it starts when it is first needed, and ends with this process."""

    def __init__(self) -> None:
        self._lock = fork_safe(threading.Lock())
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._log: IO[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """Process id of the server, or None if it does not run."""
        process = self._process
        return None if process is None or process.poll() is not None else process.pid

    def start(self) -> None:
        """Start the server, unless there is one, without waiting the seconds until it is warm.

        Raises:
            TrainingError: It cannot be started.
        """
        with self._lock:
            if self.pid is None:
                self._close()
                self._start()

    def _start(self) -> None:
        here, there = socket.socketpair()
        self._log = tempfile.TemporaryFile()  # noqa: SIM115  as long as the server
        output = sys.__stderr__.fileno() if sys.__stderr__ is not None else 2
        command = [sys.executable, "-m", "pnne_nb.server", str(there.fileno()), str(output)]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)}
        try:
            self._process = subprocess.Popen(  # noqa: S603  our own interpreter
                command,
                stdin=subprocess.DEVNULL,
                stderr=self._log,
                env=environment,
                pass_fds=(there.fileno(), output),
                # An interrupt of the kernel goes to all processes of its session.
                start_new_session=True,
            )
        except OSError as error:
            here.close()
            raise TrainingError(
                f"No process for the training can be started: {error}. start() trains in the kernel."
            ) from error
        finally:
            there.close()
        self._control = here

    def fork(self) -> Forked:
        """Ask for a process.

        Raises:
            TrainingError: The server cannot be started, or is gone.
        """
        self.start()
        here, there = socket.socketpair()
        read, write = os.pipe()
        crashes = tempfile.TemporaryFile()  # noqa: SIM115  as long as the process
        assert self._control is not None
        try:
            with self._lock:
                socket.send_fds(self._control, [b"f"], [there.fileno(), crashes.fileno(), write])
        except OSError as error:
            Forked(here, read, crashes).close()
            raise TrainingError(self.failure()) from error
        finally:
            there.close()
            os.close(write)
        return Forked(here, read, crashes)

    def has_ended(self) -> bool:
        """Return whether the server has ended; waits a moment, because its files close before the system reports it."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            if self._process is not None:
                self._process.wait(_SECONDS_TO_DIE)
        return self.pid is None

    def failure(self) -> str:
        """Return why the server has ended, in words."""
        said = ""
        if self._log is not None:
            self._log.seek(0)
            lines = self._log.read().decode(errors="replace").strip().splitlines()
            said = "\n".join(lines[-_LINES:])
        code = None if self._process is None else self._process.wait(_SECONDS_TO_DIE)
        ends = f" Its last output:\n{said}" if said else ""
        return (
            f"The server that starts the processes of trainings has ended ({described(code)}). The next start(process=True) "
            f"starts it again; start() trains in the kernel.{ends}"
        )

    def silent(self, seconds: float) -> str:
        """Return why no process has started for so long, in words; end a warm server that does not fork."""
        said = f"The server that starts the processes of trainings has not answered for {seconds:g} seconds."
        if not self._is_warm():
            return f"{said} It has not imported torch yet: start(process=True) asks it again, start() trains in the kernel."
        with self._lock:
            if self._process is not None:
                self._process.kill()
        return f"{said} It was killed: the next start(process=True) starts it again."

    def _is_warm(self) -> bool:
        with self._lock, contextlib.suppress(OSError):
            return self._control is not None and bool(self._control.recv(1, socket.MSG_DONTWAIT | socket.MSG_PEEK))
        return False

    def forget(self) -> None:
        """Forget the server in a forked child, to which it does not belong."""
        if self._control is not None:
            self._control.close()
        self._process = self._control = self._log = None

    def close(self) -> None:
        """End the server and the processes that it has started."""
        with self._lock:
            self._close()

    def _close(self) -> None:
        if self._control is not None:
            self._control.close()
        if self._process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_SECONDS_TO_DIE)
            self._process.kill()
            self._process.wait()
        if self._log is not None:
            self._log.close()
        self._process = self._control = self._log = None


server = Server()
"""The one of this process."""
os.register_at_fork(after_in_child=server.forget)


def described(code: int | None) -> str:
    """Return an exit status in words."""
    if code is None:
        return "nobody knows how"
    return f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"


def kill(pid: int) -> None:
    """End a process at once, with every process that it has started."""
    with contextlib.suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        family = [process, *process.children(recursive=True)]
        for each in family:
            with contextlib.suppress(psutil.NoSuchProcess):
                each.kill()
        psutil.wait_procs(family, _SECONDS_TO_DIE)


_GLANCE = 0.5
"""Seconds between two looks at a process that says nothing."""
_SHORT = 1 << 14
"""Bytes that a socket takes at once, even if nobody reads them."""
_CHUNK = 1 << 20


class GoneError(Exception):
    """The process has ended; the message says why."""


@final
class ProcessLink:
    """Requests a process from the fork server, and exchanges messages with it; `pid` is None until the process has told it.

    Attributes:
        speaking: Held while messages are sent whose order matters. A signal's handler may come in the middle and send, too.

    Raises:
        TrainingError: There is no server.
    """

    def __init__(self) -> None:
        self.pid: int | None = None
        self._forked: Forked = server.fork()
        self._wire: MessageSocket[FromProcess] = MessageSocket(self._forked.connection, FromProcess)
        self.speaking = threading.RLock()
        self._unsent: deque[bytearray] = deque()
        self._carrier: threading.Thread | None = None
        self._heard_at = time.monotonic()

    def send(self, *messages: FromKernel) -> None:
        """Send messages, from any thread. If the process has ended, `receive` raises the error.

        This never waits for a process that does not read, such as one that is starting or frozen: a thread sends long
        messages, and those that come before they have gone.
        """
        content = encoded(*messages)
        with contextlib.suppress(OSError), self.speaking:
            # An interrupt may have kept the thread from starting: then its messages are still there, and go first.
            at_work = self._carrier is not None and self._carrier.is_alive()
            if not (at_work or self._unsent) and len(content) <= _SHORT:
                self._wire.connection.sendall(content)
                return
            self._unsent.append(content)
            if not at_work:
                self._carrier = threading.Thread(target=self._carry, name="pnne-carrier", daemon=True)
                self._carrier.start()

    def _carry(self) -> None:
        while True:
            with self.speaking:
                if self._carrier is not threading.current_thread():
                    # Another one has been started before this one said that it lives.
                    return
                if not self._unsent:
                    self._carrier = None
                    return
                content = memoryview(self._unsent.popleft())
            with contextlib.suppress(OSError):
                for start in range(0, len(content), _CHUNK):
                    self._wire.connection.sendall(content[start : start + _CHUNK])
                    # Whoever takes it in lives.
                    self.listen_from_now()

    def listen_from_now(self) -> None:
        """Measure the silence of the process from now on."""
        self._heard_at = time.monotonic()

    def receive(self, silence: float) -> list[FromProcess]:
        """Wait a moment for messages, and return them; after so many seconds of `silence`, the process is taken to hang.

        Raises:
            GoneError: The process has died, or hangs and was killed.
        """
        both: list[socket.socket | int] = [self._wire.connection, self._forked.status]
        # Between the end of a wait and this line, a cell may have kept Python's lock for long.
        ready = wait(both, _GLANCE) or wait(both, 0)
        if self._wire.connection in ready:
            messages = self._wire.receive()
            if messages is None:
                raise self._gone()
            self._heard_at = time.monotonic()
            return messages
        # Those that it has started may hold its end of the line open.
        if ready:
            raise self._gone()
        if time.monotonic() - self._heard_at > silence:
            if self.pid is None:
                raise GoneError(server.silent(silence))
            self.kill()
            raise GoneError(f"The training process hangs: no sign of life for {silence:g} seconds. It was killed.")
        return []

    def _gone(self) -> GoneError:
        code = self._forked.exit_code(_SECONDS_TO_DIE)
        if code is None and server.has_ended():
            return GoneError(server.failure())
        memory = " Another program ended it, or the machine ran out of memory." * (code == -signal.SIGKILL)
        words = self._forked.last_words()
        said = f" Python said:\n{words}\n" if words else ""
        return GoneError(f"The training process has died ({described(code)}).{memory}{said}")

    def kill(self) -> None:
        """End the process at once, with those that it has started."""
        if self.pid is not None:
            kill(self.pid)

    def close(self) -> None:
        """Release the process, which ends it."""
        carrier = self._carrier
        with contextlib.suppress(OSError):
            # What is being sent ends there.
            self._wire.connection.shutdown(socket.SHUT_RDWR)
        if carrier is not None and carrier.is_alive():
            carrier.join(_SECONDS_TO_DIE)
        self._wire.close()
        if self.pid is not None and self._forked.exit_code(_SECONDS_TO_DIE) is None:
            self.kill()
        self._forked.close()
