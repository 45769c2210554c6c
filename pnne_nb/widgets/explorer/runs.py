"""Runs a module on the explorer's input when its results are needed and no cell uses it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import final

from torch import Tensor, nn

from pnne_nb.diagnosis.finding import Finding
from pnne_nb.errors import InspectionError
from pnne_nb.inspector.capture.capture import Capture
from pnne_nb.inspector.capture.run import run_once
from pnne_nb.inspector.inspector import Inspector
from pnne_nb.inspector.tools.attention import attention_maps
from pnne_nb.inspector.tools.dataflow import Flow, follow
from pnne_nb.runtime.session.training_registry import trainings_of
from pnne_nb.runtime.thread.cells import cells
from pnne_nb.telemetry.frames import Quantity

_LOOKED_AT: tuple[Quantity, ...] = ("activations", "gradients", "parameters", "parameter_gradients")


class ModelInUseError(InspectionError):
    """A cell is running in another thread, and may be using the module."""


@final
class Runs:
    """Runs a module on one input, and keeps the results of the selected layer.

    Args:
        net: The module.
        inspector: An inspector whose last run is shown if there is no input.
        args: The input, or None.
        target: Second argument of `loss_fn`.
        loss_fn: A function of output and target that gives a scalar, or None.
    """

    def __init__(
        self,
        net: nn.Module,
        inspector: Inspector,
        args: object,
        target: object = None,
        loss_fn: Callable[..., Tensor] | None = None,
    ) -> None:
        self.net = net
        self.inspector = inspector
        self.args = args
        self._target = target
        self._loss_fn = loss_fn
        self._captured: dict[str, list[Capture]] = {}
        self._attention: dict[str, Tensor] | None = None

    def on(self, args: object, target: object) -> Runs:
        """Return runs of the same module on another input."""
        return Runs(self.net, self.inspector, args, target, self._loss_fn)

    def forget(self) -> None:
        """Drop the results, so that the module runs again when they are needed."""
        self._captured, self._attention = {}, None

    def flow(self) -> Flow:
        """Return the layers and the data flow between them."""
        with self._alone():
            return follow(self.net, self.args)

    def captures(self, path: str) -> list[Capture]:
        """Return the tensors captured at a layer: from the input, or else from the inspector's last run.

        Raises:
            ModelInUseError: It would have to run now.
        """
        if path not in self._captured:
            if self.args is None:
                found = [capture for capture in self.inspector.last_captures if capture.layer == path]
            else:
                with self._alone():
                    run = run_once(self.net, {path: _LOOKED_AT}, self.args, self._target, self._loss_fn)
                found = list(run.captures)
            # Only the results of the selected layer are kept.
            self._captured = {path: found}
        return self._captured[path]

    def attention(self, path: str) -> Tensor | None:
        """Return the attention maps of a layer, or None where it computes none.

        Raises:
            ModelInUseError: It would have to run now.
        """
        if self._attention is None and self.args is not None:
            with self._alone():
                self._attention = attention_maps(self.net, self.args)
        return (self._attention or {}).get(path)

    def findings(self) -> list[Finding]:
        """Return the findings of the inspector's last run."""
        return self.inspector.diagnose() if self.inspector.last_captures else []

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Hold every training of the module between two steps; a running cell cannot be held and is refused.

        Two backward passes of one module at the same time, here and in a cell or a training, would crash the process.
        """
        if cells.open_elsewhere():
            raise ModelInUseError("A cell is running and may use the model. The input runs when the cell has ended.")
        with ExitStack() as stack:
            stack.enter_context(self.inspector.held())
            for engine in trainings_of(self.net):
                stack.enter_context(engine.paused())
            yield
