"""Reads and writes checkpoint files, atomically.

A checkpoint is a sealed `tensor_file`: all of it but the tensors is in the metadata, as JSON under ``"state"``, with the
format of that under ``"pnne"`` (see `schema`), and the version of this package under ``"writer"``.
"""

from __future__ import annotations

import contextlib
import errno
import inspect
import tempfile
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, final

from torch import Tensor, nn

from pnne_nb.compiler.weights import tensor_file
from pnne_nb.errors import ArgumentError, CheckpointError, PnneError, expect, near, shown
from pnne_nb.graph.document import NodeGraph
from pnne_nb.process import __version__
from pnne_nb.process.atomic_file import remove_unfinished, replace_file
from pnne_nb.runtime.checkpointing.schema import FORMAT, up_to_date
from pnne_nb.runtime.faults.error_messages import in_a_sentence
from pnne_nb.runtime.setup.config import UNDRAWN, Config

SUFFIX = ".ckpt"
_BEST = f"best{SUFFIX}"
"""Goes by no number: a training goes on from it if there is nothing better in its directory."""
FAILED = "checkpoint-failed"
"""Kind of the event that says that one could not be written, and that the training goes on."""


def write(path: Path, state: Mapping[str, Any]) -> None:
    """Write `state`, plain values and tensors, to `path`; a crash at any moment leaves the old file, its copy, or the new file.

    A file that was there before is kept as ``<path>.previous``.

    Raises:
        CheckpointError: The file cannot be written, something else than a file is there, or `state` holds something else.
    """
    content = content_of(state)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists():
            _require_file(path)
        replace_file(path, content, previous=_previous(path))
    except (OSError, ValueError) as error:
        raise CheckpointError(f"The checkpoint {_named(path)} cannot be written: {_reason(error)}.") from error


def content_of(state: Mapping[str, Any]) -> bytes:
    """Return the contents of a file of `state`.

    Raises:
        CheckpointError: `state` holds something else than plain values and tensors.
    """
    text, tensors = packed(state)
    return tensor_file.to_bytes(tensors, {"pnne": str(FORMAT), "writer": __version__, "state": text}, seal=True)


def packed(state: Mapping[str, Any]) -> tuple[str, dict[str, Tensor]]:
    """Split `state` into a JSON text and tensors, which are copies.

    Raises:
        CheckpointError: `state` holds something else than plain values and tensors.
    """
    try:
        return tensor_file.pack(state)
    except tensor_file.TensorFileError as error:
        raise CheckpointError(f"A checkpoint {error}.") from error


def _require_file(path: Path) -> None:
    """Raise an `OSError` unless the path is a file: a directory or a device must not be moved away."""
    if path.is_dir():
        raise OSError(
            errno.EISDIR, f"it is a directory; give the path of a file in it, such as {path.name}/mine{SUFFIX}"
        )
    if not path.is_file():
        raise OSError(errno.EINVAL, "a device or a pipe is there, which no file can replace")


def _named(path: str | Path) -> str:
    return shown(str(path)).strip("'\"")


def _reason(error: Exception) -> str:
    if isinstance(error, FileExistsError):
        return "there is a file, or a link that leads nowhere, where its directory would be"
    # A path that no file system can hold is a ValueError.
    return (error.strerror if isinstance(error, OSError) else None) or shown(str(error))


def is_refused(error: CheckpointError) -> bool:
    """Return whether the file system refused a checkpoint, which may be temporary."""
    return isinstance(error.__cause__, OSError)


def _previous(path: Path) -> Path:
    return path.with_name(f"{path.name}.previous")


class Stored(NamedTuple):
    """The contents of a checkpoint file in the form with number `format`, and what has written it, in words."""

    state: dict[str, Any]
    format: int
    writer: str


def read(path: Path) -> Stored:
    """Read one undamaged file.

    Raises:
        CheckpointError: It is missing, damaged, or no checkpoint.
    """
    try:
        content = path.read_bytes()
    except (OSError, ValueError) as error:
        raise CheckpointError(f"The checkpoint {_named(path)} cannot be read: {_reason(error)}.") from error
    return stored_in(content, path)


def stored_in(content: bytes, path: Path) -> Stored:
    """Return the contents of bytes that were read from `path`.

    Raises:
        CheckpointError: It is damaged, or no checkpoint.
    """
    whole = tensor_file.is_whole(content)
    if whole is None:
        raise CheckpointError(f"{path} is no checkpoint of a TrainingEngine, or its beginning is damaged.")
    if not whole:
        raise CheckpointError(f"The checkpoint {path} is damaged: its content does not match its checksum.")
    metadata = tensor_file.metadata_of(content) or {}
    version = metadata.get("writer")
    writer = "an earlier version of pnne_nb" if version is None else f"pnne_nb {version}"
    try:
        state = tensor_file.unpack(metadata["state"], tensor_file.from_bytes(content))
        return Stored(_dict(state), int(metadata["pnne"]), writer)
    except (ValueError, KeyError, TypeError, AttributeError, RuntimeError) as error:
        raise CheckpointError(
            f"The checkpoint {path} holds something else than a training's state: {error}."
        ) from error


def _dict(state: Any) -> dict[str, Any]:
    if not isinstance(state, dict):
        raise TypeError(f"it is a {type(state).__name__}")
    return state


def _understood(path: Path, stored: Stored) -> tuple[dict[str, Any], list[str]]:
    """Return the state in the current format, and a note about what an older format lacks."""
    try:
        state, afresh = up_to_date(stored.state, stored.format)
    except ValueError as error:
        raise CheckpointError(
            f"The checkpoint {path} (format {stored.format}, written by {stored.writer}) is whole, but not what this version "
            f"can go on from: {error}. Give another checkpoint, or read it with the version that has written it."
        ) from error
    lacking = "; ".join(afresh)
    older = (
        f"The checkpoint {path} was written by {stored.writer}, in format {stored.format}: it does not hold {lacking}. That "
        "begins afresh; everything else goes on."
    )
    return state, [older] if afresh else []


class Found(NamedTuple):
    """The newest undamaged checkpoint, what is wrong with newer ones (`damaged`), and what an `older` version left out of it."""

    state: dict[str, Any]
    path: Path
    damaged: list[str]
    older: list[str]

    @property
    def notes(self) -> list[tuple[str, str]]:
        """Notes for the user who resumes: kinds of anomalies, and messages."""
        damaged = [("checkpoint-damaged", f"{fault} Resumed from {self.path} instead.") for fault in self.damaged]
        return damaged + [("checkpoint-older", message) for message in self.older]


def read_newest_good(path: str | Path) -> Found:
    """Read `path`, or the newest earlier checkpoint that is undamaged.

    Args:
        path: A checkpoint, whose earlier ones are those beside it, or a directory of checkpoints.

    Raises:
        CheckpointError: None is whole; the message lists every file and its fault. Or one is of a later version: an older
            one is not taken unasked.
        ArgumentError: `path` is none.
    """
    expect(path, (str, Path), "path", "the path of a checkpoint")
    faults: list[str] = []
    try:
        candidates = _candidates(Path(path))
    except (OSError, ValueError) as error:
        raise CheckpointError(f"The checkpoint {_named(path)} cannot be read: {_reason(error)}.") from error
    if candidates and candidates[0].name == _BEST and Path(path).is_dir():
        faults.append(f"The directory {path} has no numbered checkpoints any more.")
    for candidate in candidates:
        try:
            stored = read(candidate)
            if stored.format <= FORMAT:
                state, older = _understood(candidate, stored)
                return Found(state, candidate, faults, older)
        except CheckpointError as error:
            faults.append(str(error))
            continue
        raise CheckpointError(
            f"The checkpoint {candidate} has format {stored.format}, written by {stored.writer}: this is pnne_nb "
            f"{__version__}, which reads formats up to {FORMAT}. Update pnne_nb, or give the path of an earlier checkpoint."
        )
    raise CheckpointError("\n".join(faults) or f"There is no checkpoint in {path}.")


def _candidates(path: Path) -> list[Path]:
    if path.is_dir():
        best = path / _BEST
        return [*series(path), *(each for each in (best, _previous(best)) if each.exists())]
    previous = _previous(path)
    earlier = [other for other in series(path.parent) if _number(other) < _number(path)]
    return [path, *([previous] if previous.exists() else []), *earlier]


def series(directory: Path) -> list[Path]:
    """Return the numbered checkpoints of a directory, the last one written first."""
    return sorted(filter(_number, directory.glob(f"[0-9]*-step-*{SUFFIX}")), key=_number, reverse=True)


def _number(path: Path) -> int:
    """Return a checkpoint's sequence number in its directory, from 1; 0 if it is not numbered."""
    number, _, step = path.name.partition("-step-")
    return int(number) if number.isdecimal() and step.removesuffix(SUFFIX).isdecimal() else 0


@final
class CheckpointDirectory:
    """The numbered checkpoints of a training, of which the latest few are kept, and the best one.

    A later training in the same directory counts on, so that the newest is always the last one written.

    Args:
        directory: Made when first needed.
        max_to_keep: How many of the latest are kept, so that a damaged one has predecessors; None keeps all.

    Attributes:
        shared: Whether another training has been seen to write here meanwhile.
    """

    def __init__(self, directory: str | Path, max_to_keep: int | None = 3) -> None:
        expect(directory, (str, Path), "checkpoint_dir", "the path of a directory")
        self.directory = Path(directory)
        self.shared = False
        self._max_to_keep = max_to_keep
        self._last = 0

    @property
    def newest(self) -> Path | None:
        """The checkpoint from which a training would resume first."""
        return next(iter(series(self.directory)), None)

    def require_writable(self) -> None:
        """Check before the training that its first checkpoint can be written.

        Raises:
            CheckpointError: No file can be made here.
        """
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=self.directory):
                pass
        except (OSError, ValueError) as error:
            raise CheckpointError(
                f"No checkpoint can be written into {_named(self.directory)}: {_reason(error)}. Give another checkpoint_dir."
            ) from error

    def save(self, step: int, state: Mapping[str, Any]) -> Path:
        """Write the checkpoint of `step` and remove the oldest beyond those kept.

        Raises:
            CheckpointError: It cannot be written.
        """
        newest = _number(found) if (found := self.newest) else 0
        self.shared |= 0 < self._last < newest
        # Also where somebody has removed them all meanwhile.
        number = max(newest, self._last) + 1
        path = self.directory / f"{number:06d}-step-{step}{SUFFIX}"
        write(path, state)
        self._last = number
        # At the same moment, somebody else had counted to the same number.
        self.shared |= _previous(path).exists()
        remove_unfinished(self.directory, f"*{SUFFIX}")
        for old in [] if self._max_to_keep is None else series(self.directory)[self._max_to_keep :]:
            for each in (old, _previous(old)):
                # What cannot be removed is no reason to take the new one for lost.
                with contextlib.suppress(OSError):
                    each.unlink()
        return path

    def save_best(self, state: Mapping[str, Any]) -> None:
        """Write ``best.ckpt``.

        Raises:
            CheckpointError: It cannot be written.
        """
        write(self.directory / _BEST, state)


class Resumption(NamedTuple):
    """The parts of a resumed engine, and its state.

    Attributes:
        model: What is trained; for a training that was drawn, the whole drawing.
        arguments: Of a `TrainingEngine`, but for model and data.
        state: What the engine's checkpoint held.
        notes: What to tell about the checkpoint; see `Found`.
    """

    model: nn.Module | NodeGraph
    arguments: dict[str, Any]
    state: dict[str, Any]
    notes: list[tuple[str, str]]


def read_resumption(
    path: str | Path, model: nn.Module | NodeGraph | None, options: Mapping[str, Any], *, drawn: bool
) -> Resumption:
    """Read the checkpoint at `path`, or the newest good one before it.

    Args:
        path: A checkpoint or a directory of them.
        model: Not needed if it was a graph.
        options: Arguments that are different now, or that no file can hold.
        drawn: Whether everything is to be built again from the drawing.

    Raises:
        ArgumentError: There is no such option.
        CheckpointError: No checkpoint is whole, or an argument is missing.
    """
    known = (*Config.__struct_fields__, "checkpoint_dir")
    for name in options:
        if name not in known:
            raise ArgumentError(f"resume_from takes no argument {name!r}.{near(name, known)}")
    found = read_newest_good(path)
    state, notes = found.state, found.notes
    arguments = {**state["config"], **options}
    if drawn:
        if state["drawing"] is None:
            raise CheckpointError("A checkpoint holds no data: give train_data, and val_data if there was any.")
        undrawn = {name: value for name, value in arguments.items() if name in UNDRAWN or name in options}
        return Resumption(NodeGraph.from_json(state["drawing"]), undrawn, state, notes)
    missing = [name for name in state["missing"] if name not in options]
    if missing:
        raise CheckpointError(f"The checkpoint cannot hold {', '.join(missing)}: give them to resume_from again.")
    if model is None:
        if state["graph"] is None:
            raise CheckpointError("The checkpoint is of a plain nn.Module: give the model to resume_from.")
        model = NodeGraph.from_json(state["graph"])
    return Resumption(model, arguments, state, notes)


def first_use_failed(error: Exception, *loaded: object) -> CheckpointError | None:
    """Return a clearer error than `error` if it comes from one of the objects `loaded`, whose state a checkpoint restored.

    Optimizers and schedulers take over whatever they are given; what they lack shows when they are first used.
    """
    frames = traceback.extract_tb(error.__traceback__)
    if isinstance(error, PnneError) or not frames:
        return None
    for each in loaded:
        own = {inspect.getsourcefile(kind) for kind in type(each).__mro__ if kind.__module__ != "builtins"}
        if frames[-1].filename in own:
            return CheckpointError(
                f"{type(each).__name__} cannot restore its state from the checkpoint: {in_a_sentence(error)} The file is "
                "undamaged, but its contents are of another version, or were changed: resume from another checkpoint, or "
                "train its weights on with a new engine."
            )
    return None
