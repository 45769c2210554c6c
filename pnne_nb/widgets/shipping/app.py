"""`app`: shows the inputs of a trained model as controls and its outputs beside them; the graph is hidden."""

from __future__ import annotations

import html
import inspect
import itertools
from collections.abc import Mapping, Sequence
from typing import Any, Final, final

import ipywidgets
import numpy as np
import torch
from torch import Tensor, nn

from pnne_nb.errors import ArgumentError, PnneError, answers_misuse, expect, near
from pnne_nb.graph.document import NodeGraph
from pnne_nb.inference.inference_engine import InferenceEngine
from pnne_nb.runtime.data.batches import as_batch
from pnne_nb.runtime.engine import TrainingEngine
from pnne_nb.widgets.host.displays import answer_while_busy, close_parts
from pnne_nb.widgets.host.images import picture
from pnne_nb.widgets.host.static_picture import Kept, KeptPicture
from pnne_nb.widgets.plots.svg_chart import PALETTE

MAX_FIELDS: Final = 32
"""Most numbers of one input that get a field each; larger inputs are chosen from the examples."""
_FIRST: Final = 20
"""Examples of a training's data to begin with."""
MAX_ROWS: Final = 10
"""Most rows of an output that are shown; of classes, the likeliest."""

Examples = Tensor | np.ndarray[Any, Any] | Mapping[str, Any]


@final
class ModelApp(ipywidgets.VBox, Kept):
    """Controls for a model's inputs, beside the outputs, which follow each change.

    Args:
        model: The model; a copy of it is run.
        examples: Examples of the inputs, by name.
        labels: Names of the classes.
        features: Names of the numbers of an input, for their fields.
        inputs: Names of the inputs that are shown.
        outputs: Names of the outputs that are shown; empty for all.
        title: The heading.
    """

    def __init__(
        self,
        model: InferenceEngine,
        examples: Mapping[str, Tensor],
        labels: Sequence[str] | None,
        features: Sequence[str] | None,
        inputs: Sequence[str],
        outputs: Sequence[str],
        title: str,
    ) -> None:
        self._kept = KeptPicture(lambda: "the app", self.to_html)
        self._model = model
        self._examples = examples
        self._labels = labels
        self._outputs = outputs
        self._now = {name: tensor[:1].clone() for name, tensor in examples.items()}
        self._filling = False
        self._pictures = {name: ipywidgets.HTML() for name in inputs}
        self._fields = {name: _fields(examples[name], features) for name in inputs}
        count = len(next(iter(examples.values())))
        self._chooser = ipywidgets.IntSlider(
            value=0, max=count - 1, description="Example", continuous_update=False,
            layout=ipywidgets.Layout(display="" if count > 1 else "none"),
        )  # fmt: skip
        self._result = ipywidgets.HTML()
        shown = [self._chooser]
        for name in inputs:
            named = ipywidgets.HTML(f"<strong>{html.escape(name)}</strong>")
            shown += [named, self._pictures[name], *self._fields[name]]
        self._heading = ipywidgets.HTML(f"<h2>{html.escape(title)}</h2>" if title else "")
        left = ipywidgets.VBox(shown, layout=ipywidgets.Layout(margin="0 32px 0 0"))
        right = ipywidgets.VBox([self._result], layout=ipywidgets.Layout(min_width="320px"))
        body = ipywidgets.HBox([left, right], layout=ipywidgets.Layout(flex_flow="row wrap"))
        super().__init__([self._heading, body])
        self.add_class("pnne-app")
        self._chooser.observe(lambda change: self._choose(change["new"]), "value")
        for name, fields in self._fields.items():
            for place, field in enumerate(fields):
                field.observe(lambda change, name=name, place=place: self._typed(name, place, change["new"]), "value")
        for control in (self._chooser, *itertools.chain(*self._fields.values())):
            answer_while_busy(control)
        self._choose(0)

    def __repr__(self) -> str:
        return f"ModelApp({', '.join(self._pictures)})"

    def to_html(self) -> str:
        """Return the current inputs and outputs as tables and images that need no kernel."""
        inputs = "".join(f"<strong>{html.escape(name)}</strong>{self._input(name)}" for name in self._pictures)
        return f"{self._heading.value}{inputs}{self._result.value}"

    def _input(self, name: str) -> str:
        numbers = self._now[name].flatten().tolist()
        if not self._fields[name]:
            return f"<p>{self._pictures[name].value}</p>"
        fields = zip(self._fields[name], numbers, strict=True)
        return _rows([(field.description, f"{number:.4g}", 0.0) for field, number in fields])

    def close(self) -> None:
        """Close all its widgets."""
        self._kept.close()
        close_parts(self)
        super().close()

    def _choose(self, place: int) -> None:
        """Show an example and its outputs."""
        self._now = {name: tensor[place : place + 1].clone() for name, tensor in self._examples.items()}
        self._filling = True
        for name, fields in self._fields.items():
            for field, number in zip(fields, _written(self._now[name].flatten()), strict=False):
                field.value = number
        self._filling = False
        self._show()

    def _typed(self, name: str, place: int, number: float) -> None:
        if not self._filling:
            self._now[name].view(-1)[place] = number
            self._show()

    def _show(self) -> None:
        for name, shown in self._pictures.items():
            shown.value = _drawn(name, self._now[name][0]) if not self._fields[name] else ""
        values = tuple(self._now.values())
        try:
            answer = self._model.predict(values[0] if len(values) == 1 else values)
        except (PnneError, RuntimeError, ValueError) as error:
            self._result.value = f'<p role="alert">{html.escape(str(error))}</p>'
            return
        self._result.value = "".join(
            f"<strong>{html.escape(name)}</strong>{self._table(value)}" for name, value in self._named(answer)
        )
        self._kept.changed()

    def _named(self, answer: Any) -> list[tuple[str, Tensor]]:
        """Return the outputs with their names, or with numbers if the model has no names for them."""
        match answer:
            case Mapping():
                found = {str(name): value for name, value in answer.items()}
            case tuple() | list():
                names = self._outputs if len(self._outputs) == len(answer) else range(1, len(answer) + 1)
                found = dict(zip(map(str, names), answer, strict=True))
            case _:
                found = {self._outputs[0] if len(self._outputs) == 1 else "output": answer}
        chosen = {name: value for name, value in found.items() if name in self._outputs} or found
        return [(name, value) for name, value in chosen.items() if isinstance(value, Tensor)]

    def _table(self, value: Tensor) -> str:
        row = (value[0] if value.dim() else value).detach().float().cpu()
        if self._labels is not None and row.dim() == 1 and len(row) == len(self._labels):
            shares = row.softmax(0)
            best = shares.argsort(descending=True)[:MAX_ROWS].tolist()
            return _rows([(self._labels[place], f"{shares[place]:.1%}", float(shares[place])) for place in best])
        numbers = row.flatten()
        rows = [(str(place), f"{number:.4g}", 0.0) for place, number in enumerate(numbers[:MAX_ROWS].tolist())]
        more = f"<p>… {len(numbers) - MAX_ROWS} more numbers</p>" if len(numbers) > MAX_ROWS else ""
        return _rows(rows if len(rows) > 1 else [("", rows[0][1], 0.0)]) + more


@answers_misuse(
    "pn.app(engine, X[:20])", dict.fromkeys(("class_names", "classes", "target_names"), 'labels=["cat", "dog"]')
)
def app(
    model: nn.Module | NodeGraph | TrainingEngine | InferenceEngine,
    examples: Examples | None = None,
    *,
    labels: Sequence[str] | None = None,
    features: Sequence[str] | None = None,
    inputs: Sequence[str] | None = None,
    outputs: Sequence[str] | None = None,
    title: str = "",
) -> ModelApp:
    """Show a model's inputs as controls and its outputs beside them, for people who use it.

    ``voila notebook.ipynb`` serves a notebook that ends with it as a page (the extra ``pnne_nb[voila]``).

    Args:
        model: A module, a graph, a training, or an `InferenceEngine`, also one that has loaded a file; a copy is run.
        examples: Inputs to begin with, one or several ``[n, ...]``; a mapping by name where the model takes several.
            None takes the first 20 of a training's data. Up to 32 numbers have a field each; pictures ``[n, h, w]`` and
            ``[n, 1 or 3, h, w]`` are shown.
        labels: Names of the classes, where the model gives scores for classes ``[n, classes]``.
        features: Names of the numbers of an input ``[n, features]``.
        inputs: Names of the inputs to show; the others stay as they are in the example.
        outputs: Names of the outputs to show.
        title: A heading.

    Raises:
        ArgumentError: There is no example, or no such input.
    """
    kinds = "a tensor, an array, or a mapping of them"
    if examples is None and isinstance(model, TrainingEngine):
        examples = _examples(model)
    expect(examples, Tensor | np.ndarray | Mapping, "examples", kinds, "Such as x_val[:20].")
    given = examples if isinstance(examples, Mapping) else {"input": examples}
    tensors = {name: torch.as_tensor(value) for name, value in given.items()}
    if not tensors or any(tensor.dim() == 0 or len(tensor) == 0 for tensor in tensors.values()):
        raise ArgumentError(
            "examples holds no example: pass at least one for each input, [n, ...] with n of at least 1."
        )
    for name in inputs or ():
        if name not in tensors:
            raise ArgumentError(f"inputs names {name!r}, of which examples has none.{near(name, tensors)}")
    if outputs is None and isinstance(model, NodeGraph):
        outputs = [node.name for node in model.nodes.values() if node.type == "Output"]
    module = model.module if isinstance(model, TrainingEngine) else model
    engine = module if isinstance(module, InferenceEngine) else InferenceEngine(module)
    return ModelApp(engine, tensors, labels or engine.classes, features, inputs or list(tensors), outputs or (), title)


def _examples(engine: TrainingEngine) -> Examples | None:
    """Return the first inputs of a training's data, by name where there are several; None of a stream."""
    given = engine.examples(_FIRST)
    if given is None:
        return None
    batch = as_batch(given, wants_target=engine.recipe.compares, model=engine.recipe.called)
    if len(batch.inputs) == 1 and not batch.named:
        first: Examples = batch.inputs[0]
        return first
    return batch.named or dict(zip(inspect.signature(engine.module.forward).parameters, batch.inputs, strict=False))


def _fields(examples: Tensor, features: Sequence[str] | None) -> list[ipywidgets.Widget]:
    """Return a field for each number of an input, if they are few."""
    count = examples[0].numel()
    if examples.dim() > 2 or count > MAX_FIELDS:
        return []
    names = features if features is not None and len(features) == count else [f"[{place}]" for place in range(count)]
    kind = ipywidgets.FloatText if examples.is_floating_point() else ipywidgets.IntText
    return [kind(description=name, style={"description_width": "120px"}) for name in names]


def _written(numbers: Tensor) -> list[float]:
    """Return numbers as a person writes them: the float32 of 5.1 is 5.1, and as a Python float 5.099999904632568."""
    if not numbers.is_floating_point():
        return numbers.tolist()
    exact = numbers.cpu().numpy() if numbers.dtype != torch.bfloat16 else numbers.cpu().float().numpy()
    return [float(str(number)) for number in exact]


def _drawn(name: str, example: Tensor) -> str:
    """Return an input that is no row of numbers, as a picture or in words."""
    if example.dim() == 3 and example.shape[0] in (1, 3):
        example = example.float().mean(0)
    if example.dim() == 2 and example.is_floating_point():
        return picture(example[None].numpy(), f"The input {name}", signed=False, width=160)
    return html.escape(f"{'×'.join(map(str, example.shape))} numbers of {example.dtype}".replace("torch.", ""))


def _rows(rows: Sequence[tuple[str, str, float]]) -> str:
    cells = "".join(
        f"<tr><th>{html.escape(name)}</th><td>{value}</td>"
        f'<td><span style="display:inline-block;height:10px;width:{160 * share:.0f}px;background:{PALETTE[0]}"></span></td></tr>'
        for name, value, share in rows
    )
    return f'<table class="pnne-facts"><tbody>{cells}</tbody></table>'
