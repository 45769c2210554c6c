"""Text of a language model: what is drawn has the model's probabilities, and nothing else changes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import pnne_nb as pn

LETTERS = "abcd"


class Next(nn.Module):
    """After each letter, the next one of the alphabet; `surely` says how surely."""

    def __init__(self, surely: float = 50.0, wrapped: str = "") -> None:
        super().__init__()
        self.table = nn.Parameter(surely * torch.eye(4).roll(1, 1))
        self.wrapped = wrapped
        self.longest = 0

    def forward(self, ids: Tensor) -> Any:
        self.longest = max(self.longest, ids.shape[1])
        scores = self.table[ids]
        return {"": scores, "dict": {"logits": scores}, "tuple": (scores, ids), "last": scores[:, -1]}[self.wrapped]


@pytest.mark.parametrize("wrapped", ["", "dict", "tuple", "last"])
def test_the_likeliest_text(wrapped: str) -> None:
    made = pn.generate(Next(wrapped=wrapped), "ab", 5, tokenizer=LETTERS, temperature=0)
    assert str(made) == made.text == "abcdabc"
    assert made.tokens == [0, 1, 2, 3, 0, 1, 2]
    assert [step.drawn.text for step in made.steps] == list("cdabc")
    assert made.steps[0].likely[0] == made.steps[0].drawn


def test_ids_tensors_and_where_it_ends() -> None:
    net = Next()
    assert pn.generate(net, torch.tensor([[0, 1]]), 2).tokens == [0, 1, 2, 3]
    assert pn.generate(net, [0], 2).text == "0 1 2"
    assert pn.generate(net, "a", 9, tokenizer=list(LETTERS), stop="d").text == "abcd"
    assert pn.generate(net, [0], 9, stop=2).tokens == [0, 1, 2]


def test_a_seed_gives_one_text_and_leaves_torch_alone() -> None:
    net = Next(surely=1.0)
    net.train()
    before = torch.get_rng_state()
    texts = [pn.generate(net, "a", 30, tokenizer=LETTERS, seed=seed).text for seed in (1, 1, 2)]
    assert texts[0] == texts[1] != texts[2]
    assert torch.equal(torch.get_rng_state(), before)
    assert net.training
    assert net.longest == 0  # a copy ran


def test_draws_have_the_probabilities_of_the_model() -> None:
    net = Next(surely=2.0)
    made = pn.generate(net, [0], 4000)
    follows = [b == (a + 1) % 4 for a, b in zip(made.tokens, made.tokens[1:], strict=False)]
    expected = float(torch.tensor([2.0, 0, 0, 0]).softmax(0)[0])
    assert sum(follows) / len(follows) == pytest.approx(expected, abs=0.03)
    assert made.steps[0].likely[0].probability == pytest.approx(expected)
    bold = pn.generate(net, [0], 10, top_k=1)
    assert bold.tokens == [0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2]
    assert bold.steps[0].drawn.probability == 1.0
    hot = pn.generate(net, [0], 1, temperature=1e6)
    assert hot.steps[0].likely[0].probability == pytest.approx(0.25, abs=1e-4)


def test_graphs_engines_and_tokenizers() -> None:
    class Tokenizer:
        def encode(self, text: str) -> list[int]:
            return [LETTERS.index(each) for each in text]

        def decode(self, ids: list[int]) -> str:
            return "".join(LETTERS[id] for id in ids)

    net = nn.Sequential(nn.Embedding(4, 8), nn.Linear(8, 4))
    graph = pn.from_module(net, torch.tensor([[0, 1]]))
    texts = {
        pn.generate(model, "ab", 6, tokenizer=Tokenizer(), seed=3).text
        for model in (net, graph, pn.InferenceEngine(net), pn.TrainingEngine(net, (torch.zeros(4, 2).long(),) * 2))
    }
    assert len(texts) == 1


def test_it_is_shown_with_its_alternatives() -> None:
    made = pn.generate(Next(surely=2.0), "a<", 2, tokenizer=["a", "<", "c", "d"], top_k=2)
    html = made._repr_html_()
    assert "<b>a&lt;</b>" in html
    assert html.count("<span") == 2
    assert "%" in html
    assert repr(made).startswith("Generation('a<")


BAD: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"start": ""}, pn.ArgumentError, "start holds no token"),
    ({"start": "axb"}, pn.ArgumentError, "'x' is not among the 4 tokens of the tokenizer"),
    ({"start": "ab", "tokenizer": None}, pn.ArgumentError, "start is a text, 'ab': say what the ids"),
    ({"start": [0.5]}, pn.ArgumentError, "start must hold whole numbers"),
    ({"start": 3}, pn.ArgumentError, "start must be a text or token ids, not 3"),
    ({"steps": 0}, pn.TrainingError, "steps"),
    ({"temperature": -1}, pn.ArgumentError, "temperature must be a number, at least 0, not -1"),
    ({"top_k": 0}, pn.TrainingError, "top_k"),
    ({"tokenizer": 3}, pn.ArgumentError, "tokenizer must have encode and decode"),
    ({"start": [0, 7]}, pn.TrainingError, "The model fails with 2 tokens, the largest of which is 7.*say window="),
    ({"model": nn.Flatten(0), "start": [1]}, pn.TrainingError, r"must return scores \[1, T, V\].*returns \(1,\)"),
    ({"tokenizer": LETTERS + "ef"}, pn.TrainingError, "scores 4 tokens, and the tokenizer has 6"),
    ({"model": Next(float("nan"))}, pn.TrainingError, "gives NaN for the next token"),
    ({"model": 3}, pn.ArgumentError, "model must be a module, a graph or an engine, not 3"),
]


@pytest.mark.parametrize(("given", "kind", "message"), BAD, ids=[message[:30] for _, _, message in BAD])
def test_what_cannot_be(given: dict[str, Any], kind: type[Exception], message: str) -> None:
    arguments = {"model": Next(), "start": "ab", "steps": 2, "tokenizer": LETTERS, **given}
    with pytest.raises(kind, match=message):
        pn.generate(**arguments)


def test_a_model_that_reads_so_many_tokens() -> None:
    class Short(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.places, self.out = nn.Embedding(3, 4), nn.Linear(4, 4)

        def forward(self, ids: Tensor) -> Tensor:
            scores: Tensor = self.out(self.places(torch.arange(ids.shape[1])))[None]
            return scores

    with pytest.raises(pn.TrainingError, match=r"fails with 4 tokens.*window="):
        pn.generate(Short(), [0], 5)
    assert len(pn.generate(Short(), [0], 5, window=3).tokens) == 6


def test_words_of_a_list_stand_apart() -> None:
    class Next(torch.nn.Module):
        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            return torch.nn.functional.one_hot((ids + 1) % 3, 3) * 50.0

    assert pn.generate(Next(), "the cat", 2, tokenizer=["the", "cat", "sat"], temperature=0).text == "the cat sat the"
