"""`TrainForm`: trains the graph of an editor on what a person chooses in its page."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, assert_never, final

from IPython import get_ipython
from ipywidgets import Widget
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd
from torch.utils.data import DataLoader, Dataset

from pnne_nb.errors import TrainingError, near
from pnne_nb.graph.document import NodeGraph
from pnne_nb.graph.schema.registry import registry
from pnne_nb.graph.schema.values import is_array
from pnne_nb.protocol import train_messages
from pnne_nb.runtime.data.packaged_data import NAMES, datasets
from pnne_nb.runtime.engine import TrainingEngine
from pnne_nb.telemetry.frames import ALIVE

_READERS: Final = (nn.Linear, _ConvNd)
"""Layers that say what a model takes."""

POINTS: Final = 60
"""Most losses in the small picture."""


@final
class TrainForm:
    """What can be trained on, and the training that was started.

    Attributes:
        engine: The training, or None before the first.
    """

    def __init__(self, graph: NodeGraph) -> None:
        self.engine: TrainingEngine | None = None
        self._graph = graph

    def answer(self, request: train_messages.TrainRequest, editor: Widget) -> train_messages.TrainEvent:
        """Carry out a request of a page of `editor`, and return the answer.

        Raises:
            TrainingError: If the data is gone or does not fit, or another training runs.
            CompileError: If the graph has problems.
        """
        match request:
            case train_messages.GetTrainChoices(id=id, client=client):
                losses, optimizers = _types("Loss"), _types("Optimizer")
                shown = str(editor.model_id)
                return train_messages.TrainChoices(
                    id, client, tuple(self._choices()), losses, optimizers, tuple(_modules()), shown
                )
            case train_messages.StartTraining():
                self._start(request)
            case train_messages.ControlTraining(action=action):
                if self.engine is not None and action in ("pause", "resume", "stop"):
                    getattr(self.engine, action)()
            case _:
                assert_never(request)
        return self._state(request.id, request.client, editor)

    def _choices(self) -> Iterator[train_messages.DataChoice]:
        if self._is_drawn:
            yield train_messages.DataChoice("drawn", "", "the Dataset that is drawn")
            return
        shapes = [node.properties.get("shape") for node in self._graph.nodes.values() if node.type == "Input"]
        for name, value in sorted(_variables().items()):
            text = "" if name.startswith("_") else _described(value, shapes)
            if text:
                yield train_messages.DataChoice("variable", name, text)
        for name in NAMES:
            doc = (getattr(datasets, name).__doc__ or "").partition("\n")[0]
            yield train_messages.DataChoice("dataset", name, doc.removeprefix("Return ").replace("`", ""))

    @property
    def _is_drawn(self) -> bool:
        return any(node.type == "Dataset" for node in self._graph.nodes.values())

    def _start(self, asked: train_messages.StartTraining) -> None:
        if self.engine is not None and self.engine.state in ALIVE:
            raise TrainingError("A training is running already: stop it first.")
        for name, category in ((asked.loss, "Loss"), (asked.optimizer, "Optimizer")):
            if name and name not in _types(category):
                raise TrainingError(f"There is no {category.lower()} {name!r}.{near(name, _types(category))}")
        if asked.epochs < 1 or not (math.isfinite(asked.learning_rate) and asked.learning_rate > 0):
            raise TrainingError("A training needs at least one epoch, and a learning rate above 0.")
        if asked.kind == "drawn":
            self.engine = TrainingEngine.from_graph(
                self._graph, namespace=_variables(), epochs=asked.epochs, precision=asked.precision
            )
        else:
            loss = {"loss": asked.loss} if asked.loss else {}
            self.engine = TrainingEngine(
                self._graph,
                self._data(asked.kind, asked.data),
                optimizer=(asked.optimizer, {"lr": asked.learning_rate}),
                epochs=asked.epochs,
                precision=asked.precision,
                **loss,  # type: ignore[arg-type]  # a name, or the default
            )
        self.engine.start()

    def _data(self, kind: str, name: str) -> Any:
        if kind == "dataset":
            if name not in NAMES:
                raise TrainingError(f"There is no data set pn.datasets.{name}.{near(name, NAMES)}")
            return getattr(datasets, name)()
        known = _variables()
        if name not in known or name.startswith("_"):
            raise TrainingError(
                f"The kernel has no variable {name!r} any more.{near(name, known)} Run the cell that makes it, or choose "
                "other data."
            )
        return known[name]

    def _state(self, id: int, client: str, editor: Widget) -> train_messages.TrainState:
        engine = self.engine
        if engine is None:
            return train_messages.TrainState(id, client)
        losses = engine.history["loss"].tolist() if "loss" in engine.history else []
        every = max(1, math.ceil(len(losses) / POINTS))
        seen = [float(f"{loss:.4g}") for loss in losses if math.isfinite(loss)]
        text = str(engine.error) if engine.error is not None else f"Loss: {engine.loss_choice}."
        step, epochs = len(losses), engine.epochs
        last = seen[-1] if seen else None
        state, epoch, line, shown = engine.state, engine.progress.epoch, _dashboard_line(editor), str(editor.model_id)
        return train_messages.TrainState(
            id, client, state, epoch, epochs, step, last, tuple(seen[::every]), text, line, shown
        )


def _types(category: str) -> tuple[str, ...]:
    return tuple(spec.type for spec in registry.values() if spec.category == category and spec.kind != "function")


def _variables() -> Mapping[str, Any]:
    """Return the variables that the notebook has now, by name."""
    shell = get_ipython()
    return {} if shell is None else dict(shell.user_ns)


def _package(known: Mapping[str, Any]) -> str:
    """Return how code of the notebook begins that names something of this package."""
    package = next((name for name, value in known.items() if value is sys.modules["pnne_nb"]), None)
    return f"{package}." if package else "import pnne_nb as pn\npn."


def _dashboard_line(editor: object) -> str:
    """Return the code that shows the dashboard of an editor's training; empty if no variable of the notebook is the editor."""
    known = _variables()
    names = [name for name, value in known.items() if value is editor and re.fullmatch(r"[^_]\w*|_\d+", name)]
    # Jupyter's own name of an output, `_3`, only where there is no other.
    chosen = min(names, key=lambda name: name[0] == "_", default="")
    return f"{_package(known)}TrainingDashboard({chosen}.engine)" if chosen else ""


def _modules() -> Iterator[train_messages.ModuleChoice]:
    """Yield the modules of the notebook, each with the line that opens it."""
    known = _variables()
    for name, value in sorted(known.items()):
        if isinstance(value, nn.Module) and not name.startswith("_"):
            line = f"{_package(known)}GraphEditor({name}, {_example_of(value, known)})"
            yield train_messages.ModuleChoice(name, type(value).__name__, line)


def _example_of(module: nn.Module, known: Mapping[str, Any]) -> str:
    """Return an argument that gives an example for the import: a variable that its first layer takes, or else a size."""
    first = next((each for each in module.modules() if isinstance(each, _READERS)), None)
    wanted: tuple[int | None, ...] = ()
    if isinstance(first, nn.Linear):
        wanted = (None, first.in_features)
    elif isinstance(first, _ConvNd):
        wanted = (None, first.in_channels, *[None] * len(first.kernel_size))
    for name, value in known.items():
        part, text = (value[0], f"{name}[0]") if isinstance(value, (tuple, list)) and value else (value, name)
        if not name.startswith("_") and isinstance(part, Tensor) and first is not None and _fits(part.shape, wanted):
            return f"args=({text}[:2],)"
    sizes = [2, *(size or 32 for size in wanted[1:])]
    return f"input_size=({', '.join(map(str, sizes))})" if wanted else "args=(x,)"


def _described(value: object, inputs: Sequence[object]) -> str:
    """Return what a variable is, if a graph with inputs of these shapes can be trained on it; else an empty string."""
    if isinstance(value, (DataLoader, Dataset)):
        return type(value).__name__
    if not isinstance(value, (tuple, list)) or len(value) != len(inputs) + 1 or not all(map(is_array, value)):
        return ""
    sizes = [tuple(getattr(part, "shape", ())) for part in value]
    if not all(sizes) or len({size[0] for size in sizes}) > 1:
        return ""
    if not all(_fits(size, wanted) for size, wanted in zip(sizes, inputs, strict=False)):
        return ""
    return ", ".join(f"[{', '.join(map(str, size))}]" for size in sizes)


def _fits(size: tuple[int, ...], wanted: object) -> bool:
    if not isinstance(wanted, tuple):
        return True
    inner = zip(size[1:], wanted[1:], strict=False)
    return len(size) == len(wanted) and all(not isinstance(each, int) or each == one for one, each in inner)
