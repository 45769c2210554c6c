"""Observes a hand-written training loop."""

from __future__ import annotations

import time
import warnings
from collections import deque
from collections.abc import Sequence
from types import TracebackType
from typing import Any, final

import torch
from torch import Tensor, nn
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from torch.utils.hooks import RemovableHandle

from pnne_nb.inspector.capture.live import LiveProbe
from pnne_nb.telemetry.frames import Frame, StepFrame
from pnne_nb.telemetry.overhead import Overhead
from pnne_nb.telemetry.probe import Cadence, Toll

KEPT = 4096
"""Frames that are kept; the oldest go first."""

_BLIND = (
    "None of the watched layers was called in this step, so nothing could be measured. Was the model compiled by"
    " torch.compile, or is another one trained? Watch the module before compiling it; parameters, their gradients,"
    " updates and gradient norms can be watched in any case."
)


@final
class HandwrittenLoop:
    """Observes the steps of a loop that calls `step` once per step.

    Hooks on the optimizer's step show when gradients are ready and when they were used, so the loop may zero its
    gradients anywhere. Gradients are measured as the optimizer uses them: after clipping and unscaled, also by a fused
    optimizer.

    Attributes:
        probe: As given.
    """

    def __init__(self, model: nn.Module, probe: LiveProbe, cadence: Cadence) -> None:
        self.frames: deque[Frame] = deque(maxlen=KEPT)
        self._model = model
        self.probe = probe
        self._cadence = cadence
        self._handles: list[RemovableHandle] = []
        self._steps = 0
        self._open = False
        self._timed = False
        self._moved = False
        self._warned = False
        self._began = 0.0
        self._toll = Toll()
        self._known = 0.0
        self._last = 0.0

    def __enter__(self) -> HandwrittenLoop:
        self._began = time.monotonic()
        self._next_step()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._open:
            # A step that did not end is not shown.
            self._close()

    @property
    def share(self) -> float:
        """The share of the time since the start that watching took, 0 to 1."""
        return self.cost.share

    @property
    def cost(self) -> Overhead:
        """The share with its 95 % interval: ``print(live.cost)`` shows "1.4 ± 0.3 %"."""
        return self._toll.paired.over(self._cadence.elapsed(time.monotonic()))

    @property
    def steps(self) -> int:
        """Number of finished steps."""
        return self._steps

    def step(self, loss: float | Tensor | None = None) -> None:
        """End a step; if it was observed, keep its frames."""
        self._steps += 1
        if self._open:
            began = time.thread_time()
            if self._moved and self.probe.blind and not self._warned:
                self._warned = True
                warnings.warn(_BLIND, stacklevel=3)
            self.frames.extend(self._close())
            if loss is not None:
                value = float(loss.detach() if isinstance(loss, Tensor) else loss)
                # Learning rate and batch size of the loop are unknown.
                self.frames.append(StepFrame(self._steps, 1, value, float("nan"), 0, time.monotonic() - self._began))
            now = time.thread_time()
            known = self._known + self.probe.hooked + now - began
            self._cadence.spent(self._toll.observed(now - self._last, known))
        elif self._timed:
            self._toll.bare(time.thread_time() - self._last, time.monotonic())
        self._next_step()

    def _next_step(self) -> None:
        now = time.monotonic()
        self._open = self._cadence.due(now)
        self._timed = self._open or now >= self._toll.next_bare
        if self._timed:
            self._last = time.thread_time()
        if self._open:
            self._handles = [
                register_optimizer_step_pre_hook(self._before_update),
                register_optimizer_step_post_hook(self._after_update),
            ]
            self.probe.open(self._steps + 1)
            self._moved = False
            self._known = time.thread_time() - self._last

    def _close(self) -> Sequence[Frame]:
        self._open = False
        while self._handles:
            self._handles.pop().remove()
        return self.probe.close()

    def _ours(self, optimizer: torch.optim.Optimizer) -> bool:
        own = {id(parameter) for parameter in self._model.parameters()}
        return any(id(parameter) in own for group in optimizer.param_groups for parameter in group["params"])

    def _before_update(self, optimizer: torch.optim.Optimizer, _args: Any, _kwargs: Any) -> None:
        if self._open and self._ours(optimizer):
            began = time.thread_time()
            # A `GradScaler` passes its factor to optimizers that unscale gradients themselves.
            scale = getattr(optimizer, "grad_scale", None)
            self.probe.parameter_scale = 1.0 if scale is None else float(scale)
            self.probe.gradients_ready()
            self._known += time.thread_time() - began

    def _after_update(self, optimizer: torch.optim.Optimizer, _args: Any, _kwargs: Any) -> None:
        if self._open and self._ours(optimizer):
            began = time.thread_time()
            self.probe.updated()
            self._moved = True
            self._known += time.thread_time() - began
