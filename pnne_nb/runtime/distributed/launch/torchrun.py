"""Runs torchrun as a process of its own, and reads its log."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import final

import psutil  # type: ignore[import-untyped]  # its stubs are a package of their own

from pnne_nb.errors import TrainingError
from pnne_nb.runtime.distributed.transport.connection import ADDRESS

_LINES = 15
"""Lines of a log that a message shows."""
_WIDTH = 300
"""Characters of a line that it shows: somebody's progress bar may be one line of a megabyte."""
_SECONDS_TO_DIE = 5.0


@final
class TorchrunAgent:
    """Runs torchrun. In a session of its own, because an interrupt of the kernel goes to all of the kernel's.

    Workers find the engine at `address`; everybody's output goes to `logs`.

    Raises:
        TrainingError: It cannot be started.
    """

    def __init__(self, command: Sequence[str], address: str, logs: Path) -> None:
        self._logs = logs
        logs.mkdir(parents=True, exist_ok=True)
        # torchrun would set one thread and say so at length; workers are told how many they may use. Of torch's own logs,
        # only errors are worth showing to somebody whose group has ended.
        own = {"OMP_NUM_THREADS": "1", "TORCH_CPP_LOG_LEVEL": "ERROR"}
        # Functions are imported by name, also from a directory that a notebook has added to sys.path.
        search_path = os.pathsep.join(entry for entry in sys.path if entry)
        environment = {**own, **os.environ, ADDRESS: address, "PYTHONPATH": search_path}
        with (logs / "torchrun.log").open("ab") as log:
            try:
                self._process = subprocess.Popen(  # noqa: S603  our own interpreter, with arguments that were checked
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    env=environment,
                    start_new_session=True,
                )
            except OSError as error:
                raise TrainingError(f"torchrun cannot be started: {error}") from error

    @property
    def exit_status(self) -> int | None:
        """Of torchrun, or None while it runs."""
        return self._process.poll()

    def log(self) -> str:
        """Return the last lines of every log, to be shown with an error."""
        files = sorted(path for path in self._logs.rglob("*.log") if path.stat().st_size)
        texts = [(path, _last_lines(path)) for path in files]
        return "\n".join(f"--- {path.relative_to(self._logs)}\n" + "\n".join(lines) for path, lines in texts if lines)

    def wait(self, seconds: float) -> bool:
        """Wait until it has ended by itself; whether it has."""
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def kill(self) -> None:
        """End it at once, with every process that it has started."""
        started: list[psutil.Process] = []
        with contextlib.suppress(psutil.NoSuchProcess):
            started = psutil.Process(self._process.pid).children(recursive=True)
        self._process.kill()
        self._process.wait()
        for process in started:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(started, _SECONDS_TO_DIE)


def _last_lines(path: Path) -> list[str]:
    with path.open("rb") as log:
        # Of a log of gigabytes, no more than may be shown.
        log.seek(max(0, path.stat().st_size - 4 * _LINES * _WIDTH))
        text = log.read().decode(errors="replace")
    lines = text.rstrip().splitlines()[-_LINES:]
    return [line if len(line) <= _WIDTH else f"… {line[-_WIDTH:]}" for line in lines]
