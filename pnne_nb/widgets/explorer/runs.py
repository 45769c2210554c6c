"""Runs the module of whatever has one on the explorer's input, when its results are needed and no cell uses it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, final

import ipywidgets
from torch import Tensor, nn

from pnne_nb.compiler import compile as compile_graph
from pnne_nb.diagnosis.finding import Finding
from pnne_nb.errors import ArgumentError, InspectionError
from pnne_nb.graph.document import NodeGraph
from pnne_nb.inference.exported import ExportedModule
from pnne_nb.inference.inference_engine import InferenceEngine
from pnne_nb.inspector.capture.capture import Capture
from pnne_nb.inspector.capture.run import run_once
from pnne_nb.inspector.inspector import Inspector
from pnne_nb.inspector.questions.sites import functions, place_of
from pnne_nb.inspector.representations.compare_layers import with_weights
from pnne_nb.inspector.tools.attention import attention_maps
from pnne_nb.inspector.tools.dataflow import Flow, FlowLayer, follow
from pnne_nb.process.subscribers import weakly
from pnne_nb.runtime.checkpointing.files import series
from pnne_nb.runtime.data.sources import DatasetSource, TensorSource
from pnne_nb.runtime.engine import TrainingEngine
from pnne_nb.runtime.session.training_registry import trainings_of
from pnne_nb.runtime.session.waiting import Started
from pnne_nb.runtime.thread.cells import cells
from pnne_nb.telemetry.frames import Quantity
from pnne_nb.widgets.editor.editor import GraphEditor
from pnne_nb.widgets.explorer.answers import Asked
from pnne_nb.widgets.explorer.panel import Details
from pnne_nb.widgets.host.displays import answer_while_busy
from pnne_nb.widgets.host.examples import MAX_BATCH, OWN

_LOOKED_AT: tuple[Quantity, ...] = ("activations", "gradients", "parameters", "parameter_gradients")


class Subject(NamedTuple):
    """What is explored, which is refused later if it is no module, with what its owner knows about it."""

    net: Any
    data: object
    labels: Sequence[str] | None
    loss: Any
    graph: NodeGraph | None = None
    engine: TrainingEngine | None = None
    editor: GraphEditor | None = None


def subject_of(given: object, data: object, labels: Sequence[str] | None, loss: Any) -> Subject:
    """Return the module of whatever has one, with what was given, or else what its owner knows.

    Raises:
        ArgumentError: If there is no module in it.
        CompileError: If a graph is unfinished, or its weights are gone.
    """
    match given:
        case NodeGraph():
            return Subject(compile_graph(given), data, labels, loss, given)
        case Started(engine=TrainingEngine() as engine) | (TrainingEngine() as engine):
            match engine.recipe.train if engine.recipe.val is None else engine.recipe.val:
                case TensorSource(tensors=own) | DatasetSource(template=own) if data is None:
                    data = own
                case _:
                    pass  # a stream is read only once
            loss = engine.recipe.loss if loss is None else loss
            return Subject(engine.model, data, labels or engine.classes, loss, engine=engine)
        case GraphEditor(model=None):
            raise ArgumentError(
                "The editor's graph has errors, which editor.diagnostics lists: there is no model to explore."
            )
        case GraphEditor():
            data = given.example if data is None else data
            return Subject(given.model, data, labels, loss, given.graph, editor=given)
        case InferenceEngine(model=ExportedModule()):
            raise ArgumentError(
                "This engine runs an exported file, whose layers cannot be seen: write pn.ModuleExplorer(net), with the"
                " network that was exported."
            )
        case InferenceEngine():
            return Subject(given.model, data, labels or given.classes, loss)
        case _:
            return Subject(given, data, labels, loss)


class ModelInUseError(InspectionError):
    """A cell is running in another thread, and may be using the module."""


@final
class Runs:
    """Runs a module on one input, and keeps the results of the selected layer.

    Args:
        asked: The module with its examples.
        inspector: An inspector whose last run is shown if there is no input.
        path: The checkpoint whose weights a copy of the module has, or None for the module itself.
        source: For the copy, the runs of the module itself.
    """

    def __init__(
        self, asked: Asked, inspector: Inspector, path: Path | None = None, source: Runs | None = None
    ) -> None:
        self.path, self.now = path, self if source is None else source
        self.net, self.asked, self.inspector = asked.net, asked, inspector
        self._captured: dict[tuple[str, tuple[object, ...]], list[Capture]] = {}
        self._attention: dict[str, Tensor] | None = None
        self._trained = 0

    def forget(self) -> None:
        """Drop the results, so that the module runs again when they are needed."""
        self._captured, self._attention = {}, None

    def _follow(self) -> None:
        """Drop the results if the parameters have changed meanwhile, by a training say."""
        trained = sum(0 if parameter.is_inference() else parameter._version for parameter in self.net.parameters())
        if trained != self._trained:
            self._trained = trained
            self.forget()

    def at(self, path: Path) -> Runs:
        """Return the same for a copy of the module with the weights of a checkpoint; see `with_weights` for errors."""
        with self.alone():
            net = with_weights(self.net, path)
        return Runs(self.asked.of(net), Inspector(net), path, self)

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
        self._follow()
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
        self._follow()
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


@final
class Weights(ipywidgets.SelectionSlider):
    """Chooses a checkpoint of a training, or its weights of now.

    Args:
        engine: The training, or None where there is nothing to choose.
        chosen: Called when another one was chosen.
    """

    def __init__(self, engine: TrainingEngine | None, chosen: Callable[[], None]) -> None:
        self._directory = None if engine is None else engine.checkpoint_dir
        self._history = None if engine is None else engine.history
        self._filling = False
        super().__init__(
            options=[("now", "")], description="Weights", continuous_update=False, style={"description_width": "auto"},
            layout=ipywidgets.Layout(width="330px"),
        )  # fmt: skip
        self.look(None)
        self.observe(lambda _change: None if self._filling else chosen(), "value")
        answer_while_busy(self)

    def __repr__(self) -> str:
        return f"Weights({self.label})"

    def look(self, chosen: Path | None) -> None:
        """List the checkpoints that are there by now, and show which one is chosen."""
        found = [] if self._directory is None else series(self._directory)[::-1]
        epochs = {frame.step: frame.epoch for frame in self._history.epoch_frames()} if self._history and found else {}
        if chosen and chosen not in found:
            found.insert(0, chosen)  # only the last ones are kept in the directory, and it was given by a path
        options: list[tuple[str, Path | str]] = [*((_called(path, epochs), path) for path in found), ("now", "")]
        self._filling = True
        self.options = options
        self.value, self._filling = chosen or "", False
        self.layout.display = "" if found else "none"


def _called(path: Path, epochs: Mapping[int, int]) -> str:
    """Return what a checkpoint is called: by its step, and by its epoch if it was written at its end."""
    step = path.stem.partition("-step-")[2]
    epoch = epochs.get(int(step)) if step.isdecimal() else None
    return path.name if not step else f"step {step}" if epoch is None else f"epoch {epoch}, step {step}"
