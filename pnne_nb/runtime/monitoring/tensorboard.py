"""Writes scalars as event files for TensorBoard, with torch's own writer."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterable
from pathlib import Path

from pnne_nb.errors import TrainingError

_QUEUE = 1000
"""Events that wait for the writer's thread at most: with its usual ten, the two threads take turns all the time."""


def write_scalars(directory: Path, scalars: Iterable[tuple[str, int, float]]) -> Path:
    """Write one event file, whose curves replace those of earlier files in the directory, and return its path.

    Args:
        directory: Made if it is not there; a file in it is never overwritten.
        scalars: Tag, step and value of each; all of them get the time of now.

    Raises:
        TrainingError: TensorBoard is not installed.
    """
    try:
        from torch.utils.tensorboard import SummaryWriter  # noqa: PLC0415  # an extra that takes a second to import
    except ImportError as error:
        raise TrainingError(
            "Event files are written by TensorBoard, which is not installed: pip install 'pnne_nb[tensorboard]'. "
            "history.to_csv writes the same numbers without it."
        ) from error
    directory.mkdir(parents=True, exist_ok=True)
    when, suffix = time.time(), f".pnne.{secrets.token_hex(4)}"
    # A session starts at step 0: what was there of later steps, which this file holds as well, no longer counts.
    writer = SummaryWriter(str(directory), purge_step=0, max_queue=_QUEUE, filename_suffix=suffix)
    try:
        for tag, step, value in scalars:
            writer.add_scalar(tag, value, step, walltime=when)
    finally:
        writer.close()
    (path,) = directory.glob(f"*{suffix}")
    return path
