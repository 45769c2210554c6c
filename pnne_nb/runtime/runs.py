"""Keeps a small record of each training in a folder: `keep` begins it, `pn.RunTable` and `pn.compare` read it.

A record is a JSON file with settings, graph, result and versions, and beside it the history in the form of a checkpoint.
Nothing of it is code.
"""

from __future__ import annotations

import hashlib
import logging
import platform
import re
import secrets
import sys
import weakref
from datetime import UTC, datetime
from pathlib import Path
from types import NoneType
from typing import Any, Final, final

import msgspec
import torch
from torch import nn

from pnne_nb.compiler.module.pickled_model import graph_of
from pnne_nb.errors import ArgumentError, CheckpointError, Room, TrainingError, expect, shown
from pnne_nb.process import __version__
from pnne_nb.process.atomic_file import replace_file
from pnne_nb.runtime.checkpointing import files
from pnne_nb.runtime.engine import TrainingEngine
from pnne_nb.runtime.faults.error_messages import in_brief
from pnne_nb.runtime.monitoring.history import History
from pnne_nb.runtime.session import training_registry
from pnne_nb.runtime.setup.config import is_plain
from pnne_nb.telemetry.frames import ENDED, StateFrame, TrainingState

FORMAT: Final = 1
"""Form of a record."""
_SUFFIX: Final = ".run.json"
_HISTORY: Final = ".history"

logger = logging.getLogger(__name__)


@final
class Run(msgspec.Struct, frozen=True, kw_only=True):
    """The record of one training.

    Attributes:
        name: The name of the model, when the training was made, and four letters.
        began: When it was made, in UTC.
        state: How it ended.
        model: The name of the graph, or the class of the module.
        parameters: Their number.
        settings: The engine's arguments by name; functions and objects as text.
        graph: The graph file of the model, or None of a module that was not compiled from one.
        digest: Of the graph, or of the printed module: equal where the architecture is.
        result: The last value of each series, the least losses, steps and seconds; None where it was no number.
        findings: What was found, in words.
        error: What made it fail, or None.
        versions: Of pnne_nb, torch and Python.
        folder: Where the record is; empty of a training that is not kept.
    """

    name: str
    began: str
    state: TrainingState
    model: str
    parameters: int
    settings: dict[str, Any]
    graph: str | None
    digest: str
    result: dict[str, float | None]
    findings: list[str]
    error: str | None
    versions: dict[str, str]
    format: int = FORMAT
    folder: str = ""

    @property
    def history(self) -> History:
        """What was measured, read from the file beside the record.

        Raises:
            TrainingError: The file is missing or damaged.
        """
        history = History()
        try:
            history.load_state_dict(files.read(Path(self.folder, self.name + _HISTORY)).state)
        except (CheckpointError, KeyError, TypeError, ValueError, AttributeError) as error:
            raise TrainingError(f"The history of the run {self.name} cannot be read: {error}.") from error
        return history


_kept: Path | None = None


def keep(folder: str | Path | None = "runs") -> None:
    """Leave a record of every training of this kernel in a folder, from now on, when it ends or is stopped.

    Args:
        folder: Where to; it is made if it is not there. None ends it.

    Raises:
        ArgumentError: `folder` is no path, or no folder can be there.
    """
    global _kept  # noqa: PLW0603  # one choice of the kernel
    expect(folder, (str, Path, NoneType), "folder", "the path of a folder", 'Write pn.runs.keep("runs").')
    if folder is None:
        _kept = None
        return
    path = Path(folder)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        raise ArgumentError(f"The folder {shown(str(folder))} cannot be made: {error}.") from error
    _kept = path.absolute()
    training_registry.watch(_record)


def folder() -> Path | None:
    """Return the folder in which runs are kept now, or None."""
    return _kept


def _record(engine: Any) -> None:
    """Write the record of `engine` whenever it ends while runs are kept."""
    began = datetime.now(UTC)
    reference, mark = weakref.ref(engine), secrets.token_hex(2)

    def ended(frame: StateFrame) -> None:
        training = reference()
        if training is None or _kept is None or frame.state not in ENDED:
            return
        try:
            run = run_of(training)
            model = re.sub(r"\W+", "-", run.model).strip("-") or "model"
            name = f"{model}-{began:%Y%m%d-%H%M%S}-{mark}"
            _write(msgspec.structs.replace(run, name=name, began=_said(began)), training.history, _kept)
        except Exception:  # the training must not fail by its record
            logger.exception("The record of the training was not written to %s.", _kept)

    engine.on("state", ended, waits=False)


def _write(run: Run, history: History, into: Path) -> None:
    # The record last: whoever finds it finds its history.
    replace_file(into / (run.name + _HISTORY), files.content_of(history.state_dict()))
    content = msgspec.json.format(msgspec.json.encode({**msgspec.to_builtins(run), "folder": ""}))
    replace_file(into / (run.name + _SUFFIX), content)


def run_of(engine: TrainingEngine) -> Run:
    """Return the record of a training as it is now, under the name of its model."""
    graph = graph_of(engine.module)
    model = type(engine.module).__name__ if graph is None else graph.name
    text = None if graph is None else graph.to_json()
    settings = {key: value if is_plain(value) else _as_text(value) for key, value in _arguments(engine).items()}
    summary = engine.history.summary()
    findings = summary.pop("anomalies")
    return Run(
        name=model,
        began=_said(datetime.now(UTC)),
        state=engine.state,
        model=model,
        parameters=sum(parameter.numel() for parameter in engine.module.parameters()),
        settings=msgspec.json.decode(msgspec.json.encode(settings)),
        graph=text,
        digest=hashlib.blake2b((text or repr(engine.module)).encode(), digest_size=16).hexdigest(),
        result=msgspec.json.decode(msgspec.json.encode(summary)),
        findings=findings,
        error=None if engine.error is None else in_brief(engine.error),
        versions={"pnne_nb": __version__, "torch": str(torch.__version__), "python": platform.python_version()},
    )


def read_folder(path: Path) -> tuple[list[Run], list[str]]:
    """Return the runs in a folder, oldest first, and what is wrong with the records that cannot be read.

    Raises:
        ArgumentError: There is no such folder.
    """
    if not path.is_dir():
        raise ArgumentError(
            f'There is no folder {shown(str(path))}. pn.runs.keep("runs") keeps the trainings that follow.'
        )
    runs, damaged = [], []
    for file in sorted(path.glob(f"*{_SUFFIX}")):
        try:
            runs.append(read_run(file))
        except ArgumentError as error:
            damaged.append(str(error))
    return sorted(runs, key=lambda run: (run.began, run.name)), damaged


def read_run(file: Path) -> Run:
    """Read one record.

    Raises:
        ArgumentError: It is missing, damaged, or of a later version.
    """
    try:
        content = msgspec.json.decode(file.read_bytes())
        number = content.get("format") if isinstance(content, dict) else None
        if isinstance(number, int) and number > FORMAT:
            raise ArgumentError(f"The record {file} is of a later version (format {number}): update pnne_nb.")
        run = msgspec.convert(content, Run)
    except (OSError, ValueError, msgspec.MsgspecError) as error:
        if isinstance(error, ArgumentError):
            raise
        raise ArgumentError(f"The record {file} cannot be read: {error}.") from error
    return msgspec.structs.replace(run, name=file.name.removesuffix(_SUFFIX), folder=str(file.parent))


def _arguments(engine: TrainingEngine) -> dict[str, Any]:
    settings = msgspec.structs.asdict(engine.config)
    # What was chosen, where it was left to the engine.
    return settings | {"loss": str(engine.loss_choice) if settings["loss"] == "auto" else settings["loss"]}


def _as_text(value: Any) -> Any:
    """Return a name for a function or an object, without its place in memory; what a collection has of plain values stays."""
    match value:
        case dict():
            return {str(key): item if is_plain(item) else _as_text(item) for key, item in value.items()}
        case list() | tuple():
            return [item if is_plain(item) else _as_text(item) for item in value]
        case torch.optim.Optimizer() | nn.Module():
            return type(value).__name__
        case _:
            return getattr(value, "__qualname__", None) or type(value).__name__


def _said(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds")


sys.modules[__name__].__class__ = Room
