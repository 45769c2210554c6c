"""Resumes from a checkpoint: combines its contents with the user's arguments."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from torch import nn

from pnne_nb.errors import ArgumentError, CheckpointError, PnneError, near
from pnne_nb.graph.document import NodeGraph
from pnne_nb.runtime.checkpointing import files
from pnne_nb.runtime.faults.error_messages import in_a_sentence
from pnne_nb.runtime.setup.config import UNDRAWN, Config


class Resumption(NamedTuple):
    """The parts of a resumed engine, and its state.

    Attributes:
        model: What is trained; for a training that was drawn, the whole drawing.
        arguments: Of a `TrainingEngine`, but for model and data.
        state: What the engine's checkpoint held.
        notes: What to tell about the checkpoint; see `files.Found`.
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
    found = files.read_newest_good(path)
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
