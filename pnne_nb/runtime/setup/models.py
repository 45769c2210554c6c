"""Prepares the model: a module or a compiled graph, run on one example if needed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import chain
from typing import Any

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from pnne_nb.compiler.analysis.device_rule import following
from pnne_nb.compiler.pipeline.compile import Made, made
from pnne_nb.compiler.weights.weight_source import Purpose, Reuse
from pnne_nb.errors import TrainingError, expect, shown
from pnne_nb.graph.document import NodeGraph
from pnne_nb.graph.model.annex import OWN, OwnWeights
from pnne_nb.graph.model.node import Node
from pnne_nb.runtime.data.batches import Batch, InputShapes, as_batch
from pnne_nb.runtime.data.sources import BatchSource, DatasetSource, TensorSource
from pnne_nb.runtime.thread.rng import seeded_globals


def as_module(model: nn.Module | NodeGraph, seed: int, reuse: Reuse = OWN, purpose: Purpose = "train") -> Made:
    """Return the module to train or to run; the initial weights of a graph depend on `seed` only.

    Raises:
        ArgumentError: `reuse` is given for a module, or nothing of it fits.
        CompileError: The graph is unfinished or wrong.
        TrainingError: It is neither a module nor a graph, or a module that takes no hooks.
    """
    match model:
        case torch.jit.ScriptModule():
            raise TrainingError(
                "A scripted or traced module takes no hooks, by which cells and the training share the model: train the "
                "module that it was made from, and script that afterwards."
            )
        case nn.Module():
            require_own(model, reuse)
            return Made(model, "", ())
        case NodeGraph():
            with seeded_globals(seed):
                return made(model, reuse, purpose)
        case _:
            raise TrainingError(f"Give a NodeGraph or an nn.Module, not a {_said(model)}")


def require_own(model: object, reuse: Reuse) -> None:
    """Refuse other weights for a module, which has its own.

    Raises:
        ArgumentError: `reuse` is given, and `model` is no graph.
    """
    if not isinstance(reuse, OwnWeights):
        expect(model, NodeGraph, "model", "a NodeGraph where reuse= is given", "A module has its weights already.")


def _said(model: object) -> str:
    hint = ""
    if isinstance(model, str):
        hint = f" Write pn.InferenceEngine.load({shown(model)}) for a file."
    elif isinstance(model, Mapping):
        hint = " Load it into a module first: model.load_state_dict(...)."
    elif hasattr(type(model), "model"):  # an engine, an editor
        hint = " Give its model: engine.model."
    return f"{type(model).__name__}.{hint}"


def input_shapes(model: nn.Module | NodeGraph) -> InputShapes:
    """Name and shape (None: any) of each Input node in the order of ``forward``; empty for a plain module."""
    if not isinstance(model, NodeGraph):
        return ()
    return tuple((node.name, _shape(node)) for node in model.nodes.values() if node.type == "Input")


def _shape(node: Node) -> tuple[int | str, ...] | None:
    value = node.properties.get("shape")
    if not isinstance(value, tuple):
        return None
    sizes = tuple(size if isinstance(size, int) else str(size) for size in value)
    # An imported node has the shape of the example: how many samples that had says nothing about a batch.
    return ("N", *sizes[1:]) if node.origin is not None and sizes else sizes


def trial_output(model: nn.Module, batch: Batch, seed: int) -> Any:
    """Return the output of `model` for `batch`, which is moved to its device.

    It runs in eval mode and without gradients. Its modes, its buffers and the global random generators are as before
    afterwards; lazy layers have made their weights, by `seed`.
    """
    # A compiled model would be compiled for this one call.
    runs = getattr(model, "_orig_mod", model)
    kept = [(buffer, buffer.clone()) for buffer in model.buffers() if not is_lazy(buffer)]
    try:
        with evaluating(model), torch.no_grad(), seeded_globals(seed):
            inputs, named = following((batch.inputs, batch.named), model)
            return runs(*inputs, **named)
    finally:
        with torch.no_grad():
            for buffer, before in kept:
                buffer.copy_(before)


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Set `model` to eval mode in this block, and restore the mode of each module afterwards."""
    modes = {module: module.training for module in model.modules()}
    model.eval()
    try:
        yield
    finally:
        for module, training in modes.items():
            module.training = training


def make_weights(model: nn.Module, data: BatchSource, seed: int, *, wants_target: bool, calls: bool) -> None:
    """Initialise lazy layers of `model` from the first example.

    Args:
        model: Completed in place; in eval mode meanwhile, so that nothing else of it changes.
        data: What it is trained on.
        seed: Decides about the weights.
        wants_target: Whether a batch holds a target beside the inputs.
        calls: Whether the training calls the model with batches, as it does without a step function.

    Raises:
        TrainingError: How the model is called, only its step function knows; or the data is a stream.
    """
    if not any(is_lazy(tensor) for tensor in chain(model.parameters(), model.buffers())):
        return
    if not (calls and isinstance(data, (TensorSource, DatasetSource))):
        raise TrainingError(
            "The model has lazy layers without weights yet, and "
            + ("only the step function knows how to call it" if not calls else "a stream is read only once")
            + ": call the model with a batch of inputs before you make the engine."
        )
    batch = as_batch(data.first(), wants_target=wants_target, model=model)
    trial_output(model, batch, seed)
