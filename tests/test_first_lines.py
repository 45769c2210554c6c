"""What a PyTorch user types in the first hour: each line works, or is answered with the line that would."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from ipywidgets.widgets.widget import _instances
from torch import nn
from torch.utils.data import IterableDataset

import pnne_nb as pn
from scripts import first_lines

X, CLASSES = torch.randn(24, 4), torch.arange(24) % 3


class Stream(IterableDataset[Any]):
    """Examples that are read only once."""

    def __iter__(self) -> Iterator[Any]:
        return iter(zip(X, CLASSES, strict=True))


@pytest.fixture
def names() -> Iterator[dict[str, Any]]:
    """What the cells before have defined."""
    before = set(_instances)
    with first_lines.names("") as given:
        given |= {"g": pn.NodeGraph(), "Stream": Stream}
        yield given
        for value in list(given.values()):
            if isinstance(value, pn.TrainingEngine):
                value.stop()
    for widget in set(_instances) - before:
        if widget in _instances:
            _instances[widget].close()


WORKS = [
    # Drawing
    'g.add("Input", shape=(None, 4))',
    'g.add("Linear", 784, 128)',
    "g.add(nn.Linear, 784, 128)",
    "g.add(nn.Linear(784, 128))",
    'g.add("Linear", "fc1", 784, 128)',
    'g.add(F.relu, name="act")',
    "g.add(F.conv2d); assert [found.fix.type for found in g.diagnostics() if found.port == 'weight'] == ['Conv2d']",
    'g.chain("ReLU", ("Linear", {"out_features": 10}), nn.Dropout(0.1))',
    'pn.sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3), input=("N", 4))',
    'pn.compile(pn.sequential(("Linear", {"out_features": 3}), input=("N", 4)))(x)',
    'graph.disconnect("x", "fc"); graph.add("ReLU", name="r"); graph.connect("x", "r", "fc")',
    "g.add('Input', name='a', shape=('N', 4)); g.add('ReLU', name='b'); g.add('Output', name='c'); g.connect(*g)",
    "assert len(graph) == 3",
    'assert "fc" in graph and "nope" not in graph',
    "assert [name for name in graph] == ['x', 'fc', 'y']",
    "assert 'N×3' in graph._repr_mimebundle_()['text/html']",
    "assert graph._ipython_key_completions_() == ['x', 'fc', 'y']",
    "assert graph.undo()._ipython_display_() is None",
    "pn.GraphEditor()",
    "pn.GraphEditor(net, args=(x,))",
    "pn.GraphEditor(net, args=x)",
    "pn.GraphEditor(net, input_size=(2, 4))",
    "pn.from_module(net, input_size=(2, 4))",
    "pn.from_module(net, x)",
    "pn.summary(graph)",
    "graph.summary()",
    "pn.summary(net, x)",
    "pn.summary(net, input_size=(2, 4))",
    "pn.sequential(nn.Linear(4, 8), 'relu', nn.Linear(8, 3), input=(4,))",
    "pn.compile(copy.deepcopy(graph))",
    "assert hasattr(graph, 'fc') and graph.fc == graph['fc'] and not hasattr(graph, '_fc')",
    "assert not hasattr(graph, 'forward') and not hasattr(engine, 'fit')",
    "assert 'GraphEditor' in dir(pn) and 'annotations' not in dir(pn)",
    # Training
    "assert 'MSELoss' in repr(pn.TrainingEngine(one, (X, t)))",
    "assert 'CrossEntropyLoss' in repr(pn.TrainingEngine(net, (X, y)))",
    "assert 'BCEWithLogitsLoss' in repr(pn.TrainingEngine(one, (X, (t > 0).float())))",
    "e = pn.TrainingEngine(one, (X, y > 0)); e.step(); assert 'BCEWithLogitsLoss' in repr(e)",
    "e = pn.TrainingEngine(one, (X, (y > 0).long())); e.step(); assert 'BCEWithLogitsLoss' in repr(e)",
    "pn.TrainingEngine(net, (X.numpy(), y.numpy()))",
    "pn.TrainingEngine(net, DataLoader(TensorDataset(X, y), 8, shuffle=True))",
    "pn.TrainingEngine(net, TensorDataset(X, y), metrics=('accuracy', 'f1', 'auroc'))",
    "pn.TrainingEngine(one, (X, t), metrics=['mae', 'mse', 'r2', 'MeanAbsoluteError'])",
    "pn.TrainingEngine(net, (X, (y, t)), loss=lambda o, t: F.cross_entropy(o, t[0]))",
    "e = pn.TrainingEngine(net, (X, {'c': y}), loss=lambda o, t: F.cross_entropy(o, t['c'])); e.step()",
    "engine.on('epoch_start', print); engine.start(); engine.wait()",
    "engine.step(); engine.history.plot()",
    "engine.step(); engine.history.plot('loss', log=True).to_svg('dark')",
    "engine.step(); assert '<img' in engine._repr_html_() and '<img' in engine.history._repr_html_()",
    "engine.step(); pn.confusion(engine)",
    "engine.step(); pn.worst(engine, 3)",
    "assert repr(g.add('Linear', 4, 3)) == \"Node('linear1', Linear, in_features=4, out_features=3)\"",
    "assert repr(pn.catalog).startswith('Catalogue of')",
    "assert pn.GraphEditor(graph).to_png()[1:4] == b'PNG' and '<img' in pn.GraphEditor(graph).to_html()",
    "assert 'USDT' not in repr(pn.profile(net, x))",
    "assert 'calls/s' in repr(pn.benchmark(net, x, seconds=0.01))",
]

ANSWERED = [
    ('g.add("Dense", 10)', 'graph.add("Linear", ...)'),
    ('g.add("Conv", 1, 6, 5)', 'graph.add("Conv2d", ...)'),
    ('g.add("conv2d", in_channels=1, out_channels=6, kernel_size=5)', 'the layer Conv2d: graph.add("Conv2d", ...)'),
    ('g.add("conv2d", 1, 6, 5)', 'the layer Conv2d: graph.add("Conv2d", ...)'),
    ('g.add("batch_norm", 6)', 'Did you mean a layer: graph.add("BatchNorm1d", ...)'),
    ('pn.compile(pn.sequential("linear", input=("N", 4)))', 'the layer Linear: graph.add("Linear", ...)'),
    ('g.add("BatchNorm", 6)', 'graph.add("BatchNorm2d", ...)'),
    ('g.add("Sequential")', "graph.chain(...)"),
    ('g.add("Sequential", nn.ReLU())', "graph.chain(...)"),
    ('g.add("ModuleList")', "graph.chain(*layers)"),
    ('g.add("LazyLinear", 10)', 'graph.add("Linear", ...) without in_features'),
    ('graph["fc"].out_features = 8', 'graph.set("fc", out_features=8)'),
    ('graph["fc"].out_features', 'node.properties["out_features"]'),
    ('graph["x"] >> graph["fc"]', 'graph.connect("x", "fc")'),
    ("pn.GraphEditor(net)", "pn.GraphEditor(net, args=(x,))"),
    ("pn.Trainer", "pn.TrainingEngine"),
    ("pn.TrainingEngine(net, (X, y), lr=1e-3)", 'optimizer=("AdamW", {"lr": 1e-3})'),
    ("pn.TrainingEngine(net, (X, y), loss_fn=nn.MSELoss())", 'loss="CrossEntropyLoss"'),
    ("pn.TrainingEngine(net, (X, y), validation_data=(X, y))", "val_data=(X, y)"),
    ("pn.TrainingEngine(net, (X, y), max_epochs=3)", "epochs=5"),
    ("pn.TrainingEngine(net, (X, y), callbacks=[])", 'engine.on("epoch", function)'),
    ("pn.TrainingEngine(one, (X, t[:, 0]))", "y.reshape(-1, 1)"),
    ("pn.TrainingEngine(one, (X, y))", "give the last layer 3 outputs"),
    ("pn.TrainingEngine(one, (X, t), loss='CrossEntropyLoss').step()", 'loss="MSELoss" for a quantity'),
    ("pn.TrainingEngine(net, Stream())", 'loss="CrossEntropyLoss" for classes'),
    ("pn.TrainingEngine(net, (X, (y, t)))", "loss=lambda output, target:"),
    ("pn.TrainingEngine(net, (X, y), metrics='f1')", "metrics=('f1',)"),
    ('g.add("Linear", units=10)', "Write out_features."),
    ('g.add("Conv2d", filters=8)', "Write out_channels."),
    ('g.add("Conv2d", 1, 8, 3, strides=2)', "Write stride."),
    ('g.add("Dropout", rate=0.5)', "Write p."),
    ('g.add("Linear", 10, activation="relu")', 'graph.add("ReLU")'),
    ('g.add("RNN", 4, 8, activation="relu")', "Write nonlinearity."),
    ('g.add("LSTM", input_dim=4)', "Write input_size."),
    ('g.add("Embedding", vocab_size=4)', "Write num_embeddings."),
    ('g.add("MaxPooling2D", pool_size=2)', 'graph.add("MaxPool2d", ...)'),
    ('g.add_node("Linear", 4, 3)', 'Write graph.add("Linear", out_features=10)'),
    ('g.add_edge("a", "b")', 'Write graph.connect("a", "b")'),
    ('graph.delete("fc")', 'Write graph.remove("a")'),
    ("graph[0]", "graph[list(graph)[0]] is the first"),
    ('graph["x"] + graph["fc"]', 'A sum is a node: graph.add("add", name="sum")'),
    ("graph - graph", "Write pn.diff(graph, other)"),
    ('graph["fc"].inputs', "[edge.source for edge in graph.edges"),
    ("graph.renam", "Did you mean 'rename'"),
    ("graph.forward(x)", "Write pn.compile(graph)(x)"),
    ("graph.parameters()", "Write model = pn.compile(graph)"),
    ("graph.show()", "Write pn.GraphEditor(graph)"),
    ('graph.compile(optimizer="adam", loss="mse")', "Write pn.compile(graph)"),
    ("graph.fit(X, y)", "Write pn.TrainingEngine(graph, (X, y)).start()"),
    ("graph.to_onnx()", 'Write pn.export(graph, "net.onnx")'),
    ("engine.fit()", "Write engine.start()"),
    ("engine.score(X, y)", "Write engine.evaluate((X_test, y_test))"),
    ("engine.predict_proba(X)", "Write engine.predict(X).softmax(1)"),
    ("engine.export('net.onnx')", "Write pn.export(engine"),
    ("engine.freeze('0')", "requires_grad_(False)"),
    ("engine.save('x')", "Write engine.save_checkpoint(path)"),
    ("engine.losses", 'Write engine.history["loss"]'),
    ("engine.lr", "engine.set_optimizer(lr=1e-4)"),
    ("engine.plot()", "Write engine.history.plot()"),
    ("pn.view(net)", "pn.ModuleExplorer"),
    ("pn.plot_model(net)", "pn.GraphEditor"),
    ("pn.from_torch(net)", "pn.from_module"),
    ("pn.to_onnx(net)", "pn.export"),
    ("pn.from_module(nn.Linear)", "such as Linear(...), not its class"),
    ("pn.summary(net, (4,))", "pn.summary(net, input_size=(2, 4))"),
    ("pn.TrainingEngine(net, (X, y), scheduler='cosine')", "'CosineAnnealingLR'"),
    ("pn.TrainingEngine(net, (X, y), precision='16-mixed')", "Write precision='16'."),
    ("pn.TrainingEngine(net, (X, y), precision=torch.bfloat16)", "Write precision='bf16'."),
    ("pn.TrainingEngine(net, (X, y), clip_grad_norm=1.0)", "grad_clip=1.0"),
    ("pn.TrainingEngine(net, (X, y), optimizer='adam')", "'Adam'"),
    ("pn.TrainingEngine(net, (X, y), loss='mse')", "'MSELoss'"),
    ("pn.sequential([nn.ReLU()])", "pn.sequential(*layers, input=...)"),
    # A graph is no module, and no list of layers
    ("graph(x)", "Write model = pn.compile(graph), then model(x)"),
    ('graph["x"](graph["fc"])', 'graph.connect("fc", "x")'),
    ('del graph["fc"]', 'graph.remove("fc")'),
    ('graph["act"] = nn.ReLU()', 'graph.add(nn.ReLU(), name="act")'),
    ("graph >> nn.ReLU()", "graph.chain(nn.ReLU())"),
    ('graph["fc"]["out_features"]', 'node.properties["out_features"]'),
    ('graph["fc"]["out_features"] = 8', 'graph.set("fc", out_features=8)'),
    ('graph.append("ReLU")', "Write graph.chain("),
    ('graph.insert(1, "ReLU")', 'graph.connect("a", "act", "b")'),
    ("graph.copy()", "copy.deepcopy(graph)"),
    ("graph.modules()", "Write model = pn.compile(graph)"),
    ('graph.get_layer("fc")', 'Write graph["name"]'),
    ("graph.to_png()", "pn.GraphEditor(graph).to_png()"),
    ('graph.to_svg("net.svg")', "Write Path('net.svg').write_text(graph.to_svg())"),
    ("graph.summary(input_size=(2, 4))", "pn.summary(graph, args=(x,))"),
    ('graph.set("fc.out_features", 8)', 'Write graph.set("fc", out_features=10)'),
    ('graph.set("fc", "out_features", 8)', 'Write graph.set("fc", out_features=10)'),
    ('graph.connect(["x", "fc"])', 'Write graph.connect("x", "fc", "y")'),
    ('g.add(name="fc")', 'Write graph.add("Linear", name="fc", out_features=10)'),
    ('g.add("fc1", nn.Linear(4, 3))', "Write graph.add(nn.Linear(...), name='fc1')"),
    ('g.add("fc1", nn.Linear)', "Write graph.add(nn.Linear, name='fc1')"),
    ('g.add("fc1", "Linear")', "Write graph.add(\"Linear\", name='fc1')"),
    ('g.add("Linear", 10)', 'Write graph.add("Linear", out_features=10); in_features is inferred'),
    ('g.add("LSTM", 10)', 'Write graph.add("LSTM", hidden_size=10)'),
    ('g.add("+")', 'graph.add("add", ...)'),
    ('g.add("residual")', 'graph.add("add", ...)'),
    ("g.add(net)", "pn.sequential(*net, input="),
    ("g.add(graph)", "graph.group("),
    ('g.chain("Conv2d", 1, 6, 5)', 'graph.chain(("Conv2d", 3, 16, 3)'),
    ("g.chain([nn.ReLU(), nn.ReLU()])", "Write graph.chain(*layers)"),
    ("pn.sequential(net)", "pn.sequential(*net, input="),
    ("pn.sequential(nn.ReLU(), input_shape=(4,))", 'Write input=("N", 4)'),
    ("pn.NodeGraph(net)", "pn.from_module(net, args=(x,))"),
    ("pn.GraphEditor(net, x)", "pn.GraphEditor(net, args=(x,))"),
    ("pn.GraphEditor(graph).show()", "display(widget)"),
    ('pn.GraphEditor(graph).add("ReLU")', "Write editor.graph.add(...)"),
    # Data, losses and arguments of a training
    ("pn.TrainingEngine(module=net, train_data=(X, y))", "Write model=net"),
    ("pn.TrainingEngine()", "Write pn.TrainingEngine(model, (X, y))"),
    ("pn.TrainingEngine(net, (X, F.one_hot(y)))", "one-hot: y.float()"),
    (
        "pn.TrainingEngine(nn.Linear(4, 2), (X, torch.ones(24, 2).long()))",
        "give y.float(), and the loss is BCEWithLogitsLoss",
    ),
    ("pn.TrainingEngine(net, (X, [1, 2.5, 'a'] * 8))", "'a' among numbers, first at place 2"),
    ("pn.TrainingEngine(net, (X, [1, 2.5, None] * 8))", "None among numbers, first at place 2"),
    ("pn.TrainingEngine(net, (X, ['1', '2'] * 12))", "numbers as texts"),
    ("pn.TrainingEngine(net, (X, [['cat'], ['dog']] * 12))", "np.unique(names, return_inverse=True)"),
    ("pn.TrainingEngine(net, (X, y), loss='sparse_categorical_crossentropy')", "Write 'CrossEntropyLoss'"),
    ("pn.TrainingEngine(net, (X, y), optimizer=('AdamW', {'learning_rate': 1}))", "Write lr."),
    ("pn.TrainingEngine(net, (X, y), scheduler='OneCycleLR')", 'Write scheduler=("OneCycleLR", {"max_lr": ...})'),
    ("pn.TrainingEngine(net, (X, y), scheduler='CosineAnnealingLR')", '{"T_max": ...}'),
    ("pn.TrainingEngine(net, (X, y), class_weight=[1, 2])", '("CrossEntropyLoss", {"weight"'),
    ("pn.TrainingEngine(net, (X, y), bs=16)", "Write batch_size=64"),
    ("engine.start(epochs=3)", "epochs=3 when the engine is made"),
    ("engine.validate(X, y)", "val_data=(X, y)"),
    ("engine.join()", "Write engine.wait()"),
    ("engine.is_running", "Write engine.state"),
    ("engine.epochs = 5", "Write epochs=... when the engine is made"),
    ("engine.lr = 1e-4", "Write engine.set_optimizer(lr=1e-4)"),
    ("engine.device = 'cuda'", "Write device=... when the engine is made"),
    ("engine.model = net", "Write pn.TrainingEngine(model, (X, y))"),
    ("engine.patience = 3", "has no attribute 'patience', so setting it would change nothing"),
    ("graph.nodes = {}", "Write graph.add, graph.remove or graph.connect"),
    ("graph['fc'].name = 'head'", "graph.rename(\"fc\", 'head') changes the graph"),
    ("graph['fc'].position = (1, 2)", 'graph.move("fc", 120.0, 40.0) changes the graph'),
    ("graph.title = 'net'", "so setting it would change nothing"),
    ("pn.infer_shapes(graph, X)", "Write pn.infer_shapes(graph); the Input nodes have the shapes"),
    ("pn.detect_anomaly()", "Write with pn.detect_anomaly(model): ..."),
    ("engine.set_lr(1e-4)", "Write engine.set_optimizer(lr=1e-4)"),
    ("engine.fit_one_cycle(3)", "OneCycleLR"),
    ("engine.history.loss", 'Write engine.history["loss"]'),
    ("engine.history.to_svg()", "Write history.plot().to_svg()"),
    ("engine.history.history", 'Write engine.history["loss"]'),
    ('engine.step(); engine.history["val_loss"]', "give val_data=(X, y) to the engine"),
    ("pn.TrainingDashboard(engine).start()", "Write engine.start()"),
    ("pn.confusion(engine, labels=['a', 'b', 'c'])", "Write classes="),
    ("pn.confusion(net)", "engine must be a TrainingEngine, not a Sequential"),
    ("pn.worst(engine, k=3)", "Write n=10"),
    # Modules that are there already
    ("pn.from_module(net)", "Pass an example of its input: args=(x,), or its shape"),
    ("pn.from_module(net, (2, 4))", "write input_size=(2, 4)"),
    ("pn.from_module(net, example_inputs=x)", "Write args=(x,)"),
    ("pn.summary(net, (2, 4))", "such as torch.randn(2, 4)"),
    ("pn.summary(net, input_shape=(2, 4))", "Write input_size=(2, 3)"),
    ("pn.compile(graph, optimizer='adam')", "Write pn.TrainingEngine(graph, (X, y)"),
    ("pn.InferenceEngine(engine)", "Give its model: engine.model"),
    ("pn.InferenceEngine(net)(x)", "Write engine.predict(X)"),
    ("pn.Inspector(net).run(x)", "Write inspector.run_inspection(x)"),
    ("with pn.Inspector(net): net(x)", 'Write inspector.watch("*"); inspector.run_inspection(x)'),
    ('pn.Inspector(net)["0"]', "Write inspector.captured_data['0'], after run_inspection"),
    ('pn.Inspector(net).hook("0")', 'Write inspector.watch("*"'),
    ('pn.save(graph, "net.pnne")', 'Write pn.save(graph, model, "net.pnne")'),
    ('pn.export(net, x, "net.onnx")', 'Write pn.export(model, "net.onnx", data=x)'),
    ('pn.export(graph, "net.onnx", opset_version=13)', "Write opset=18"),
    ("pn.NodeGraph.from_module(net, x)", "Write pn.from_module(net, args=(x,))"),
    (
        "pn.NodeGraph.from_file('g.json')",
        "type object 'NodeGraph' has no attribute 'from_file'. Write pn.NodeGraph.load(path)",
    ),
    ("pn.NodeGraph(nn.Linear(4, 8), nn.ReLU())", "or pn.sequential(nn.Linear(4, 8), nn.ReLU()"),
    ("pn.TrainingEngine.load_from_checkpoint('a.ckpt')", "Write pn.TrainingEngine.resume_from(path, ...)"),
    ("pn.TrainingEngine(net, (X, y), early_stopping=True)", "not True. Write early_stopping=5."),
    ("pn.Inspector(net, x)", 'Write pn.Inspector(net), then inspector.watch("*") and inspector.run_inspection(x).'),
    ("pn.seed_everything(0)", "pn.TrainingEngine(net, (X, y), seed=0)"),
    ("pn.Learner(net)", "pn.TrainingEngine(net, (X, y))"),
    ("pn.from_onnx('x')", "pn.InferenceEngine.load(path)"),
    (
        "@pn.register_node\nclass Mine(nn.Module):\n def forward(self, x): return x\n def backward(self, g): return g",
        "torch.autograd.Function",
    ),
]


def test_there_are_a_hundred_of_them() -> None:
    assert len(WORKS) + len(ANSWERED) >= 100


@pytest.mark.parametrize("line", WORKS)
def test_a_first_line_works(line: str, names: dict[str, Any]) -> None:
    exec(line, names)


@pytest.mark.filterwarnings("ignore:linear is the function")
@pytest.mark.parametrize(("line", "answer"), ANSWERED)
def test_a_first_line_is_answered_with_the_line_that_would(line: str, answer: str, names: dict[str, Any]) -> None:
    with pytest.raises((pn.PnneError, AttributeError, TypeError), match=re.escape(answer)):
        exec(line, names)


@pytest.mark.parametrize(("name", "layer"), [("conv2d", "Conv2d"), ("linear", "Linear"), ("embedding", "Embedding")])
def test_a_function_that_has_no_weight_of_its_own_is_added_with_the_name_of_its_layer(name: str, layer: str) -> None:
    graph = pn.NodeGraph()
    with pytest.warns(
        UserWarning, match=re.escape(f'Did you mean the layer {layer}: graph.add("{layer}", ...)?')
    ) as told:
        graph.add(name)
    assert told[0].filename == __file__
    # Whoever gives the function itself means it.
    graph.add(getattr(nn.functional, name))
    graph.add("relu")


def test_a_class_derived_from_a_graph_has_attributes_of_its_own() -> None:
    derived: Any = type("Mine", (pn.NodeGraph,), {})("net")
    derived.notes = "tried with three layers"
    assert derived.notes == "tried with three layers"
