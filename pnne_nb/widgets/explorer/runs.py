"""Runs a module on the explorer's input when its results are needed and no cell uses it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import final

from torch import Tensor, nn

from pnne_nb.diagnosis.finding import Finding
from pnne_nb.errors import InspectionError
from pnne_nb.inspector.capture.capture import Capture
from pnne_nb.inspector.capture.run import run_once
from pnne_nb.inspector.inspector import Inspector
from pnne_nb.inspector.questions.sites import functions, place_of
from pnne_nb.inspector.tools.attention import attention_maps
from pnne_nb.inspector.tools.dataflow import Flow, FlowLayer, follow
from pnne_nb.process.subscribers import weakly
from pnne_nb.runtime.session.training_registry import trainings_of
from pnne_nb.runtime.thread.cells import cells
from pnne_nb.telemetry.frames import Quantity
from pnne_nb.widgets.explorer.answers import Asked
from pnne_nb.widgets.explorer.examples import MAX_BATCH, OWN
from pnne_nb.widgets.explorer.panel import Details

_LOOKED_AT: tuple[Quantity, ...] = ("activations", "gradients", "parameters", "parameter_gradients")


class ModelInUseError(InspectionError):
    """A cell is running in another thread, and may be using the module."""


@final
class Runs:
    """Runs a module on one input, and keeps the results of the selected layer.

    Args:
        asked: The module with its examples.
        inspector: An inspector whose last run is shown if there is no input.
    """

    def __init__(self, asked: Asked, inspector: Inspector) -> None:
        self.net, self.asked, self.inspector = asked.net, asked, inspector
        self._captured: dict[tuple[str, tuple[object, ...]], list[Capture]] = {}
        self._attention: dict[str, Tensor] | None = None

    def forget(self) -> None:
        """Drop the results, so that the module runs again when they are needed."""
        self._captured, self._attention = {}, None

    def flow(self) -> Flow:
        """Return the layers and the data flow between them; functions of a compiled graph are layers without a box."""
        with self.alone():
            found = follow(self.net, self.asked.examples.around(0).inputs)
        called = {path: FlowLayer(path, node.type, calls=1) for path, node in functions(self.net).items()}
        return replace(found, layers={**found.layers, **called})

    def captures(self, path: str, place: int = 0) -> tuple[list[Capture], int]:
        """Return the tensors captured at a layer, from the examples or else from the inspector's last run.

        Args:
            path: Of the layer.
            place: The example that is among the examples of the run.

        Returns:
            The tensors, and the index of the example in them.

        Raises:
            ModelInUseError: It would have to run now.
        """
        examples = self.asked.examples
        if not examples.given:
            return [capture for capture in self.inspector.last_captures if capture.layer == path], 0
        # Only the results of the selected layer are kept.
        key = path, ((place,) if place == OWN or place >= MAX_BATCH else ())
        cut = examples.around(place)
        if place_of(self.net, path) is None:
            return [], 0
        if key not in self._captured:
            with self.alone():
                loss = self.asked.compares(cut.target)
                run = run_once(self.net, {path: _LOOKED_AT}, cut.inputs, None if loss is None else cut.target, loss)
            self._captured = {key: list(run.captures)}
        return self._captured[key], cut.place

    def details(self, flow: Flow, path: str, place: int, again: Callable[[], None]) -> Details:
        """Return what is known about a layer; `again` is called when it can be run, if it cannot now."""
        captures: list[Capture] = []
        note, attention = "", None
        try:
            (captures, place), attention = self.captures(path, place), self.attention(path)
        except ModelInUseError as error:
            note = str(error)
            # It could not be run during the cell.
            cells.at_end(weakly(again))
        except Exception as error:  # noqa: BLE001  the model's own errors are shown where they were provoked
            note = f"The model failed on this input: {type(error).__name__}: {error}"
        findings = [found for found in self.findings() if found.layer == path]
        total = flow.layers[""].seconds or 0.0
        module = place_of(self.net, path) or nn.Identity()
        return Details(flow.layers[path], module, captures, attention, findings, place, note, total)

    def attention(self, path: str) -> Tensor | None:
        """Return the attention maps of a layer, or None where it computes none.

        Raises:
            ModelInUseError: It would have to run now.
        """
        module = place_of(self.net, path)
        plain = module is None or (type(module).__module__.startswith("torch.nn.") and not any(module.children()))
        if plain and not isinstance(module, nn.Softmax):
            return None  # it computes none, and the model need not run to see that
        if self._attention is None and self.asked.examples.given:
            with self.alone():
                self._attention = attention_maps(self.net, self.asked.examples.around(0).inputs)
        return (self._attention or {}).get(path)

    def findings(self) -> list[Finding]:
        """Return the findings of the inspector's last run."""
        return self.inspector.diagnose() if self.inspector.last_captures else []

    @contextmanager
    def alone(self) -> Iterator[None]:
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
