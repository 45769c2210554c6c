"""Tied tensors stay tied whatever is renamed, grouped or ungrouped, also in a file and in a model with fresh weights."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import pnne_nb as pn

IDS = torch.arange(10).reshape(2, 5)


class Inside(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(8, 8), nn.Linear(8, 8)
        self.b.weight = self.a.weight

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.b(torch.relu(self.a(x)))
        return y


class Tied(nn.Module):
    """The head has the weight of the embedding, as in a language model; a block ties two of its own, and one in a list."""

    def __init__(self) -> None:
        super().__init__()
        self.e = nn.Embedding(11, 8)
        self.block = Inside()
        self.more = nn.ModuleList([nn.Linear(8, 8), nn.Linear(8, 8)])
        self.more[1].weight = self.block.a.weight
        self.head = nn.Linear(8, 11, bias=False)
        self.head.weight = self.e.weight

    def forward(self, ids: Tensor) -> Tensor:
        h = self.block(self.e(ids))
        for each in self.more:
            h = torch.tanh(each(h))
        y: Tensor = self.head(h)
        return y


def chain(graph: pn.NodeGraph, first: str, last: str) -> list[str]:
    names = [name for name, node in graph.nodes.items() if node.type not in ("Input", "Output")]
    return names[names.index(first) : names.index(last) + 1]


EDITS: dict[str, Callable[[pn.NodeGraph], object]] = {
    "owner renamed": lambda graph: graph.rename("e", "words"),
    "alias renamed": lambda graph: graph.rename("head", "words"),
    "block renamed": lambda graph: graph.rename("block", "e2"),
    "inside renamed": lambda graph: (graph.rename("block.a", "q"), graph.rename("block.b", "a")),
    "owner grouped": lambda graph: graph.group(["e", "block"], name="begin"),
    "alias grouped": lambda graph: graph.group(chain(graph, "block", "head"), name="end"),
    "all grouped": lambda graph: graph.group(chain(graph, "e", "head"), name="all"),
    "ungrouped": lambda graph: graph.ungroup("block"),
    "grouped twice": lambda graph: (graph.group(["e"], name="e1"), graph.group(["e1", "block"], name="begin")),
    "grouped inside": lambda graph: graph.group(["block.a"], name="c"),
    "grouped and back": lambda graph: (graph.group(["e", "block"], name="begin"), graph.ungroup("begin")),
}


def shared(model: nn.Module) -> list[int]:
    """Return the sizes of the parameters, each once."""
    return sorted(parameter.numel() for parameter in model.parameters())


def holds(graph: pn.NodeGraph, net: nn.Module, folder: Path) -> None:
    model = pn.compile(graph)
    assert torch.equal(model(IDS), net(IDS))
    assert shared(pn.compile(graph, reuse=None)) == shared(model) == shared(net)
    graph.save(folder / "graph.json")
    assert shared(pn.compile(pn.NodeGraph.load(folder / "graph.json"), reuse=None)) == shared(net)


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
def test_ties_follow(edit: Callable[[pn.NodeGraph], object], tmp_path: Path) -> None:
    net = Tied()
    graph = pn.from_module(net, args=(IDS,))
    before = graph.to_json()
    edit(graph)
    holds(graph, net, tmp_path)
    after = graph.to_json()
    while graph.undo_label:
        graph.undo()
    assert graph.to_json() == before
    while graph.redo_label:
        graph.redo()
    assert graph.to_json() == after


@pytest.mark.parametrize("seed", range(6))
def test_ties_follow_any_row_of_edits(seed: int, tmp_path: Path) -> None:
    net, draw = Tied(), random.Random(seed)
    graph = pn.from_module(net, args=(IDS,))
    for number in range(8):
        names = chain(graph, *[list(graph.nodes)[place] for place in (1, -2)])
        blocks = [name for name in names if graph.nodes[name].type == "Subgraph"]
        what = draw.choice(("rename", "group", "ungroup", "undo"))
        if what == "rename":
            graph.rename(draw.choice(names), f"n{number}")
        elif what == "group":
            first = draw.randrange(len(names))
            graph.group(names[first : first + draw.randint(1, 3)], name=f"g{number}")
        elif what == "ungroup" and blocks:
            graph.ungroup(draw.choice(blocks))
        elif what == "undo" and graph.undo_label:
            graph.undo()
    holds(graph, net, tmp_path)
