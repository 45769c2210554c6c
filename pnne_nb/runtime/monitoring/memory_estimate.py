"""Estimates the memory that a training will need, before its first step and from shapes alone."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sized
from typing import Any, final

import msgspec
import torch
from torch import Tensor, nn

from pnne_nb.process.byte_units import format_bytes
from pnne_nb.runtime.data.batches import as_batch, tensors_in
from pnne_nb.runtime.data.sources import DatasetSource, TensorSource
from pnne_nb.runtime.setup.devices import measured
from pnne_nb.runtime.setup.recipe import Recipe
from pnne_nb.telemetry.frames import AnomalyFrame

_ACTIVATIONS_AT_MOST = 1000
"""Batches: what activations rarely exceed. Where even that fits, nobody looks closer, which takes up to a second."""


class MemoryNeeds(msgspec.Struct, frozen=True):
    """Memory that a training needs on its device, in bytes.

    Attributes:
        parameters: With buffers; there already.
        gradients: Of what is trained.
        optimizer: Its state after the first step.
        activations: What the forward pass keeps for the backward pass, with the batch; None if it cannot be told.
        free: On the device now.
    """

    parameters: int
    gradients: int
    optimizer: int
    activations: int | None
    free: int

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
            f"{format_bytes(self.optimizer)}, activations {activations}; {format_bytes(self.free)} are free"
        )


def needs_of(recipe: Recipe) -> MemoryNeeds:
    """Estimate the memory that training by `recipe` takes."""
    model, optimizer = recipe.model, recipe.optimizer
    memo = without_memory(model)
    trained = _bytes(parameter for parameter in model.parameters() if parameter.requires_grad)
    return MemoryNeeds(
        parameters=_bytes([*model.parameters(), *model.buffers()]),
        gradients=trained,
        optimizer=_bytes(tensors_in(optimizer.state)) or _optimizer_state(optimizer, dict(memo), or_else=2 * trained),
        activations=_activations(recipe, memo),
        free=measured(recipe.device).free,
    )


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
    """Return a memo for `copy.deepcopy` that puts the copy's parameters and buffers on the meta device."""
    memo: dict[int, Any] = {}
    for parameter in model.parameters():
        shape = torch.empty_like(parameter, device="meta")
        memo[id(parameter)] = nn.Parameter(shape, requires_grad=parameter.requires_grad)
    for buffer in model.buffers():
        memo[id(buffer)] = torch.empty_like(buffer, device="meta")
    return memo


def _optimizer_state(optimizer: torch.optim.Optimizer, memo: dict[int, Any], *, or_else: int) -> int:
    try:
        imagined = copy.deepcopy(optimizer, memo)
        for group in imagined.param_groups:
            for parameter in group["params"]:
                parameter.grad = torch.empty_like(parameter, device="meta")
        # Of the class: a scheduler puts a function of the original in the place of its method.
        type(imagined).step(imagined)
        return _bytes(tensors_in(imagined.state))
    except Exception:  # noqa: BLE001  one that reads numbers out of its tensors cannot be imagined
        return or_else


def _activations(recipe: Recipe, memo: dict[int, Any]) -> int | None:
    source = recipe.train
    if recipe.step is not None or not isinstance(source, TensorSource | DatasetSource):
        return None
    raw = imagined_batch(source.first(), _examples(source))
    batch = as_batch(raw, wants_target=recipe.compares)
    try:
        imagined = copy.deepcopy(recipe.model, memo).train()
        kept = _Kept([*imagined.parameters(), *imagined.buffers(), *tensors_in(raw)])
        with torch.autograd.graph.saved_tensors_hooks(kept.take, lambda tensor: tensor), torch.enable_grad():
            imagined(*batch.inputs, **batch.named)
    except Exception:  # noqa: BLE001  a model may do anything with its input; that it needs numbers is no fault
        return None
    return _bytes(tensors_in(raw)) + (kept.bytes if recipe.precision.is_full else kept.bytes // 2)


def _examples(source: TensorSource | DatasetSource) -> int:
    """Return the number of examples in the largest batch, at most the number of all examples."""
    there = source.tensors[0] if isinstance(source, TensorSource) else source.template.dataset
    assert isinstance(there, Sized)
    return min(source.batch_size, len(there))


@final
class _Kept:
    """Adds up the tensors that autograd keeps, each once, without existing ones."""

    def __init__(self, there: list[Tensor]) -> None:
        self.bytes = 0
        self._seen = {tensor.untyped_storage()._cdata for tensor in there}
        self._alive = list(there)

    def take(self, tensor: Tensor) -> Tensor:
        """Called for each tensor that is kept; views of one memory count once."""
        storage = tensor.untyped_storage()
        if storage._cdata not in self._seen:
            self._seen.add(storage._cdata)
            # While it lives, no other gets its address.
            self._alive.append(tensor)
            self.bytes += storage.nbytes()
        return tensor


def imagined_batch(value: Any, examples: int) -> Any:
    """Return a batch of the meta device with so many examples."""
    match value:
        case Tensor() if value.dim() > 0:
            return torch.empty(examples, *value.shape[1:], dtype=value.dtype, device="meta")
        case Tensor():
            return value.to("meta")
        case Mapping():
            return {name: imagined_batch(item, examples) for name, item in value.items()}
        case tuple() | list():
            return tuple(imagined_batch(item, examples) for item in value)
        case _:
            return value


def _bytes(tensors: Iterable[Tensor]) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)
