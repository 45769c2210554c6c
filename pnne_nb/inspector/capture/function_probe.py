"""`FunctionProbe`: observes the results of functions in single training steps; module hooks cannot see them."""

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
from pnne_nb.inspector.statistics.histogram import measure_segments
from pnne_nb.inspector.statistics.sampling import measurable, sample, to_host
from pnne_nb.telemetry.frames import Frame, Quantity, StatisticsFrame

SAMPLE = 512
"""Most elements that are sampled per node and quantity; it is small because a model has many functions."""


class _Sample(NamedTuple):
    """A sample of a tensor with `total` elements."""

    elements: Tensor
    total: int


@final
class FunctionProbe:
    """Observes the results of function nodes (``relu``, an addition) and the gradients of these results.

    It is a `pnne_nb.telemetry.probe.Probe` beside `LiveProbe`, which hooks modules. It traces the lines of a compiled
    graph's code during observed steps only, and sees nothing of any other module. If a node runs several times in a step,
    the last call counts; if it has several outputs, the first.

    Args:
        model: The module that runs in the training step.
        hooked: Names of the model's modules, which `LiveProbe` observes.
        gradient_scale: Returns the factor by which the loss was multiplied before the backward pass.
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
        """Start tracing the model."""
        self._release()
        self._step, self._scale, self._seen = step, self._gradient_scale(), {}
        if loaded_from(self._model) is not None:
            self._following.enter_context(stepping(self._model, self._see))

    def gradients_ready(self) -> None:
        """Stop tracing the model: its step has run."""
        self._following.close()

    def updated(self) -> None:
        """Do nothing: functions have no parameters."""

    def close(self) -> Sequence[Frame]:
        """Release everything and return the frames."""
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
            # Scaled from the sample to the whole tensor.
            measured["norm"] *= math.sqrt(each.total / max(1, len(arrays[row])))
            frames.append(StatisticsFrame(self._step, node, quantity, measured))
        return frames

    def _release(self) -> None:
        self._following.close()
        self._gradients.close()

    def _see(self, step: NodeExecution) -> None:
        tensor = primary_tensor(step.outputs)
        # A recomputation in the backward pass was observed in the forward pass.
        if not step.node or step.node in self._hooked or tensor is None or in_backward():
            return
        self._take((step.node, "activations"), tensor)
        self._gradients.on_gradient(tensor, partial(self._take, (step.node, "gradients")))

    def _take(self, key: tuple[str, Quantity], tensor: Tensor) -> None:
        if measurable(tensor):
            self._seen[key] = _Sample(sample(tensor, SAMPLE), tensor.numel())
