"""What is answered to names of other libraries."""

from __future__ import annotations

import gc
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from ipywidgets.widgets.widget import _instances
from torch import nn

import pnne_nb as pn
from pnne_nb.errors import meant, words
from scripts import first_lines

KNOWN = ("batch_size", "early_stopping", "rename", "stop", "summary")
TABLE = {"clip_norm": "grad_clip=1.0", "NeuralNet": "pn.TrainingEngine(net, (X, y))"}


@pytest.fixture
def engine() -> Iterator[Any]:
    data = torch.randn(24, 4), torch.arange(24) % 3
    made = pn.TrainingEngine(nn.Linear(4, 3), data, epochs=1, batch_size=4, device="cpu")
    yield made
    made.stop()


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("NeuralNetClassifier", ["neural", "net", "classifier"]),
        ("per_device_batch_size", ["per", "device", "batch", "size"]),
        ("LRFinder", ["lr", "finder"]),
        ("loss_curve_", ["loss", "curve"]),
        ("Conv2d", ["conv", "2", "d"]),
    ],
)
def test_a_name_is_made_of_words(name: str, parts: list[str]) -> None:
    assert words(name) == parts


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("batchsize", " Did you mean 'batch_size'?"),
        ("per_device_train_batch_size", " Did you mean 'batch_size'?"),
        ("early_stopping_rounds", " Did you mean 'early_stopping'?"),
        ("should_stop", " Did you mean 'stop'?"),
        ("renam", " Did you mean 'rename'?"),
        ("clipnorm", " Write grad_clip=1.0."),
        ("global_clipnorm", " Write grad_clip=1.0."),
        ("NeuralNetClassifier", " Write pn.TrainingEngine(net, (X, y))."),
        ("plot_model_summary", " Did you mean 'summary'?"),
        ("wholly_foreign", ""),
        ("x" * 100, ""),
        (3, ""),
    ],
)
def test_a_name_is_answered_by_itself_by_its_words_or_by_its_letters(name: object, answer: str) -> None:
    assert meant(name, KNOWN, TABLE) == answer


def test_of_two_tables_the_first_counts() -> None:
    assert meant("lr", (), {"lr": "first"}, {"lr": "second", "rate": "third"}) == " Write first."
    assert meant("rate", (), {"lr": "first"}, {"lr": "second", "rate": "third"}) == " Write third."
    # What there is counts before a further table.
    assert meant("my_rate", ["rate"], {"lr": "first"}, {"rate": "third"}) == " Did you mean 'rate'?"


def test_the_table_of_first_lines_is_large_and_each_answer_is_a_part_of_the_line_that_runs() -> None:
    lines = [line for intent in first_lines.INTENTS for _, line in intent.lines()]
    assert len(lines) >= 300
    dialects = {dialect for intent in first_lines.INTENTS for dialect, _ in intent.lines()}
    assert dialects == {"torch", "keras", "lightning", "sklearn"}


def test_a_sample_of_first_lines_works_or_is_answered_with_the_line_that_works() -> None:
    lines = [(intent, *line) for intent in first_lines.ALL for line in intent.lines()]
    before = set(_instances)
    trials = [first_lines.tried(*line) for line in lines[::40]]
    for widget in set(_instances) - before:
        if widget in _instances:
            _instances[widget].close()
    good = [trial for trial in trials if trial.outcome in {"works", "answered"}]
    assert not [trial for trial in trials if trial.outcome == "silently wrong"]
    assert len(good) >= 0.95 * len(trials), [trial for trial in trials if trial not in good]


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ('graph.find("Linear")', r"'Linear' is no path of a node, but a type. Write graph.find\(type='Linear'\)"),
        ('graph.group("fc", "y", name="b")', r'Write graph.group\(\["a", "b"\], name="block"\)'),
        ("graph.reset()", r"graph.undo\(\)"),
        ('graph["fc"].weight', r"its weights in pn.compile\(graph\)"),
        ("graph.fc.weight", r"its weights in pn.compile\(graph\)"),
        ("graph.collapse(['fc', 'y'])", r'Give each by itself.*graph.group\(\["a", "b"\]'),
        ("pn.graph('net')", r"pnne_nb.graph is a module, not a function. Write pn.NodeGraph\(\)"),
        ("pn.runs()", r"is a module, not a function. Write pn.RunTable\(\)"),
        (
            "pn.telemetry.fit(X)",
            r"'pnne_nb.telemetry' has no attribute 'fit'. Write pn.TrainingEngine\(net, \(X, y\)\)",
        ),
        ("pn.catalog.Linear", r'Write pn.catalog\["Linear"\]'),
        ("engine.set_optimizer(learning_rate=0.1)", "Write lr."),
        ("engine.set_optimizer(nn.ReLU())", r"Write engine.set_optimizer\(lr=1e-4\)"),
        ("pn.InferenceEngine('net.onnx')", r"Write pn.InferenceEngine.load\('net.onnx'\) for a file"),
        ("pn.InferenceEngine.from_file('net.onnx')", r"Write pn.InferenceEngine.load\(path\)"),
        ("engine.history.columns", r"Write list\(engine.history\)"),
        ("pn.compare(graph, graph)", r"pn.diff\(graph, other\) compares graphs"),
        ("pn.datasets.load_digits()", r"Write pn.datasets.digits\(\)"),
        ("pn.datasets.MNIST()", r"arrays \(X, y\) of any other library"),
        ('pn.intervene(nn.ReLU(), "0", pn.zero())', r'Write pn.intervene\(net, {"fc": pn.zero\(\)}\)'),
        ("engine.step(n_steps=2)", "engine.step has no argument 'n_steps'. Did you mean 'n'"),
        ("pn.TrainingMonitor(nn.ReLU())", r"Write pn.TrainingMonitor\(\); its track\(loader, model, optimizer\)"),
        ("engine.resume('last.ckpt')", r'resume_from\("last.ckpt", net, data\) for a file'),
        ("pn.TrainingEngine.resume('last.ckpt')", "was called on the class, with 'last.ckpt' as the object"),
        ("engine.start(max_steps=2)", r"Write engine.step\(100\)"),
        ("engine.step(-2)", r"engine.rewind\(20\) goes back"),
        ("engine.predict(list(torch.ones(3, 4)))", r"a list of 3 examples. Write engine.predict\(torch.stack"),
        ("pn.utils.data.split_dataset((1, 2))", r"has no attribute 'utils'. Write val_data=0.2"),
        ("pn.compare([engine, engine])", r"missing a required argument: 'run_b'. Write pn.compare\(run_a, run_b\)"),
        ("pn.infer_shapes(graph)['fc']", r'Write pn.infer_shapes\(graph\)\["fc.output"\]'),
    ],
)
def test_what_is_written_in_another_form_is_answered_with_the_line(line: str, answer: str, engine: Any) -> None:
    graph = pn.sequential(nn.Linear(4, 3), input=("N", 4))
    graph.rename("linear1" if "linear1" in graph else "linear", "fc")
    with pytest.raises((pn.PnneError, AttributeError, TypeError), match=answer):
        eval(line, {"pn": pn, "nn": nn, "torch": torch, "graph": graph, "engine": engine})


def test_an_engine_is_no_context_no_function_and_no_value_to_copy(engine: Any) -> None:
    with pytest.raises(TypeError, match=r"Write engine.start\(\); engine.wait\(\)"), engine:
        pass
    with pytest.raises(TypeError, match=r"engine.predict\(X\) for outputs"):
        engine(torch.randn(2, 4))
    with pytest.raises(TypeError, match=r"Write engine.save_checkpoint\(path\)"):
        torch.save(engine, io.BytesIO())


def test_an_optimizer_with_an_attribute_that_it_does_not_read_is_told_at_the_next_step(engine: Any) -> None:
    engine.step()
    engine.optimizer.lr = 0.5
    with pytest.raises(pn.TrainingError, match=r"engine.set_optimizer\(lr=0.5\)"):
        engine.step()
    del engine.optimizer.lr
    engine.set_optimizer(lr=0.5)
    engine.step()
    assert engine.history["learning_rate"][-1] == 0.5


def test_a_history_without_values_and_a_history_as_a_table_are_answered(engine: Any) -> None:
    with pytest.raises(IndexError, match=r"Nothing has been measured yet. Write engine.wait\(\)"):
        engine.history["loss"][-1]
    assert len(engine.history["loss"]) == 0
    assert engine.history["loss"][1:].mean.__name__ == "mean"
    engine.step()
    assert engine.history["loss"][-1] > 0
    with pytest.raises(TypeError, match=r"Write engine.history.to_frame\(\)"):
        pd.DataFrame(engine.history)
    with pytest.raises(pn.UnknownSeriesError, match=r'Write engine.history\["loss"\]\[-1\]'):
        engine.history[-1]


def test_a_single_example_without_a_batch_axis_is_told(engine: Any) -> None:
    with pytest.raises(pn.TrainingError, match=r"shape \(4,\) of a single example.*engine.predict\(X\[None\]\)"):
        engine.predict(torch.randn(4))
    assert engine.predict(torch.randn(1, 4)).shape == (1, 3)
    graph = pn.sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), input=("N", 1, 8, 8))
    with pytest.raises(pn.ExecutionError, match=r"A single example needs a batch axis: x\[None\]"):
        pn.compile(graph)(torch.randn(1, 8, 8))


def test_a_file_is_called_what_it_is(tmp_path: Path, engine: Any) -> None:
    graph = pn.sequential(nn.Linear(4, 3), input=("N", 4))
    graph.save(tmp_path / "g.pnne.json")
    torch.save({"w": torch.ones(1)}, tmp_path / "w.pt")
    engine.step()
    engine.save_checkpoint(tmp_path / "made.ckpt")
    for name, answer in (
        ("g.pnne.json", r"a graph file. Write pn.NodeGraph.load\("),
        ("w.pt", r"by torch.save. Write pn.load_weights\(graph, "),
        ("made.ckpt", r"a checkpoint. Write pn.TrainingEngine.resume_from\("),
    ):
        with pytest.raises(pn.GraphFileError, match=answer):
            pn.load(tmp_path / name)
    with pytest.raises(pn.ArgumentError, match=r"Write pn.NodeGraph.load\('g.pnne.json'\)"):
        pn.NodeGraph("g.pnne.json")
    with pytest.raises(pn.ArgumentError, match=r"pn.NodeGraph.load\('g.pnne.json'\)"):
        pn.GraphEditor("g.pnne.json")  # type: ignore[arg-type]
    with pytest.raises(pn.GraphFileError, match=r"seems to be a path. Write pn.NodeGraph.load"):
        pn.NodeGraph.from_json("g.pnne.json")


def test_weights_of_another_net_are_answered_where_they_are_loaded() -> None:
    model = pn.compile(pn.sequential(nn.Linear(4, 3), input=("N", 4)))
    other = {"0.weight": torch.ones(3, 4), "0.bias": torch.zeros(3)}
    with pytest.raises(RuntimeError, match=r"Write pn.load_weights\(model, state_dict\)"):
        model.load_state_dict(other)
    report = pn.load_weights(model, other)
    assert all(torch.equal(tensor, torch.ones(3, 4)) for name, tensor in model.named_parameters() if "weight" in name)
    assert report is not None


def test_nodes_are_replaced_inserted_and_removed_as_people_write_it() -> None:
    graph = pn.sequential(("Linear", {"out_features": 3, "name": "fc"}), input=("N", 4))
    graph.set("fc", type=nn.Linear(4, 5))
    assert graph["fc"].properties["out_features"] == 5
    graph.set("fc", type=nn.Identity)
    assert graph["fc"].type == "Identity"
    assert [node.name for node in graph.insert_after("fc", nn.ReLU(), name="act")] == ["act"]
    graph.remove(["fc", "act"])
    assert list(graph) == ["x", "y"]
    with pytest.raises(AttributeError, match=r'Write graph.add\(layer, name="head"\)'):
        graph.head = nn.ReLU()
    with pytest.raises(AttributeError, match=r'Write graph.remove\("fc"\)'):
        del graph.fc  # type: ignore[attr-defined]
    with pytest.raises(TypeError, match=r"Write graph.to_json\(\)"):
        hash(graph)


@pytest.mark.filterwarnings("error")
def test_a_widget_whose_arguments_were_refused_says_nothing_more(capsys: pytest.CaptureFixture[str]) -> None:
    makers: list[Any] = [pn.TargetDashboard, pn.LearningRateFinder, pn.QuantizationEditor]
    for make in makers:
        with pytest.raises(TypeError, match="argument"):
            make(no_such_argument=1)
    gc.collect()
    assert capsys.readouterr().err == ""
