"""Checkpoint files: written whole or not at all, checked before they are believed, loaded without running code."""

from __future__ import annotations

import hashlib
import io
import os
import pickle  # noqa: TID251  only for the name of the error that a safe load raises
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, final

import torch

from pnne_nb.errors import CheckpointError

FORMAT = 1
SUFFIX = ".ckpt"
_MAGIC = b"pnne-checkpoint\n"
_DIGEST = hashlib.sha256().digest_size


def write(path: Path, state: Mapping[str, Any]) -> None:
    """Write `state` to `path`: a crash at any moment leaves the old file, or its copy beside it, or the new one.

    A file that was there before is kept as ``<path>.previous``.

    Args:
        path: Where to.
        state: Plain values and tensors.

    Raises:
        CheckpointError: The file cannot be written.
    """
    buffer = io.BytesIO()
    torch.save({"format": FORMAT, **state}, buffer)
    payload = buffer.getbuffer()
    temporary = ""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}-", delete=False) as file:
            temporary = file.name
            file.write(_MAGIC)
            file.write(hashlib.sha256(payload).digest())
            file.write(payload)
            file.flush()
            os.fsync(file.fileno())
        if path.exists():
            path.replace(_previous(path))
        Path(temporary).replace(path)
        _sync_directory(path.parent)
    except OSError as error:
        if temporary:
            Path(temporary).unlink(missing_ok=True)
        raise CheckpointError(f"The checkpoint {path} cannot be written: {error.strerror or error}.") from error


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _previous(path: Path) -> Path:
    return path.with_name(f"{path.name}.previous")


def read(path: Path) -> dict[str, Any]:
    """Read and check one file.

    Raises:
        CheckpointError: It is missing, damaged, from a newer version, or no checkpoint.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise CheckpointError(f"The checkpoint {path} cannot be read: {error.strerror or error}.") from error
    if not content.startswith(_MAGIC):
        raise CheckpointError(f"{path} is no checkpoint of a TrainingEngine.")
    start = len(_MAGIC) + _DIGEST
    payload = content[start:]
    if hashlib.sha256(payload).digest() != content[len(_MAGIC) : start]:
        raise CheckpointError(f"The checkpoint {path} is damaged: its content does not match its checksum.")
    try:
        state = torch.load(io.BytesIO(payload), map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError, ValueError, zipfile.BadZipFile) as error:
        raise CheckpointError(f"The checkpoint {path} holds something else than plain values: {error}.") from error
    found = state.get("format") if isinstance(state, dict) else None
    if not isinstance(found, int) or found > FORMAT:
        raise CheckpointError(
            f"The checkpoint {path} has format {found!r}; this version reads up to {FORMAT}. Update pnne_nb."
        )
    checked: dict[str, Any] = state
    return checked


def read_newest_good(path: Path) -> tuple[dict[str, Any], Path, list[str]]:
    """Read `path`, or the newest earlier checkpoint that is whole.

    Args:
        path: A checkpoint, whose earlier ones are those beside it, or a directory of checkpoints.

    Returns:
        What was read, from which file, and what is wrong with the newer ones.

    Raises:
        CheckpointError: None is whole; the message lists every file and its fault.
    """
    faults: list[str] = []
    for candidate in _candidates(path):
        try:
            return read(candidate), candidate, faults
        except CheckpointError as error:
            faults.append(str(error))
    raise CheckpointError("\n".join(faults) or f"There is no checkpoint in {path}.")


def _candidates(path: Path) -> list[Path]:
    if path.is_dir():
        return _series(path)
    previous = _previous(path)
    earlier = [other for other in _series(path.parent) if path.name[:1].isdigit() and other.name < path.name]
    return [path, *([previous] if previous.exists() else []), *earlier]


def _series(directory: Path) -> list[Path]:
    """The numbered checkpoints, the newest first."""
    return sorted(directory.glob(f"[0-9]*-step-*{SUFFIX}"), reverse=True)


@final
class CheckpointDirectory:
    """The checkpoints of a training, numbered as they were written: the latest few, and the best.

    A later training in the same directory counts on, so that the newest is always the last one written.

    Args:
        directory: Made when first needed.
        keep: How many of the latest are kept, at least 2, so that a damaged one has a predecessor.
    """

    def __init__(self, directory: str | Path, keep: int = 3) -> None:
        self.directory = Path(directory)
        self._keep = max(2, keep)
        self._best = float("inf")

    def save(self, step: int, state: Mapping[str, Any]) -> Path:
        """Write the checkpoint of `step` and remove the oldest beyond those kept.

        Raises:
            CheckpointError: It cannot be written.
        """
        series = _series(self.directory)
        number = int(series[0].name.partition("-")[0]) + 1 if series else 1
        path = self.directory / f"{number:06d}-step-{step}{SUFFIX}"
        write(path, state)
        for unfinished in self.directory.glob(f".*{SUFFIX}-*"):
            unfinished.unlink(missing_ok=True)
        for old in _series(self.directory)[self._keep :]:
            old.unlink(missing_ok=True)
        return path

    def save_if_best(self, loss: float, state: Mapping[str, Any]) -> None:
        """Write ``best.ckpt`` if `loss` is less than ever before.

        Raises:
            CheckpointError: It cannot be written.
        """
        if loss < self._best:
            self._best = loss
            write(self.directory / f"best{SUFFIX}", state)
