from __future__ import annotations

import torch
from torch import nn

import pnne_nb as pn
from tests.compiler.graphs import wire


def removed(graph: pn.NodeGraph, *args: torch.Tensor) -> tuple[pn.NodeGraph, nn.Module, str]:
    done = pn.transform(graph, [pn.passes.RemoveIdentities()], args=args)
    return done.graph, done.model, str(done)


def test_dropout_and_identities_go_also_one_after_another() -> None:
    graph = pn.sequential(nn.Linear(4, 4), nn.Dropout(), nn.Identity(), nn.ReLU(), nn.Dropout1d(), input=("N", 4))
    x = torch.randn(3, 4)
    done, model, said = removed(graph, x)
    assert [node.type for node in done.nodes.values()] == ["Input", "Linear", "ReLU", "Output"]
    assert "Dropout does nothing in inference" in said
    assert not model.training
    assert model(x).shape == (3, 4)


def test_nothing_is_changed_where_there_is_nothing_to_remove() -> None:
    graph = pn.sequential(nn.Linear(4, 4), input=("N", 4))
    done, _, said = removed(graph, torch.randn(3, 4))
    assert done == graph
    assert "nothing to do" in said


def test_an_input_does_not_become_an_output() -> None:
    graph = pn.NodeGraph("same")
    graph.add("Input", "x", shape=("N", 4))
    graph.add("Dropout", "drop")
    graph.add("Output", "y")
    done, _, said = removed(wire(graph, "x drop y"), torch.randn(3, 4))
    assert "drop" in done
    assert "an Input would be an Output itself" in said


def test_nested_graphs_are_searched_too() -> None:
    graph = pn.sequential(nn.Linear(4, 4), nn.Dropout(), nn.ReLU(), input=("N", 4))
    graph.group(["dropout1", "relu1"], name="block")
    done, _, _ = removed(graph, torch.randn(3, 4))
    assert "block.dropout1" not in done
    assert "block.relu1" in done
