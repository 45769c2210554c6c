"""Objects that a call reads, fills and returns, such as a cache of keys: those of each call, and not those of an import."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import pnne_nb as pn
from pnne_nb.compiler.analysis.nested_values import difference

X = torch.linspace(-1, 1, 6).reshape(2, 3)


@dataclasses.dataclass
class Cache:
    keys: list[Tensor] = dataclasses.field(default_factory=list)

    def updated(self, key: Tensor) -> Tensor:
        self.keys.append(key)
        return torch.cat(self.keys)


class PlainCache:
    def __init__(self, keys: tuple[Tensor, ...] = ()) -> None:
        self.keys = list(keys)

    updated = Cache.updated


class Layer:
    """What a cache keeps of one layer, in a tensor that becomes longer."""

    def __init__(self, keys: Tensor | None = None) -> None:
        self.keys = keys
        self.calls = 0

    def updated(self, key: Tensor) -> Tensor:
        self.keys = key if self.keys is None else torch.cat([self.keys, key])
        self.calls += 1
        return self.keys


class Layers:
    def __init__(self, *layers: Layer) -> None:
        self.layers = list(layers)

    def updated(self, key: Tensor) -> Tensor:
        return self.layers[0].updated(key)


class Based(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(3, 3)


class Filling(Based):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(3, 3)

    def forward(self, x: Tensor, cache: Any) -> Tensor:
        found: Tensor = self.inner(x) + cache.updated(self.fc(x)).sum()
        return found


class FillingBelow(Based):
    def __init__(self) -> None:
        super().__init__()
        self.inner = Filling()

    def forward(self, x: Tensor, cache: Any) -> Tensor:
        found: Tensor = self.fc(self.inner(x, cache))
        return found


def closed(graph: pn.NodeGraph) -> dict[str, str]:
    """Return why nodes are closed, by name."""
    nodes = [item for inner in graph.graphs.values() for item in inner.nodes.items()]
    return {name: node.origin.reason for name, node in nodes if node.origin is not None and node.origin.reason}


@pytest.mark.parametrize("make", [Filling, FillingBelow])
@pytest.mark.parametrize("given", [lambda: Layers(Layer(X * 2)), lambda: Layer(X * 2)])
def test_a_cache_is_read_and_filled_in_each_call_and_by_no_import(
    make: Callable[[], nn.Module], given: Callable[[], Any]
) -> None:
    net, example = make(), given()
    graph = pn.from_module(net, (X, example))
    assert closed(graph) == {}
    assert difference(vars(example), vars(given())) == ""
    model = pn.compile(graph, reuse=net)
    mine, theirs = given(), given()
    for factor in (1, 2, 3):  # a later call finds what the others have left
        x = (X * factor).requires_grad_()
        found, expected = model(x, theirs), net(x, mine)
        assert torch.equal(found, expected)
        gradients = [torch.autograd.grad(each.sum(), x, retain_graph=True)[0] for each in (found, expected)]
        assert torch.equal(*gradients)
    assert difference(mine, theirs) == ""


@pytest.mark.parametrize("make", [Filling, FillingBelow])
@pytest.mark.parametrize("given", [lambda: Cache([X * 2]), Cache, lambda: PlainCache((X * 2,)), PlainCache, Layer])
def test_a_cache_of_another_form_is_refused(make: Callable[[], nn.Module], given: Callable[[], Any]) -> None:
    net = make()
    graph = pn.from_module(net, (X, given()))
    assert closed(graph) == {}
    model = pn.compile(graph, reuse=net)
    mine, theirs = given(), given()
    assert torch.equal(model(X, theirs), net(X, mine))
    assert difference(mine, theirs) == ""
    with pytest.raises(pn.ExecutionError, match=r"cache\.keys.*import again.*test_caches.py, line"):
        model(X, theirs)  # a longer list, or keys where there were none


class Making(Based):
    """Makes the cache, as language models do that are called without one."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([Filling(), Filling()])

    def forward(self, x: Tensor) -> tuple[Tensor, Layers]:
        cache = Layers(Layer(), Layer())
        for index, layer in enumerate(self.layers):
            x = layer(x, cache.layers[index])
        return self.fc(x), cache


class Passing(Based):
    def __init__(self) -> None:
        super().__init__()
        self.inner = Making()

    def forward(self, x: Tensor) -> dict[str, Any]:
        x, cache = self.inner(x)
        return {"y": self.fc(x), "cache": cache}


class Asking(Passing):
    def forward(self, x: Tensor) -> dict[str, Any]:
        x, cache = self.inner(x)
        cache.layers[0].keys = cache.layers[0].keys * 2
        return {"y": self.fc(x) + len(cache.layers[1].keys), "cache": cache}


@pytest.mark.parametrize("make", [Making, Passing, Asking])
def test_a_cache_that_is_made_and_returned_is_drawn(make: Callable[[], nn.Module]) -> None:
    net = make()
    graph = pn.from_module(net, (X,))
    assert closed(graph) == {}
    for model in (pn.compile(graph, reuse=net), shown_as(graph, net)):
        for x in (X, X[:1], torch.cat([X, X])):
            assert difference(net(x), model(x)) == ""
    assert any(node.type == f"{__name__}.Layers" for inner in graph.graphs.values() for node in inner.nodes.values())
    checks = sum(node.type.startswith("check") for inner in graph.graphs.values() for node in inner.nodes.values())
    assert checks == 0  # what a drawn submodule returns is always the same


def shown_as(graph: pn.NodeGraph, net: nn.Module) -> nn.Module:
    """Return the model that the source of a graph makes, with the weights of the original."""
    space: dict[str, Any] = {"__name__": "shown"}
    exec(compile(pn.to_source(graph), "<shown>", "exec"), space)
    model: nn.Module = space[graph.name]()
    model.load_state_dict(net.state_dict())
    return model


class Returning(Based):
    def __init__(self) -> None:
        super().__init__()
        self.kept = Layer(torch.ones(3))

    def forward(self, x: Tensor, kind: str = "") -> Any:
        found = Layer(self.fc(x))
        if kind == "itself":
            found.layer = found  # type: ignore[attr-defined]  # as some do
        return self.kept if kind == "kept" else [found, found]


def test_an_object_that_is_returned_twice_is_one() -> None:
    net = Returning()
    model = pn.compile(pn.from_module(net, (X,)), reuse=net)
    first, second = model(X)
    assert first is second
    assert type(first) is Layer


@pytest.mark.parametrize(
    ("kind", "reason"), [("kept", "a Layer that it keeps for later calls"), ("itself", "a Layer that contains itself")]
)
def test_what_no_node_can_make_closes_a_module(kind: str, reason: str) -> None:
    net = Returning()
    graph = pn.from_module(net, (X, kind))
    (said,) = closed(graph).values()
    assert reason in said
    assert "test_caches.py, line" in said
    assert difference(net(X, kind), pn.compile(graph, reuse=net)(X, kind)) == ""


def halved(cache: Layer, x: Tensor) -> Tensor:
    return cache.updated(x) * 0.5 if x.sum() > 0 else x


class Removing(Based):
    def forward(self, x: Tensor, cache: Any) -> Tensor:
        del cache.calls
        found: Tensor = self.fc(x)
        return found


class Helped(Based):
    def forward(self, x: Tensor, cache: Any) -> Tensor:
        found: Tensor = self.fc(halved(cache, x))
        return found


class Chosen(Based):
    def forward(self, x: Tensor, cache: Any) -> Tensor:
        found: Tensor = cache.chosen(self.fc(x))
        return found


class WithFunction(Layer):
    def __init__(self) -> None:
        super().__init__()
        self.chosen = torch.relu


@pytest.mark.parametrize(
    ("net", "cache", "reason"),
    [
        (Removing(), Layer(X), "it removes an attribute of a Layer"),
        (Helped(), Layer(X), "it gives a Layer to halved, which may change it"),
        (Chosen(), WithFunction(), "an object with a builtin_function_or_method in it, which no node can check"),
    ],
)
def test_a_cache_is_named_where_it_closes_a_module(net: nn.Module, cache: Any, reason: str) -> None:
    graph = pn.from_module(net, (X, cache))
    (said,) = closed(graph).values()
    assert reason in said
    assert "test_caches.py, line" in said
    model = pn.compile(graph, reuse=net)
    for x in (X.abs(), -X.abs()):
        mine, theirs = copy.deepcopy(cache), copy.deepcopy(cache)
        assert torch.equal(model(x, theirs), net(x, mine))
        assert difference(mine, theirs) == ""
