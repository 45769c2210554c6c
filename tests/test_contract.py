"""The public names as people write them down: each is called literally, by every keyword, and gives what it says.

What each does is tested in its own room. Here is only what another's code relies on: names, keywords, defaults,
attributes, return types and error classes.
"""

from __future__ import annotations

import asyncio
import copy
import inspect
import pickle
import pydoc
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import bqplot
import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor, nn

import pnne_nb as pn


def lenet() -> pn.NodeGraph:
    graph = pn.NodeGraph(name="lenet")
    graph.add("Input", name="x", shape=("N", 1, 28, 28), dtype="float32")
    graph.add("Conv2d", name="conv1", in_channels=1, out_channels=6, kernel_size=5)
    graph.add("ReLU", name="relu1")
    graph.add("Flatten", name="flat")
    graph.add("Linear", name="fc", in_features="auto", out_features=4)
    graph.add("Output", name="y")
    for source, target in [("x", "conv1"), ("conv1", "relu1"), ("relu1", "flat"), ("flat", "fc"), ("fc", "y")]:
        graph.connect(source, target)
    return graph


def digits(count: int = 48) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(count, 1, 28, 28, generator=generator), torch.arange(count) % 4


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.ffn = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 8))

    def forward(self, x: Tensor) -> Any:
        return self.ffn(x) + x


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = Encoder()
        self.head = nn.Linear(8, 4)

    def forward(self, x: Tensor) -> Any:
        return self.head(self.encoder(x))


def takes(function: Any, text: str) -> None:
    """Compare a signature with what is written down, name by name."""
    parameters = inspect.signature(function).parameters
    written = inspect.signature(eval(f"lambda {text}: None")).parameters  # a text of this file
    for place, (name, said) in enumerate(written.items()):
        assert name in parameters, f"{function} has no argument {name}"
        real = parameters[name]
        if said.kind is said.POSITIONAL_OR_KEYWORD:
            assert list(parameters).index(name) == place, f"{name} is not in its place"
            assert real.kind is said.kind, f"{name} cannot be given both by place and by name"
        assert real.default == said.default, f"{name} has another default"


# The document


def test_a_document_is_drawn_and_changed() -> None:
    graph = pn.NodeGraph(name="lenet")
    x = graph.add("Input", name="x", shape=("N", 1, 28, 28), dtype="float32")
    c1 = graph.add("Conv2d", name="conv1", in_channels=1, out_channels=6, kernel_size=5)
    assert isinstance(x, pn.Node)
    assert (x.name, x.type) == ("x", "Input")
    edge = graph.connect(x, c1)
    assert isinstance(edge, tuple)
    assert edge == ("x.output", "conv1.input")
    assert list(graph.edges) == [("x.output", "conv1.input")]
    graph.disconnect("x.output", "conv1.input")
    graph.connect("x.output", "conv1.input")
    graph.add("Output", name="y")
    assert list(graph.nodes) == ["x", "conv1", "y"]
    graph.set("conv1", out_channels=8)
    assert graph["conv1"].properties["out_channels"] == 8
    graph.rename("conv1", "stem")
    graph.move("stem", x=40, y=80)
    stem: Any = graph["stem"]
    assert stem.position == (40, 80)
    graph.disconnect("x.output", "stem.input")
    assert not graph.edges
    graph.remove("stem")
    assert "stem" not in graph
    assert "stem" not in graph.nodes


def test_nodes_and_edges_are_views_that_only_read() -> None:
    graph = lenet()
    nodes = graph.nodes
    assert isinstance(nodes, Mapping)
    with pytest.raises(TypeError):
        nodes["x"] = nodes["y"]  # type: ignore[index]  # what is tested
    with pytest.raises(TypeError):
        nodes["x"].properties["shape"] = ()  # type: ignore[index]  # what is tested
    graph.add("Tanh", name="late")
    assert "late" in nodes


def test_groups_are_nested_graphs_reached_by_path() -> None:
    graph = lenet()
    before = graph.to_json()
    block = graph.group(["conv1", "relu1"], name="block")
    assert (block.name, block.type) == ("block", "Subgraph")
    assert graph["block.conv1"].properties["out_channels"] == 6
    assert list(graph.nodes) == ["x", "block", "flat", "fc", "y"]
    graph.ungroup("block")
    assert sorted(graph.nodes) == sorted(pn.NodeGraph.from_json(before).nodes)


def test_every_change_is_one_undoable_transaction() -> None:
    graph = lenet()
    version, text = graph.version, graph.to_json()
    told: list[pn.Transaction] = []
    unsubscribe = graph.observe(told.append)
    with graph.transaction("label"):
        graph.set("conv1", out_channels=8)
        graph.rename("conv1", "stem")
    assert graph.version == version + 1
    assert [(done.label, done.version) for done in told] == [("label", graph.version)]
    changed = graph.to_json()
    graph.undo()
    assert graph.to_json() == text
    graph.redo()
    assert graph.to_json() == changed
    unsubscribe()
    graph.undo()
    assert len(told) == 3


def test_documents_are_texts_and_files(tmp_path: Path) -> None:
    graph = lenet()
    text = graph.to_json()
    assert isinstance(text, str)
    assert pn.NodeGraph.from_json(text) == graph
    graph.save(tmp_path / "m.pnne.json")
    assert pn.NodeGraph.load(tmp_path / "m.pnne.json") == graph
    assert pn.NodeGraph.load(str(tmp_path / "m.pnne.json")) == graph
    assert copy.deepcopy(graph) == pickle.loads(pickle.dumps(graph)) == graph
    graph.set("conv1", out_channels=7)
    assert pn.NodeGraph.from_json(text) != graph
    for damaged in (text[:-20], "", "[]", text.replace('"formatVersion": 1', '"formatVersion": 99')):
        with pytest.raises(pn.GraphFileError):
            pn.NodeGraph.from_json(damaged)


def test_what_is_unfinished_is_a_diagnostic() -> None:
    graph = pn.NodeGraph()
    graph.add("Linear", name="fc", in_features=3)
    found = graph.diagnostics()
    assert isinstance(found, list)
    assert all(isinstance(each, pn.Diagnostic) for each in found)
    missing = next(each for each in found if each.code == "missing-property")
    assert (missing.node, missing.port) == ("fc", None)
    assert "out_features" in missing.message
    assert isinstance(missing.hint, str)


REFUSED: dict[str, tuple[type[pn.GraphError], type[Exception], Any]] = {
    "unknown type": (pn.UnknownTypeError, KeyError, lambda graph: graph.add("Conv7d")),
    "unknown property": (pn.UnknownPropertyError, KeyError, lambda graph: graph.set("conv1", kernel_sise=3)),
    "bad value": (pn.BadValueError, ValueError, lambda graph: graph.set("conv1", kernel_size=-3)),
    "duplicate name": (pn.NameTakenError, ValueError, lambda graph: graph.add("ReLU", name="conv1")),
    "illegal name": (pn.IllegalNameError, ValueError, lambda graph: graph.add("ReLU", name="not a name")),
    "name of a module's attribute": (pn.IllegalNameError, ValueError, lambda graph: graph.rename("fc", "forward")),
    "unknown node": (pn.UnknownNodeError, KeyError, lambda graph: graph["conv2"]),
    "unknown port": (pn.UnknownPortError, KeyError, lambda graph: graph.connect("x.output", "fc.inptu")),
    "port already fed": (pn.PortTakenError, ValueError, lambda graph: graph.connect("x.output", "fc.input")),
    "cycle": (pn.CycleError, ValueError, lambda graph: (graph.disconnect("x", "conv1"), graph.connect("fc", "conv1"))),
    "nothing to redo": (pn.GraphError, ValueError, lambda graph: graph.redo()),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_refused_change_raises_and_leaves_the_document(what: str) -> None:
    kind, builtin, change = REFUSED[what]
    graph = lenet()
    text, version = graph.to_json(), graph.version
    with pytest.raises(kind) as caught, graph.transaction():
        change(graph)
    assert isinstance(caught.value, (pn.GraphError, builtin))
    assert isinstance(caught.value, builtin)
    assert (graph.to_json(), graph.version) == (text, version)


# Node types


def test_the_catalogue_is_a_mapping_of_specs() -> None:
    assert isinstance(pn.catalog, Mapping)
    types = "Conv2d LSTM CrossEntropyLoss AdamW StepLR add cat flatten relu scaled_dot_product_attention"
    for type in [*types.split(), *"Input Output Subgraph Constant Parameter Buffer Module".split()]:
        spec = pn.catalog[type]
        assert isinstance(spec, pn.NodeSpec)
        assert type in pn.catalog
        assert isinstance(spec.category, str)
        assert isinstance(spec.doc, str)
        assert all(isinstance(port.name, str) for port in (*spec.inputs, *spec.outputs))
    conv: Any = pn.catalog["Conv2d"]
    assert conv.torch is nn.Conv2d
    assert [port.name for port in conv.inputs] == ["input"]
    assert [port.name for port in pn.catalog["LSTM"].outputs] == ["output", "h_n", "c_n"]
    stride = conv.properties["stride"]
    assert (stride.name, stride.default, stride.range) == ("stride", 1, (1, None))
    assert stride.type is not None
    assert "tride" in stride.doc
    assert conv.properties["padding_mode"].range is None
    dropout: Any = pn.catalog["Dropout"]
    assert dropout.properties["p"].range == (0.0, 1.0)


def test_a_layer_in_the_place_of_its_type_is_understood() -> None:
    assert pn.NodeGraph().add(nn.Conv2d).type == "Conv2d"
    assert pn.NodeGraph().add(nn.Conv2d(1, 2, 3)).properties == {"in_channels": 1, "out_channels": 2, "kernel_size": 3}


def test_ports_are_wired_or_typed_and_variadic() -> None:
    graph = pn.NodeGraph()
    for name in "abc":
        graph.add("Input", name=name, shape=("N", 3))
    graph.add("cat", name="all", dim=1)
    graph.add("add", name="sum", other=2.5)
    for name in "abc":
        graph.connect(name, "all")
    graph.connect("all", "sum")
    graph.add("Output", name="y")
    graph.connect("sum", "y")
    given = [torch.randn(2, 3) for _ in range(3)]
    assert torch.equal(pn.compile(graph)(*given), torch.cat(given, 1) + 2.5)


def test_a_node_shares_the_module_of_another() -> None:
    graph = pn.NodeGraph()
    graph.add("Input", name="x", shape=("N", 4))
    graph.add("Linear", name="embed_out", in_features=4, out_features=4)
    graph.add("Linear", name="tied", shares="embed_out")
    graph.add("Output", name="y")
    for source, target in [("x", "embed_out"), ("embed_out", "tied"), ("tied", "y")]:
        graph.connect(source, target)
    model = pn.compile(graph)
    assert list(model.state_dict()) == ["embed_out.weight", "embed_out.bias"]


def test_a_type_that_is_not_registered_is_kept_and_said() -> None:
    graph = pn.NodeGraph.from_json(lenet().to_json().replace('"ReLU"', '"NotYet"'))
    assert graph["relu1"].type == "NotYet"
    assert any(found.node == "relu1" and found.code == "unknown-type" for found in graph.diagnostics())
    with pytest.raises(pn.CompileError, match="NotYet"):
        pn.compile(graph)


# Compiling


def test_a_graph_becomes_a_module() -> None:
    graph = lenet()
    model = pn.compile(graph)
    assert isinstance(model, nn.Module)
    assert list(model.state_dict()) == ["conv1.weight", "conv1.bias", "fc.weight", "fc.bias"]
    assert model(torch.randn(3, 1, 28, 28)).shape == (3, 4)
    assert isinstance(pn.TorchCompiler(passes=[pn.passes.RemoveDeadNodes()]).compile(graph), nn.Module)
    graph.set("fc", out_features=5)
    again = pn.compile(graph, reuse=model)
    assert torch.equal(again.get_parameter("conv1.weight"), model.get_parameter("conv1.weight"))
    assert again(torch.randn(2, 1, 28, 28)).shape == (2, 5)
    takes(pn.compile, "graph")
    assert repr(inspect.signature(pn.compile).parameters["reuse"].default) == "the graph's own weights"
    takes(pn.TorchCompiler, "passes=()")


def test_shapes_by_port() -> None:
    shapes = pn.infer_shapes(lenet())
    assert shapes["conv1.output"] == pn.TensorSpec(shape=("N", 6, 24, 24), dtype="float32")
    assert shapes["fc.output"] == pn.TensorSpec(shape=("N", 4), dtype="float32")


def test_a_module_becomes_a_graph_and_back() -> None:
    net, x = Net(), torch.randn(2, 8)
    graph = pn.from_module(net, args=(x,), kwargs=None)
    assert isinstance(graph, pn.NodeGraph)
    assert graph["encoder"].type == "Subgraph"
    assert graph["encoder.ffn.0"].type == "Linear"
    origin = graph["encoder"].origin
    assert isinstance(origin, Mapping)
    assert origin["proof"] == "equal"
    graph = pn.NodeGraph.from_json(graph.to_json())
    assert graph["encoder"].origin == origin
    model = pn.compile(graph, reuse=net)
    assert list(model.state_dict()) == list(net.state_dict())
    assert torch.equal(model(x), net(x))
    report = pn.verify(graph, net, args=(x,))
    assert isinstance(report, pn.VerificationReport)
    assert report
    takes(pn.from_module, "net, args=(), kwargs=None")
    takes(pn.verify, "graph, net, args=()")


def test_source_stands_alone() -> None:
    source = pn.to_source(lenet())
    assert isinstance(source, str)
    assert "pnne_nb" not in source
    assert "class Lenet(nn.Module)" in source
    namespace: dict[str, Any] = {}
    exec(source, namespace)  # that it can be run is what is tested
    assert namespace["Lenet"]()(torch.randn(2, 1, 28, 28)).shape == (2, 4)


def test_errors_of_compiling_and_of_running_name_the_node() -> None:
    graph = lenet()
    graph.set("fc", in_features=10)
    with pytest.raises(pn.ShapeError) as caught:
        pn.compile(graph)
    assert isinstance(caught.value, (pn.CompileError, ValueError))
    assert [found.node for found in caught.value.diagnostics] == ["fc"]
    with pytest.raises(RuntimeError, match="conv1") as failed:
        pn.compile(lenet())(torch.randn(2, 3, 28, 28))
    assert isinstance(failed.value, pn.PnneError)


# Training


def test_the_engines_arguments() -> None:
    takes(
        pn.TrainingEngine,
        'model, train_data=None, val_data=None, loss="auto", optimizer=("AdamW", {"lr": 1e-3}), scheduler=None, '
        'metrics=("accuracy",), epochs=5, batch_size=64, shuffle=True, device="auto", precision="32", grad_clip=None, '
        "accumulate=1, seed=0, checkpoint_dir=None",
    )
    takes(pn.TrainingEngine.step, "self, n=1")
    takes(pn.TrainingEngine.wait, "self, timeout=None")
    takes(pn.TrainingEngine.from_graph, "graph")
    takes(pn.TrainingEngine.resume_from, "path")


def test_a_training_is_started_stepped_paused_and_awaited(tmp_path: Path) -> None:
    engine: Any = pn.TrainingEngine(lenet(), digits(), val_data=digits(8), epochs=2, batch_size=16)
    assert (engine.state, engine.error) == ("idle", None)
    told: dict[str, list[Any]] = {"step": [], "epoch": [], "state": [], "anomaly": []}
    stop_telling = [engine.on(event, seen.append) for event, seen in told.items()]
    engine.step(n=1)
    assert engine.state == "paused"
    assert len(told["step"]) == 1
    engine.start()
    engine.pause()
    assert engine.state in {"paused", "finished"}
    engine.start()
    assert engine.wait(timeout=None) is True
    assert engine.state == "finished"
    for unsubscribe in stop_telling:
        unsubscribe()
    assert len(told["step"]) == 6
    assert len(told["epoch"]) == 2
    assert told["state"]
    assert not told["anomaly"]
    assert isinstance(engine.history["loss"], np.ndarray)
    assert len(engine.history["loss"]) == 6
    assert len(engine.history["val_loss"]) == len(engine.history["val_accuracy"]) == 2
    assert isinstance(engine.history.to_frame(), pd.DataFrame)
    assert isinstance(engine.model, nn.Module)
    path = tmp_path / "kept"
    engine.save_checkpoint(path)
    resumed = pn.TrainingEngine.resume_from(path, train_data=digits(), val_data=digits(8))
    assert torch.equal(resumed.model.get_parameter("fc.bias"), engine.model.get_parameter("fc.bias"))
    with pytest.raises(pn.TrainingError, match="event"):
        engine.on("stpe", print)


def test_numbers_of_numpy_are_numbers(tmp_path: Path) -> None:
    options: dict[str, Any] = {"epochs": np.int64(1), "batch_size": np.int32(16), "shuffle": np.bool_(False)}
    options |= {"grad_clip": np.float32(1), "seed": np.int64(3), "checkpoint_dir": tmp_path}
    engine = pn.TrainingEngine(lenet(), digits(), **options)
    engine.start()
    assert engine.wait(np.float64(60))
    assert pn.TrainingEngine.resume_from(tmp_path, train_data=digits()).state == "idle"
    graph = pn.NodeGraph()
    graph.add("Input", name="x", shape=(np.int64(2), 3), dtype=np.dtype("float32"))
    graph.add("Linear", name="fc", in_features=np.int16(3), out_features=np.int64(4))
    assert pn.infer_shapes(graph)["x.output"] == pn.TensorSpec((2, 3), "float32")


def test_a_training_is_awaited_and_fails_aloud() -> None:
    engine: Any = pn.TrainingEngine(Net(), (torch.randn(8, 8), torch.arange(8) % 4), epochs=1, device="cpu")
    engine.exclusive = True

    async def train() -> None:
        engine.start()
        await engine

    asyncio.run(train())
    assert engine.state == "finished"

    def fails(frame: object) -> None:
        raise OverflowError("enough")

    engine.on("step", fails)
    engine.start()
    with pytest.raises(OverflowError, match="enough"):
        engine.wait()
    assert engine.state == "failed"
    assert isinstance(engine.error, OverflowError)
    engine.stop()


def test_an_imported_graph_trains_on_batches_of_another_size_than_its_example() -> None:
    net = Net()
    graph = pn.from_module(net, args=(torch.randn(2, 8),))
    engine = pn.TrainingEngine(graph, (torch.randn(40, 8), torch.arange(40) % 4), epochs=1, batch_size=16)
    assert engine.start().wait()
    with pytest.raises(pn.TrainingError, match=r"Input node 'x': the node expects shape \(N, 8\)"):
        pn.TrainingEngine(graph, (torch.randn(40, 9), torch.arange(40) % 4))


def test_a_drawn_training() -> None:
    graph = pn.NodeGraph(name="training")
    graph.add("Dataset", name="data", source="variable", data="mine")
    graph.add("DataLoader", name="loader", batch_size=16)
    graph.add("Flatten", name="flat")
    graph.add("Linear", name="fc", out_features=4)
    graph.add("CrossEntropyLoss", name="loss")
    graph.add("AdamW", name="optimizer", lr=1e-3)
    graph.add("StepLR", name="scheduler", step_size=1)
    for source, target in [
        ("data", "loader"), ("loader.input", "flat.input"), ("flat", "fc"), ("fc", "loss.input"),
        ("loader.target", "loss.target"), ("loss", "optimizer"), ("optimizer", "scheduler"),
    ]:  # fmt: skip
        graph.connect(source, target)
    graph.group(["flat", "fc"], name="model")
    engine = pn.TrainingEngine.from_graph(graph, {"mine": digits()}, epochs=1, device="cpu")
    assert engine.start().wait()
    assert [name for name, _ in engine.model.named_parameters()] == ["fc.weight", "fc.bias"]


def test_a_dashboard_of_an_engine() -> None:
    engine: Any = pn.TrainingEngine(lenet(), digits(), epochs=1)
    dashboard = pn.TrainingDashboard(engine)
    assert "pnne-dashboard" in dashboard._dom_classes
    dashboard.close()


# Inspecting


@pytest.mark.usefixtures("own_widgets")
def test_a_look_inside_a_module() -> None:
    net = Net()
    inspector = pn.Inspector(net)
    matched = inspector.watch("*.ffn.*", what=("activations", "gradients"))
    assert matched == ["encoder.ffn.0", "encoder.ffn.1", "encoder.ffn.2"]
    with pytest.raises(pn.LayerNotFoundError, match=r"Did you mean 'encoder\.ffn"):
        inspector.watch("encoder.fnf.0")
    inspector.run_inspection(torch.randn(5, 8))
    inspector.run_inspection(torch.randn(5, 8), target=torch.arange(5) % 4, loss_fn=nn.CrossEntropyLoss())
    captured: Any = inspector.captured_data
    assert captured["encoder.ffn.0"]["activations"].shape == (5, 16)
    assert captured["encoder.ffn.0"]["gradients"].shape == (5, 16)
    found = inspector.get_statistics("encoder.ffn.0")
    kept = captured["encoder.ffn.0"]["activations"].double()
    assert found.mean == pytest.approx(float(kept.mean()))
    assert found.std == pytest.approx(float(kept.std()))
    assert found.var == pytest.approx(float(kept.var()))
    assert found.norm == pytest.approx(float(kept.norm()))
    assert (found.min, found.max) == (float(kept.min()), float(kept.max()))
    assert (found.zeros, found.nan, found.inf) == (0.0, 0, 0)
    assert (found.shape, found.dtype) == ((5, 16), "float32")
    assert isinstance(inspector.summary(), pd.DataFrame)
    assert isinstance(inspector.plot("encoder.ffn.0"), bqplot.Figure)
    assert not any(module._forward_hooks for module in net.modules())
    takes(pn.Inspector.run_inspection, "self, data, target=None, loss_fn=None")


def test_the_same_watch_list_while_training() -> None:
    engine: Any = pn.TrainingEngine(Net(), (torch.randn(8, 8), torch.arange(8) % 4), epochs=1, device="cpu")
    inspector = pn.Inspector(engine.module)
    inspector.watch("*.ffn.*")
    inspector.attach(engine)
    assert engine.start().wait()


def test_structure_and_counts() -> None:
    net, x = Net(), torch.randn(2, 8)
    explorer = pn.ModuleExplorer(net, inspector=None)
    assert "pnne-explorer" in explorer._dom_classes
    explorer.close()
    assert "encoder" in str(pn.summary(net, (x,)))
    assert "encoder" in str(pn.summary(net, x))
    assert "encoder" in pn.profile(net, (x,)).layers.to_string()
    assert isinstance(pn.DeviceManager().choose(), torch.device)
    assert isinstance(pn.InferenceEngine(net).predict(x), Tensor)


# The editor


def test_an_editor_has_graph_selection_model_and_diagnostics() -> None:
    graph = lenet()
    editor: Any = pn.GraphEditor(graph)
    assert editor.graph is graph
    assert tuple(editor.selection) == ()
    assert editor.has_trait("selection")
    model = editor.model
    assert isinstance(model, nn.Module)
    assert editor.diagnostics == []
    graph.set("fc", in_features=3)
    broken = editor.model
    assert broken is None
    assert [found.node for found in editor.diagnostics] == ["fc"]
    graph.set("fc", in_features="auto")
    kept = editor.model
    assert kept is not None
    assert torch.equal(kept.get_parameter("conv1.weight"), model.get_parameter("conv1.weight"))
    editor.close()


# Export


def test_export(tmp_path: Path) -> None:
    takes(
        pn.export,
        "graph_or_model_or_engine, path, format='auto', *, data=None, sizes=None, opset=None, tolerance='auto', overwrite=False",
    )
    takes(pn.check_export, "graph, format='onnx'")
    report = pn.export(lenet(), tmp_path / "lenet.onnx", data=digits())
    assert isinstance(report, pn.ExportReport)
    assert report.ok
    assert report.path == tmp_path / "lenet.onnx"
    assert report.nodes["conv1"].error is not None
    assert "N" in report.sizes
    assert isinstance(report.to_frame(), pd.DataFrame)


# In words


def test_what_a_person_holds_says_what_it_is() -> None:
    graph, net = lenet(), Net()
    engine = pn.TrainingEngine(net, (torch.randn(8, 8), torch.arange(8) % 4), epochs=1, device="cpu")
    assert repr(graph) == 'NodeGraph "lenet": 6 nodes, 5 edges'
    assert repr(graph.nodes) == "Nodes(x, conv1, relu1, flat, fc, y)"
    chosen = "CrossEntropyLoss (chosen: the targets are whole numbers, one for each class)"
    assert repr(engine) == f"TrainingEngine(Net, loss={chosen}, state='idle')"
    assert repr(engine.history) == "History(0 steps, 0 epochs: loss, learning_rate)"
    assert repr(pn.TorchCompiler([pn.passes.FuseBatchNorm()])) == "TorchCompiler(passes=[FuseBatchNorm], backend=None)"
    assert repr(pn.InferenceEngine(net, "cpu")) == "InferenceEngine(Net, device='cpu', batch_size=64)"
    assert repr(pn.Inspector(net)) == "Inspector(Net, watching 0 layers, not run yet)"
    assert repr(pn.DeviceManager()).startswith("DeviceManager(cpu")


@pytest.mark.parametrize("name", pn.__all__)
def test_help_can_be_read(name: str) -> None:
    offered = getattr(pn, name)
    text = pydoc.render_doc(offered)
    assert len((offered.__doc__ or "").strip()) > 20, f"{name} has no docstring"
    assert name in text or not isinstance(offered, type)
    if callable(offered):
        inspect.signature(offered)


# Errors


BUILTINS: dict[str, type[Exception]] = {
    "GraphError": ValueError,
    "GraphFileError": ValueError,
    "CompileError": ValueError,
    "ShapeError": ValueError,
    "LayerNotFoundError": KeyError,
    "TrainingError": RuntimeError,
    "UnknownNodeError": KeyError,
    "UnknownTypeError": KeyError,
    "GraphFileNotFoundError": FileNotFoundError,
}


@pytest.mark.parametrize("name", [name for name in pn.__all__ if name.endswith("Error")])
def test_each_error_is_of_the_one_tree_and_a_builtin_too(name: str) -> None:
    kind = getattr(pn, name)
    assert issubclass(kind, pn.PnneError)
    assert issubclass(kind, BUILTINS.get(name, Exception))
    if kind is not pn.PnneError:
        assert issubclass(kind, (ValueError, KeyError, RuntimeError, TypeError, OSError))
    assert str(kind("words")) == "words"


# Save, load, serve


def test_a_package_and_a_script(tmp_path: Path) -> None:
    takes(pn.save, "graph, model, path")
    takes(pn.load, "path")
    takes(pn.InferenceEngine.load, "path")
    takes(pn.to_script, "engine")
    model = pn.compile(lenet())
    pn.save(lenet(), model, tmp_path / "lenet.pnne")
    graph, loaded = pn.load(tmp_path / "lenet.pnne")
    assert graph == lenet()
    x, y = digits()
    assert torch.equal(loaded.eval()(x), model.eval()(x))
    assert isinstance(pn.InferenceEngine.load(tmp_path / "lenet.pnne").predict(x), Tensor)
    assert isinstance(pn.to_script(pn.TrainingEngine(lenet(), (x, y))), str)
