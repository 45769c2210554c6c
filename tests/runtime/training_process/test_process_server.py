from __future__ import annotations

import fcntl
import os
import resource
import socket
import tempfile

from pnne_nb.runtime.training_process.process_server import Forked


def test_an_exit_is_noticed_in_a_kernel_with_more_files_open_than_select_can_take() -> None:
    least, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, most), most))
    try:
        read, write = os.pipe()
        status = fcntl.fcntl(read, fcntl.F_DUPFD_CLOEXEC, 1024)
        os.close(read)
        here, there = socket.socketpair()
        there.close()
        with tempfile.TemporaryFile() as crashes:
            forked = Forked(here, status, crashes)
            assert forked.exit_code(0) is None
            os.write(write, (-9).to_bytes(4, "big", signed=True))
            os.close(write)
            assert forked.exit_code(5) == -9
            forked.close()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (least, most))
