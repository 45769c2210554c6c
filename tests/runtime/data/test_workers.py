"""Workers that die, workers whose parent dies, and workers that a kernel interrupt reaches."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, IterableDataset

from pnne_nb.errors import TrainingError
from pnne_nb.runtime.data.sources import DatasetSource, StreamSource
from pnne_nb.runtime.data.workers import _exit_codes, _said
from pnne_nb.runtime.faults.error_messages import in_brief

ORPHAN = """
import os, signal, time
import torch
from torch.utils.data import DataLoader, TensorDataset
from pnne_nb.runtime.data.sources import DatasetSource

parent = os.getpid()

def orphan(worker):
    os.kill(parent, signal.SIGKILL)
    while os.getppid() == parent:
        time.sleep(0.01)

loader = DataLoader(TensorDataset(torch.zeros(8)), 2, num_workers=2, worker_init_fn=orphan)
next(DatasetSource(loader, shuffle=False, seed=0).batches(1))
"""
MOST_FILES = 1 << 12


class Dying(multiprocessing.get_context("fork").Process):  # type: ignore[misc]  # the test knows its type
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
        parent.communicate(timeout=240)
    assert parent.returncode == -signal.SIGKILL


class Signals(IterableDataset[Tensor]):
    """What an interrupt means to the worker that reads it."""

    def __iter__(self) -> Iterator[Tensor]:
        yield torch.tensor(signal.getsignal(signal.SIGINT) == signal.SIG_IGN)


def test_an_interrupt_spares_the_workers_of_a_loader_that_was_given() -> None:
    loader = DataLoader(Signals(), num_workers=1, multiprocessing_context="fork")
    assert [bool(ignored) for ignored in StreamSource(loader).batches(1)] == [True]
    assert loader.worker_init_fn is None


class Odd(Dataset[Any]):
    """Its third example is what nobody expects."""

    def __init__(self, third: Callable[[], Any]) -> None:
        self._third = third

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> Any:
        return self._third() if index == 3 else torch.zeros(2)


def raising(error: BaseException) -> Callable[[], Any]:
    def third() -> Any:
        raise error

    return third


def failure_of(dataset: Dataset[Any], workers: int, **options: Any) -> Exception:
    """What the loading of its examples ends with."""
    loader = DataLoader(dataset, 2, num_workers=workers, multiprocessing_context="fork" if workers else None, **options)
    source = DatasetSource(loader, shuffle=False, seed=0)
    try:
        with pytest.raises(Exception) as found:  # noqa: PT011  which one is what a test asks
            list(source.batches(1))
    finally:
        source.close()
    return found.value


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(0), GeneratorExit(), StopIteration()])
def test_what_would_end_a_worker_in_silence_is_told(error: BaseException, workers: int) -> None:
    if workers == 0 and isinstance(error, KeyboardInterrupt):
        # Here, it may be a person's.
        with pytest.raises(KeyboardInterrupt):
            failure_of(Odd(raising(error)), workers)
        return
    found = failure_of(Odd(raising(error)), workers)
    assert isinstance(found, TrainingError)
    assert f"The dataset raised {type(error).__name__} while reading example 3." in in_brief(found)


def test_a_worker_that_ends_in_silence_is_told() -> None:
    class Ending(IterableDataset[Tensor]):
        def __iter__(self) -> Iterator[Tensor]:
            raise KeyboardInterrupt

    source = StreamSource(DataLoader(Ending(), num_workers=1, multiprocessing_context="fork"))
    with pytest.raises(
        TrainingError, match=r"has died \(exit code 0\)\. Something in the dataset has ended it, such as"
    ):
        next(source.batches(1))


def test_an_exception_that_cannot_be_sent_is_told_nevertheless() -> None:
    class TwoThingsError(Exception):
        def __init__(self, one: str, two: str) -> None:
            super().__init__(f"{one} and {two}")

    error = failure_of(Odd(raising(TwoThingsError("this", "that"))), 1)
    assert isinstance(error, TrainingError)
    assert in_brief(error).endswith("TwoThingsError: this and that. While reading example 3.")


def test_a_batch_that_cannot_be_sent_is_told() -> None:
    error = failure_of(Odd(lambda: lambda: 1), 1, collate_fn=list)
    with pytest.raises(
        TrainingError, match=r"cannot hand a batch over: .*pickle.* Let the dataset, or collate_fn, return"
    ):
        raise error


def test_shared_memory_that_is_too_small_is_named() -> None:
    full = RuntimeError("unable to allocate shared memory(shm) for file </torch_1>: No space left on device (28)")
    with pytest.raises(TrainingError, match=r"\(/dev/shm\).* is too small: give the container more \(docker run --shm"):
        raise failure_of(Odd(raising(full)), 1)
    assert "killed by SIGBUS). The shared memory" in _said(-signal.SIGBUS)


def test_the_death_of_a_worker_is_told_where_its_batches_are_awaited_and_nowhere_else() -> None:
    # Read in the main thread, any loader with workers makes torch tell of deaths there.
    list(DataLoader(Odd(lambda: torch.zeros(2)), 2, num_workers=1, multiprocessing_context="fork"))
    deadly = Odd(lambda: os.kill(os.getpid(), signal.SIGKILL))
    source = StreamSource(DataLoader(deadly, 2, num_workers=1, multiprocessing_context="fork"))
    with pytest.raises(TrainingError, match=r"killed by SIGKILL\). If the machine ran out of memory"):
        list(source.batches(1))
    source.close()
