"""Runs the model itself for the value of every node, and its rounding error.

The movement is found by perturbation: the model runs again on inputs and weights that differ by one rounding error (an
ulp), in random directions. What a correct file may differ by is a few times that movement, and never less than a few
rounding errors of the value itself (the idea of TTrace, arXiv 2506.09280).
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from pnne_nb.catalog.quantized import LAYERS
from pnne_nb.compiler.analysis.buffers import kept_buffers
from pnne_nb.compiler.analysis.interpreter import NodeExecution, stepping
from pnne_nb.compiler.codegen import loader
from pnne_nb.export.formats.base import as_array

TRIALS = 3
"""Perturbed runs. The largest movement of three is within a factor of two of that of many."""

SEED = 0

STEP_SHIFT = 1e-3
"""By what part the steps of 8-bit inputs are moved: those 100 steps away from 0 change by a tenth of one."""

SMOOTH = frozenset({"linear", "bilinear", "bicubic", "trilinear"})
"""Modes of interpolation between pixels; the others take a pixel as it is."""


@dataclass(frozen=True, slots=True)
class Value:
    """A value of the model and its rounding error.

    Attributes:
        value: The tensor as an array.
        moved: The largest distance of each element between the runs; None for integers and booleans.
    """

    value: NDArray[np.generic]
    moved: NDArray[np.float64] | None


@dataclass(frozen=True, slots=True)
class EagerReference:
    """One run of the model.

    Attributes:
        outputs: By name.
        nodes: The tensors that each drawn node gives, by path, in the order in which the nodes ran.
        random: Paths of the nodes that draw random numbers.
        changed: Paths of the buffers that the run has changed; they are as before again.
    """

    outputs: Mapping[str, Value]
    nodes: Mapping[str, tuple[Value, ...]] = field(default_factory=dict)
    random: frozenset[str] = frozenset()
    changed: frozenset[str] = frozenset()


class Model:
    """The model that a file is compared with, and copies of it whose weights are perturbed.

    Args:
        model: In eval mode on the CPU; it is not changed.
        outputs: Names of the results.
    """

    def __init__(self, model: nn.Module, outputs: Sequence[str]) -> None:
        self.model = model
        self._outputs = outputs
        self._perturbed: list[nn.Module] = []

    def run(self, batch: Sequence[Tensor], *, nodes: bool = False) -> EagerReference:
        """Return the model's values for a batch.

        Args:
            batch: The arguments of ``forward``, in order.
            nodes: Whether the value at every drawn node is wanted too.
        """
        if not self._perturbed:
            generator = torch.Generator().manual_seed(SEED)
            self._perturbed = [_perturbed(self.model, generator) for _ in range(TRIALS)]
        generator = torch.Generator().manual_seed(SEED + 1)
        with kept_buffers(self.model) as changed:
            outputs, steps, random = _run(self.model, batch, nodes=nodes)
        with MovedCoordinates(generator):
            others = []
            for twin in self._perturbed:
                with kept_buffers(twin):
                    others.append(_run(twin, [_nudged(tensor, generator) for tensor in batch], nodes=nodes))
        values = [_value(value, [other[0][place] for other in others]) for place, value in enumerate(outputs)]
        at_nodes = {
            node: tuple(
                _value(value, [other[1][node][place] for other in others if len(other[1].get(node, ())) > place])
                for place, value in enumerate(tensors)
            )
            for node, tensors in steps.items()
        }
        named = dict(zip(self._outputs, values, strict=True))
        return EagerReference(named, at_nodes, frozenset(random), frozenset(changed))


def _run(
    model: nn.Module, arguments: Sequence[Tensor], *, nodes: bool
) -> tuple[list[Tensor], dict[str, list[Tensor]], set[str]]:
    steps: dict[str, list[Tensor]] = {}

    random: set[str] = set()
    state = torch.empty(0)

    def observe(step: NodeExecution) -> None:
        nonlocal state
        now = torch.get_rng_state()
        if step.node:
            # What comes later may change a value in place.
            tensors = [leaf for leaf in pytree.tree_leaves(dict(step.outputs)) if isinstance(leaf, Tensor)]
            steps[step.node] = [tensor.detach().clone() for tensor in tensors]
            if not torch.equal(now, state):
                random.add(step.node)
        state = now

    arguments = [tensor.clone() for tensor in arguments]
    followed = nodes and loader.loaded_from(model) is not None
    with _same_conditions(), stepping(model, observe) if followed else nullcontext():
        result = model(*arguments)
    outputs = [leaf.detach().clone() for leaf in pytree.tree_leaves(result) if isinstance(leaf, Tensor)]
    return outputs, steps, random


@contextmanager
def _same_conditions() -> Iterator[None]:
    """Run as exported in this block: without gradients and fused attention, under a fixed seed."""
    fused = torch.backends.mha.get_fastpath_enabled()
    try:
        torch.backends.mha.set_fastpath_enabled(False)
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            torch.manual_seed(SEED)
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fused)


def _perturbed(model: nn.Module, generator: torch.Generator) -> nn.Module:
    twin = copy.deepcopy(model)
    with torch.no_grad():
        for tensor in [*twin.parameters(), *twin.buffers()]:
            tensor.copy_(_nudged(tensor, generator))
    for layer in twin.modules():
        steps: Any = layer if isinstance(layer, LAYERS) else None
        if steps is not None and steps.kind == "static":
            # An input between two 8-bit numbers becomes either by an ulp, and then a whole step away. Such inputs are rare:
            # moving the borders of all steps has as many of them change as there may be.
            steps.scale *= 1 + STEP_SHIFT
    return twin


def _nudged(tensor: Tensor, generator: torch.Generator) -> Tensor:
    """Return a tensor whose elements are one rounding error larger or smaller."""
    if not (tensor.is_floating_point() or tensor.is_complex()):
        return tensor
    ulp = torch.finfo(tensor.dtype).eps
    signs = torch.randint(0, 2, tensor.shape, generator=generator) * 2 - 1
    return tensor + tensor * (signs.to(tensor.dtype) * ulp)


@np.errstate(all="ignore")  # numpy warns of some bits, and unwritten memory holds any
def _value(value: Tensor, others: Sequence[Tensor]) -> Value:
    array = as_array(value)
    if not (value.is_floating_point() or value.is_complex()):
        return Value(array, None)
    wide = np.complex128 if value.is_complex() else np.float64
    plain = array.astype(wide)
    moved = np.zeros(plain.shape)
    for other in others:
        if other.shape == value.shape:
            moved = np.fmax(moved, np.abs(as_array(other).astype(wide) - plain))
    return Value(array, moved)


@final
class MovedCoordinates(TorchFunctionMode):
    """Within it, what ``interpolate`` and ``grid_sample`` read lies one rounding error further, to a side drawn by chance.

    Neither inputs nor weights say how far rounding moves a coordinate: torch computes it inside, from sizes.
    """

    def __init__(self, generator: torch.Generator) -> None:
        super().__init__()
        self._generator = generator

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        named = dict(kwargs or {})
        if func is F.grid_sample:
            image, grid, *rest = [*args, *(named.pop(name) for name in ("input", "grid")[len(args) :])]
            return func(image, grid + self._sides(grid) * torch.finfo(grid.dtype).eps, *rest, **named)
        result = func(*args, **named)
        mode = named.get("mode", args[3] if len(args) > 3 else "nearest")
        if func is not F.interpolate or mode not in SMOOTH or not result.is_floating_point():
            return result
        image, *rest = [*args, *(named.pop(name) for name in ("input",)[len(args) :])]
        for axis in range(2, image.dim()):
            beside = func(image.roll(1, axis), *rest, **named)
            # A coordinate is as large as the axis is long, and so is its rounding error.
            result = (
                result + (beside - result) * self._sides(result) * image.shape[axis] * torch.finfo(result.dtype).eps
            )
        return result

    def _sides(self, like: Tensor) -> Tensor:
        return (torch.randint(0, 2, like.shape, generator=self._generator) * 2 - 1).to(like.dtype)
