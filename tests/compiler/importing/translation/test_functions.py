"""Functions that a network calls as a whole: one node each, under a name that no other function has."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import pnne_nb as pn

X = torch.linspace(-1, 1, 64).reshape(2, 4, 8)


def scaled(x: Any, **factors: Any) -> Any:
    if x.sum() > 1e9:
        return x * 0
    for factor in factors.values():
        x = x * factor
    return x


def repeat(x: Any, pattern: str, r: int) -> Any:
    return x if x.sum() > 1e9 or not pattern else x[:, :, None].expand(-1, -1, r, -1)


def softmax(x: Any) -> Any:
    return x if x.sum() > 1e9 else x.exp() / x.exp().sum(-1, keepdim=True)


class OtherKeywords(nn.Module):
    def forward(self, x: Tensor) -> Any:
        return scaled(scaled(x, a=2.0), b=3.0, a=x.mean())


class Plain(nn.Module):
    def forward(self, x: Tensor) -> Any:
        return scaled(x)


class Repeat(nn.Module):
    def forward(self, x: Tensor) -> Any:
        return repeat(x, "b n d -> b n r d", r=x.shape[1]).repeat(1, 1, 2, 1)


class Softmax(nn.Module):
    def forward(self, x: Tensor) -> Any:
        return softmax(x) + torch.softmax(x, -1)


def same(net: nn.Module, graph: pn.NodeGraph) -> bool:
    """Return whether a graph is all drawn and computes what the network does."""
    assert "none is closed" in str(graph.import_report), graph.import_report
    model = pn.compile(graph, reuse=net)
    return all(torch.equal(model(x), net(x)) for x in (X, X[:, :3], -X))


@pytest.mark.parametrize("make", [OtherKeywords, Plain, Repeat, Softmax])
def test_a_function_is_a_node_whatever_was_imported_before(make: type[nn.Module]) -> None:
    net = make()
    graph = pn.from_module(net, (X,))
    assert same(net, graph)


def test_keywords_are_written_as_in_the_original() -> None:
    source = pn.to_source(pn.from_module(OtherKeywords(), (X,)))
    assert "scaled(x, a=2.0)" in source
    assert "b=3.0, a=mean" in source


def test_a_namesake_in_another_module_is_another_node() -> None:
    other = ModuleType("another_home")
    exec("def softmax(x):\n    return x if x.sum() > 1e9 else x * 0\n", vars(other))
    sys.modules[other.__name__] = other
    try:

        class Both(nn.Module):
            def forward(self, x: Tensor) -> Any:
                return softmax(x) + other.softmax(x)

        net = Both()
        graph = pn.from_module(net, (X,))
        assert same(net, graph)
        types = {node.type for node in graph.nodes.values()}
        assert {f"{__name__}.softmax", "another_home.softmax"} <= types
    finally:
        del sys.modules[other.__name__]


def test_a_document_that_names_a_function_briefly_still_loads() -> None:
    net = Plain()
    graph = pn.from_module(net, (X,))
    text = graph.to_json().replace(f'"{__name__}.scaled"', '"scaled"')
    assert text != graph.to_json(), [node.type for node in graph.nodes.values()]
    assert same(net, pn.NodeGraph.from_json(text))


@pytest.fixture
def einops() -> Iterator[ModuleType]:
    """Yield a module with the functions of einops that this test needs."""
    made = ModuleType("einops")
    made.__spec__ = ModuleSpec("einops", None)
    exec(
        "def rearrange(tensor, pattern, **axes_lengths):\n"
        "    if type(tensor).__name__ not in ('Tensor', 'Parameter'):\n"
        "        raise TypeError('Tensor type unknown to einops')\n"
        "    return tensor.reshape(tensor.shape[0], -1, axes_lengths['h'])\n",
        vars(made),
    )
    made.rearrange.__module__ = "einops.einops"
    before = sys.modules.get("einops")
    sys.modules["einops"] = sys.modules["einops.einops"] = made
    yield made
    del sys.modules["einops.einops"]
    sys.modules.pop("einops")
    if before is not None:
        sys.modules["einops"] = before


def test_einops_is_known_by_name(einops: ModuleType) -> None:
    class Arranged(nn.Module):
        def forward(self, x: Tensor) -> Any:
            return einops.rearrange(x, "b n (h d) -> b (n d) h", h=x.shape[2] // 4)

    net = Arranged()
    graph = pn.from_module(net, (X,))
    assert same(net, graph)
    assert any(node.type == "einops.rearrange" for node in graph.nodes.values())
    assert 'rearrange(x, "b n (h d) -> b (n d) h", h=' in pn.to_source(graph)
