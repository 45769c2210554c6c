"""Evaluation after a training: confused classes, and the examples with the greatest loss."""

from __future__ import annotations

import copy
import zlib
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeAlias, final

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from pnne_nb.errors import ArgumentError, TrainingError, answers_misuse, expect, no_attribute
from pnne_nb.habits import Habits
from pnne_nb.runtime.data.batches import Batch
from pnne_nb.runtime.data.open_data import Data, require_count
from pnne_nb.runtime.engine import TrainingEngine
from pnne_nb.runtime.faults.oom_recovery import cut
from pnne_nb.runtime.objective.losses import scores_for_loss
from pnne_nb.runtime.objective.metrics import chosen_classes
from pnne_nb.runtime.session.evaluate import outputs
from pnne_nb.telemetry.plot_hook import installed_plots

Labels: TypeAlias = Tensor | NDArray[Any] | Sequence[Any]
"""Classes, one for each example, or scores of classes."""

_MOST: Final = 40
"""Classes that the table of a confusion matrix shows."""


@final
@dataclass(eq=False, repr=False)
class ConfusionMatrix:
    """The confusion matrix of a model; a notebook shows it as a table.

    Attributes:
        counts: `[classes, classes]`, true classes in rows, predicted ones in columns.
        labels: Names of the classes.
        data: What it was counted on, in words.
        key: Names the targets; see `fingerprint`.
    """

    counts: NDArray[np.int64]
    labels: tuple[str, ...]
    data: str
    key: str = ""

    if not TYPE_CHECKING:  # for a type checker, it would then have any attribute

        def __getattr__(self, name: str) -> NoReturn:
            raise no_attribute(self, name, Habits("confusion"))

    @property
    def accuracy(self) -> float:
        """Share of right predictions, 0 to 1; NaN without any."""
        total = int(self.counts.sum())
        return float(np.trace(self.counts)) / total if total else float("nan")

    def to_frame(self) -> pd.DataFrame:
        """Return the counts as a table."""
        index, columns = (pd.Index(self.labels, name=name) for name in ("true", "predicted"))
        return pd.DataFrame(self.counts, index=index, columns=columns)

    def by_class(self) -> pd.DataFrame:
        """Precision, recall and number of examples of each class; NaN where a class was never predicted, or never occurs."""
        right = np.diag(self.counts).astype(float)
        with np.errstate(divide="ignore", invalid="ignore"):
            columns = {"precision": right / self.counts.sum(0), "recall": right / self.counts.sum(1)}
        return pd.DataFrame({**columns, "examples": self.counts.sum(1)}, index=pd.Index(self.labels, name="class"))

    def __repr__(self) -> str:
        return f"ConfusionMatrix({self._said}):\n{self.to_frame()}"

    @property
    def _said(self) -> str:
        return (
            f"{len(self.labels)} classes, {self.counts.sum()} predictions on {self.data}, accuracy {self.accuracy:.3f}"
        )

    def _repr_html_(self) -> str:
        if len(self.labels) > _MOST:
            return f"<p>{escape(self._said)}</p>{self.to_frame().to_html()}"
        head = "".join(f"<th style='padding:2px 8px'>{escape(label)}</th>" for label in self.labels)
        rows = "".join(
            f"<tr><th style='text-align:left'>{escape(label)}</th>{''.join(self._cells(true, row))}</tr>"
            for true, (label, row) in enumerate(zip(self.labels, self.counts, strict=True))
        )
        return (
            f"<p>{escape(self._said)}. Rows: the true class. Columns: the predicted one. A click on a number shows its examples in"
            " a pn.ModuleExplorer of these data.</p>"
            f"<table><thead><tr><th></th>{head}</tr></thead><tbody>{rows}</tbody></table>"
        )

    def _cells(self, true: int, row: NDArray[np.int64]) -> Iterator[str]:
        for predicted, (count, share) in enumerate(zip(row, row / max(1, row.sum()), strict=True)):
            words = f"{count} of class {self.labels[true]}, predicted {self.labels[predicted]}"
            shown = _opens(f"pair:{self.key}:{true}:{predicted}", str(count), words) if count else ""
            colour = f"background:rgba(47,134,201,{0.75 * share:.2f})"
            yield f"<td style='text-align:right;padding:2px 8px;{colour}'>{shown}</td>"


def fingerprint(targets: Tensor) -> str:
    """Return a short text that names targets in their order, by which a table finds the explorer of the same data."""
    numbers = targets.detach().cpu()
    whole = numbers.double() if numbers.is_floating_point() else numbers.long()
    return f"{len(targets)}-{zlib.crc32(np.ascontiguousarray(whole.numpy()).tobytes()):08x}"


def _opens(ask: str, text: str, words: str) -> str:
    """Return a button that asks the explorers of the page; without one, and without a kernel, it is plain text."""
    style = "background:none;border:0;padding:0;font:inherit;color:inherit;cursor:pointer"
    return f'<button data-pnne-ask="{escape(ask)}" aria-label="{escape(words)}" style="{style}">{escape(text)}</button>'


@final
@dataclass(eq=False, repr=False)
class WorstExamples:
    """The examples with the greatest loss, the worst first; a notebook shows them as a table, with images.

    Attributes:
        indices: Their places in the data.
        losses: Of each alone.
        inputs: What the model was given of each: its positional arguments, or a mapping by name.
        targets: What it should have given.
        predictions: The class that it chose, or what it gave where the targets are no classes.
        data: What was looked at, in words.
        key: Names the targets of all examples; see `fingerprint`.
    """

    indices: list[int]
    losses: list[float]
    inputs: list[Any]
    targets: list[Any]
    predictions: list[Any]
    data: str
    key: str = ""

    def __len__(self) -> int:
        return len(self.indices)

    def to_frame(self) -> pd.DataFrame:
        """Return one row for each example."""
        columns = {"loss": self.losses, "target": map(_brief, self.targets), "predicted": map(_brief, self.predictions)}
        return pd.DataFrame(
            {name: list(values) for name, values in columns.items()}, index=pd.Index(self.indices, name="example")
        )

    def __repr__(self) -> str:
        return f"WorstExamples of {self.data}:\n{self.to_frame()}"

    def _repr_html_(self) -> str:
        tiles = [_tile(given) for given in self.inputs]
        caption = f"The worst examples of {self.data}: {', '.join(map(str, self.indices))}"
        shapes = {None if tile is None else tile.shape for tile in tiles}
        pictures = installed_plots().tiles(np.stack(tiles), caption) if len(shapes) == 1 and None not in shapes else ""  # type: ignore[arg-type]  # none is None
        columns: dict[str, Callable[[Any], str]] = dict.fromkeys(
            ("target", "predicted"), lambda value: escape(str(value))
        )
        columns["example"] = lambda place: _opens(f"example:{self.key}:{place}", str(place), f"Example {place}")
        table = self.to_frame().reset_index().to_html(index=False, escape=False, formatters=columns)
        return f"<p>{escape(caption)}. A click on a number shows it in a pn.ModuleExplorer of these data.</p>{pictures}{table}"


@answers_misuse(
    "pn.confusion(engine)",
    dict.fromkeys(("class_names", "display_labels", "labels", "names", "target_names"), 'classes=["cat", "dog"]'),
    normalize="pn.confusion(engine).by_class() for the shares",
)
def confusion(
    engine: TrainingEngine | Labels, data: Data | Labels | None = None, *, classes: Sequence[str] | None = None
) -> ConfusionMatrix:
    """Return the confusion matrix of a training's model; a running training waits meanwhile.

    ::

        pn.confusion(engine)
        pn.confusion(y, predicted)  # of any model: the true classes and the predicted ones, or the scores of classes

    Args:
        engine: The training; or the true classes `[N]`, whole numbers or texts.
        data: In any form that `TrainingEngine` takes; None for its validation data, or without any its training data. Beside
            true classes, the predicted ones `[N]`, or scores `[N, classes]`.
        classes: Names of the classes, in their order.

    Raises:
        TrainingError: The targets are no classes, or only a step function knows how to compare.
        ArgumentError: `engine` is neither a training nor classes, or two arrays do not fit each other.
    """
    if not isinstance(engine, TrainingEngine) and data is not None:
        return confusion_of(engine, data, classes)  # type: ignore[arg-type]  # what is no classes is refused there
    expect(engine, TrainingEngine, "engine", "a TrainingEngine", "pn.confusion(y, predicted) takes arrays of classes.")
    assert isinstance(engine, TrainingEngine), "just checked"
    pairs: list[tuple[Tensor, Tensor]] = []
    with closing(_outputs(engine, data)) as batches:  # type: ignore[arg-type]  # labels come with labels
        for batch, output in batches:
            found = chosen_classes(output, batch.target)
            if found is None:
                raise TrainingError(
                    "The targets are no classes, so there is nothing to confuse. pn.worst(engine) shows the examples with "
                    "the greatest loss."
                )
            pairs.append((found[0].flatten().cpu(), found[1].flatten().cpu()))
    chosen, wanted = (torch.cat(parts).long() for parts in zip(*pairs, strict=True))
    classes = engine.classes if classes is None else classes
    key = fingerprint(wanted)
    counted = wanted >= 0
    ignored = getattr(engine._loop.recipe.loss, "ignore_index", None)
    if ignored is not None:
        counted &= wanted != ignored
    chosen, wanted = chosen[counted], wanted[counted]
    size = max([int(part.max()) + 1 for part in (chosen, wanted) if part.numel()] + [len(classes or ())])
    labels = [str(number) for number in range(size)] if classes is None else [str(name) for name in classes]
    if len(labels) < size:
        raise TrainingError(f"classes has {len(labels)} names, and there are {size} classes.")
    counts = torch.bincount(wanted * size + chosen, minlength=size * size).reshape(size, size)
    return ConfusionMatrix(counts.numpy(), tuple(labels), _named(engine, data), key)  # type: ignore[arg-type]  # likewise


def confusion_of(true: Labels, predicted: Labels, classes: Sequence[str] | None) -> ConfusionMatrix:
    """Return the confusion matrix of two arrays; see `confusion`.

    Raises:
        ArgumentError: They have different lengths, are no classes, or `classes` lacks one of them.
    """
    wanted, chosen = _labels(true, "y"), _labels(predicted, "predicted")
    if len(wanted) != len(chosen):
        raise ArgumentError(
            f"y has {len(wanted)} classes and predicted {len(chosen)}: give one of each for every example."
        )
    if wanted.dtype.kind != chosen.dtype.kind:
        raise ArgumentError(
            "One of y and predicted holds texts, the other numbers. Write pn.confusion(y, np.asarray(names)[predicted])."
        )
    if wanted.dtype.kind == "U":
        names = sorted({*wanted.tolist(), *chosen.tolist()}) if classes is None else [str(name) for name in classes]
        unknown = sorted({*wanted.tolist(), *chosen.tolist()} - set(names))
        if unknown:
            raise ArgumentError(f"classes lacks {', '.join(map(repr, unknown[:5]))}, which y or predicted has.")
        places = {name: place for place, name in enumerate(names)}
        wanted, chosen = (
            np.array([places[name] for name in part.tolist()], dtype=np.int64) for part in (wanted, chosen)
        )
    else:
        if min(wanted.min(initial=0), chosen.min(initial=0)) < 0:
            raise ArgumentError("Numbers of classes begin at 0, and there is a negative one in y or predicted.")
        size = int(max(wanted.max(initial=-1), chosen.max(initial=-1))) + 1
        names = [str(number) for number in range(size)] if classes is None else [str(name) for name in classes]
        if len(names) < size:
            raise ArgumentError(f"classes has {len(names)} names, and there are {size} classes.")
    counts = np.zeros((len(names), len(names)), dtype=np.int64)
    np.add.at(counts, (wanted, chosen), 1)
    return ConfusionMatrix(counts, tuple(names), "the arrays given", fingerprint(torch.from_numpy(wanted)))


def _labels(given: Labels, name: str) -> NDArray[Any]:
    """Return classes as an array `[N]` of whole numbers or texts; of scores `[N, classes]`, the highest."""
    values = given.detach().cpu().numpy() if isinstance(given, Tensor) else np.asarray(given)
    if values.ndim == 2 and values.shape[1] > 1 and values.dtype.kind == "f":
        values = values.argmax(1)
    elif values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.dtype.kind == "O" and all(isinstance(each, str) for each in values.flat):
        values = values.astype(str)
    if values.ndim != 1 or values.dtype.kind not in "iubU":
        raise ArgumentError(
            f"{name} must be classes, one for each example: whole numbers or texts, not {values.dtype} of the shape "
            f"{values.shape}."
        )
    return values if values.dtype.kind == "U" else values.astype(np.int64)


@answers_misuse(
    "pn.worst(engine, 10)", dict.fromkeys(("count", "k", "n_samples", "top", "top_k"), "n=10; pn.worst(engine, 10)")
)
def worst(engine: TrainingEngine, n: int = 10, data: Data | None = None) -> WorstExamples:
    """Find the examples with the greatest loss; a running training waits meanwhile.

    Args:
        engine: The training.
        n: How many.
        data: In any form that `TrainingEngine` takes; None for its validation data, or without any its training data.

    Raises:
        TrainingError: The loss is that of the model or of a step function, which tell it of whole batches only.
        ArgumentError: `engine` is no training.
    """
    require_count("n", n)
    kept: list[tuple[float, int, Any, Any, Any]] = []
    seen = 0
    wanted: list[Tensor] = []
    with closing(_outputs(engine, data)) as batches:
        for batch, output in batches:
            wanted += [batch.target.cpu()] if isinstance(batch.target, Tensor) else []
            loss = engine._loop.recipe.loss
            assert loss is not None, "_outputs has looked"
            scores = scores_for_loss(loss, output, batch.target)
            losses = loss_of_each(loss, scores, batch.target, batch.examples).nan_to_num(nan=float("inf")).cpu()
            found = chosen_classes(output, batch.target)
            predicted = output if found is None else found[0].long()
            for place in losses.topk(min(n, batch.examples)).indices.tolist():
                parts = (batch.named or batch.inputs, batch.target, predicted)
                alone = (_unbatched(_at(part, place, batch.examples)) for part in parts)
                kept.append((float(losses[place]), seen + place, *alone))
            seen += batch.examples
            kept = sorted(kept, key=lambda entry: (-entry[0], entry[1]))[:n]
    values, indices, inputs, targets, predictions = (list(column) for column in zip(*kept, strict=True))
    key = fingerprint(torch.cat(wanted)) if wanted else ""
    return WorstExamples(indices, values, inputs, targets, predictions, _named(engine, data), key)


def _named(engine: TrainingEngine, data: Data | None) -> str:
    if data is not None:
        return "the data given"
    return "the training data" if engine._loop.recipe.val is None else "the validation data"


def _outputs(engine: TrainingEngine, data: Data | None) -> Generator[tuple[Batch, Any]]:
    expect(engine, TrainingEngine, "engine", "a TrainingEngine", "pn.TrainingEngine(model, data) makes one.")
    return outputs(engine._session, data)


def loss_of_each(loss: Callable[[Any, Any], Tensor], output: Any, target: Any, examples: int) -> Tensor:
    """Return the loss of each of so many examples alone, `[n]`."""
    if isinstance(loss, nn.Module) and getattr(loss, "reduction", None) in {"mean", "sum"}:
        single: Any = copy.copy(loss)
        single.reduction = "none"
        values = single(output, target)
        if isinstance(values, Tensor) and values.dim() and values.shape[0] == examples:
            means: Tensor = values.reshape(examples, -1).float().mean(1)
            return means
    pairs = [_at((output, target), place, examples) for place in range(examples)]
    return torch.stack([loss(*pair).float() for pair in pairs])


def _at(value: Any, place: int, examples: int) -> Any:
    return cut(value, slice(place, place + 1), examples)


def _unbatched(value: Any) -> Any:
    """Return the example of a batch of one on the CPU; a single input is not a tuple."""
    match value:
        case Tensor():
            return value[0].cpu()
        case Mapping():
            return {name: _unbatched(part) for name, part in value.items()}
        case (single,):
            return _unbatched(single)
        case tuple() | list():
            return tuple(map(_unbatched, value))
        case _:
            return value


def _brief(value: Any) -> Any:
    """Return a number as a number, a larger tensor by its shape."""
    if not isinstance(value, Tensor):
        return value if isinstance(value, str | int | float) else type(value).__name__
    if value.numel() == 1:
        number = value.item()
        return round(number, 4) if isinstance(number, float) else number
    return (
        [round(float(one), 3) for one in value] if value.dim() == 1 and value.numel() <= 5 else f"{tuple(value.shape)}"
    )


def _tile(given: Any) -> NDArray[np.float32] | None:
    """Return an input as a picture `[h, w]`, if it is one."""
    if not isinstance(given, Tensor) or not given.is_floating_point():
        return None
    grey = given.float().mean(0) if given.dim() == 3 and given.shape[0] in {1, 3} else given.float()
    picture: NDArray[np.float32] = grey.numpy()
    return picture if grey.dim() == 2 and min(grey.shape) >= 4 else None
