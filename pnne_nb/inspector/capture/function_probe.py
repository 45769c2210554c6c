"""`FunctionProbe`: observes the results of functions in single training steps, where module hooks see nothing."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack
from functools import partial
from typing import NamedTuple, final

from torch import Tensor, nn

from pnne_nb.compiler.analysis.interpreter import NodeExecution, stepping
from pnne_nb.compiler.codegen.loader import loaded_from
from pnne_nb.inspector.capture.hooks import HookOwner, in_backward, primary_tensor
from pnne_nb.inspector.statistics.sampling import measurable, sample, to_host
from pnne_nb.inspector.statistics.segments import measure_segments
from pnne_nb.telemetry.frames import Frame, Quantity, StatisticsFrame

SAMPLE = 512
"""Elements that are looked at, at most, per node and quantity: functions are many, and their values much alike."""


class _Sample(NamedTuple):
    """Some elements of a tensor that had `total`."""

    elements: Tensor
    total: int


@final
class FunctionProbe:
    """Observes what the functions drawn as nodes give (``relu``, an addition), and the gradient that comes back.

    It is a `pnne_nb.telemetry.probe.Probe` beside `LiveProbe`, which hooks modules. A compiled model is followed line by line
    through its own code while an observed step runs, and not at all in others; of any other module it sees nothing.
    Of a node that runs several times in a step, the last call counts; of several outputs, the first.

    Args:
        model: The module that runs in the training step.
        hooked: Paths of what is observed already: the names of its modules.
        gradient_scale: The factor that the loss was multiplied by before the backward pass.
    """

    def __init__(self, model: nn.Module, hooked: Collection[str], gradient_scale: Callable[[], float]) -> None:
        self._model = model
        self._hooked = frozenset(hooked)
        self._gradient_scale = gradient_scale
        self._following = ExitStack()
        self._gradients = HookOwner()
        self._step = 0
        self._scale = 1.0
        self._seen: dict[tuple[str, Quantity], _Sample] = {}

    def open(self, step: int) -> None:
        """Follow the model from now on."""
        self._release()
        self._step, self._scale, self._seen = step, self._gradient_scale(), {}
        if loaded_from(self._model) is not None:
            self._following.enter_context(stepping(self._model, self._see))

    def gradients_ready(self) -> None:
        """Follow it no more: all of the step has run."""
        self._following.close()

    def updated(self) -> None:
        """Measure nothing: functions have nothing to update."""

    def close(self) -> Sequence[Frame]:
        """Let go of everything and return what was seen."""
        self._release()
        seen, self._seen = self._seen, {}
        if not seen:
            return []
        arrays = to_host([each.elements for each in seen.values()])
        values = measure_segments(arrays, bins=1).values
        frames: list[Frame] = []
        for row, ((node, quantity), each) in enumerate(seen.items()):
            scale = self._scale if quantity == "gradients" else 1.0
            measured = {name: float(column[row]) for name, column in values.items()}
            for name in ("mean", "std", "min", "max", "norm"):
                measured[name] /= scale
            # Of the whole tensor, as far as its sample tells.
            measured["norm"] *= math.sqrt(each.total / max(1, len(arrays[row])))
            frames.append(StatisticsFrame(self._step, node, quantity, measured))
        return frames

    def _release(self) -> None:
        self._following.close()
        self._gradients.close()

    def _see(self, step: NodeExecution) -> None:
        tensor = primary_tensor(step.outputs)
        # What is computed again in the backward pass has been seen.
        if not step.node or step.node in self._hooked or tensor is None or in_backward():
            return
        self._take((step.node, "activations"), tensor)
        self._gradients.on_gradient(tensor, partial(self._take, (step.node, "gradients")))

    def _take(self, key: tuple[str, Quantity], tensor: Tensor) -> None:
        if measurable(tensor):
            self._seen[key] = _Sample(sample(tensor, SAMPLE), tensor.numel())
