"""Objects of plain classes that one module returns and the next reads, and what modules keep beside tensors."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import pnne_nb as pn
from pnne_nb.compiler.analysis.nested_values import difference

X = torch.linspace(-1, 1, 8).reshape(2, 4)


@dataclasses.dataclass
class Seen:
    hidden: Any = None
    last: Any = None


@dataclasses.dataclass(slots=True)
class Slotted:
    hidden: Any = None


class Small:
    def __init__(self, hidden: Any) -> None:
        self.hidden = hidden
        self.last = None


class OnlySlots(nn.Module):
    def forward(self, x: Tensor) -> Any:
        return x, Slotted(x * 2)


class ReadingSlots(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a = OnlySlots()

    def forward(self, x: Tensor) -> Any:
        return self.a(x)[1].hidden


class Block(nn.Module):
    def __init__(self, make: Callable[[Any], Any]) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.make = make

    def forward(self, x: Tensor) -> Any:
        return x, self.make(self.fc(x))


class Reading(nn.Module):
    def __init__(self, make: Callable[[Any], Any]) -> None:
        super().__init__()
        self.a, self.b = Block(make), Block(make)

    def forward(self, x: Tensor) -> Any:
        y, seen = self.a(x)
        z, more = self.b(y + seen.hidden)
        return z + more.hidden if more.last is None else z


class Setting(Reading):
    def forward(self, x: Tensor) -> Any:
        y, seen = self.a(x)
        seen.last = self.b(y)[0] * 2
        return seen.last + seen.hidden


def seen(y: Any) -> Any:
    return Seen(hidden=y)


def small(y: Any) -> Any:
    return Small(y)


def namespace(y: Any) -> Any:
    return SimpleNamespace(hidden=y, last=None, count=3)


@pytest.mark.parametrize("make", [seen, small, namespace])
@pytest.mark.parametrize("net", [Reading, Setting])
def test_an_object_between_modules_is_drawn(net: Callable[[Any], nn.Module], make: Callable[[Any], Any]) -> None:
    module = net(make)
    graph = pn.from_module(module, (X,))
    assert "none is closed" in str(graph.import_report), graph.import_report
    model = pn.compile(pn.NodeGraph.from_json(graph.to_json()), reuse=module)
    for x in (X, X[:1], -X):
        assert difference(module(x), model(x)) == ""
    space: dict[str, Any] = {}
    exec(pn.to_source(graph), space)


def test_an_object_that_no_node_reads_is_named_by_its_class() -> None:
    report = str(pn.from_module(ReadingSlots(), (X,)).import_report)
    assert "it reads hidden of a Slotted" in report


class Keeping(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Any:
        return self.fc(x)


def test_a_dictionary_that_holds_itself_is_kept() -> None:
    net = Keeping()
    config: dict[str, Any] = {"scale": 2}
    config["self"] = config
    vars(net)["config"] = config
    graph = pn.from_module(net, (X,))
    assert torch.equal(pn.compile(graph, reuse=net)(X), net(X))


@pytest.mark.parametrize("name", ["modules", "children", "parameters"])
def test_an_attribute_that_hides_a_method_is_named(name: str) -> None:
    net = Keeping()
    vars(net)[name] = [1, 2]
    with pytest.raises(pn.CompileError, match=rf"self\.{name} is a list, which hides torch's method {name}\(\)"):
        pn.from_module(net, (X,))


class Closing(Keeping):
    def embed(self, x: Tensor) -> Any:
        return self.fc(x) * 2

    def forward(self, x: Tensor) -> Any:
        return self.fc(x) if x.sum() > 1e9 else x


class Calling(Keeping):
    def __init__(self) -> None:
        super().__init__()
        self.part = Closing()

    def forward(self, x: Tensor) -> Any:
        return self.part.embed(x) + self.part(x)


def test_a_method_of_a_closed_part_is_called_by_the_original() -> None:
    net = Calling()
    graph = pn.from_module(net, (X,))
    assert "it calls part.fc itself, and also calls part" in str(graph.import_report)
    assert torch.equal(pn.compile(graph, reuse=net)(X), net(X))


SPELLINGS: tuple[Callable[[Any], Any], ...] = (
    lambda x: sum(x.split(split_size=2, dim=1)),
    lambda x: sum(torch.split(tensor=x, split_size_or_sections=[1, 3], dim=-1)[1].sum(1, keepdim=True) + x),
    lambda x: x.flip(dims=(0,)) + x.flip(0, 1) + torch.flip(x, dims=[1]),
    lambda x: x.to(torch.promote_types(x.dtype, torch.float64)),
    lambda x: x * 2 if torch.can_cast(x.dtype, torch.float64) else x,
    lambda x: sum(x.tensor_split(sections=2, dim=1)),
)


@pytest.mark.parametrize("does", SPELLINGS, ids=range(len(SPELLINGS)))
def test_plain_spellings_of_torch_are_drawn(does: Callable[[Any], Any]) -> None:
    class Spelled(Keeping):
        def forward(self, x: Tensor) -> Any:
            return does(self.fc(x))

    net = Spelled()
    graph = pn.from_module(net, (X,))
    assert "none is closed" in str(graph.import_report), graph.import_report
    assert torch.equal(pn.compile(graph, reuse=net)(X), net(X))


class Copying(Reading):
    def forward(self, x: Tensor) -> Any:
        _, found = self.a(x)
        return dataclasses.asdict(found)["hidden"]


def test_an_object_that_is_taken_apart_by_other_code_closes_the_module() -> None:
    net = Copying(seen)
    graph = pn.from_module(net, (X,))
    assert "asdict() should be called on dataclass instances" in str(graph.import_report)
