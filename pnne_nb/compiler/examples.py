"""Example inputs from what the Input nodes say, for whoever gives none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from pnne_nb.compiler.faking import imitation
from pnne_nb.compiler.verifying import call_arguments
from pnne_nb.errors import CompileError, Diagnostic
from pnne_nb.graph.document import NodeGraph
from pnne_nb.graph.node import Node

BATCH = 3
"""Of the first axis, where it has a name: one sample alone is refused by batch normalisation."""

SIZES = (8, 5, 16, 32, 64, 224)
"""What named sizes of other axes are tried with, until the model takes them."""


def example_inputs(graph: NodeGraph, model: nn.Module) -> tuple[Any, ...]:
    """Return inputs that `model`, compiled from `graph`, takes: floats are normal, integers 0 or 1.

    Raises:
        CompileError: If an Input has no shape, or no sizes that were tried fit.
    """
    nodes = [node for node in graph.nodes.values() if node.type == "Input"]
    missing = [node.name for node in nodes if not isinstance(node.properties.get("shape"), tuple)]
    if missing:
        raise CompileError(
            f"Example inputs are needed, and {', '.join(missing)} has no shape to make one from: pass args=(...), or "
            "give the Input a shape.",
            [Diagnostic(code="no-example", message="The Input has no shape.", node=name) for name in missing],
        )
    failed: Exception | None = None
    for size in SIZES:
        try:
            inputs = tuple(_tensor(node, size) for node in nodes)
            with imitation(model, inputs) as (twin, given), torch.no_grad():
                twin(*given)
        except Exception as error:  # noqa: BLE001  # whatever it is, another size is tried
            failed = error
            continue
        return inputs
    raise CompileError(
        f"No example inputs were found that the model takes: pass args=(...). The last trial said: {failed}"
    ) from failed


def _tensor(node: Node, size: int) -> torch.Tensor:
    shape = node.properties["shape"]
    assert isinstance(shape, tuple), "looked at before"
    sizes = [each if isinstance(each, int) else BATCH if axis == 0 else size for axis, each in enumerate(shape)]
    dtype = getattr(torch, str(node.properties.get("dtype", "float32")))
    generator = torch.Generator().manual_seed(0)
    if dtype.is_floating_point or dtype.is_complex:
        return torch.randn(sizes, generator=generator, dtype=torch.float32).to(dtype)
    return torch.randint(0, 2, sizes, generator=generator).to(dtype)


def call_inputs(
    graph: NodeGraph, model: nn.Module, args: Any, kwargs: Mapping[str, Any] | None
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the inputs that were given, one tensor alone being the only argument, or else examples.

    Raises:
        ArgumentError: If they are no sequence and no mapping.
        CompileError: If examples are needed, and none can be made.
    """
    if args is None and not kwargs:
        return example_inputs(graph, model), {}
    return call_arguments(() if args is None else args, kwargs)
