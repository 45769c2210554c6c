"""Example inputs from the shapes and element types of the Input nodes, and the arguments of a model in what a person gives."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor, nn

from pnne_nb.compiler.analysis.device_rule import following
from pnne_nb.compiler.analysis.verify import call_arguments
from pnne_nb.compiler.shapes.fake_tensors import imitation
from pnne_nb.errors import ArgumentError, CompileError, Diagnostic, near, shown
from pnne_nb.graph.document import NodeGraph
from pnne_nb.graph.model.node import Node

BATCH = 3
"""Size of a first axis with a name; batch normalisation refuses a single sample."""

SIZES = (8, 5, 16, 32, 64, 224)
"""Values to try for named sizes of other axes, until the model accepts them."""


def example_inputs(graph: NodeGraph, model: nn.Module) -> tuple[Any, ...]:
    """Return example inputs for `model`, compiled from `graph`: normal floats, integers 0 or 1.

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
            inputs = following(tuple(_tensor(node, size) for node in nodes), model)
            with imitation(model, inputs) as (twin, given), torch.no_grad():
                twin(*given)
        except Exception as error:  # noqa: BLE001  # whatever it is, another size is tried
            failed = error
            continue
        return inputs
    raise CompileError(
        f"No example inputs were found that the model takes: pass args=(...). The last attempt failed with: {failed}"
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


def normal_inputs(input_size: object, args: object) -> tuple[torch.Tensor, ...]:
    """Return one normal float32 tensor for each shape of `input_size`, which may be one shape alone.

    Raises:
        ArgumentError: If it is no shape, or `args` are given too.
    """
    if not isinstance(args, (tuple, list)) or args:
        raise ArgumentError(
            "Give args or input_size, not both: input_size=(2, 3) stands for args=(torch.randn(2, 3),)."
        )
    sizes = input_size if isinstance(input_size, (tuple, list)) else ()
    shapes = [sizes] if all(isinstance(size, int) for size in sizes) else list(sizes)
    whole = [isinstance(shape, (tuple, list)) and all(isinstance(size, int) for size in shape) for shape in shapes]
    if not sizes or not all(whole):
        raise ArgumentError(
            f"input_size must be a shape such as (2, 3), the batch first, or a sequence of shapes, not {shown(input_size)}."
        )
    generator = torch.Generator().manual_seed(0)
    return tuple(torch.randn(tuple(shape), generator=generator) for shape in shapes)


def sizes_among(args: tuple[object, ...]) -> tuple[int, ...] | None:
    """Return the shape that somebody gave in the place of an input, with a batch if it lacks one; None if it is none."""
    sizes = args[0] if len(args) == 1 and isinstance(args[0], (tuple, list)) else args
    if not sizes or not all(type(size) is int for size in sizes):
        return None
    # A vector or an image alone: the shapes of batches have two or four sizes.
    return (2, *sizes) if len(sizes) in {1, 3} else (*sizes,)


EXAMPLES: Final = dict.fromkeys(
    ("dummy_input", "example_input", "example_inputs", "input", "input_data", "inputs", "sample", "x"), "args=(x,)"
)
"""What to write instead of the names that other libraries have for example inputs."""


def call_inputs(
    graph: NodeGraph, model: nn.Module, args: Any, kwargs: Mapping[str, Any] | None
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the given inputs as arguments of a call of `model`, or generate examples; one tensor is the only argument.

    Raises:
        ArgumentError: If they are no sequence and no mapping.
        CompileError: If examples are needed, and none can be made.
    """
    if args is None and not kwargs:
        return example_inputs(graph, model), {}
    return following(call_arguments(() if args is None else args, kwargs), model)


TARGET_KEYS: Final = ("target", "targets", "label", "labels", "y")
"""Under which of these a mapping holds what the loss compares with."""


def argument_names(model: nn.Module | NodeGraph) -> list[str] | None:
    """Return the names of what a model takes; None if it takes any number."""
    if isinstance(model, NodeGraph):
        return [node.name for node in model.nodes.values() if node.type == "Input"]
    found = inspect.signature(model.forward).parameters.values()
    return None if any(one.kind is one.VAR_POSITIONAL for one in found) else [one.name for one in found]


def spread_inputs(data: Any, names: Sequence[str] | None) -> Any:
    """Return ``((a, b), y)`` as ``(a, b, y)``, and ``({"a": a, "b": b}, y)`` by name, where a model takes a and b.

    Other data is returned as it is, and so is a pair whose first part a model takes as one argument.

    Args:
        data: What was given.
        names: Those of the model's arguments; None if it takes any number.
    """
    match data:
        case (tuple() as inputs, target) if isinstance(data, tuple) and _are_arrays(inputs):
            return (*inputs, target) if names is None or 1 < len(inputs) <= len(names) else data
        case (Mapping() as inputs, target) if isinstance(data, tuple) and _are_arrays(inputs.values()):
            fits = names is not None and set(inputs) <= set(names) and not set(TARGET_KEYS) & set(inputs)
            return {**inputs, TARGET_KEYS[0]: target} if fits else data
        case _:
            return data


def _are_arrays(values: Iterable[Any]) -> bool:
    return all(isinstance(value, Tensor | np.ndarray) and value.ndim for value in values)


def is_one_argument(mapping: Mapping[Any, Any], model: nn.Module) -> bool:
    """Return whether a mapping is itself what a model takes, as in ``forward(self, batch)``, and not its arguments by name.

    That is so if the model takes one argument, there are two keys or more, and none is the name of an argument or resembles
    one: a single other name is more likely a mistake.
    """
    try:
        parameters = inspect.signature(model.forward).parameters.values()
    except ValueError:  # a scripted module has no Python function
        return False
    if any(one.kind in {one.VAR_POSITIONAL, one.VAR_KEYWORD} for one in parameters):
        return False
    needed = [one for one in parameters if one.default is one.empty]
    names = [one.name for one in parameters]
    return len(needed) == 1 < len(mapping) and not any(key in names or near(key, names) for key in mapping)
