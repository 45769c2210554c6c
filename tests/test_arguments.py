"""Whatever a person passes to what ``pn`` offers: the answer is a result, or an error of ours in few words."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
import torch
from torch import nn

import pnne_nb as pn

JUNK: dict[str, Any] = {
    "None": None,
    "int": 3,
    "negative": -1,
    "float": 2.5,
    "nan": math.nan,
    "True": True,
    "huge": 10**400,
    "unprintable": 10**5000,
    "empty": "",
    "text": "no such thing",
    "path": "a.b.c",
    "surrogate": "\ud800",
    "long": "x" * 100_000,
    "bytes": b"x",
    "list": [1, 2],
    "tuple": (),
    "dict": {"a": 1},
    "set": {"a"},
    "object": object(),
    "range": range(3),
    "class": nn.Linear,
    "tensor": torch.zeros(2),
    "function": lambda: None,
}

LONGEST = 700
"""Characters of a message."""

Door = Callable[[pn.NodeGraph, Any], object]
GRAPH: dict[str, Door] = {
    "name": lambda g, v: setattr(g, "name", v),
    "[]": lambda g, v: g[v],
    "in": lambda g, v: v in g,
    "nodes": lambda g, v: g.nodes[v],
    "graphs": lambda g, v: g.graphs[v],
    "frames": lambda g, v: g.frames[v],
    "add": lambda g, v: g.add(v),
    "add name": lambda g, v: g.add("ReLU", name=v),
    "add x": lambda g, v: g.add("ReLU", x=v),
    "add property": lambda g, v: g.add("Linear", in_features=v),
    "add shape": lambda g, v: g.add("Input", shape=v),
    "add dtype": lambda g, v: g.add("Input", dtype=v),
    "add shares": lambda g, v: g.add("Linear", shares=v),
    "add value": lambda g, v: g.add("Constant", value=v),
    "set": lambda g, v: g.set(v, bias=True),
    "set int": lambda g, v: g.set("fc", in_features=v),
    "set bool": lambda g, v: g.set("fc", bias=v),
    "reset": lambda g, v: g.reset(v, "bias"),
    "reset property": lambda g, v: g.reset("fc", v),
    "rename": lambda g, v: g.rename(v, "other"),
    "rename to": lambda g, v: g.rename("fc", v),
    "move": lambda g, v: g.move(v, 1, 2),
    "move to": lambda g, v: g.move("fc", v, 2),
    "connect": lambda g, v: g.connect(v, "fc"),
    "connect to": lambda g, v: g.connect("fc", v),
    "disconnect": lambda g, v: g.disconnect(v, "fc"),
    "disconnect from": lambda g, v: g.disconnect("fc", v),
    "remove": lambda g, v: g.remove(v),
    "group": lambda g, v: g.group(v),
    "group of": lambda g, v: g.group([v]),
    "group name": lambda g, v: g.group(["fc"], name=v),
    "group graph": lambda g, v: g.group(["fc"], graph=v),
    "ungroup": lambda g, v: g.ungroup(v),
    "collapse": lambda g, v: g.collapse(v),
    "make_own": lambda g, v: g.make_own(v),
    "frame title": lambda g, v: g.frames.add(v, around=["fc"]),
    "frame around": lambda g, v: g.frames.add("Layers", around=v),
    "frame box": lambda g, v: g.frames.add("Layers", box=v),
    "frame text": lambda g, v: g.frames.add("Layers", around=["fc"], text=v),
    "frame colour": lambda g, v: g.frames.add("Layers", around=["fc"], colour=v),
    "frame change": lambda g, v: g.frames.change(v, title="Layers"),
    "frame move": lambda g, v: g.frames.move(v, 1, 2),
    "frame remove": lambda g, v: g.frames.remove(v),
    "publish": pn.blocks.publish,
    "publish name": lambda g, v: pn.blocks.publish(g, "fc", v),
    "insert": lambda g, v: pn.blocks.insert(v, g),
    "arrange": lambda g, v: g.arrange(v),
    "arrange direction": lambda g, v: g.arrange(direction=v),
    "apply": lambda g, v: g.apply(v),
    "apply op": lambda g, v: g.apply([v]),
    "apply base": lambda g, v: g.apply([], base=v),
    "apply label": lambda g, v: g.apply([], label=v),
    "transaction": lambda g, v: g.transaction(v).__enter__(),
    "observe": lambda g, v: g.observe(v),
    "diagnostics_at": lambda g, v: g.diagnostics_at(v),
    "to_svg": lambda g, v: g.to_svg(v),
    "to_svg within": lambda g, v: g.to_svg(within=v),
    "to_html": lambda g, v: g.to_html(v),
    "compile reuse": lambda g, v: pn.compile(g, reuse=v),
    "verify": lambda g, v: pn.verify(g, v, args=(torch.zeros(1, 4),)),
    "from_graph data": pn.TrainingEngine.from_graph,
    "from_graph namespace": lambda g, v: pn.TrainingEngine.from_graph(g, namespace=v),
}


def _as_is(x: torch.Tensor) -> torch.Tensor:
    return x


PACKAGE: dict[str, Callable[[Any], object]] = {
    "NodeGraph": pn.NodeGraph,
    "from_json": pn.NodeGraph.from_json,
    "load": pn.NodeGraph.load,
    "catalog": lambda v: pn.catalog[v],
    "compile": pn.compile,
    "to_source": pn.to_source,
    "infer_shapes": pn.infer_shapes,
    "from_module": pn.from_module,
    "from_module timeout": lambda v: pn.from_module(nn.Linear(2, 2), torch.zeros(1, 2), timeout=v),
    "from_module args": lambda v: pn.from_module(nn.Linear(2, 2), args=v),
    "from_module kwargs": lambda v: pn.from_module(nn.Linear(2, 2), args=(torch.zeros(1, 2),), kwargs=v),
    "verify": lambda v: pn.verify(v, nn.Linear(2, 2)),
    "explain": pn.explain,
    "TorchCompiler": pn.TorchCompiler,
    "TorchCompiler backend": lambda v: pn.TorchCompiler(backend=v),
    "transform": lambda v: pn.transform(v, []),
    "transform passes": lambda v: pn.transform(_net(), v),
    "transform args": lambda v: pn.transform(_net(), [], args=v),
    "transform reuse": lambda v: pn.transform(_net(), [], reuse=v),
    "plan_memory": pn.plan_memory,
    "plan_memory args": lambda v: pn.plan_memory(_net(), v),
    "detect_anomaly": lambda v: pn.detect_anomaly(v).__enter__(),
    "CheckpointActivations": pn.passes.CheckpointActivations,
    "CheckpointActivations budget": lambda v: pn.passes.CheckpointActivations(budget=v),
    "PlaceNodes": pn.passes.PlaceNodes,
    "PlaceNodes device": lambda v: pn.transform(_net(), [pn.passes.PlaceNodes({"fc": v})]),
    "FoldConstants": pn.passes.FoldConstants,
    "from_graph": pn.TrainingEngine.from_graph,
    "register_node name": lambda v: pn.register_node(name=v)(_as_is),
    "register_node category": lambda v: pn.register_node(category=v, name="as_is", replace=True)(_as_is),
    "register_node outputs": lambda v: pn.register_node(outputs=v, name="as_is", replace=True)(_as_is),
    "register_dataset": pn.register_dataset,
    "publish graph": lambda v: pn.blocks.publish(v, "fc"),
    "withdraw": pn.blocks.remove,
    "load blocks": pn.blocks.load,
    "Inspector": pn.Inspector,
    "summary": pn.summary,
    "GraphEditor": pn.GraphEditor,
    "TrainingDashboard": pn.TrainingDashboard,
}  # fmt: skip


def _engine(**options: Any) -> pn.TrainingEngine:
    return pn.TrainingEngine(_net(), options.pop("train_data", DATA), **{"epochs": 1, "device": "cpu", **options})


DATA = (torch.zeros(8, 4), torch.arange(8) % 2)
OPTIONS = (
    "train_data val_data loss metrics epochs batch_size shuffle device precision grad_clip accumulate seed checkpoint_dir "
    "validate_every checkpoint_every early_stopping parameter_groups step_function deterministic"
).split()


def _trained_with(option: str, value: Any) -> pn.TrainingEngine:
    return _engine(**{option: value})


TRAINING: dict[str, Callable[[Any], object]] = {
    **{option: partial(_trained_with, option) for option in OPTIONS},
    # A function is called, and what it raises is its own.
    "optimizer": lambda v: None if callable(v) else _engine(optimizer=v),
    "scheduler": lambda v: None if callable(v) else _engine(scheduler=v),
    "model": lambda v: pn.TrainingEngine(v, DATA),
    "wait": lambda v: _engine().wait(v),
    "step": lambda v: _engine().step(v),
    "on": lambda v: _engine().on(v, print),
    "on function": lambda v: _engine().on("step", v),
    "save_checkpoint": lambda v: _engine().save_checkpoint(v),
    "load_checkpoint": lambda v: _engine().load_checkpoint(v),
    "resume_from": lambda v: pn.TrainingEngine.resume_from(v, train_data=DATA),
    "to_frame": lambda v: _engine().history.to_frame(v),  # noqa: PLW0108  # a new one each time
    "InferenceEngine": pn.InferenceEngine,
    "InferenceEngine device": lambda v: pn.InferenceEngine(nn.Linear(4, 2), device=v),
    "InferenceEngine batch_size": lambda v: pn.InferenceEngine(nn.Linear(4, 2), batch_size=v),
}


@pytest.fixture(autouse=True)
def _clean(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with tempfile.TemporaryDirectory() as empty:
        monkeypatch.chdir(empty)
        yield


def _net() -> pn.NodeGraph:
    graph = pn.NodeGraph("net")
    graph.add("Input", name="x", shape=("N", 4))
    graph.add("Linear", name="fc", in_features=4, out_features=2)
    graph.add("Output", name="y")
    graph.connect("x", "fc")
    graph.connect("fc", "y")
    return graph


def _provoke(door: Callable[[], object]) -> bool:
    """Return whether it was refused; any error that is not ours passes through."""
    try:
        door()
    except pn.PnneError as error:
        assert 10 < len(str(error)) < LONGEST, str(error)[:LONGEST]
        return True
    return False


@pytest.mark.parametrize("door", GRAPH)
def test_a_document_refuses_what_it_cannot_use_and_stays_as_it_was(door: str) -> None:
    for value in JUNK.values():
        graph = _net()
        before, version = graph.to_json(), graph.version
        if _provoke(partial(GRAPH[door], graph, value)):
            assert (graph.to_json(), graph.version) == (before, version)
        else:
            # What was accepted can be kept in a file.
            assert pn.NodeGraph.from_json(graph.to_json()) == graph


@pytest.mark.usefixtures("own_widgets")
@pytest.mark.parametrize("door", PACKAGE)
def test_what_the_package_offers_refuses_what_it_cannot_use(door: str) -> None:
    for value in JUNK.values():
        _provoke(partial(PACKAGE[door], value))


@pytest.mark.parametrize("door", TRAINING)
def test_a_training_refuses_what_it_cannot_use(door: str) -> None:
    for value in JUNK.values():
        _provoke(partial(TRAINING[door], value))


def test_a_file_is_saved_only_under_a_path() -> None:
    for value in JUNK.values():
        if not isinstance(value, str):
            with pytest.raises(TypeError, match="path must be the path of a graph file, not "):
                _net().save(value)


def test_a_graph_is_asked_for_in_words() -> None:
    message = r"graph must be a NodeGraph, not 3. pn.from_module\(net, args\) makes a graph of a module"
    for door in (pn.compile, pn.to_source, pn.infer_shapes, pn.TrainingEngine.from_graph):
        with pytest.raises(pn.ArgumentError, match=message) as caught:
            door(3)  # type: ignore[arg-type]  # that is the point
        assert isinstance(caught.value, TypeError)
    with pytest.raises(pn.ArgumentError, match=r"net must be an nn.Module, not NodeGraph .* pn\.compile"):
        pn.Inspector(_net())  # type: ignore[arg-type]  # likewise


def test_what_is_looked_up_in_vain_is_a_key_error_with_near_names() -> None:
    graph = _net()
    with pytest.raises(KeyError, match=r"There is no node type 'Conv2D'. Did you mean 'Conv2d'"):
        pn.catalog["Conv2D"]
    with pytest.raises(KeyError, match=r"There is no node 'fcc'. Did you mean 'fc'\?"):
        graph.nodes["fcc"]
    with pytest.raises(KeyError, match="There is no definition 'block'"):
        graph.graphs["block"]
    assert graph.nodes.get("fd") is None
    assert pn.catalog.get("Conv2D") is None
    for value in JUNK.values():
        assert value not in graph.nodes
        assert value not in pn.catalog
