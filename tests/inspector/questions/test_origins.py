"""Nets that embed a part of their input, another's part or a number made of it, against references written by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import captum.attr
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import pnne_nb as pn
from tests.inspector.questions.untouched import untouched


class Net(nn.Module):
    """Looks rows up, and makes an answer of them; for each row, `read` has the columns of all inputs that it is for."""

    def __init__(self, read: Sequence[Sequence[int]], look: Any, answer: Any, **parts: Any) -> None:
        super().__init__()
        self.read, self.look, self.answer = read, partial(look, self), partial(answer, self)
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, *inputs: Tensor) -> Any:
        return self.answer(*inputs, *self.look(*inputs))


class Bag(Net):
    def forward(self, *ids: Tensor) -> Any:
        return self.out(self.bag(*ids).tanh())  # type: ignore[operator]


def shifted(ids: Tensor) -> Tensor:
    begun = torch.zeros(len(ids), ids.shape[1] + 1, dtype=torch.int64)
    begun[:, 1:] = ids
    return begun


def offsets() -> tuple[Net, tuple[Tensor, ...]]:
    net = Net(
        ([4, 5], [3]),
        lambda net, x, cat: [
            net.all(cat.flip(1).flip(1) + net.begin), F.embedding(x[:, 3].round().long().clamp(0, 3), net.one)
        ],
        lambda net, x, _, two, one: net.out(torch.cat([x, two.flatten(1), one], 1).sin()),
        all=nn.Embedding(9, 3), one=nn.Parameter(torch.randn(4, 3)), begin=nn.Buffer(torch.tensor([0, 4])), out=nn.Linear(13, 1),
    )  # fmt: skip
    return net, (3 * torch.rand(4, 4), torch.randint(4, (4, 2)))


NETS: dict[str, Callable[[], tuple[Net, tuple[Tensor, ...]]]] = {
    "an embedding for each column": lambda: (Net(
        ([3], [4], [5]), lambda net, _, cat: [net.a(cat[:, 0]), net.b(cat[:, 1]), net.c(cat[:, 2])],
        lambda net, x, _, *rows: net.body(torch.cat([x, *rows], 1)),
        a=nn.Embedding(4, 2), b=nn.Embedding(5, 3), c=nn.Embedding(6, 2),
        body=nn.Sequential(nn.Linear(10, 6), nn.Tanh(), nn.Linear(6, 1))),
        (torch.randn(4, 3), torch.stack([torch.randint(size, (4,)) for size in (4, 5, 6)], 1))),
    "one after another in one embedding, and a real column in a table": offsets,
    "two inputs in one embedding, called three times": lambda: (Net(
        ([0, 1, 2], [-1, 3, 4], [0, 1, 2, 3, 4]), lambda net, a, b: [net.all(ids) for ids in (a, shifted(b), torch.cat([a, b], 1))],
        lambda net, _a, _b, *rows: net.out(torch.cat(rows, 1).cumsum(1).tanh().sum(1) + rows[0].sum(1).sin()),
        all=nn.Embedding(9, 4, padding_idx=0), out=nn.Linear(4, 1)),
        (torch.randint(9, (2, 3)), torch.randint(9, (2, 2)))),
    "a bag with padding": lambda: (Bag(
        ([0, 1, 2, 3],), lambda net, ids: [F.embedding(ids, net.bag.weight)],
        lambda net, ids, rows: net.out(((rows * (k := (ids != 0).unsqueeze(-1))).sum(1) / k.sum(1)).tanh()),
        bag=nn.EmbeddingBag(7, 4, mode="mean", padding_idx=0), out=nn.Linear(4, 1)),
        (torch.tensor([[3, 0, 2, 5], [6, 1, 1, 4]]),)),
    "an LSTM of tokens whose first and last are cut off": lambda: (Net(
        ([1, 2, 3],), lambda net, ids: [net.embedding(ids.view(-1, 5)[:, 1:-1])],
        lambda net, _, rows: net.out(net.rnn(rows)[0][:, -1]),
        embedding=nn.Embedding(8, 4), rnn=nn.LSTM(4, 5, batch_first=True), out=nn.Linear(5, 1)),
        (torch.randint(8, (2, 5)),)),
    "tokens in another order": lambda: (Net(
        ([2, 1, 0],), lambda net, ids: [net.table(torch.stack([ids[:, 2], *ids[:, :2].flip(1).unbind(1)], 1))],
        lambda net, _, rows: net.out(rows.flatten(1).tanh()),
        table=nn.Embedding(6, 4), out=nn.Linear(12, 1)),
        (torch.randint(6, (3, 3)),)),
}  # fmt: skip


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
    return list(torch.split(values, [one.shape[1] for one in inputs], 1))


@pytest.mark.parametrize("name", NETS)
def test_what_is_embedded_of_an_input_has_its_values_there(name: str) -> None:
    torch.manual_seed(3)
    net, inputs = NETS[name]()
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
    net, inputs = offsets()
    found = pn.attribute(net, inputs, baseline=(inputs[0], torch.tensor([0, 1])))
    assert not found.values[0].any()  # type: ignore[union-attr]
    changed = net(*inputs) - net(inputs[0], torch.tensor([0, 1]).expand(4, 2))
    torch.testing.assert_close(found.values[1].sum(1), changed.flatten().detach(), rtol=1e-4, atol=1e-5)  # type: ignore[union-attr]
    with pytest.raises(pn.ArgumentError, match="is a token from 0 to 8, not 9"):
        pn.attribute(net, inputs, baseline=(0, 5))
    with pytest.raises(pn.ArgumentError, match=r"is a token, a whole number, not 0\.5"):
        pn.attribute(net, inputs, baseline=(0, 0.5))


def test_a_baseline_that_is_read_otherwise_is_refused() -> None:
    net = Net(
        (),
        lambda net, ids: [net.all(ids[:, : int(ids[0, 0])])],
        lambda *made: made[-1].sum((1, 2)),
        all=nn.Embedding(5, 3),
    )
    with pytest.raises(pn.ArgumentError, match="With this baseline, the embedding 'all' reads another number of"):
        pn.attribute(net, torch.tensor([[3, 1, 2]]), baseline=2)


def test_what_cannot_be_told_is_said() -> None:
    net = Net(
        (),
        lambda net, cat: [net.pairs(cat[:, 0] * 4 + cat[:, 1]), net.first(cat[:, 0])],
        lambda net, cat, pairs, first: (pairs * first + net.gate[cat[:, 2]]).sum(1),
        pairs=nn.Embedding(12, 2), first=nn.Embedding(3, 2), gate=nn.Parameter(torch.randn(4, 2)),
    )  # fmt: skip
    found = pn.attribute(net, torch.tensor([[0, 1, 2], [2, 3, 3]]))
    assert list(found.where.values()) == ["embedding 'first'"]
    assert "The embedding 'pairs' reads numbers that are computed of several values of the inputs" in repr(found)
    assert "2 of 6 values of the input 'args.0' are read by no embedding, but used otherwise" in repr(found)
    only = nn.Sequential(nn.Flatten(), nn.Embedding(9, 1), nn.Flatten())
    only.register_forward_pre_hook(lambda _module, args: args[0].cumsum(1))
    with pytest.raises(
        pn.InspectionError, match=r"none does here. The embedding '1' reads numbers that are computed of"
    ):
        pn.attribute(only, torch.tensor([[1, 2]]), 0)
