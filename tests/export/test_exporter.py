"""`pn.export` as a person calls it."""

from __future__ import annotations

import dataclasses
import inspect
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import pnne_nb as pn
from pnne_nb.errors import ArgumentError
from pnne_nb.export import attempt, exporter, formats
from pnne_nb.export.formats.onnx import OnnxFormat
from pnne_nb.export.proof.prove import Proof, WrongSize, prove
from tests.export.faults import Exported
from tests.export.kinds import KINDS, chained, cnn, conv, draw, linear, lstm, mlp, vae


class Done(NamedTuple):
    model: nn.Module
    report: pn.ExportReport
    before: dict[str, Tensor]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("export")


@pytest.fixture(scope="module")
def done(folder: Path) -> Done:
    model = pn.compile(cnn()).train()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    state = torch.get_rng_state()
    report = pn.export(model, folder / "cnn.onnx", opset=20)
    assert torch.equal(torch.get_rng_state(), state)
    return Done(model, report, before)


def test_the_package_is_the_function() -> None:
    names = list(inspect.signature(pn.export).parameters)
    assert names == [
        "graph_or_model_or_engine",
        "path",
        "format",
        "data",
        "sizes",
        "opset",
        "tolerance",
        "overwrite",
        "reuse",
    ]
    assert names == list(inspect.signature(exporter.export_model).parameters)


def test_every_drawn_node_is_compared(done: Done) -> None:
    assert done.report.ok
    assert list(done.report.nodes) == ["conv1", "relu1", "pool1", "conv2", "bn", "relu2", "pool2", "flat", "fc", "prob"]
    assert all(each.difference is not None for each in done.report.nodes.values())
    assert done.report.nodes["conv1"].error is not None
    assert done.report.nodes["conv1"].error < 1e-5


def test_batches_of_several_sizes_are_compared_in_few_runs(done: Done) -> None:
    assert [each.what for each in done.report.comparisons] == ["N=1", "N=2", "N=7", "example"]
    assert (done.report.inferences, done.report.sessions) == (4, 1)
    assert str(done.report.sizes["N"]) == "N free"


def test_the_model_is_left_untouched(done: Done) -> None:
    assert all(part.training for part in done.model.modules())
    assert all(parameter.requires_grad and parameter.grad is None for parameter in done.model.parameters())
    assert all(torch.equal(tensor, done.before[name]) for name, tensor in done.model.state_dict().items())


def test_names_are_those_of_the_document(done: Done) -> None:
    opened = formats.open(done.report.path)
    assert [(each.name, each.dtype, each.shape) for each in opened.inputs] == [("x", "float32", ("N", 1, 28, 28))]
    assert [(each.name, each.shape) for each in opened.outputs] == [("y", ("N", 10))]
    x = torch.randn(5, 1, 28, 28)
    with torch.no_grad():
        expected = done.model.eval()(x)
        done.model.train()
    torch.testing.assert_close(torch.from_numpy(opened.run({"x": x.numpy()})["y"]), expected)
    assert opened.metadata["pnne_nb.version"] == pn.__version__
    opened.close()


def test_nothing_of_this_machine_is_in_the_file(done: Done) -> None:
    content = done.report.path.read_bytes()
    assert b"site-packages" not in content
    assert b"stack_trace" not in content


def test_no_other_file_is_left(done: Done, folder: Path) -> None:
    assert not [each for each in folder.iterdir() if each.name.startswith(".")]


def test_the_report_can_be_read(done: Done) -> None:
    frame = done.report.to_frame()
    assert list(frame.columns) == ["type", "error", "ratio", "sample", "element", "note"]
    assert frame.loc["conv1", "type"] == "Conv2d"
    assert repr(done.report).startswith(
        "OK: cnn.onnx computes what the model computes on 4 batches, and at 10 of 10 nodes."
    )
    assert "<td style='text-align:left'>conv1</td>" in done.report._repr_html_()
    assert done.report.first_difference is None


def test_an_existing_file_is_kept(done: Done) -> None:
    content = done.report.path.read_bytes()
    with pytest.raises(pn.ExportError, match="exists already: pass overwrite=True"):
        pn.export(done.model, done.report.path)
    assert done.report.path.read_bytes() == content


def test_a_length_that_recurrent_layers_fix_stays_free_in_onnx(folder: Path) -> None:
    report = pn.export(lstm(), folder / "lstm.onnx")
    assert report.ok
    assert report.sizes["T"].how == "automatic"
    assert formats.open(report.path).outputs[0].shape == ("N", "T", 4)
    assert "The graph holds no trained weights: the file has initial ones." in report.notes


def test_a_size_at_which_the_file_is_wrong_is_fixed_and_told(folder: Path) -> None:
    graph = chained(
        "pooled",
        ("N", 3, "H", 12),
        conv("conv", 3, 4),
        ("AdaptiveAvgPool2d", "pool", {"output_size": 5}),
        ("ReLU", "act"),
    )
    report = pn.export(graph, folder / "pooled.onnx")
    assert report.ok
    assert report.sizes["H"].how == "fixed"
    assert report.sizes["H"].nodes == ("pool",)
    assert report.sizes["N"].how == "named"
    opened = formats.open(report.path)
    assert opened.inputs[0].shape == ("N", 3, report.sizes["H"].value, 12)
    with pytest.raises(pn.ExportError, match="ONNX Runtime cannot run the file"):
        opened.run({"x": np.zeros((2, 3, 40, 12), np.float32)})


@pytest.mark.parametrize(("value", "size"), [(1, "N free, from 2"), (2, "N fixed to 3 by fc1")])
def test_a_file_that_is_wrong_for_one_sample_only_takes_two_and_more(
    value: int, size: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    findings = [Proof({}, (), wrong_sizes={"N": WrongSize(value, "fc1")})]
    monkeypatch.setattr(attempt, "prove", lambda *given: findings.pop() if findings else prove(*given))
    report = pn.export(mlp(), tmp_path / "net.pt")
    assert report.ok
    assert str(report.sizes["N"]) == size
    assert not any(each.what.startswith("N=1") for each in report.comparisons)


def test_data_is_cut_to_a_number_of_samples_that_the_proof_has_fixed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches: list[Any] = []

    def note_data(*given: Any) -> Proof:
        batches.append(given[6])
        return Proof({}, (), wrong_sizes={"N": WrongSize(2, "fc1")}) if len(batches) == 1 else prove(*given)

    monkeypatch.setattr(attempt, "prove", note_data)
    report = pn.export(mlp(), tmp_path / "net.pt", data=torch.randn(5, 8))
    assert [tuple(batch[0].shape) for batch in batches] == [(5, 8), (3, 8)]
    assert [each.what for each in report.comparisons] == ["data"]
    assert not any("finite" in note for note in report.notes)


def test_random_numbers_of_the_model_are_given_to_the_file(folder: Path) -> None:
    report = pn.export(vae(), folder / "vae.onnx")
    assert report.ok
    assert report.random == ("noise",)
    assert report.exempt == ()
    assert report.nodes["decode"].difference is not None


def test_an_engine_and_data(folder: Path) -> None:
    class Engine:
        model = pn.compile(mlp())

    images = torch.randn(40, 8)
    loader = DataLoader(TensorDataset(images, torch.zeros(40)), batch_size=20)
    report = pn.export(Engine(), folder / "engine.safetensors", data=loader)
    assert report.ok
    assert report.comparisons[-1].what == "data"


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(6, 5)
        self.second = nn.Linear(5, 2)

    def forward(self, features: Tensor) -> Any:
        return self.second(torch.relu(self.first(features)))


def test_a_module_is_exported_with_its_layers(folder: Path) -> None:
    report = pn.export(Net(), folder / "net.onnx", data=torch.randn(4, 6))
    assert report.ok
    assert {"first", "second"} <= report.nodes.keys()
    assert formats.open(report.path).inputs[0].name == "features"


class WithLoss(Net):
    def forward(self, features: Tensor, target: Tensor | None = None) -> Any:
        scores = super().forward(features)
        return scores, None if target is None else nn.functional.cross_entropy(scores, target)


@pytest.mark.parametrize("drawn", [False, True])
def test_a_result_of_a_module_that_is_none_is_left_out(folder: Path, drawn: bool) -> None:
    given: nn.Module = WithLoss()
    if drawn:
        given = pn.compile(pn.from_module(given, args=(torch.randn(4, 6),)))
    report = pn.export(given, folder / "scores.pt2", data=torch.randn(4, 6), overwrite=True)
    assert report.ok
    assert "The result output_1 of the module is None, and no file holds it: it is left out." in report.notes
    assert [each.name for each in formats.open(report.path).outputs] == ["output_0"]


@dataclasses.dataclass
class Scores:
    scores: Tensor
    hidden: dict[str, Any]
    loss: Tensor | None = None


class WithScores(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner, self.head = nn.Linear(6, 5), nn.Linear(5, 3)

    def forward(self, features: Tensor) -> Scores:
        inner = torch.relu(self.inner(features))
        return Scores(self.head(inner), {"inner": (inner, None)})


@pytest.mark.parametrize("format", ["onnx", "pt2", "torchscript"])
def test_a_result_that_is_a_data_class_has_a_name_for_each_field(folder: Path, format: str) -> None:
    model, features = WithScores(), torch.randn(4, 6)
    report = pn.export(model, folder / f"fields.{format}", data=features)
    assert report.ok
    opened = formats.open(report.path)
    assert [each.name for each in opened.outputs] == ["output_scores", "output_hidden_inner_0"]
    found = opened.run({"features": features.numpy()})
    torch.testing.assert_close(torch.from_numpy(found["output_scores"]), model(features).scores.detach())
    opened.close()


class Unrolled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.GRUCell(3, 4)

    def forward(self, x: Tensor) -> Tensor:
        state = x.new_zeros(x.shape[0], 4)
        for step in range(x.shape[1]):
            state = self.cell(x[:, step], state)
        return state


class Counting(nn.Module):
    """Changes its buffers with each call, in place and by assignment."""

    count: Tensor
    mean: Tensor
    passing: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.register_buffer("count", torch.zeros(1))
        self.register_buffer("mean", torch.zeros(4))
        self.register_buffer("passing", torch.zeros(4), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        self.count += 1
        self.mean = 0.9 * self.mean + 0.1 * x.mean(0)
        self.passing.add_(x.mean(0))
        found: Tensor = self.fc(x - self.mean) * self.count + self.passing
        return found


@pytest.mark.parametrize("format", ["onnx", "pt2", "torchscript", "safetensors"])
def test_a_file_begins_with_the_buffers_as_they_are(folder: Path, format: str) -> None:
    net = Counting().eval()
    found = formats.find_format(format, "")
    report = pn.export(net, folder / f"counting{found.suffixes[0]}", data=torch.randn(5, 4))
    assert report.ok, report
    assert report.inferences == 4
    assert net.count.item() == 0
    told = "The model changes count, mean, passing with each call. The file does not"
    assert (told in " ".join(report.notes)) == (format == "onnx")
    x = torch.randn(3, 4)
    engine = pn.InferenceEngine.load(report.path, device="cpu", trust=True)
    torch.testing.assert_close(engine.predict(x), net(x).detach())
    if format != "onnx":
        torch.testing.assert_close(engine.predict(x), net(x).detach())
    engine.close()


def test_results_that_are_inputs_weights_or_the_same_have_names_of_their_own(folder: Path) -> None:
    class Passing(nn.Module):
        table: Tensor

        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.randn(3))
            self.register_buffer("table", torch.arange(3.0))

        def forward(self, x: Tensor) -> tuple[Tensor, ...]:
            h = x * self.scale
            return self.scale, x, self.table, h, h, x

    report = pn.export(Passing(), folder / "passing.onnx", data=torch.randn(4, 3))
    assert report.ok, report
    opened = formats.open(report.path)
    assert [info.name for info in opened.inputs] == ["x"]
    assert [info.name for info in opened.outputs] == [f"output_{number}" for number in range(6)]
    opened.close()


def test_an_output_may_have_the_name_of_a_tensor_inside(folder: Path) -> None:
    nodes = (("Input", "relu", {"shape": ("N", 3)}), linear("fc", 3, 2), ("ReLU", "act"), linear("fc2", 2, 2))
    graph = draw("names", (*nodes, ("Output", "linear"), ("Output", "same")), "relu fc act fc2 linear", "fc2 same")
    report = pn.export(graph, folder / "names.onnx")
    assert report.ok, report
    assert [each.node for each in report.nodes.values() if each.difference is not None] == ["fc", "act", "fc2"]


def test_what_the_runtime_has_in_float32_only_is_named_with_a_repair(folder: Path) -> None:
    net = nn.Sequential(nn.ReLU(), nn.Conv1d(3, 4, 3)).double()
    data = torch.randn(4, 3, 9, dtype=torch.float64)
    with pytest.raises(pn.ExportError, match=r"not in float64: export model\.float") as caught:
        pn.export(net, folder / "double.onnx", data=data)
    (finding,) = caught.value.diagnostics
    assert finding.node == "1"
    assert pn.check_export(net, "onnx", data=data) == [finding]


def test_a_model_in_bfloat16(folder: Path) -> None:
    net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)).bfloat16()
    report = pn.export(net, folder / "bfloat16.pt2", data=torch.randn(5, 8).bfloat16())
    assert report.ok, report
    assert len(report.nodes) == 3


def test_an_engine_that_is_paused_is_compared_at_each_layer(folder: Path) -> None:
    net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
    engine = pn.TrainingEngine(net, (torch.randn(32, 8), torch.randint(0, 3, (32,))), epochs=2, batch_size=8)
    engine.step(2)
    try:
        report = pn.export(engine, folder / "paused.onnx")
    finally:
        engine.stop()
    assert [each.node for each in report.nodes.values() if each.difference is not None] == ["0", "1", "2"]


def test_a_length_that_python_loops_over_is_fixed_and_told(folder: Path) -> None:
    report = pn.export(Unrolled(), folder / "unrolled.pt2", sizes={"x": ("N", "T", 3)})
    assert report.ok
    assert (report.sizes["T"].how, report.sizes["T"].value) == ("fixed", 4)
    assert report.sizes["N"].how == "named"


def test_a_wrong_file_is_told_with_its_first_node(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    exported = Exported(mlp(), folder)
    write, faults = OnnxFormat.write, []

    def faulty(self: OnnxFormat, request: Any, path: Path) -> Any:
        written = write(self, request, path)
        exported.path = path
        faults.append(exported.with_fault(3, path))
        return written

    monkeypatch.setattr(OnnxFormat, "write", faulty)
    with pytest.warns(UserWarning, match="differs from the model, first at node fc"):
        report = pn.export(mlp(), folder / "faulty.onnx")
    assert not report.ok
    assert report.first_difference is not None
    assert [each.node for each in faults] == [report.first_difference.node]
    assert "× what rounding explains" in repr(report)


# What is refused


@pytest.fixture
def branching() -> pn.NodeGraph:
    @pn.register_node(category="Custom")
    class Branching(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x * 2 if x.sum() > 0 else x

    return chained("branching", ("N", 4), ("ReLU", "relu"), ("Branching", "branch"))


def test_what_depends_on_data_is_refused_at_its_node(branching: pn.NodeGraph, tmp_path: Path) -> None:
    with pytest.raises(
        pn.ExportError, match=r"at node 'branch' depends on the values of a tensor.*torch\.where"
    ) as caught:
        pn.export(branching, tmp_path / "net.onnx")
    assert [each.node for each in caught.value.diagnostics] == ["branch"]
    assert not list(tmp_path.iterdir())


def test_a_name_that_torch_needs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(pn.ExportError, match=r"torch\.export has another use for the name 'code'\. Rename the node\."):
        pn.export(chained("net", ("N", 4), linear("code", 4, 2)), tmp_path / "net.onnx")


def test_an_unfinished_graph_is_refused_at_its_node(tmp_path: Path) -> None:
    graph = mlp()
    graph.disconnect("act.output", "fc2.input")
    with pytest.raises(pn.ExportError, match="The graph cannot be exported: ") as caught:
        pn.export(graph, tmp_path / "net.onnx")
    assert "fc2" in {each.node for each in caught.value.diagnostics}


def test_an_output_of_several_tensors_has_a_name_for_each(tmp_path: Path) -> None:
    split = "split", "parts", {"split_size_or_sections": 2}
    report = pn.export(chained("net", ("N", 4), split), tmp_path / "net.onnx")
    assert report.ok
    assert [*report.comparisons[0].outputs] == ["y_0", "y_1"]
    assert "The Output y gives several tensors, which are called y_0, y_1 in the file." in report.notes


def test_an_output_that_is_no_tensor_is_refused(tmp_path: Path) -> None:
    graph = pn.NodeGraph("net")
    graph.add("Input", "x", shape=("N", 4))
    graph.add("Constant", "nothing", value=None)
    graph.add("Output", "y")
    graph.add("Output", "z")
    graph.connect("x", "y")
    graph.connect("nothing", "z")
    refused = pytest.raises(pn.ExportError, match=r"z: The Output gives None, not a tensor\. Remove this Output node\.")
    with refused as caught:
        pn.export(graph, tmp_path / "net.onnx")
    assert [each.node for each in caught.value.diagnostics] == ["z"]


def test_data_that_proves_little_is_told(tmp_path: Path) -> None:
    report = pn.export(mlp(), tmp_path / "net.pt", data=torch.full((3, 8), float("nan")))
    assert "The model gives no finite value for the data, so that run proves little." in report.notes


def test_what_no_library_explains_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: OnnxFormat, request: Any, path: Path) -> Any:
        raise KeyError("unheard of")

    monkeypatch.setattr(OnnxFormat, "write", broken)
    with pytest.raises(pn.ExportError, match="The model has no form as 'onnx': 'unheard of'"):
        pn.export(mlp(), tmp_path / "net.onnx")


def test_an_opset_that_torch_does_not_write_is_refused(tmp_path: Path) -> None:
    with pytest.raises(pn.ExportError, match=r"Opset 7 was asked for, and torch .* writes this model as opset"):
        pn.export(mlp(), tmp_path / "net.onnx", opset=7)
    assert not list(tmp_path.iterdir())


def test_a_full_disk_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: OnnxFormat, request: Any, path: Path) -> Any:
        path.write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(OnnxFormat, "write", full)
    with pytest.raises(pn.ExportError, match="cannot be written: No space left on device"):
        pn.export(mlp(), tmp_path / "net.onnx")
    assert not list(tmp_path.iterdir())


FULL = """
import resource, signal, sys
import pnne_nb as pn
from tests.export.kinds import chained, linear

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
graph = chained("wide", ("N", 8), linear("fc", 8, 4096))
_, limit = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, limit))
for name in sys.argv[1:]:
    try:
        pn.export(graph, name)
    except pn.ExportError as error:
        print(error)
"""


def test_a_real_full_disk_leaves_nothing_and_ends_nothing(tmp_path: Path) -> None:
    names = ["net.onnx", "net.pt2", "net.safetensors", "net.pt", "net.ts"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-W", "ignore", "-c", FULL, *names]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [f"{name!r} cannot be written: File too large." for name in names]
    assert not list(tmp_path.iterdir())


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "no such directory": ({"path": "missing/net.onnx"}, "There is no directory"),
    "a directory": ({"path": "."}, "is a directory|means no format"),
    "a long name": ({"path": f"{'x' * 300}.onnx"}, "cannot be written: File name too long"),
    "no name of a file": ({"path": "a\0b.onnx"}, "cannot be written: embedded null byte"),
    "no such end": ({"path": "net.xyz"}, "means no format. Pass format="),
    "no such format": ({"format": "onxx"}, "There is no format 'onxx'. Did you mean 'onnx'"),
    "no model": ({"given": 3}, "Give a NodeGraph, an nn.Module or an engine to export, not 3"),
    "opset of another format": ({"path": "net.pt2", "opset": 18}, "a 'pt2' file has none"),
    "no opset": ({"opset": -1}, "opset must be a whole number above 0, not -1"),
    "no tolerance": ({"tolerance": "high"}, "tolerance must be 'auto' or a distance of at least 0, not 'high'"),
    "no such size": ({"sizes": {"M": 3}}, "sizes names 'M', and no input has such a size.*The free sizes are N"),
    "no sizes": ({"sizes": 3}, "sizes must be a mapping"),
    "no number": ({"sizes": {"N": 0}}, "The size N is a number above 0"),
    "another shape": ({"data": torch.zeros(3, 7)}, r"The data has the shape \(3, 7\), and the input is \(N, 8\)"),
    "another type": ({"data": torch.zeros(3, 8).long()}, "The data is int64, and the input is float32"),
    "no samples": ({"data": torch.zeros(0, 8)}, r"The data has the shape \(0, 8\), with nothing in it to compare"),
    "no batch": ({"data": iter(())}, "The data has no batch, so that nothing can be compared with it"),
    "no data": ({"data": "cats"}, "data must be tensors, arrays, a Dataset or a DataLoader, not 'cats'"),
    "another name": ({"data": {"y": torch.zeros(3, 8)}}, "The data has no 'x'; it has 'y'"),
    "an unknown module": ({"given": Net()}, "The inputs of Net are unknown: pass data="),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments, message = REFUSED[name]
    monkeypatch.chdir(tmp_path)
    given, path = arguments.get("given", mlp()), arguments.get("path", "net.onnx")
    rest = {key: value for key, value in arguments.items() if key not in ("given", "path")}
    with pytest.raises(pn.ExportError, match=message):
        pn.export(given, path, **rest)
    assert not list(tmp_path.iterdir())


def test_a_pipe_is_not_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "net.pt")
    with pytest.raises(pn.ExportError, match="is a device or a pipe, and not replaced"):
        pn.export(mlp(), tmp_path / "net.pt", overwrite=True)
    assert (tmp_path / "net.pt").is_fifo()


def test_a_path_is_text(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="path must be the path of the file to write, not 3"):
        pn.export(mlp(), 3)  # type: ignore[arg-type]  # that is the point


def test_a_missing_package_names_its_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(formats, "find_spec", lambda name: None)
    with pytest.raises(
        pn.ExportError, match=r"needs onnx and onnxscript and onnxruntime.*pip install 'pnne_nb\[onnx\]'"
    ):
        pn.export(mlp(), tmp_path / "net.onnx")


def register() -> None:
    @pn.register_node(category="Custom")
    class Fixing(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x[: int(x.shape[0])] if int(x.shape[0]) == 3 else x

    @pn.register_node(category="Custom")
    class Choosing(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x if x.mean() > 0 else -x


def graph(kind: str) -> pn.NodeGraph:
    register()
    match kind:
        case "fixed":
            return chained("fixed", ("N", 4), linear("fc", 4, 4), ("Fixing", "fix"))
        case "choosing":
            return chained("choosing", ("N", 4), ("Choosing", "choose"))
        case "untranslated":
            return chained("untranslated", ("N", 4, 4), ("ReLU", "relu"), ("matrix_exp", "exp"))
        case _:
            return KINDS[kind]()


@pytest.mark.parametrize(
    ("kind", "format", "codes"),
    [
        ("fixed", "onnx", {("size-fixed", "fix")}),
        ("choosing", "pt2", {("data-dependent", "choose")}),
        ("untranslated", "onnx", {("no-translation", "exp")}),
    ],
)
def test_check_and_export_agree(kind: str, format: str, codes: set[tuple[str, str]], tmp_path: Path) -> None:
    drawn = graph(kind)
    findings = pn.check_export(drawn, format)
    assert {(each.code, each.node) for each in findings if each.severity != "info"} == codes
    try:
        report = pn.export(drawn, tmp_path / f"net.{format}", format)
    except pn.ExportError as error:
        assert [(each.code, each.node) for each in error.diagnostics] == [(each.code, each.node) for each in findings]
    else:
        assert report.ok
        fixed = {node for size in report.sizes.values() if size.how == "fixed" for node in size.nodes}
        assert fixed == {node for code, node in codes if code == "size-fixed"}


def test_what_finds_places_is_written() -> None:
    # torch.onnx decomposes it, and torch refuses to decompose the same program once more for what the check tells.
    findings = pn.check_export(chained("places", ("N", 4), ("nonzero", "places")), "onnx")
    assert [(each.code, each.severity) for each in findings] == [("axis-fixed", "warning")]


def test_a_slow_format_is_only_traced() -> None:
    findings = pn.check_export(graph("fixed"), "aoti")
    assert [(each.code, each.node) for each in findings] == [("size-fixed", "fix"), ("axis-fixed", "x")]


def test_an_unknown_format_is_refused() -> None:
    with pytest.raises(pn.ExportError, match="There is no format 'tflite'"):
        pn.check_export(KINDS["mlp"](), "tflite")
