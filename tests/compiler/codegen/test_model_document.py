"""Each model has the document that it was compiled from, whatever other document had the same source."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import pnne_nb as pn
from pnne_nb.compiler.module.pickled_model import graph_of

Shape = tuple[int | str, ...]


def head(shape: Shape, *, nested: bool = False) -> pn.NodeGraph:
    graph = pn.sequential(nn.Linear(8, 3), nn.ReLU(), input=shape)
    if nested:
        graph.group(["linear1", "relu1"], name="block")
    return graph


def shape_of(model: nn.Module) -> object:
    graph = graph_of(model)
    assert graph is not None
    return next(node.properties["shape"] for node in graph.nodes.values() if node.type == "Input")


def pickled(model: nn.Module) -> nn.Module:
    copied: nn.Module = pickle.loads(pickle.dumps(model))  # made here
    return copied


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("made", [copy.copy, copy.deepcopy, pickled, lambda model: pickled(copy.deepcopy(model))])
def test_models_of_one_source_keep_their_own_shapes(made: Callable[[nn.Module], nn.Module], *, nested: bool) -> None:
    first, second = pn.compile(head((4, 8), nested=nested)), pn.compile(head(("N", 8), nested=nested))
    assert type(first) is type(second)
    assert (shape_of(first), shape_of(second)) == ((4, 8), ("N", 8))
    assert (shape_of(made(first)), shape_of(made(second))) == ((4, 8), ("N", 8))
    assert torch.equal(made(second)(torch.ones(2, 8)), second(torch.ones(2, 8)))
    with pytest.raises(pn.ExecutionError, match=r"expects x \(N, 8\) float32, and was given \(2, 9\)"):
        made(second)(torch.ones(2, 9))
    assert shape_of(pn.compile(head(("N", 8), nested=nested), reuse=first)) == ("N", 8)


def test_a_part_of_a_model_is_pickled_alone() -> None:
    model = pn.compile(head(("N", 8), nested=True))
    part = pickled(model.get_submodule("block"))
    assert torch.equal(part(torch.ones(2, 8)), model(torch.ones(2, 8)))


def test_an_engine_has_the_shape_of_its_graph_and_follows_it() -> None:
    pn.compile(head((4, 8)))
    graph = head(("N", 8))
    data = torch.randn(6, 8), torch.arange(6) % 3
    engine = pn.TrainingEngine(graph, data, batch_size=2, epochs=1, device="cpu")
    assert shape_of(engine.model) == ("N", 8)
    engine.step()
    graph.set("x", shape=("B", 8))
    engine.step()
    assert shape_of(engine.model) == ("B", 8)
    engine.stop()


def test_a_file_has_the_free_sizes_of_the_model_that_is_exported(tmp_path: Path) -> None:
    pn.compile(head((4, 8)))
    report = pn.export(pn.compile(head(("N", 8))), tmp_path / "net.onnx")
    assert report.ok
    assert report.sizes["N"].value is None
    rows: Tensor = pn.InferenceEngine.load(tmp_path / "net.onnx").predict(torch.ones(7, 8))
    assert rows.shape == (7, 3)


def test_an_imported_input_that_was_freed_is_free_in_the_model() -> None:
    torch.manual_seed(3)
    net = nn.Sequential(nn.Linear(8, 3))
    graph = pn.from_module(net, args=(torch.ones(4, 8),))
    fixed = pn.compile(graph)
    name = next(node.name for node in graph.nodes.values() if node.type == "Input")
    graph.set(name, shape=("N", 8))
    assert (shape_of(fixed), shape_of(pn.compile(graph))) == ((4, 8), ("N", 8))
