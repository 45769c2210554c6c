"""What a PyTorch user types in the first hour: each line works, or is answered with the line that would."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from ipywidgets.widgets.widget import _instances
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

import pnne_nb as pn

X, CLASSES = torch.randn(24, 4), torch.arange(24) % 3
AMOUNTS = torch.randn(24, 1)


class Stream(IterableDataset[Any]):
    """Examples that are read only once."""

    def __iter__(self) -> Iterator[Any]:
        return iter(zip(X, CLASSES, strict=True))


@pytest.fixture
def names() -> Iterator[dict[str, Any]]:
    """What the cells before have defined."""
    before = set(_instances)
    graph = pn.NodeGraph(name="net")
    graph.add("Input", name="x", shape=("N", 4))
    graph.add("Linear", name="fc", out_features=3)
    graph.add("Output", name="y")
    graph.connect("x", "fc", "y")
    net = nn.Sequential(nn.Linear(4, 3))
    engine = pn.TrainingEngine(net, (X, CLASSES), epochs=1, device="cpu")
    names = {
        "copy": copy, "pn": pn, "torch": torch, "nn": nn, "F": F, "graph": graph, "g": pn.NodeGraph(), "net": net, "engine": engine,
        "one": nn.Linear(4, 1), "X": X, "y": CLASSES, "t": AMOUNTS, "x": X[:2], "Stream": Stream, "DataLoader": DataLoader,
        "TensorDataset": TensorDataset,
    }  # fmt: skip
    yield names
    for value in list(names.values()):
        if isinstance(value, pn.TrainingEngine):
            value.stop()
    for widget in set(_instances) - before:
        if widget in _instances:
            _instances[widget].close()


WORKS = [
    # Drawing
    'g.add("Linear", 784, 128)',
    "g.add(nn.Linear, 784, 128)",
    "g.add(nn.Linear(784, 128))",
    'g.add("Linear", "fc1", 784, 128)',
    'g.add(F.relu, name="act")',
    'g.chain("ReLU", ("Linear", 10), nn.Dropout(0.1))',
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
    "assert not hasattr(graph, 'forward') and not hasattr(engine, 'fit')",
    "assert 'GraphEditor' in dir(pn) and 'annotations' not in dir(pn)",
    # Training
    "assert 'MSELoss' in repr(pn.TrainingEngine(one, (X, t)))",
    "assert 'CrossEntropyLoss' in repr(pn.TrainingEngine(net, (X, y)))",
    "assert 'BCEWithLogitsLoss' in repr(pn.TrainingEngine(one, (X, (t > 0).float())))",
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
    "assert 'calls/s' in repr(pn.benchmark(net, x, seconds=0.01))",
]

ANSWERED = [
    ('g.add("Dense", 10)', 'graph.add("Linear", ...)'),
    ('g.add("Conv", 1, 6, 5)', 'graph.add("Conv2d", ...)'),
    ('g.add("conv2d", in_channels=1, out_channels=6, kernel_size=5)', 'the layer Conv2d: graph.add("Conv2d", ...)'),
    ('g.add("BatchNorm", 6)', 'graph.add("BatchNorm2d", ...)'),
    ('g.add("Sequential")', "graph.chain(...)"),
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
    ('g.add("Input", shape=(None, 4))', "or a name"),
    ('g.add_node("Linear", 4, 3)', 'Write graph.add("Linear", out_features=10)'),
    ('g.add_edge("a", "b")', 'Write graph.connect("a", "b")'),
    ('graph.delete("fc")', 'Write graph.remove("a")'),
    ("graph.fc", 'Write graph["fc"]'),
    ("graph.renam", "Did you mean 'rename'"),
    ("graph.forward(x)", "Write pn.compile(graph)(x)"),
    ("graph.parameters()", "Write model = pn.compile(graph)"),
    ("graph.show()", "Write pn.GraphEditor(graph)"),
    ('graph.compile(optimizer="adam", loss="mse")', "Write pn.compile(graph)"),
    ("graph.fit(X, y)", "Write pn.TrainingEngine(graph, (X, y)).start()"),
    ("graph.to_onnx()", 'Write pn.export(graph, "net.onnx")'),
    ("engine.fit()", "Write engine.start()"),
    ("engine.evaluate()", "Write engine.validate()"),
    ("engine.predict(X)", "Write pn.InferenceEngine(engine.model).predict(X)"),
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


@pytest.mark.parametrize(("line", "answer"), ANSWERED)
def test_a_first_line_is_answered_with_the_line_that_would(line: str, answer: str, names: dict[str, Any]) -> None:
    with pytest.raises((pn.PnneError, AttributeError, TypeError), match=re.escape(answer)):
        exec(line, names)
