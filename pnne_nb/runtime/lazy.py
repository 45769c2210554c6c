"""Layers such as ``nn.LazyLinear`` have no weights before they have seen an input: an example makes them."""

from __future__ import annotations

from itertools import chain

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from pnne_nb.errors import TrainingError
from pnne_nb.runtime.batches import as_batch, to_device
from pnne_nb.runtime.randomness import seeded_globals
from pnne_nb.runtime.sources import DatasetSource, Source, TensorSource


def make_weights(model: nn.Module, data: Source, seed: int, *, wants_target: bool, calls: bool) -> None:
    """Let lazy layers make their weights from the first example, if `model` has such layers.

    Args:
        model: Made whole in place; in eval mode meanwhile, so that nothing else of it changes.
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
    batch = as_batch(data.first(), wants_target=wants_target)
    device = next(chain(model.parameters(), model.buffers())).device
    modes = {module: module.training for module in model.modules()}
    model.eval()
    try:
        with torch.no_grad(), seeded_globals(seed):
            model(*to_device(batch.inputs, device), **to_device(batch.named, device))
    finally:
        for module, training in modes.items():
            module.training = training
