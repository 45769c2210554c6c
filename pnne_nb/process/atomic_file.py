"""Replaces files atomically; all user files are written by this module."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO


def replace_file(path: Path, content: bytes, *, previous: Path | None = None) -> None:
    """Write a file; a crash at any moment leaves the old file, its copy at `previous`, or the new file.

    The file is as readable as the one that was there, or as any other new file. What a crash leaves unfinished is
    named ``.<name>-<eight digits>``; see `remove_unfinished`.

    Args:
        path: Where to; its directory exists.
        content: Of the new file.
        previous: Where the old file is kept, if it is.

    Raises:
        OSError: The file system refuses; the old file is untouched.
        ValueError: No file can have this path.
    """
    temporary: Path | None = None
    try:
        with _held(path) as file:
            temporary = Path(file.name)
            file.write(content)
            file.flush()
            with contextlib.suppress(FileNotFoundError):
                os.fchmod(file.fileno(), path.stat().st_mode & 0o777)
            os.fsync(file.fileno())
            if previous is not None:
                # Another process that writes the same file may have done that a moment ago.
                with contextlib.suppress(FileNotFoundError):
                    path.replace(previous)
            temporary.replace(path)
        _sync_directory(path.parent)
    finally:
        # An interrupt may come in the middle, too.
        if temporary is not None:
            with contextlib.suppress(OSError):
                temporary.unlink()


@contextlib.contextmanager
def written_beside(path: Path) -> Iterator[Path]:
    """Yield a free name next to `path` for a writer, and move the written file to `path`.

    What is left under that name when the block ends is removed.

    Args:
        path: Where the finished file or folder goes; its directory exists.

    Raises:
        OSError: The directory cannot be written.
    """
    folder = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}-"))
    try:
        yield folder / path.name
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def file_at(path: Path) -> os.stat_result | None:
    """Return the status of the file or folder at `path`; None if there is none.

    Raises:
        OSError: No file can have this path, or its folder may not be searched.
    """
    try:
        return path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except ValueError as error:
        raise OSError(errno.EINVAL, str(error)) from error


def _held(path: Path) -> BinaryIO:
    """Return a new, locked file next to `path`; `remove_unfinished` removes only unlocked ones."""
    while True:
        file = path.with_name(f".{path.name}-{secrets.token_hex(4)}").open("xb")
        with contextlib.suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX)
        # Another process may have taken it for unfinished a moment before.
        if Path(file.name).exists():
            return file
        file.close()


def remove_unfinished(directory: Path, pattern: str) -> None:
    """Remove unfinished files of killed processes; files that are being written stay.

    Args:
        directory: Where to look.
        pattern: Of the names of the files that would have been replaced, such as ``"*.ckpt"``.
    """
    for unfinished in directory.glob(f".{pattern}-*"):
        with contextlib.suppress(OSError), unfinished.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            unfinished.unlink()


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
