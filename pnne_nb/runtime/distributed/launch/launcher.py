"""Launches a group for an engine: packs what it trains into a directory, and makes the command that opens it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import torch

from pnne_nb.compiler.analysis.device_rule import to_device
from pnne_nb.errors import TrainingError
from pnne_nb.runtime.checkpointing.files import CheckpointDirectory
from pnne_nb.runtime.data.batches import Batch, as_batch
from pnne_nb.runtime.data.sources import BatchSource, StreamSource
from pnne_nb.runtime.distributed.launch.plan import LaunchPlan, printed, started
from pnne_nb.runtime.distributed.transport.dataset_files import Drawing, Packing
from pnne_nb.runtime.distributed.transport.pickled_objects import Luggage, packed_arguments
from pnne_nb.runtime.distributed.transport.portable import (
    drawn,
    require_known,
    require_one_device,
    require_own_parameters,
    require_plain,
    require_separable,
)
from pnne_nb.runtime.distributed.transport.scratch import temporary_directory
from pnne_nb.runtime.loop.loop import TrainingLoop
from pnne_nb.runtime.setup.recipe import Recipe
from pnne_nb.runtime.thread.rng import seeded_globals


class LaunchedRun(NamedTuple):
    """A packed run.

    Attributes:
        directory: Where data, checkpoints and logs are.
        here: The command that starts this machine's processes, with its arguments.
        printed: The same, as a person types it on any machine.
        luggage: What this machine's processes are handed beside the files.
    """

    plan: LaunchPlan
    directory: Path
    here: list[str]
    printed: str
    luggage: bytes


def pack(
    plan: LaunchPlan,
    state: Mapping[str, Any],
    objects: Mapping[str, Any],
    loop: TrainingLoop,
    drawing: Drawing | None,
    last_epoch: int,
    *,
    listens: bool,
) -> LaunchedRun:
    """Check and write everything that a group needs.

    Args:
        plan: What is asked for.
        state: Of the engine, as a checkpoint holds it.
        objects: Arguments of the engine that a checkpoint cannot hold, by name.
        loop: Of the engine.
        drawing: The training graph, if that is where the engine comes from.
        last_epoch: Where the training ends.
        listens: Whether this machine is about to take part.

    Raises:
        TrainingError: An argument cannot be, or something exists in this process only; nothing was started.
    """
    recipe = loop.recipe
    plan.check(recipe.device, listens=listens)
    # The processes of other machines have no line to this one, only the files.
    hands_over = listens and plan.nnodes == 1
    if drawing is not None:
        require_known(drawing.graph, plan.imports)
    elif not hands_over:
        require_plain(list(objects))
    batch = _shareable(recipe.train, "train_data", plan, wants_target=recipe.compares)
    if recipe.val is not None:
        _shareable(recipe.val, "val_data", plan, wants_target=recipe.compares)
    require_one_device(recipe, state["graph"])
    require_own_parameters(recipe)
    if plan.strategy == "fsdp":
        require_separable(recipe)
    tied = packed_arguments({} if drawing else objects, recipe.model) if hands_over else None
    # Methods of a module's own class, which these may call, are in no graph of it.
    as_it_is = tied is not None and (tied.knows_layers or "step_function" in objects)
    graph = state["graph"]
    if graph is None and not as_it_is:
        graph = _drawn(recipe, batch, state["config"]["seed"], or_handed_over=hands_over)
    if graph is not None:
        require_known(graph, plan.imports)
    packing = Packing(recipe.train, recipe.val, drawing, hands_over=hands_over)
    luggage = Luggage(
        model=recipe.model if graph is None else None, arguments=None if tied is None else tied.packed, **packing.handed
    ).packed()
    directory = temporary_directory() if plan.directory is None else Path(plan.directory)
    packing.write(directory)
    CheckpointDirectory(directory, state["config"]["max_to_keep"]).save(loop.steps, {**state, "graph": graph})
    worker = plan.worker(directory.resolve(), recipe.device, last_epoch)
    torchrun = plan.torchrun(directory.name)
    return LaunchedRun(
        plan, directory, started(torchrun, worker, directory / "logs"), printed(torchrun, worker), luggage
    )


def _drawn(recipe: Recipe, batch: Batch, seed: int, *, or_handed_over: bool) -> str | None:
    """Return the model as a graph; None if it must be pickled."""
    try:
        return drawn(recipe.model, to_device(batch.inputs, recipe.device), seed)
    except TrainingError:
        if or_handed_over:
            return None
        raise


def _shareable(source: BatchSource, name: str, plan: LaunchPlan, *, wants_target: bool) -> Batch:
    """Return the first batch, of which every process gets a part; an error if it has fewer examples than there are processes."""
    try:
        # A loader with an order of its own draws from generators, which must not be further on for that.
        with seeded_globals(0), _as_they_were(source):
            raw = next(iter(source.batches(1)), None)
    finally:
        source.close()
    if raw is None:
        raise TrainingError(f"{name} gave no batch at all.")
    batch = as_batch(raw, wants_target=wants_target)
    if batch.examples < plan.processes:
        raise TrainingError(
            f"A batch of {name} has {batch.examples} examples, too few for {plan.processes} processes to share: give "
            f"a batch_size of {plan.processes} or more, or a smaller nproc."
        )
    return batch


@contextmanager
def _as_they_were(source: BatchSource) -> Iterator[None]:
    """Restore a loader's own generators after this block."""
    loader = source.loader if isinstance(source, StreamSource) else None
    holders = (
        loader,
        getattr(loader, "sampler", None),
        getattr(getattr(loader, "batch_sampler", None), "sampler", None),
    )
    found = [getattr(holder, "generator", None) for holder in holders]
    states = [(own, own.get_state()) for own in found if isinstance(own, torch.Generator)]
    yield
    for generator, state in states:
        generator.set_state(state)
