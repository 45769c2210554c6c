"""A part that stays closed says which attribute is to blame and what to do; result classes of one name keep apart."""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Callable, MutableSequence
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn

import pnne_nb as pn

X = torch.randn(2, 4, generator=torch.Generator().manual_seed(0))


class Writes(nn.Module):
    def __init__(self, log: Any) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.log = log

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.fc(x)
        if isinstance(self.log, MutableSequence):
            self.log.append(y)
        else:
            self.log["last"] = y
        return y


class Shares(nn.Module):
    """Reads from what its submodule has written into."""

    def __init__(self, log: Any) -> None:
        super().__init__()
        self.log = log
        self.first = Writes(log)

    def forward(self, x: Tensor) -> Tensor:
        self.log.clear()
        y = self.first(x)
        result: Tensor = y + (self.log[0] if isinstance(self.log, MutableSequence) else self.log["last"])
        return result


class Plain(nn.Module):
    def __init__(self, held: Any, key: Any) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.held, self.key = held, key

    def forward(self, x: Tensor) -> Tensor:
        part = self.held[self.key]
        result: Tensor = part(self.fc(x)) if isinstance(part, nn.Module) else self.fc(x) * part
        return result


class Slots:
    __slots__ = ("hidden", "last")

    def __init__(self, hidden: Tensor) -> None:
        self.hidden = hidden


class Gives(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> tuple[Tensor, Slots]:
        return self.fc(x), Slots(x)


class Reads(nn.Module):
    def __init__(self, *, sets: bool) -> None:
        super().__init__()
        self.give, self.sets = Gives(), sets

    def forward(self, x: Tensor) -> Tensor:
        y, seen = self.give(x)
        if self.sets:
            seen.last = y
        result: Tensor = y + seen.hidden
        return result


def weight() -> nn.Parameter:
    return nn.Parameter(torch.full((4,), 2.0))


CLOSED: dict[str, tuple[Callable[[], nn.Module], str]] = {
    "list": (
        lambda: Shares([]),
        r"its log is also first\.log, and what first does with it is not seen here: have first",
    ),
    "dict": (lambda: Shares({}), r"its log is also first\.log, .* return the values instead"),
    "deque": (lambda: Shares(deque()), r"its log is also first\.log"),
    "parameter in a dict": (
        lambda: Plain({"scale": weight()}, "scale"),
        r"it uses self\.held\['scale'\], a Parameter in a plain dict, .* use an nn\.ParameterDict",
    ),
    "parameter in a list": (
        lambda: Plain([weight()], 0),
        r"it uses self\.held\[0\], a Parameter in a plain list, .* use an nn\.ParameterList",
    ),
    "module in a list": (
        lambda: Plain([nn.Linear(4, 4)], 0),
        r"it calls self\.held\[0\], a module in a plain list, .* use an nn\.ModuleList",
    ),
    "reads of slots": (lambda: Reads(sets=False), r"it reads hidden of a Slots: its class has __slots__, .* Leave"),
    "sets in slots": (lambda: Reads(sets=True), r"it sets the attribute last of a Slots: its class has __slots__"),
}


@pytest.mark.parametrize(("make", "reason"), CLOSED.values(), ids=CLOSED)
def test_a_closed_part_names_the_attribute_and_what_to_do(make: Callable[[], nn.Module], reason: str) -> None:
    net = make()
    graph = pn.from_module(net, args=(X,))
    assert graph.import_report is not None
    said = [line for line in str(graph.import_report).splitlines() if line.startswith("closed module (")]
    assert len(said) == 1
    assert torch.equal(pn.compile(graph)(X), net(X))
    with pytest.raises(AssertionError, match=reason):  # `match` searches a line
        raise AssertionError(said[0])


def test_the_element_type_that_two_tensors_have_together_is_drawn() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(4, 4)

        def forward(self, x: Tensor) -> Tensor:
            y = self.fc(x)
            result: Tensor = y.to(torch.result_type(y, x)) + x
            return result

    net = Net()
    graph = pn.from_module(net, args=(X,))
    assert "none is closed" in str(graph.import_report)
    assert torch.equal(pn.compile(graph)(X), net(X))


def first() -> nn.Module:
    @dataclasses.dataclass
    class Out:
        scores: Tensor
        hidden: Tensor

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(4, 4)

        def forward(self, x: Tensor) -> Out:
            return Out(self.fc(x), x)

    return Net()


def second() -> nn.Module:
    class Out(NamedTuple):
        last: Tensor
        scores: Tensor

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(4, 4)

        def forward(self, x: Tensor) -> Out:
            return Out(x, self.fc(x) * 2)

    return Net()


def test_result_classes_of_one_name_are_types_of_their_own() -> None:
    nets = [first(), second(), first()]
    graphs = [pn.from_module(net, args=(X,)) for net in nets]
    types = []
    for net, graph in zip(nets, graphs, strict=True):
        assert "none is closed" in str(graph.import_report)
        result = pn.compile(graph)(X)
        assert type(result) is type(net(X))
        assert torch.equal(result.scores, net(X).scores)
        types += [node.type for node in graph.nodes.values() if node.type.rpartition(".")[2].startswith("Out")]
    types = [each for each in types if each != "Output"]
    home = __name__
    assert types == [f"{home}.first.Out", f"{home}.second.Out", f"{home}.first.Out_2"]


def test_a_slice_with_a_computed_bound_that_a_part_is_given_closes_the_part() -> None:
    class Cut(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rows = nn.Parameter(torch.rand(9, 4))

        def forward(self, at: slice) -> Tensor:
            return self.rows[at]

    class Sliced(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cut, self.fc = Cut(), nn.Linear(4, 4)

        def forward(self, x: Tensor) -> Tensor:
            y: Tensor = self.fc(x) + self.cut(slice(None, x.shape[0]))
            return y

    net = Sliced()
    graph = pn.from_module(net, X)
    assert "it gives cut a slice whose bounds it computes" in str(graph.import_report)
    model = pn.compile(graph)
    for x in (X, torch.randn(5, 4)):
        assert torch.equal(model(x), net(x))
