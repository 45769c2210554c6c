"""Says what memory a training will need, before its first step and from shapes alone: what the memory plan counts."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sized
from typing import Any

import msgspec
import torch
from torch import Tensor, nn

from pnne_nb.compiler.analysis.memory_plan import measure_step
from pnne_nb.process.byte_units import format_bytes
from pnne_nb.runtime.data.batches import as_batch, tensors_in
from pnne_nb.runtime.data.sources import DatasetSource, TensorSource
from pnne_nb.runtime.objective.losses import scores_for_loss, target_for_loss
from pnne_nb.runtime.objective.step_logs import read
from pnne_nb.runtime.setup.devices import measured
from pnne_nb.runtime.setup.recipe import Recipe
from pnne_nb.telemetry.frames import AnomalyFrame

_ACTIVATIONS_AT_MOST = 1000
"""Batches: what activations rarely exceed. Where even that fits, nobody looks closer, which takes up to a second."""


class MemoryNeeds(msgspec.Struct, frozen=True):
    """Memory that a training needs on its device, in bytes, counted in a dry run of one step on tensors without data.

    Attributes:
        parameters: With buffers; there already.
        gradients: Of what is trained.
        optimizer: Its state after the first step.
        activations: What else is there where most is: the batch, what the forward pass keeps for the backward pass, and
            what operations need for a moment. None if it cannot be told.
        free: On the device now.
        unknown: What is not counted, as the end of a sentence; empty if nothing.
    """

    parameters: int
    gradients: int
    optimizer: int
    activations: int | None
    free: int
    unknown: str = ""

    @property
    def peak(self) -> int:
        """Most bytes in use at once, parameters included."""
        return self.parameters + self.more

    @property
    def more(self) -> int:
        """Memory that is needed beyond the current use."""
        return self.gradients + self.optimizer + (self.activations or 0)

    @property
    def fits(self) -> bool:
        return self.more <= self.free

    def __str__(self) -> str:
        activations = "unknown" if self.activations is None else format_bytes(self.activations)
        return (
            f"parameters {format_bytes(self.parameters)}, gradients {format_bytes(self.gradients)}, optimizer "
            f"{format_bytes(self.optimizer)}, activations {activations}{self.unknown}; {format_bytes(self.free)} are free"
        )


def needs_of(recipe: Recipe) -> MemoryNeeds:
    """Count the memory that a step of training by `recipe` takes."""
    model, optimizer, source = recipe.model, recipe.optimizer, recipe.train
    parameters = _bytes([*model.parameters(), *model.buffers()])
    gradients = _bytes(parameter for parameter in model.parameters() if parameter.requires_grad)
    free = measured(recipe.device).free
    known = MemoryNeeds(parameters, gradients, _bytes(tensors_in(optimizer.state)) or 2 * gradients, None, free)
    if recipe.step is not None or not isinstance(source, TensorSource | DatasetSource):
        return known
    moved = None if recipe.needs_closure else optimizer
    first, examples = source.first(), _examples(source)
    try:
        plan = measure_step(
            model,
            moved,
            lambda: imagined_batch(first, examples, recipe.device),
            lambda twin, raw: _loss(recipe, twin, raw),
        )
    except Exception:  # noqa: BLE001  a model may do anything with its input; that it needs numbers is no fault
        return known
    state = plan.optimizer if moved is not None else 0
    unknown = plan.unknown if moved is not None else f"{plan.unknown}; without what {type(optimizer).__name__} keeps"
    return MemoryNeeds(parameters, gradients, state, plan.peak - parameters - gradients - state, free, unknown)


def _loss(recipe: Recipe, model: nn.Module, raw: Any) -> Tensor:
    batch = as_batch(raw, wants_target=recipe.compares, model=recipe.called)
    with recipe.precision.autocast():
        output = model(*batch.inputs, **batch.named)
        if recipe.loss is None:
            return read(output, "Without a loss, the model must return its own: it")[1]
        target = target_for_loss(recipe.loss, output, batch.target)
        return recipe.loss(scores_for_loss(recipe.loss, output, target), target)


def shortage(recipe: Recipe) -> AnomalyFrame | None:
    """Return a warning if training by `recipe` will not fit; None if it will, or if that cannot be told."""
    source, free = recipe.train, measured(recipe.device).free
    if not isinstance(source, TensorSource | DatasetSource):
        return None
    batch = _bytes(tensors_in(source.first())) * _examples(source)
    if 4 * _bytes(recipe.model.parameters()) + _ACTIVATIONS_AT_MOST * batch < free:
        return None
    needs = needs_of(recipe)
    if needs.fits:
        return None
    message = f"The training probably does not fit into the memory of {recipe.device}: it needs {needs}."
    hint = "A smaller batch_size with accumulate, bf16, or activation checkpointing on some nodes takes less."
    return AnomalyFrame(0, "memory-short", message, hint=hint)


def without_memory(model: nn.Module) -> dict[int, Any]:
    """Return a memo for `copy.deepcopy` that puts the copy's parameters and buffers on the meta device, without hooks.

    Hooks are somebody's own code: they would count the imagined batch, or hold what cannot be copied.
    """
    memo: dict[int, Any] = {}
    for module in model.modules():
        for name, hooks in vars(module).items():
            if name.endswith("_hooks") and isinstance(hooks, dict):
                memo[id(hooks)] = OrderedDict()
    for parameter in model.parameters():
        shape = torch.empty_like(parameter, device="meta")
        memo[id(parameter)] = nn.Parameter(shape, requires_grad=parameter.requires_grad)
    for buffer in model.buffers():
        memo[id(buffer)] = torch.empty_like(buffer, device="meta")
    return memo


def _examples(source: TensorSource | DatasetSource) -> int:
    """Return the number of examples in the largest batch, at most the number of all examples."""
    there = source.tensors[0] if isinstance(source, TensorSource) else source.template.dataset
    assert isinstance(there, Sized)
    return min(source.batch_size, len(there))


def imagined_batch(value: Any, examples: int, device: torch.device | str = "meta") -> Any:
    """Return a batch with so many examples, whose numbers are those of memory that nobody has written.

    Without memory, where `device` is the meta device or tensors are fake.
    """
    match value:
        case Tensor() if value.dim() > 0:
            return torch.empty(examples, *value.shape[1:], dtype=value.dtype, device=device)
        case Tensor():
            return torch.empty((), dtype=value.dtype, device=device)
        case Mapping():
            return {name: imagined_batch(item, examples, device) for name, item in value.items()}
        case tuple() | list():
            return tuple(imagined_batch(item, examples, device) for item in value)
        case _:
            return value


def _bytes(tensors: Iterable[Tensor]) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)
