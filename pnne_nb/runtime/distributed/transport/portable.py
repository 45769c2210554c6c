"""Checks arguments that must be serialised without pickling."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from torch import nn

from pnne_nb.catalog.custom import is_custom
from pnne_nb.compiler import compile as compile_graph
from pnne_nb.compiler import from_module
from pnne_nb.compiler.analysis.device_rule import devices_of
from pnne_nb.errors import CompileError, TrainingError
from pnne_nb.graph.document import NodeGraph
from pnne_nb.graph.schema.registry import registry
from pnne_nb.runtime.setup.devices import placed_paths
from pnne_nb.runtime.setup.recipe import Recipe
from pnne_nb.runtime.thread.rng import seeded_globals


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
