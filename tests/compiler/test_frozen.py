"""Layers and blocks that are not trained: as the original has them, in a new model and in source."""

from __future__ import annotations

import torch
from torch import nn

import pnne_nb as pn


class Backbone(nn.Module):
    """A frozen block, a list and a chain that are frozen in part, a layer, and a head that is trained."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(4), requires_grad=False)
        self.stem = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4)).requires_grad_(False)
        self.blocks = nn.ModuleList(Block() for _ in range(3))
        self.chain = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))
        self.head = nn.Linear(4, 2)
        self.blocks[0].requires_grad_(False)
        self.blocks[1].fc.requires_grad_(False)
        self.chain[0].requires_grad_(False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x * self.scale)
        for block in self.blocks:
            x = block(x)
        out: torch.Tensor = self.head(self.chain(x))
        return out


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(4)
        self.fc = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.relu(self.fc(self.norm(x)))


def imported() -> pn.NodeGraph:
    return pn.from_module(Backbone(), (torch.rand(2, 4),))


def trained(model: nn.Module) -> dict[str, bool]:
    return {name: parameter.requires_grad for name, parameter in model.named_parameters()}


def test_what_was_not_trained_is_not_in_a_new_model_either() -> None:
    graph = imported()
    assert trained(pn.compile(graph, reuse=None)) == trained(Backbone())
    assert trained(pn.compile(pn.NodeGraph.from_json(graph.to_json()), reuse=None)) == trained(Backbone())


def test_source_says_it_of_whole_layers_and_blocks() -> None:
    source = pn.to_source(imported())
    assert "        self.stem.requires_grad_(False)\n" in source
    assert source.count("requires_grad_(False)") == 4
    names: dict[str, object] = {}
    exec(source, names)
    made = names["Backbone"]
    assert isinstance(made, type)
    assert trained(made()) == trained(Backbone())


def test_a_model_that_is_reused_decides() -> None:
    net = Backbone()
    graph = pn.from_module(net, (torch.rand(2, 4),))
    net.requires_grad_(True)
    assert all(trained(pn.compile(graph, reuse=net)).values())


def test_a_group_keeps_what_is_frozen_and_a_renamed_layer_inside_is_trained() -> None:
    graph = imported()
    graph.group(["stem"], "outer")
    assert not pn.compile(graph, reuse=None).get_parameter("outer.stem.0.weight").requires_grad
    source = pn.to_source(graph)
    assert "        self.stem.requires_grad_(False)\n" in source

    graph = imported()
    graph.rename("blocks.1.fc", "other")
    model = pn.compile(graph, reuse=None)
    assert model.get_parameter("blocks.1.other.weight").requires_grad
    assert not model.get_parameter("blocks.0.other.weight").requires_grad, "all of that block is frozen"
