"""Temporary directories of groups, which their owner or a later launch removes.

What `launch_command` has packed without a directory of its own may be trained by a torchrun that a person starts: it stays as
long as the process that has packed it lives, or one that was started on it.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from pathlib import Path

import psutil  # type: ignore[import-untyped]  # its stubs are a package of their own

from pnne_nb.runtime.checkpointing.files import SUFFIX

_PREFIX = "pnne-"
_OWNER = "owner"
"""File that tells which process made a directory, and when that had started: numbers of processes come again."""
_TOLD = "told"
"""File in a directory that was kept once, because it holds checkpoints."""


def temporary_directory() -> Path:
    """Return a new directory that belongs to this process. The caller removes it, or else `sweep` does."""
    path = Path(tempfile.mkdtemp(prefix=_PREFIX))
    process = psutil.Process()
    (path / _OWNER).write_text(f"{process.pid} {process.create_time()}")
    return path


def sweep() -> list[Path]:
    """Remove directories of ended processes, unless another process uses them.

    Directories with checkpoints of a training that a kernel has left are returned, and kept until the next call.
    """
    kept = []
    for owner in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*/{_OWNER}"):
        path = owner.parent
        # Another user's directory cannot be read, or not be removed.
        with contextlib.suppress(OSError, ValueError):
            if path.is_symlink() or _lives(owner.read_text()) or _is_in_use(path):
                continue
            # Every run begins with one checkpoint.
            if len(list(path.glob(f"*{SUFFIX}"))) > 1 and not (path / _TOLD).exists():
                (path / _TOLD).touch()
                kept.append(path)
            else:
                shutil.rmtree(path)
    return kept


def _lives(owner: str) -> bool:
    pid, created = owner.split()
    try:
        return bool(psutil.Process(int(pid)).create_time() == float(created))
    except psutil.NoSuchProcess:
        return False


def _is_in_use(path: Path) -> bool:
    """Return whether a process has the directory in its command line, as torchrun and its workers do."""
    named = str(path.resolve())
    return any(named in (process.info["cmdline"] or ()) for process in psutil.process_iter(["cmdline"]))
