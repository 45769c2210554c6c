"""What a model answers: the likeliest classes of one example, and the loss, the class and the confidence of all."""

from __future__ import annotations

import copy
import html
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, NamedTuple, TypeAlias, final

import ipywidgets
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from pnne_nb.compiler.analysis.device_rule import to_device
from pnne_nb.errors import ArgumentError, InspectionError, shown
from pnne_nb.graph.document import NodeGraph
from pnne_nb.inspector.capture.hooks import primary_tensor, tensors_in
from pnne_nb.inspector.questions.changes import Change
from pnne_nb.inspector.questions.example import opened
from pnne_nb.inspector.questions.intervene import intervene
from pnne_nb.runtime.evaluation import loss_of_each
from pnne_nb.runtime.objective.losses import Loss, loss_for, make_loss, scores_for_loss, target_for_loss
from pnne_nb.runtime.objective.metrics import chosen_classes
from pnne_nb.widgets.host.examples import Examples
from pnne_nb.widgets.host.piecework import Piecework

LIKELY: Final = 5
"""Answers that are shown of an example."""

MAX_ASKED: Final = 10_000
"""Most examples that are run for an order, a filter or a comparison over the data."""

_BATCH: Final = 256


Changed: TypeAlias = Mapping[str, Sequence[Change]]
"""Changes by layer."""


class Likely(NamedTuple):
    """A class: its number, its name, and its probability; of a quantity, its value."""

    place: int
    name: str
    share: float


@final
@dataclass(frozen=True)
class Answer:
    """What the model says of one example.

    Attributes:
        likely: The likeliest classes, best first; of an output without classes, its first values.
        classes: Whether these are classes, with probabilities.
        target: Index of the scores in the output of an example, without that of the class; ``()`` for `[n, k]`.
        scores: The scores `[k]`, or the output of the example.
    """

    likely: tuple[Likely, ...]
    classes: bool
    target: tuple[int, ...]
    scores: Tensor

    def __str__(self) -> str:
        numbers = (f"{one.name} {one.share:.1%}" if self.classes else f"{one.share:.4g}" for one in self.likely)
        return ", ".join(numbers)


@final
@dataclass(frozen=True, eq=False)
class Answers:
    """What the model says of the first examples, `[n]` each.

    Attributes:
        chosen: The class that it chooses, or -1.
        true: The class of the target, or -1.
        confidence: Probability of the chosen class; NaN without classes.
        loss: Of each example alone; NaN without a target.
    """

    chosen: NDArray[np.int64]
    true: NDArray[np.int64]
    confidence: NDArray[np.float64]
    loss: NDArray[np.float64]

    @property
    def accuracy(self) -> float:
        """Share of right answers; NaN without classes."""
        known = self.true >= 0
        return float(np.mean(self.chosen[known] == self.true[known])) if known.any() else float("nan")


def joined(parts: Sequence[tuple[NDArray[Any], ...]]) -> Answers:
    """Return what batches gave as one."""
    return Answers(*(np.concatenate(fields) for fields in zip(*parts, strict=True)))


@final
class Asked:
    """A model with its examples, and how its answers read.

    Args:
        net: The model.
        examples: The examples.
        labels: Names of the classes, or None.
        tokenizer: Turns the ids of tokens into texts, or None.
        loss: As `TrainingEngine` takes it, or None for the one that the targets suggest.

    Raises:
        ArgumentError: If `labels` are no texts, or `tokenizer` is none.
    """

    def __init__(
        self,
        net: nn.Module,
        examples: Examples,
        labels: Sequence[str] | None = None,
        tokenizer: Any = None,
        loss: Loss = None,
    ) -> None:
        if labels is not None and (isinstance(labels, str) or not hasattr(labels, "__iter__")):
            raise ArgumentError(
                f'labels must be the names of the classes, such as ["cat", "dog"], not {shown(labels)}.'
            )
        self.net, self.examples = net, examples
        self.loss: Callable[..., Tensor] | None = make_loss(loss)
        self.labels = None if labels is None else [str(name) for name in labels]
        self.tokenizer = tokenizer
        self.texts = None if tokenizer is None else partial(texts_of, tokenizer)

    def read(self, ids: Sequence[int]) -> list[str]:
        """Return the text of each token; its number where there is no tokenizer."""
        return list(map(str, ids)) if self.texts is None else self.texts(ids)

    def of(self, net: nn.Module) -> Asked:
        """Return the same questions to another network."""
        other = copy.copy(self)
        other.net = net
        return other

    def same(self, other: Asked) -> bool:
        """Return whether these are views of one model, or of what was made of it, with the same examples."""
        return self.examples.same(other.examples) and [*self.net.state_dict()] == [*other.net.state_dict()]

    def compares(self, target: object) -> Callable[..., Tensor] | None:
        """Return the loss that compares with `target`: the one given, or the usual one; None where there is none."""
        return self._usual if self.loss is None and isinstance(target, Tensor) else self.loss

    @staticmethod
    def _usual(output: object, target: Tensor) -> Tensor:
        loss, scores, wanted = _usual_loss(output, target)
        return loss(scores, wanted)

    def one(self, place: int, changes: Changed | None = None) -> Answer:
        """Return the answer for an example, with changes of layers as `pn.intervene` takes them.

        Raises:
            InspectionError: If there is no real output.
            Exception: An error of the model.
        """
        cut = self.examples.cut([place])
        with self._changed(changes), opened(self.net, cut.inputs, grad=False) as example:
            output = example.run()
            words = any(not tensor.is_floating_point() for tensor in example.inputs.values())
        return self._read(output, cut.target, words=words)

    def check(self) -> None:
        """Raise an error if the names that were given do not fit; what the model itself refuses is shown at the example.

        Raises:
            InspectionError: If there are more or fewer labels than classes, or texts than tokens.
        """
        if self.texts is not None:
            self.texts([0, 0])
        if self.labels is None or not self.examples.given:
            return
        try:
            answer = self.one(0)
        except Exception:  # noqa: BLE001  shown at the example
            return
        if answer.classes and len(self.labels) != len(answer.scores):
            raise InspectionError(
                f"labels has {len(self.labels)} names, and the model gives {len(answer.scores)} scores: give a name for each"
                " class."
            )

    def all(self, changes: Changed | None = None) -> Answers:
        """Return the answers for the first examples, at most `MAX_ASKED`; see `one`."""
        return joined([self.batch(places, changes) for places in self.batches()])

    def batches(self) -> list[range]:
        """Return the first examples, at most `MAX_ASKED`, in pieces that are run at once."""
        count = min(self.examples.count, MAX_ASKED)
        return [range(start, min(start + _BATCH, count)) for start in range(0, count, _BATCH)]

    def _changed(self, changes: Changed | None) -> AbstractContextManager[object]:
        return intervene(self.net, changes) if changes else nullcontext()

    def batch(self, places: Sequence[int], changes: Changed | None) -> tuple[NDArray[Any], ...]:
        """Return the fields of `Answers` for some examples."""
        cut, n = self.examples.cut(places), len(places)
        with self._changed(changes), opened(self.net, cut.inputs, grad=False) as example:
            output = example.run()
        scores = primary_tensor(output)
        chosen, true = np.full(n, -1), np.full(n, -1)
        confidence, losses = np.full(n, np.nan), np.full(n, np.nan)
        if not isinstance(scores, Tensor) or scores.dim() == 0 or len(scores) != n:
            return chosen, true, confidence, losses
        output, scores, target = to_device((output, scores.detach(), cut.target), torch.device("cpu"))
        if isinstance(target, Tensor) or (self.loss is not None and target is not None):
            loss, given, wanted = (self.loss, output, target) if self.loss else _usual_loss(scores, target)
            losses = loss_of_each(loss, scores_for_loss(loss, given, wanted), wanted, n).double().numpy()
        if isinstance(target, Tensor):
            classes = chosen_classes(scores, target)
            if classes is not None and classes[1].numel() == n:
                chosen, true = (part.reshape(n).long().numpy() for part in classes)
        if scores.dim() == 2 and scores.shape[1] > 1 and not _quantities(scores, target):
            confidence = shares(scores).amax(1).double().numpy()
            chosen = scores.argmax(1).numpy() if target is None else chosen
        return chosen, true, confidence, losses

    def name(self, place: int) -> str:
        """Return the name of a class, or the text of a token."""
        if self.labels is not None:
            return self.labels[place] if 0 <= place < len(self.labels) else str(place)
        return self.read([place])[0]

    def _read(self, output: object, target: object, *, words: bool) -> Answer:
        tensor = primary_tensor(output)
        if tensor is None or not tensor.is_floating_point():
            raise InspectionError(f"The model returns {shown(output)}, in which there is no real number to show.")
        tensor = tensor.detach().float().cpu()
        each = tensor[0] if tensor.dim() > 1 else tensor
        place: tuple[int, ...] = ()
        if each.dim() == 2 and words:
            each, place = each[-1], (-1,)  # the scores of the next token
        if each.dim() != 1 or len(each) < 2 or _quantities(tensor, target):
            values = each.flatten()[:LIKELY].tolist()
            return Answer(tuple(Likely(i, f"[{i}]", value) for i, value in enumerate(values)), False, place, each)
        found = shares(each[None])[0]
        best = found.topk(min(LIKELY, len(found))).indices.tolist()
        return Answer(tuple(Likely(i, self.name(i), float(found[i])) for i in best), True, place, each)


@final
@dataclass(frozen=True)
class Access:
    """How the parts of an explorer get at its model.

    Attributes:
        asked: Returns the model with its examples.
        alone: Calls a function when no cell and no training uses the model.
        graph: Returns the drawn graph in which changes are kept.
        settings: What was chosen last in the panel, by the name of the control.
        work: What is still computed for the panel.
    """

    asked: Callable[[], Asked]
    alone: Callable[[Callable[[], Any]], Any]
    graph: Callable[[], NodeGraph]
    settings: dict[str, Any] = field(default_factory=dict)
    work: Piecework = field(default_factory=Piecework)


def refused(error: Exception) -> str:
    """Return an error as HTML."""
    return f'<div class="pnne-finding" role="alert">{html.escape(f"{type(error).__name__}: {error}")}</div>'


def show_in(place: ipywidgets.HTML, make: Callable[[], str]) -> None:
    """Show a text, or why it could not be made, where it was asked for."""
    try:
        place.value = make()
    except Exception as error:  # noqa: BLE001  the model's own errors too
        place.value = refused(error)


def tokens_html(texts: Sequence[str]) -> str:
    """Return tokens side by side, as HTML."""
    return f'<div class="pnne-tokens">{"".join(f"<span>{html.escape(text)}</span>" for text in texts)}</div>'


def first_tensor(inputs: object) -> Tensor | None:
    """Return the first tensor among the inputs of an example."""
    return next((tensor for _, tensor in tensors_in(inputs)), None)


def shares(scores: Tensor) -> Tensor:
    """Return scores `[n, k]` as probabilities; those that are some already stay as they are."""
    if bool((scores >= 0).all()) and torch.allclose(scores.sum(1), torch.ones(len(scores)), atol=1e-4):
        return scores
    return scores.softmax(1)


def texts_of(tokenizer: Any, ids: Sequence[int]) -> list[str]:
    """Return the text of each token.

    Args:
        tokenizer: With ``convert_ids_to_tokens`` or ``decode``; a function of ids that returns their texts; or the texts in
            the order of their ids.
        ids: The tokens.

    Raises:
        InspectionError: If there are more or fewer texts than tokens, or none for one of them.
        ArgumentError: If it is none of these.
    """
    given = list(ids)
    if isinstance(tokenizer, Sequence):
        unknown = [one for one in given if not 0 <= one < len(tokenizer)]
        if unknown:
            raise InspectionError(f"tokenizer has {len(tokenizer)} texts, and none for the token {unknown[0]}.")
        return [str(tokenizer[one]) for one in given]
    if hasattr(tokenizer, "convert_ids_to_tokens"):
        found = tokenizer.convert_ids_to_tokens(given)
    elif hasattr(tokenizer, "decode"):
        found = [tokenizer.decode([one]) for one in given]
    elif callable(tokenizer):
        found = tokenizer(given)
    else:
        raise ArgumentError(
            "tokenizer must have decode, be a function of ids, or the texts in the order of their ids, not"
            f" {shown(tokenizer)}."
        )
    if isinstance(found, str) or len(found) != len(given):
        raise InspectionError(
            f"tokenizer gives {1 if isinstance(found, str) else len(found)} texts for {len(given)} tokens: it must return one"
            " for each."
        )
    return [str(one) for one in found]


def _usual_loss(output: object, target: Tensor) -> tuple[Callable[..., Tensor], object, Any]:
    """Return the loss that the target suggests, with output and target as it takes them."""
    scores = primary_tensor(output)
    loss = make_loss(loss_for(None if scores is None else scores[:1], target).name)
    assert loss is not None  # of a name
    return loss, scores_for_loss(loss, scores, target), target_for_loss(loss, scores, target)


def _quantities(output: Tensor, target: object) -> bool:
    return (
        isinstance(target, Tensor)
        and target.is_floating_point()
        and target.shape == output.shape
        and (output.dim() < 2 or not bool(((target == 0) | (target == 1)).all()))
    )
