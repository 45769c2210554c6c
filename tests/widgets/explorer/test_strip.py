"""The strip: one example with its target and the likeliest answers, in any order, as the model gives them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import Dataset, TensorDataset

import pnne_nb as pn
from pnne_nb.errors import ArgumentError, InspectionError
from pnne_nb.widgets.explorer.explorer import ModuleExplorer
from tests.widgets.explorer.digits import digits

NET, X, Y = digits()
with torch.no_grad():
    SCORES = NET(X)
CHOSEN = SCORES.argmax(1)
LOSSES = nn.functional.cross_entropy(SCORES, Y, reduction="none")


@pytest.fixture
def explorer() -> Iterator[ModuleExplorer]:
    shown = pn.ModuleExplorer(NET, (X, Y), labels=[f"digit {place}" for place in range(10)])
    yield shown
    shown.close()


def walked(explorer: ModuleExplorer, steps: int = 3) -> list[int]:
    found = []
    for _ in range(steps):
        found.append(explorer.example)
        explorer._strip.step(1)
    return found


def test_shows_the_example_its_target_and_the_five_likeliest_answers(explorer: ModuleExplorer) -> None:
    explorer.example = 17
    answer = explorer._strip.answer
    assert answer is not None
    shares = SCORES[17].softmax(0)
    best = shares.argsort(descending=True)[:5]
    assert [one.place for one in answer.likely] == best.tolist()
    assert [one.share for one in answer.likely] == pytest.approx(shares[best].tolist(), abs=1e-6)
    shown = explorer._strip._shown.value
    assert f"digit {int(Y[17])}" in shown
    assert "data:image/png" in shown
    assert f"Target: digit {int(Y[17])}" in explorer.describe()


@pytest.mark.parametrize("place", [-1, 300, 1.0, True, "1"])
def test_an_example_that_does_not_exist(explorer: ModuleExplorer, place: Any) -> None:
    with pytest.raises(ArgumentError, match="example must be a whole number from 0 to 299, not"):
        explorer.example = place


def test_orders(explorer: ModuleExplorer) -> None:
    explorer._strip._order.value = "loss"
    assert walked(explorer) == LOSSES.argsort(descending=True)[:3].tolist()
    explorer._strip._order.value = "confidence"
    assert walked(explorer) == SCORES.softmax(1).amax(1).argsort()[:3].tolist()
    explorer._strip._order.value = "mistakes"
    wrong = [place for place in LOSSES.argsort(descending=True).tolist() if CHOSEN[place] != Y[place]]
    assert walked(explorer) == wrong[:3]
    assert f"{len(wrong)}" in explorer._strip._said.value


def test_filters_by_class_and_by_pair(explorer: ModuleExplorer) -> None:
    true, predicted = next((int(a), int(b)) for a, b in zip(Y, CHOSEN, strict=True) if a != b)
    explorer._strip.pair(true, predicted)
    wanted = torch.nonzero((true == Y) & (predicted == CHOSEN)).flatten().tolist()
    assert walked(explorer, len(wanted)) == wanted
    assert f"true digit {true}, predicted digit {predicted}; {len(wanted)} examples" in explorer.describe()
    right = torch.nonzero((true == Y) & (true == CHOSEN)).flatten().tolist()
    explorer._strip._predicted.value = true
    assert walked(explorer, 2) == right[:2]
    explorer._strip._order.value = "mistakes"
    assert "No example is like that" in explorer._strip._said.value


def test_the_pictures_of_a_layer_are_those_of_the_example_beyond_the_first_256(explorer: ModuleExplorer) -> None:
    explorer.select("0")
    explorer.example = 290
    captures, place = explorer._alive().captures("0", 290)
    output = next(one.tensor for one in captures if one.quantity == "activations")
    assert len(output) == 256
    torch.testing.assert_close(output[place], NET[0](X[290:291])[0])


class Pairs(Dataset[Any]):
    def __len__(self) -> int:
        return len(X)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return X[index], int(Y[index])


@pytest.mark.parametrize(
    ("data", "target"),
    [(X, Y), ((X, Y), None), (TensorDataset(X, Y), None), (Pairs(), None), (X.numpy(), Y.numpy()),
     ({"input": X, "target": Y}, None)],
)  # fmt: skip
def test_every_kind_of_data(data: Any, target: Any) -> None:
    explorer = pn.ModuleExplorer(NET, data, target)
    explorer.example = 290
    assert f"Example 290 of 300\nTarget: {int(Y[290])}\nAnswer: {int(CHOSEN[290])} " in explorer.describe()
    explorer._strip._order.value = "loss"
    assert walked(explorer, 2) == LOSSES.argsort(descending=True)[:2].tolist()
    explorer.close()


def test_a_row_of_a_table_and_quantities() -> None:
    table = pd.DataFrame({"length": [1.0, 2.0], "width": [3.0, 4.5]})
    net = nn.Linear(2, 1)
    explorer = pn.ModuleExplorer(net, table, np.array([[0.5], [3.0]]))
    explorer.example = 1
    assert "<th>width</th><td>4.5</td>" in explorer._strip._shown.value
    value = float(net(torch.tensor([[2.0, 4.5]])).detach())
    assert f"Target: 3\nAnswer: {value:.4g}" in explorer.describe()
    explorer._strip._order.value = "loss"
    explorer.close()


class Words(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed, self.head = nn.Embedding(4, 6), nn.Linear(6, 4)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.embed(tokens))  # type: ignore[no-any-return]  # torch types the call of a module as Any


class Speller:
    def decode(self, ids: list[int]) -> str:
        return "".join("abc<"[one] for one in ids)


@pytest.mark.parametrize("tokenizer", ["abc<", Speller(), lambda ids: ["abc<"[one] for one in ids]])
def test_tokens_and_the_next_one(tokenizer: Any) -> None:
    net, tokens = Words(), torch.tensor([[0, 1, 3], [2, 2, 1]])
    explorer = pn.ModuleExplorer(net, tokens, tokenizer=tokenizer)
    assert "<span>a</span><span>b</span><span>&lt;</span>" in explorer._strip._shown.value
    best = int(net(tokens)[0, -1].argmax())
    assert f"Answer: {'abc<'[best]} " in explorer.describe()
    explorer.close()


def test_names_that_do_not_fit() -> None:
    with pytest.raises(
        InspectionError, match=r"labels has 2 names, and the model gives 10 scores: give a name for each"
    ):
        pn.ModuleExplorer(NET, X, labels=["a", "b"])
    with pytest.raises(ArgumentError, match=r"labels must be the names of the classes, such as .* not 'ab'"):
        pn.ModuleExplorer(NET, X, labels="ab")
    tokens = torch.tensor([[0, 1, 3]])
    with pytest.raises(InspectionError, match="tokenizer gives 1 texts for 2 tokens: it must return one for each"):
        pn.ModuleExplorer(Words(), tokens, tokenizer=lambda _ids: ["a"])
    with pytest.raises(ArgumentError, match="tokenizer must have decode, be a function of ids"):
        pn.ModuleExplorer(Words(), tokens, tokenizer=3)
    explorer = pn.ModuleExplorer(Words(), tokens, tokenizer="abc")
    assert "tokenizer has 3 texts, and none for the token 3" in explorer._strip._shown.value
    explorer.close()


def test_targets_that_do_not_fit() -> None:
    with pytest.raises(
        ArgumentError, match="target has 5 entries, and data has 300 examples: give one target for each"
    ):
        pn.ModuleExplorer(NET, X, Y[:5])
    with pytest.raises(
        ArgumentError, match=r"There is a target and no data: write ModuleExplorer\(net, data=x, target=y\)"
    ):
        pn.ModuleExplorer(NET, target=Y)


def test_an_example_that_the_model_refuses_is_told_at_the_example() -> None:
    class Picky(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            if len(x) == 1 and float(x.sum()) > 5:
                raise RuntimeError("too <bright>")
            return x.flatten(1)

    explorer = pn.ModuleExplorer(Picky(), torch.arange(4.0)[:, None].expand(4, 3))
    explorer.example = 3
    assert "The model failed on this example: RuntimeError: too &lt;bright&gt;" in explorer._strip._shown.value
    assert "too <bright>" in explorer.describe()
    explorer.example = 1
    assert "too" not in explorer.describe()
    explorer.close()


def test_looking_at_examples_changes_nothing(explorer: ModuleExplorer) -> None:
    net = nn.Sequential(nn.Flatten(), nn.BatchNorm1d(64), nn.Dropout(0.5), nn.Linear(64, 10)).train()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    state = torch.random.get_rng_state()
    explorer = pn.ModuleExplorer(net, X, Y)
    explorer.example = 9
    explorer._strip._order.value = "loss"
    explorer.close()
    assert net.training
    assert torch.equal(torch.random.get_rng_state(), state)
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
    assert all(parameter.grad is None for parameter in net.parameters())


def test_descriptions_have_at_most_300_words() -> None:
    net = nn.Sequential(*[nn.Sequential(nn.Linear(3, 3)) for _ in range(60)])
    explorer = pn.ModuleExplorer(net, torch.zeros(2, 3))
    for path in map(str, range(30)):
        explorer.toggle(path)
    assert len(explorer.describe().split()) == 300
    assert explorer.describe().endswith("more words")
    explorer.close()
    editor = pn.GraphEditor(net, args=(torch.zeros(2, 3),))
    editor.selection = ("0",)
    assert editor.describe().startswith("Selected: 0\n")
    assert "Linear, shown 60 times" in editor.describe()
    assert len(editor.describe().split()) <= 300
    editor.close()
