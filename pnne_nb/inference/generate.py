"""`generate`: lets a language model write, token by token, and keeps what it thought of at each step."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from typing import Any, Final, NamedTuple, Protocol, final

import torch
from torch import Tensor, nn

from pnne_nb.errors import ArgumentError, TrainingError, expect, shown
from pnne_nb.graph.document import NodeGraph
from pnne_nb.inference.inference_engine import InferenceEngine
from pnne_nb.runtime.data.open_data import require_count
from pnne_nb.runtime.engine import TrainingEngine

LIKELY: Final = 5
"""Tokens that are kept of each step, besides the one that was drawn."""


class Tokenizer(Protocol):
    """Turns a text into token ids and back, as those of Hugging Face and sentencepiece do."""

    def encode(self, text: str, /) -> Any:
        """Return the ids of a text."""
        ...

    def decode(self, ids: Any, /) -> str:
        """Return the text of ids."""
        ...


class Candidate(NamedTuple):
    """A token with the probability that the model gave it."""

    token: int
    text: str
    probability: float


class Step(NamedTuple):
    """One generated token.

    Attributes:
        drawn: The token, with its probability after `temperature` and `top_k`.
        likely: The likeliest tokens of this step, best first.
    """

    drawn: Candidate
    likely: tuple[Candidate, ...]


@final
class Generation:
    """What a language model wrote; a notebook shows the text, each token the paler the less likely it was.

    Attributes:
        start: The text that it went on from; ids separated by spaces without a tokenizer.
        tokens: All ids, those of the start first.
        steps: One for each generated token.
        text: The start and what was generated.
    """

    def __init__(self, start: str, tokens: list[int], steps: Sequence[Step], text: str) -> None:
        self.start = start
        self.tokens = tokens
        self.steps = tuple(steps)
        self.text = text

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"Generation({shown(self.text, 200)}, {len(self.steps)} steps)"

    def _repr_html_(self) -> str:
        written = "".join(
            f'<span title="{escape(_listed(step))}" style="background:rgba(70,130,220,{step.drawn.probability * 0.55:.2f})">'
            f"{escape(step.drawn.text)}</span>"
            for step in self.steps
        )
        style = "white-space:pre-wrap;overflow-wrap:anywhere;font-family:monospace"
        return f'<div style="{style}"><b>{escape(self.start)}</b>{written}</div>'


def generate(
    model: nn.Module | NodeGraph | TrainingEngine | InferenceEngine,
    start: str | Sequence[int] | Tensor,
    steps: int = 50,
    *,
    tokenizer: Tokenizer | str | Sequence[str] | None = None,
    temperature: float = 1.0,
    top_k: int | None = None,
    window: int | None = None,
    stop: int | str | None = None,
    seed: int = 0,
) -> Generation:
    """Let a language model continue a text: at each step, it reads all tokens so far and draws the next one.

    A copy of the model runs in eval mode, so a training goes on undisturbed. The same seed gives the same text.

    Args:
        model: Takes ids `[1, T]` and returns scores `[1, T, V]`, or `[1, V]` for the next token alone; or a dictionary or
            tuple with them, as ``logits`` or first. A graph is compiled with its weights; of an engine, its model.
        start: A text, or the ids to go on from, at least one.
        steps: Tokens to generate, at least 1.
        tokenizer: With ``encode`` and ``decode``; or the characters (or words) by id: ``"abc …"``. None for ids.
        temperature: Divides the scores before the softmax: below 1 bolder, above 1 more random, 0 always the likeliest.
        top_k: Draw only from so many of the likeliest tokens; None for all.
        window: The most tokens that the model reads, the last ones; None for all so far.
        stop: An id, or a text of one token, after which the text ends.
        seed: Of the draws. The random numbers of torch are neither used nor changed.

    Raises:
        ArgumentError: If the text is empty or holds a character that the tokenizer does not know; if a number is out of its
            range.
        TrainingError: If the model does not fit the ids, returns no scores, or scores that are not numbers.
    """
    require_count("steps", steps)
    for name, count in (("top_k", top_k), ("window", window)):
        if count is not None:
            require_count(name, count)
    expect(temperature, (int, float), "temperature", "a number, at least 0")
    if not 0 <= temperature < math.inf:
        raise ArgumentError(f"temperature must be a number, at least 0, not {temperature}.")
    words = _Words(tokenizer)
    tokens = words.ids(start)
    ends = None if stop is None else words.ids(stop if isinstance(stop, str) else [stop])[-1]
    engine = _engine(model)
    generator, made = torch.Generator().manual_seed(seed), list[Step]()
    for _ in range(steps):
        scores = _next_scores(engine, tokens[-window:] if window else tokens, words)
        step = _drawn(scores, words, temperature, top_k, generator)
        made.append(step)
        tokens.append(step.drawn.token)
        if step.drawn.token == ends:
            break
    known = len(tokens) - len(made)
    begun = start if isinstance(start, str) else words.text(tokens[:known])
    if words.between is None:
        return Generation(begun, tokens, made, words.text(tokens))
    return Generation(begun, tokens, made, words.between.join([begun, words.text(tokens[known:])]))


@final
class _Words:
    """The texts of tokens.

    Args:
        tokenizer: As given to `generate`.
    """

    def __init__(self, tokenizer: Tokenizer | str | Sequence[str] | None) -> None:
        self._tokenizer: Any = tokenizer
        is_list = isinstance(tokenizer, Sequence)
        if (
            tokenizer is not None
            and not is_list
            and not (hasattr(tokenizer, "encode") and hasattr(tokenizer, "decode"))
        ):
            raise ArgumentError(
                f"tokenizer must have encode and decode, or be the characters in the order of their ids, not {shown(tokenizer)}."
            )
        self._known: Sequence[str] | None = list(tokenizer) if is_list else None  # type: ignore[arg-type]  # a sequence, then
        self._by_text = {text: id for id, text in enumerate(self._known or ())}
        self.between: str | None = None
        """What stands between the texts of a list: nothing if these are characters. None where a tokenizer says it."""
        if self._known is not None:
            self.between = "" if all(len(word) == 1 for word in self._known) else " "
        """Whether the text of several tokens is that of each in a row."""
        self.count = None if self._known is None else len(self._known)

    def ids(self, given: object) -> list[int]:
        if isinstance(given, str):
            found = self._encoded(given)
        elif isinstance(given, Tensor):
            found = given.flatten().tolist()
        elif isinstance(given, Iterable):
            found = list(given)
        else:
            raise ArgumentError(f"start must be a text or token ids, not {shown(given)}.")
        if not found:
            raise ArgumentError("start holds no token: give at least one, from which the model goes on.")
        if not all(isinstance(each, int) and not isinstance(each, bool) and each >= 0 for each in found):
            raise ArgumentError(f"start must hold whole numbers, at least 0, not {shown(found)}.")
        return found

    def _encoded(self, text: str) -> list[Any]:
        if self._tokenizer is None:
            raise ArgumentError(
                f"start is a text, {shown(text)}: say what the ids of its characters are, with tokenizer= "
                "(an object with encode and decode, or the characters in the order of their ids)."
            )
        if self._known is None:
            ids = self._tokenizer.encode(text)
            return list(getattr(ids, "ids", ids))
        parts = text if all(len(word) == 1 for word in self._known) else text.split()
        unknown = [part for part in parts if part not in self._by_text]
        if unknown:
            raise ArgumentError(
                f"{shown(unknown[0])} is not among the {len(self._known)} tokens of the tokenizer: "
                f"{shown(list(self._known[:20]))}."
            )
        return [self._by_text[part] for part in parts]

    def text(self, ids: list[int]) -> str:
        if self._known is not None:
            return (self.between or "").join(self._known[id] if id < len(self._known) else f"<{id}>" for id in ids)
        return " ".join(map(str, ids)) if self._tokenizer is None else str(self._tokenizer.decode(ids))


def _engine(model: object) -> InferenceEngine:
    match model:
        case InferenceEngine():
            return model
        case TrainingEngine():
            return InferenceEngine(model.model, batch_size=1)
        case nn.Module() | NodeGraph():
            return InferenceEngine(model, batch_size=1)
    raise ArgumentError(f"model must be a module, a graph or an engine, not {shown(model)}.")


def _next_scores(engine: InferenceEngine, tokens: list[int], words: _Words) -> Tensor:
    """Return the scores of the next token, `[V]`."""
    try:
        output = engine.predict(torch.tensor([tokens]))
    except (IndexError, RuntimeError, TrainingError) as error:
        raise TrainingError(
            f"The model fails with {len(tokens)} tokens, the largest of which is {max(tokens)}: {error} If it reads only so many "
            "tokens at once, say window=."
        ) from error
    if isinstance(output, Mapping):
        output = output.get("logits", next(iter(output.values()), None))
    while isinstance(output, tuple | list) and output:
        output = output[0]
    output = getattr(output, "logits", output)
    if not isinstance(output, Tensor) or output.dim() not in (2, 3) or not output.is_floating_point():
        kind = f"{tuple(output.shape)} of {output.dtype}" if isinstance(output, Tensor) else type(output).__name__
        raise TrainingError(f"The model must return scores [1, T, V] or [1, V] of the next token, and returns {kind}.")
    scores = output[0, -1] if output.dim() == 3 else output[0]
    if words.count is not None and len(scores) < words.count:
        raise TrainingError(
            f"The model scores {len(scores)} tokens, and the tokenizer has {words.count}: they belong to two vocabularies."
        )
    if bool(scores.isnan().any()) or not bool(scores.isfinite().any()):
        raise TrainingError("The model gives NaN for the next token: pn.detect_anomaly(model) names the node.")
    return scores.double()


def _drawn(scores: Tensor, words: _Words, temperature: float, top_k: int | None, generator: torch.Generator) -> Step:
    if top_k is not None and top_k < len(scores):
        scores = scores.masked_fill(scores < scores.topk(top_k).values[-1], -math.inf)
    probabilities = (scores / temperature if temperature else scores).softmax(0)
    token = int(torch.multinomial(probabilities, 1, generator=generator)) if temperature else int(scores.argmax())
    best = probabilities.topk(min(LIKELY, len(scores)))
    likely = [
        Candidate(id, words.text([id]), p) for id, p in zip(best.indices.tolist(), best.values.tolist(), strict=True)
    ]
    return Step(Candidate(token, words.text([token]), float(probabilities[token])), tuple(likely))


def _listed(step: Step) -> str:
    return ", ".join(f"{candidate.text!r} {candidate.probability:.0%}" for candidate in _unique(step))


def _unique(step: Step) -> Iterator[Candidate]:
    yield step.drawn
    yield from (each for each in step.likely if each.token != step.drawn.token)
