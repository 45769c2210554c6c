"""A renamed node keeps its weights; a new node under an old name has none of them."""

from __future__ import annotations

import gc

import torch
from torch import nn

import pnne_nb as pn
from pnne_nb.compiler import renaming


def blocks() -> tuple[nn.Module, pn.NodeGraph]:
    net = nn.Sequential(nn.Linear(3, 3), nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3)), nn.Linear(3, 3))
    return net, pn.from_module(net, (torch.randn(2, 3),))


def test_a_renamed_node_keeps_its_weights_of_the_imported_module() -> None:
    net, graph = blocks()
    graph.rename("0", "stem")
    graph.rename("1.0", "inner")
    graph.rename("1", "block")
    model = pn.compile(graph, reuse=net)
    assert list(model.state_dict())[:3] == ["stem.weight", "stem.bias", "block.inner.weight"]
    assert torch.equal(model.get_parameter("stem.weight"), net.get_parameter("0.weight"))
    assert torch.equal(model.get_parameter("block.inner.weight"), net.get_parameter("1.0.weight"))
    x = torch.randn(4, 3)
    assert torch.equal(model.eval()(x), net.eval()(x))


def test_names_are_followed_from_the_model_that_is_reused() -> None:
    net, graph = blocks()
    graph.rename("0", "a")
    first = pn.compile(graph, reuse=net)
    graph.rename("a", "b")
    second = pn.compile(graph, reuse=first)
    graph.undo()
    third = pn.compile(graph, reuse=second)
    for model, key in ((second, "b.weight"), (third, "a.weight")):
        assert torch.equal(model.get_parameter(key), net.get_parameter("0.weight"))


def test_a_new_node_under_an_old_name_begins_anew() -> None:
    net, graph = blocks()
    graph.rename("0", "first")
    graph.disconnect("input", "first")
    graph.add("Linear", name="0", in_features=3, out_features=3)
    graph.connect("input", "0")
    graph.connect("0", "first")
    model = pn.compile(graph, reuse=net)
    assert torch.equal(model.get_parameter("first.weight"), net.get_parameter("0.weight"))
    assert not torch.equal(model.get_parameter("0.weight"), net.get_parameter("0.weight"))


def test_two_nodes_that_change_names_change_weights() -> None:
    net, graph = blocks()
    graph.rename("0", "aside")
    graph.rename("2", "0")
    graph.rename("aside", "2")
    model = pn.compile(graph, reuse=net)
    assert torch.equal(model.get_parameter("0.weight"), net.get_parameter("2.weight"))
    assert torch.equal(model.get_parameter("2.weight"), net.get_parameter("0.weight"))


def test_an_opaque_node_is_found_under_its_old_name() -> None:
    class Odd(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x if x.sum() > 0 else -x

    net = nn.Sequential(nn.Linear(3, 3), Odd())
    graph = pn.from_module(net, (torch.randn(2, 3),))
    graph.rename("1", "odd")
    assert isinstance(pn.compile(graph, reuse=net).get_submodule("odd"), Odd)


def test_a_document_that_is_gone_is_forgotten() -> None:
    _, graph = blocks()
    identity, track = id(graph), renaming._tracks[id(graph)]
    del graph
    gc.collect()
    assert renaming._tracks.get(identity) is not track
