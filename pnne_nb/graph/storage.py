"""Where graph files lie: read with a limit, and replaced at once or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pnne_nb.errors import GraphFileAccessError, GraphFileError, GraphFileNotFoundError, expect

MAX_BYTES = 64 * 2**20
"""Files beyond this size are refused."""


def read_file(path: str | Path) -> bytes:
    """Return what a file holds.

    Raises:
        GraphFileError: If it is too large to be a graph file.
        GraphFileNotFoundError: If there is none.
        GraphFileAccessError: If it cannot be read.
    """
    with _accessing(path, "read") as file:
        size = file.stat().st_size
        content = file.read_bytes() if size <= MAX_BYTES else None
    if content is None:
        raise GraphFileError(f"{file} has {size} bytes; a graph file has at most {MAX_BYTES}.")
    return content


def replace_file(path: str | Path, text: str) -> None:
    """Write a text file so that a crash leaves either the old one or the new one.

    Raises:
        GraphFileNotFoundError: If there is no such directory.
        GraphFileAccessError: If it cannot be written; the old one is untouched.
    """
    with _accessing(path, "written") as target:
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".tmp")
        temporary = Path(name)
        try:
            with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            # mkstemp makes private files; a graph file should be as readable as any other new file, or as the old one.
            mask = os.umask(0)
            os.umask(mask)
            temporary.chmod(target.stat().st_mode & 0o777 if target.exists() else 0o666 & ~mask)
            temporary.replace(target)
        except BaseException:
            temporary.unlink()
            raise


@contextmanager
def _accessing(path: str | Path, what: str) -> Iterator[Path]:
    """Say in our own words what the system says about a file."""
    expect(path, (str, os.PathLike), "path", "the path of a graph file")
    try:
        yield Path(path)
    except FileNotFoundError as error:
        place = str(path)[:200]
        missing = f"graph file {place!r}" if what == "read" else f"directory {str(Path(place).parent)!r} for {place!r}"
        raise GraphFileNotFoundError(f"There is no {missing}.") from error
    except OSError as error:
        raise GraphFileAccessError(f"{str(path)[:200]!r} cannot be {what}: {error.strerror or error}.") from error
    except ValueError as error:
        raise GraphFileAccessError(f"{str(path)[:200]!r} cannot be {what}: it is no path of a file.") from error
