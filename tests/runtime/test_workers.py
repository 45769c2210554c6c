"""Workers that die, workers whose parent dies, and workers that a kernel interrupt reaches."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset

from pnne_nb.runtime.sources import StreamSource
from pnne_nb.runtime.workers import _exit_codes

ORPHAN = """
import os, signal, time
import torch
from torch.utils.data import DataLoader, TensorDataset
from pnne_nb.runtime.sources import DatasetSource

parent = os.getpid()

def orphan(worker):
    os.kill(parent, signal.SIGKILL)
    while os.getppid() == parent:
        time.sleep(0.01)

loader = DataLoader(TensorDataset(torch.zeros(8)), 2, num_workers=2, worker_init_fn=orphan)
next(DatasetSource(loader, shuffle=False, seed=0).batches(1))
"""
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


def test_workers_do_not_outlive_a_parent_that_dies_while_they_start(tmp_path: Path) -> None:
    script = tmp_path / "orphan.py"
    script.write_text(ORPHAN)
    with subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as parent:
        # The workers have the pipe too: it ends with the last of them.
        parent.communicate(timeout=60)
    assert parent.returncode == -signal.SIGKILL


class Signals(IterableDataset[Tensor]):
    """What an interrupt means to the worker that reads it."""

    def __iter__(self) -> Iterator[Tensor]:
        yield torch.tensor(signal.getsignal(signal.SIGINT) == signal.SIG_IGN)


def test_an_interrupt_spares_the_workers_of_a_loader_that_was_given() -> None:
    loader = DataLoader(Signals(), num_workers=1, multiprocessing_context="fork")
    assert [bool(ignored) for ignored in StreamSource(loader).batches(1)] == [True]
    assert loader.worker_init_fn is None
