"""What is trained: any module, or a graph that is compiled."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import nn

from pnne_nb.compiler import compile as compile_graph
from pnne_nb.errors import TrainingError
from pnne_nb.graph.document import NodeGraph
from pnne_nb.graph.node import Node
from pnne_nb.runtime.batches import InputShapes
from pnne_nb.runtime.randomness import seeded_globals


def as_module(model: nn.Module | NodeGraph, seed: int) -> nn.Module:
    """The module to train; a graph's initial weights depend on `seed` only.

    Raises:
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
            return model
        case NodeGraph():
            with seeded_globals(seed):
                return compile_graph(model)
        case _:
            raise TrainingError(f"Give a NodeGraph or an nn.Module to train, not a {_said(model)}")


def _said(model: object) -> str:
    hint = " Load it into a module first: model.load_state_dict(...)." if isinstance(model, Mapping) else ""
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
