"""Launches a group for an engine: packs what it trains into a directory, and makes the command that opens it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import nn

from pnne_nb.catalog.custom import is_custom
from pnne_nb.compiler import compile as compile_graph
from pnne_nb.compiler import from_module
from pnne_nb.compiler.analysis.device_rule import devices_of, to_device
from pnne_nb.errors import CompileError, TrainingError
from pnne_nb.graph.document import NodeGraph
from pnne_nb.graph.schema.registry import registry
from pnne_nb.runtime.checkpointing.files import CheckpointDirectory
from pnne_nb.runtime.data.batches import Batch, as_batch
from pnne_nb.runtime.data.sources import BatchSource, StreamSource
from pnne_nb.runtime.distributed.launch.plan import LaunchPlan, printed, started
from pnne_nb.runtime.distributed.transport.dataset_files import Drawing, Packing
from pnne_nb.runtime.distributed.transport.pickled_objects import Luggage, packed_arguments
from pnne_nb.runtime.distributed.transport.scratch import temporary_directory
from pnne_nb.runtime.loop.loop import TrainingLoop
from pnne_nb.runtime.setup.devices import placed_paths
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


def require_plain(missing: Sequence[str]) -> None:
    """Raise an error for arguments of the engine that are objects; `missing` names them.

    Raises:
        TrainingError: There are some.
    """
    if missing:
        raise TrainingError(
            f"{', '.join(missing)}: given as Python objects, which exist in this process only. Give names, such as "
            'loss="CrossEntropyLoss" or optimizer=("AdamW", {"lr": 1e-3}), or draw the training and use from_graph.'
        )


def require_known(document: str, imports: Sequence[str]) -> None:
    """Raise an error for node types and datasets that only this process has registered, unless `imports` names modules.

    Raises:
        TrainingError: The graph, a `document` as text, has some; the message names the nodes.
    """
    if imports:
        return
    own = [f"{node['name']} ({node['type']})" for node in _nodes(document) if _is_registered(node)]
    if own:
        raise TrainingError(
            f"{', '.join(own)}: registered in this process, and unknown to the others. Put the code into a module, "
            'say my_nodes.py, and launch with imports=("my_nodes",).'
        )


def _nodes(document: str) -> Iterator[Mapping[str, Any]]:
    for content in json.loads(document)["graphs"].values():
        yield from content.get("nodes", ())


def _is_registered(node: Mapping[str, Any]) -> bool:
    spec = registry.get(node["type"])
    if spec is None:
        return False
    return is_custom(spec) or node.get("properties", {}).get("source") == "registered"


def require_one_device(recipe: Recipe, document: str | None) -> None:
    """Raise an error for a model on several devices: each process of a group trains on one device.

    Raises:
        TrainingError: Layers have places of their own, in the model or in its graph (the `document` as text, or None).
    """
    placed = sorted(placed_paths(NodeGraph.from_json(document))) if document is not None else []
    if not recipe.scattered and (not placed or recipe.device.type == "cpu"):
        return
    where = ", ".join(sorted(map(str, devices_of(recipe.model))))
    which = f"{', '.join(placed)}: placed on devices of their own" if placed else f"The model is on {where}"
    raise TrainingError(
        f"{which}, but each process of a group trains on one device. Take the places away (device=None), and give "
        'strategy="fsdp" for a model that is too large for one; or train in one process with start().'
    )


def require_own_parameters(recipe: Recipe) -> None:
    """Raise an error for an optimizer with parameters outside the model.

    Raises:
        TrainingError: It has some.
    """
    own = {id(parameter) for parameter in recipe.model.parameters()}
    moved = [parameter for group in recipe.optimizer.param_groups for parameter in group["params"]]
    others = [tuple(parameter.shape) for parameter in moved if id(parameter) not in own]
    if others:
        raise TrainingError(
            f"The optimizer moves {len(others)} tensors that are no parameters of the model (the first has shape "
            f"{others[0]}): their gradients would not be averaged over the processes. Make them part of the model: "
            "one module that holds the model and, say, the loss with weights of its own."
        )


def require_separable(recipe: Recipe) -> None:
    """Raise an error for an optimizer that needs all parameters at once, if each process has only a part of them.

    Raises:
        TrainingError: It is one.
    """
    if recipe.needs_closure:
        raise TrainingError(
            f'{type(recipe.optimizer).__name__} takes all parameters for one long vector, and with strategy="fsdp" no '
            'process has them: give strategy="ddp", or another optimizer.'
        )


def drawn(model: nn.Module, inputs: tuple[Any, ...], seed: int) -> str:
    """Return a module as a graph from which other processes build it; its weights are sent separately.

    Args:
        model: Left as it is.
        inputs: What it takes.
        seed: For random numbers that its forward pass draws.

    Raises:
        TrainingError: It cannot be drawn as a whole.
    """
    name = type(model).__name__
    try:
        with seeded_globals(seed):
            graph = from_module(model, inputs)
            copy = compile_graph(graph, reuse=None)
    except CompileError as error:
        raise TrainingError(
            f"The model is a {name}, whose code exists in this process only, and it cannot be drawn as a graph from "
            f"which the others could build it: {error} Draw it as a NodeGraph, or register the opaque part with "
            "pn.register_node in a module that imports= names."
        ) from error
    if {key: value.shape for key, value in copy.state_dict().items()} != {
        key: value.shape for key, value in model.state_dict().items()
    }:
        raise TrainingError(f"The model is a {name} that becomes another one as a graph: draw it as a NodeGraph.")
    return graph.to_json()
