"""A worker that dies: the system closes its files first, and tells of its death later."""

from __future__ import annotations

import multiprocessing
import os
import signal

from pnne_nb.runtime.workers import _exit_codes

MOST_FILES = 1 << 12


class Dying(multiprocessing.get_context("fork").Process):  # type: ignore[misc]
    """Its files are closed as those of a process that is about to be dead; it dies when somebody waits for that."""

    def __init__(self) -> None:
        super().__init__()
        self.death, self.deadly = os.pipe()

    def run(self) -> None:
        os.closerange(3, self.death)
        os.closerange(self.death + 1, MOST_FILES)
        os.read(self.death, 1)
        os.kill(os.getpid(), signal.SIGKILL)

    def join(self, timeout: float | None = None) -> None:
        os.write(self.deadly, b".")
        super().join(timeout)


def test_a_worker_that_is_about_to_be_dead_counts() -> None:
    dying = Dying()
    dying.start()
    try:
        assert dying.exitcode is None
        assert _exit_codes([dying]) == [-signal.SIGKILL]
    finally:
        os.close(dying.death)
        os.close(dying.deadly)
