"""Train and eval mode of a model in training, whatever cells do to it between two batches."""

from __future__ import annotations

from typing import final

from torch import nn

from pnne_nb.runtime.snapshot import Snapshot


@final
class Modes:
    """Holds a model in train or eval mode.

    Attributes:
        buffers: The model's buffers as they were before the step under way.
    """

    def __init__(self) -> None:
        self.buffers = Snapshot(())
        self._modes: list[tuple[nn.Module, bool]] = []

    def set(self, model: nn.Module, *, training: bool) -> None:
        """Put every layer of `model` in train or eval mode, and hold it there from now on."""
        model.train(training)
        self._modes = [(module, module.training) for module in model.modules()]
        self.buffers = Snapshot(model.buffers())

    def restore(self) -> None:
        """Undo what a cell's ``model.eval()`` did since the last batch."""
        for module, training in self._modes:
            if module.training is not training:
                module.training = training
