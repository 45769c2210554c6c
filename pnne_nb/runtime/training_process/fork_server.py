"""The fork server: a process that has imported everything, runs no operation of torch, and forks training processes.

The standard library has such a server (`multiprocessing.forkserver`), but one for everybody in a kernel, which may be
running without torch by now, and whose children import the main script again.
"""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import socket
import sys
import traceback
import warnings
from multiprocessing.connection import wait
from typing import NoReturn

# The first optimizer of a process imports it, which takes seconds.
import torch._dynamo  # noqa: F401  # imported for the children that are forked

from pnne_nb.process.parent import die_with
from pnne_nb.runtime.distributed.remote_probes import Measure
from pnne_nb.runtime.training_process.worker import main as train

FILES = 3
"""With each request come: the connection to the kernel, a file for crashes, and a pipe for the exit status."""


def serve(control: int, output: int, measure: Measure) -> NoReturn:
    """Fork a process for each request on `control`, until the kernel has ended.

    Args:
        control: File descriptor of a socket.
        output: File descriptor of the kernel's own stderr; until now, this process had another one.
        measure: Makes the probes that a kernel orders.
    """
    kernel = socket.socket(fileno=control)
    os.dup2(output, sys.stderr.fileno())
    os.close(output)
    statuses: dict[int, int] = {}
    alarm, rings = socket.socketpair()
    rings.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(rings.fileno())
    # Libraries may have threads of their own, which know what a fork is.
    warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)
    gc.collect()
    gc.freeze()
    kernel.sendall(b"w")
    while True:
        ready = wait([kernel, alarm])
        if alarm in ready:
            alarm.recv(1 << 12)
            _bury(statuses)
        if kernel in ready:
            request, files, _, _ = socket.recv_fds(kernel, 1, FILES)
            if not request:
                os._exit(0)
            connection, crashes, status = files
            pid = os.fork()
            if pid == 0:
                for other in (kernel, alarm, rings):
                    other.close()
                for other_status in (status, *statuses.values()):
                    os.close(other_status)
                _become(connection, crashes, measure)
            statuses[pid] = status
            os.close(connection)
            os.close(crashes)


def _become(connection: int, crashes: int, measure: Measure) -> NoReturn:
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        die_with(os.getppid())
        train(socket.socket(fileno=connection), crashes, measure)
    except BaseException:  # noqa: BLE001  nothing of the server may run in this process
        traceback.print_exc()
    os._exit(1)


def _bury(statuses: dict[int, int]) -> None:
    for pid, pipe in list(statuses.items()):
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            del statuses[pid]
            # The kernel may have let go of a process that had not even begun.
            with contextlib.suppress(BrokenPipeError):
                os.write(pipe, os.waitstatus_to_exitcode(status).to_bytes(4, "big", signed=True))
            os.close(pipe)
