from __future__ import annotations

import copy
import gc
import inspect
import linecache
import pickle  # that models can be pickled is what is tested
import sys

import pytest
import torch
from torch import nn

import pnne_nb as pn
from pnne_nb.compiler.codegen import loader
from tests.compiler import graphs


def test_equal_content_gives_one_class() -> None:
    assert type(pn.compile(graphs.mlp())) is type(pn.compile(graphs.mlp()))


def test_the_class_lives_in_a_real_module() -> None:
    cls = type(pn.compile(graphs.mlp()))
    module = sys.modules[cls.__module__]
    assert module.__name__.startswith("pnne_nb.compiler.generated.mlp_")
    assert getattr(module, cls.__name__) is cls


def test_classes_without_models_are_forgotten_and_those_with_models_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loader, "KEPT", 2)
    graph = graphs.mlp()
    graph.name = "forgettable"
    kept = pn.compile(graph)
    names = []
    for width in range(20, 26):
        graph.set("fc1", out_features=width)
        graph.set("fc2", in_features=width)
        names.append(type(pn.compile(graph)).__module__)
        gc.collect()
    graph.set("fc1", out_features=30)
    graph.set("fc2", in_features=30)
    pn.compile(graph)
    assert type(kept).__module__ in sys.modules
    assert names[0] not in sys.modules
    assert f"<{names[0]}>" not in linecache.cache
    twin = pickle.loads(pickle.dumps(kept))  # what is tested
    assert type(twin) is type(kept)


@pytest.mark.parametrize("copied", [False, True])
def test_a_part_that_outlives_its_model_keeps_its_source(copied: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loader, "KEPT", 2)
    graph = graphs.nested()
    graph.name = "outlived"
    part = pn.compile(graph).get_submodule("layer1")
    if copied:
        part = copy.deepcopy(part)
    gc.collect()
    other = graphs.mlp()
    for width in range(40, 46):
        other.set("fc1", out_features=width)
        other.set("fc2", in_features=width)
        pn.compile(other)
        gc.collect()
    assert "class Layer1" in inspect.getsource(type(part))
    with pytest.raises(pn.CompileError, match="Layer1 is a part of a compiled model"):
        pn.explain(part)


def test_only_compiled_models_are_recognised() -> None:
    model = pn.compile(graphs.mlp())
    found = loader.loaded_from(model)
    assert found is not None
    assert found.cls is type(model)
    assert loader.loaded_from(nn.Linear(1, 1)) is None


def test_registering_a_type_anew_gives_a_new_class() -> None:
    graph = pn.NodeGraph("versions")

    class Scaled(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * 2

    first = Scaled
    pn.register_node(category="Custom", replace=True)(Scaled)
    graph.add("Input", "x", shape=("N", 1))
    graph.add("Scaled", "scaled")
    graph.add("Output", "y")
    graphs.wire(graph, "x scaled y")
    assert pn.compile(graph)(torch.ones(1, 1)).item() == 2

    class Scaled(nn.Module):  # type: ignore[no-redef]  # the second definition is what is tested
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * 3

    pn.register_node(category="Custom", replace=True)(Scaled)
    assert first is not Scaled
    assert pn.compile(graph)(torch.ones(1, 1)).item() == 3
