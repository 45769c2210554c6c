"""Nets that embed a part of their input, another's part or a number made of it, against references written by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import captum.attr
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import pnne_nb as pn
from tests.inspector.questions.untouched import untouched


class Net(nn.Module):
    """Looks rows up, and makes an answer of them.

    `look` and `answer` are its parts. For each row, `read` has the columns that it reads, of all inputs side by side.
    """

    look: Callable[..., list[Tensor]]
    answer: Callable[..., Tensor]

    def forward(self, *inputs: Tensor) -> Any:
        return self.answer(*inputs, *self.look(*inputs))


class Table(Net):
    """Each column has an embedding of its own; numbers beside."""

    read: Any = ([3], [4], [5])

    def __init__(self) -> None:
        super().__init__()
        self.columns = nn.ModuleList([nn.Embedding(4, 2), nn.Embedding(5, 3), nn.Embedding(6, 2)])
        self.body = nn.Sequential(nn.Linear(10, 6), nn.Tanh(), nn.Linear(6, 1))

    def look(self, _numbers: Tensor, cat: Tensor) -> list[Tensor]:
        return [column(cat[:, at]) for at, column in enumerate(self.columns)]

    def answer(self, numbers: Tensor, _cat: Tensor, *rows: Tensor) -> Tensor:
        return self.body(torch.cat([numbers, *rows], 1))  # type: ignore[no-any-return]


class Offsets(Net):
    """One embedding for all columns, which begin one after another in it; and what a real table has as categories."""

    read: Any = ([4, 5], [3])

    def __init__(self) -> None:
        super().__init__()
        self.all, self.one, self.out = nn.Embedding(9, 3), nn.Parameter(torch.randn(4, 3)), nn.Linear(13, 1)
        self.begin = nn.Buffer(torch.tensor([0, 4]))

    def look(self, numbers: Tensor, cat: Tensor) -> list[Tensor]:
        return [
            self.all(cat.flip(1).flip(1) + self.begin),
            F.embedding(numbers[:, 3].round().long().clamp(0, 3), self.one),
        ]

    def answer(self, numbers: Tensor, _cat: Tensor, two: Tensor, one: Tensor) -> Tensor:
        return self.out(torch.cat([numbers, two.flatten(1), one], 1).sin())  # type: ignore[no-any-return]


class Shared(Net):
    """Two inputs, which one embedding reads three times: alone, with a token before, and both in one."""

    read: Any = ([0, 1, 2], [-1, 3, 4], [0, 1, 2, 3, 4])

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.out = nn.Embedding(9, 4, padding_idx=0), nn.Linear(4, 1)

    def look(self, left: Tensor, right: Tensor) -> list[Tensor]:
        begun = torch.zeros(len(right), right.shape[1] + 1, dtype=torch.int64)
        begun[:, 1:] = right
        return [self.embedding(ids) for ids in (left, begun, torch.cat([left, right], 1))]

    def answer(self, _left: Tensor, _right: Tensor, *rows: Tensor) -> Tensor:
        return self.out(torch.cat(rows, 1).cumsum(1).tanh().sum(1) + rows[0].sum(1).sin())  # type: ignore[no-any-return]


class Bag(Net):
    read: Any = ([0, 1, 2, 3],)

    def __init__(self) -> None:
        super().__init__()
        self.bag, self.out = nn.EmbeddingBag(7, 4, mode="mean", padding_idx=0), nn.Linear(4, 1)

    def forward(self, *ids: Tensor) -> Any:
        return self.out(self.bag(*ids).tanh())

    def look(self, ids: Tensor) -> list[Tensor]:
        return [F.embedding(ids, self.bag.weight)]

    def answer(self, ids: Tensor, rows: Tensor) -> Tensor:
        kept = (ids != 0).unsqueeze(-1)
        return self.out(((rows * kept).sum(1) / kept.sum(1)).tanh())  # type: ignore[no-any-return]


class Words(Net):
    """An LSTM of tokens, of which the first and the last are cut off."""

    read: Any = ([1, 2, 3],)

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.rnn, self.out = nn.Embedding(8, 4), nn.LSTM(4, 5, batch_first=True), nn.Linear(5, 1)

    def look(self, ids: Tensor) -> list[Tensor]:
        return [self.embedding(ids.view(-1, 5)[:, 1:-1])]

    def answer(self, _ids: Tensor, rows: Tensor) -> Tensor:
        return self.out(self.rnn(rows)[0][:, -1])  # type: ignore[no-any-return]


NETS: dict[str, tuple[type[Net], Callable[[], tuple[Tensor, ...]]]] = {
    "a column each": (Table, lambda: (torch.randn(4, 3), torch.stack([torch.randint(k, (4,)) for k in (4, 5, 6)], 1))),
    "offsets": (Offsets, lambda: (3 * torch.rand(4, 4), torch.randint(4, (4, 2)))),
    "shared": (Shared, lambda: (torch.randint(9, (2, 3)), torch.randint(9, (2, 2)))),
    "a bag with padding": (Bag, lambda: (torch.tensor([[3, 0, 2, 5], [6, 1, 1, 4]]),)),
    "LSTM of a part": (Words, lambda: (torch.randint(8, (2, 5)),)),
}


def by_hand(net: Any, inputs: Sequence[Tensor]) -> list[Tensor]:
    """Captum's values for real inputs and rows at once, put by hand to the values that are read."""
    rows, real = [row.detach() for row in net.look(*inputs)], [one for one in inputs if one.is_floating_point()]

    def answer(*points: Tensor) -> Tensor:
        given = [value.repeat(len(points[0]) // len(value), 1) for value in inputs]
        return net.answer(*points[: len(real)], *given[len(real) :], *points[len(real) :]).flatten()  # type: ignore[no-any-return]

    bases = [torch.zeros_like(one) for one in (*real, *rows)]
    for base, row, columns in zip(bases[len(real) :], rows, net.read, strict=True):
        if columns[0] < 0:
            base[:, 0] = row[:, 0]  # what no input gives
    found = captum.attr.IntegratedGradients(answer).attribute((*real, *rows), baselines=tuple(bases))
    read = [*(list(range(one.shape[1])) for one in real), *net.read]
    values = torch.cat([torch.zeros(one.shape) for one in inputs], 1)
    for place, (own, columns) in enumerate(zip(found, read, strict=True)):
        own = own.detach() if place < len(real) else own.detach().sum(-1).view(len(values), -1)
        for at, column in enumerate(columns):
            values[:, column] += own[:, at] * (column >= 0)
    return list(values.split([one.shape[1] for one in inputs], 1))


@pytest.mark.parametrize("name", NETS)
def test_what_is_embedded_of_an_input_has_its_values_there(name: str) -> None:
    torch.manual_seed(3)
    kind, example = NETS[name]
    net, inputs = kind(), example()
    with untouched(net):
        found = pn.attribute(net, inputs)
    assert not found.notes
    for own, other in zip(found.values, by_hand(net, inputs), strict=True):
        torch.testing.assert_close(own, other, rtol=1e-5, atol=1e-6)
    assert found.gap is not None
    assert found.gap < 1e-4
    occluded = pn.attribute(net, inputs, method="occlusion", window=1).values[-1]
    assert occluded is not None
    assert bool(occluded[:, -2].any())


def test_a_baseline_of_tokens_is_read_as_the_example_is() -> None:
    net, inputs = Offsets(), (torch.rand(2, 4), torch.tensor([[1, 2], [3, 0]]))
    found = pn.attribute(net, inputs, baseline=(inputs[0], torch.tensor([0, 1])))
    assert not found.values[0].any()  # type: ignore[union-attr]
    changed = net(*inputs) - net(inputs[0], torch.tensor([[0, 1], [0, 1]]))
    torch.testing.assert_close(found.values[1].sum(1), changed.flatten().detach(), rtol=1e-4, atol=1e-5)  # type: ignore[union-attr]
    with pytest.raises(pn.ArgumentError, match="is a token from 0 to 8, not 9"):
        pn.attribute(net, inputs, baseline=(0, 5))
    with pytest.raises(pn.ArgumentError, match=r"is a token, a whole number, not 0\.5"):
        pn.attribute(net, inputs, baseline=(0, 0.5))


class Longer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(5, 3)

    def forward(self, ids: Tensor) -> Any:
        return self.embedding(ids[:, : int(ids[0, 0])]).sum((1, 2))


def test_a_baseline_that_is_read_otherwise_is_refused() -> None:
    with pytest.raises(pn.ArgumentError, match="With this baseline, the embedding 'embedding' reads another number of"):
        pn.attribute(Longer(), torch.tensor([[3, 1, 2]]), baseline=2)


class Hashed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.pairs, self.first, self.gate = nn.Embedding(12, 2), nn.Embedding(3, 2), nn.Parameter(torch.randn(4, 2))

    def forward(self, cat: Tensor) -> Any:
        return (self.pairs(cat[:, 0] * 4 + cat[:, 1]) * self.first(cat[:, 0]) + self.gate[cat[:, 2]]).sum(1)


def test_what_cannot_be_told_is_said() -> None:
    found = pn.attribute(Hashed(), torch.tensor([[0, 1, 2], [2, 3, 3]]))
    assert found.where == {"cat": "embedding 'first'"}
    assert "The embedding 'pairs' reads numbers that are computed of several values of the inputs" in repr(found)
    assert "2 of 6 values of the input 'cat' are read by no embedding, but used otherwise" in repr(found)
    only = nn.Sequential(nn.Flatten(), nn.Embedding(9, 1), nn.Flatten())
    only.register_forward_pre_hook(lambda _module, args: args[0].cumsum(1))
    with pytest.raises(
        pn.InspectionError, match=r"none does here. The embedding '1' reads numbers that are computed of"
    ):
        pn.attribute(only, torch.tensor([[1, 2]]), 0)
