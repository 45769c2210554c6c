"""One rule of devices in every function: inputs follow the model, files are made on the CPU, and nobody's model moves."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import pnne_nb as pn
from pnne_nb.graph.schema import property_types
from pnne_nb.inference.targets import gpu_forms
from tests.runtime.tasks import CLASSES, images, picture_graph
from tests.second_device import NAME, SecondDevice

X, Y = images()


def network() -> nn.Sequential:
    """Without dropout, in eval mode, on the CPU."""
    torch.manual_seed(7)
    layers = nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(64, CLASSES)
    return nn.Sequential(*layers).eval()


class Normalised(nn.Module):
    """Keeps a tensor that is neither a parameter nor a buffer, as code for one device does."""

    def __init__(self, device: str) -> None:
        super().__init__()
        self.layers = network().to(device)
        self.scales = [torch.full((1, 1, 6, 1), 0.5, device=device)]

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.layers(x * self.scales[0])
        return scores


def there() -> nn.Sequential:
    return network().to(NAME)


def graph_and_model() -> tuple[pn.NodeGraph, nn.Module]:
    graph = picture_graph()
    return graph, pn.compile(graph).eval().to(NAME)


def trained() -> pn.TrainingEngine:
    engine = pn.TrainingEngine(network(), (X, Y), loss="CrossEntropyLoss", epochs=1, batch_size=32, device=NAME)
    assert engine.start().wait(60)
    return engine


def require_at_home(model: nn.Module) -> None:
    assert {tensor.device.type for tensor in (*model.parameters(), *model.buffers())} == {NAME}


# What runs in the process with the device. A function of the package is given a model that is there, and inputs where the
# parameter says.


def export(where: str, folder: Path, end: str) -> None:
    path = folder / f"net{end}"
    for model in (there(), Normalised(NAME)):
        report = pn.export(model, path, data=X.to(where), overwrite=True)
        assert report.ok, report
        require_at_home(model)
        expected = network() if isinstance(model, nn.Sequential) else Normalised("cpu")
        if end not in (".safetensors", ".pt"):
            found = pn.InferenceEngine.load(path, trust=True).predict(X)
            torch.testing.assert_close(found, expected(X), rtol=1e-4, atol=1e-5)


def export_of_a_compiled_model(where: str, folder: Path) -> None:
    _, model = graph_and_model()
    assert pn.export(model, folder / "net.onnx", data=X.to(where)).ok
    require_at_home(model)


def export_of_an_engine(where: str, folder: Path) -> None:
    engine = trained()
    data = None if where == "cpu" else X.to(where)
    assert pn.export(engine, folder / "net.onnx", data=data).ok
    require_at_home(engine.model)


def export_of_a_placed_graph(where: str, folder: Path) -> None:
    graph, model = placed_graph()
    path = folder / "net.onnx"
    for given in (graph, model):
        assert pn.export(given, path, data=X.to(where), overwrite=True).ok
    assert graph.nodes["fc"].properties["device"] == NAME
    assert model.get_submodule("fc").get_parameter("weight").device.type == NAME


def placed_graph() -> tuple[pn.NodeGraph, nn.Module]:
    graph = picture_graph()
    property_types.DEVICE = re.compile(rf"cpu|{NAME}")
    graph.set("fc", device=NAME)
    return graph, pn.compile(graph)


def placing_nodes(where: str, _folder: Path) -> None:
    graph, model = picture_graph(), pn.compile(picture_graph())
    property_types.DEVICE = re.compile(rf"cpu|{NAME}")
    compiler = pn.TorchCompiler(passes=[pn.passes.PlaceNodes({"fc": NAME})])
    done = compiler.transform(graph, args=(X.to("cpu"),), reuse=model)
    assert done.reports[0].changes, done
    assert done.model.get_submodule("fc").get_parameter("weight").device.type == NAME
    moved = pn.TorchCompiler(passes=[pn.passes.PlaceNodes({"fc": "cpu"})])
    home = moved.transform(picture_graph(), args=(X.to(where),), reuse=model.to(NAME))
    assert home.reports[0].changes, home
    assert home.model.get_submodule("conv1").get_parameter("weight").device.type == NAME


def comparison_of_targets(where: str, _folder: Path) -> None:
    model = there()
    table = pn.compare_targets(model, (X.to(where), Y.to(where)), targets=["eager", "ONNX Runtime"])
    assert not any(row.missing for row in table.rows.values()), table
    require_at_home(model)


def comparison_of_an_engines_targets(where: str, _folder: Path) -> None:
    engine = trained()
    data = None if where == "cpu" else (X.to(where), Y.to(where))
    assert not pn.compare_targets(engine, data, targets=["eager"]).rows["eager"].missing
    require_at_home(engine.model)


def forms_for_a_gpu(where: str, _folder: Path) -> None:
    gpu_forms.gpu = lambda: torch.device(NAME)
    chosen = ["eager", "bf16 on the GPU", "AOTInductor on the GPU"]
    table = pn.compare_targets(there(), (X.to(where), Y.to(where)), targets=chosen)
    assert list(table.rows) == ["eager", "eager on the GPU", "bf16 on the GPU", "AOTInductor on the GPU"]
    eager, lower, packed = list(table.rows.values())[1:]
    assert eager.device == lower.device == "gpu"
    assert eager.latency is not None
    assert eager.latency.ratio.value == 1.0
    assert eager.error == lower.error == 0.0  # this device computes all in float32
    assert eager.metric == table.rows["eager"].metric
    assert packed.missing
    assert any(note.startswith("On the GPU: Ship") for note in table.notes)


def quantization(where: str, _folder: Path) -> None:
    model = there()
    report = pn.quantize(model, (X.to(where), Y.to(where)))
    assert report.converted
    require_at_home(model)
    graph, compiled = graph_and_model()
    assert pn.quantize(graph, (X.to(where), Y.to(where)), reuse=compiled).converted
    require_at_home(compiled)


def optimization(where: str, _folder: Path) -> None:
    graph, model = graph_and_model()
    for args in ((X.to(where),), None):
        done = pn.optimize_for_inference(graph, args=args, reuse=model)
        require_at_home(done.model)
        torch.testing.assert_close(done.model(X.to(NAME)).cpu(), model(X.to(NAME)).cpu(), rtol=1e-4, atol=1e-5)


def compilation_by_torch(where: str, _folder: Path) -> None:
    graph, model = graph_and_model()
    done = pn.TorchCompiler(backend="eager").transform(graph, reuse=model, args=(X.to(where),))
    assert done.reports[-1].changes, done
    require_at_home(done.model)


def importing(where: str, _folder: Path) -> None:
    model = there()
    graph = pn.from_module(model, args=(X.to(where),))
    assert pn.verify(graph, model, args=(X.to(where),)), graph.import_report
    assert not [node for node in graph.nodes.values() if node.origin is not None and node.origin.proof == "opaque"]


def inspection(where: str, _folder: Path) -> None:
    model = there()
    inspector = pn.Inspector(model)
    inspector.watch("*")
    inspector.run_inspection(X.to(where), Y.to(where), nn.CrossEntropyLoss())
    assert inspector.get_statistics("0").mean == pytest.approx(network()[0](X).mean().item(), abs=1e-5)


def summary(where: str, _folder: Path) -> None:
    assert pn.summary(there(), X.to(where)).rows[0].outputs == ((96, CLASSES),)
    assert pn.summary(there(), input_size=(2, 1, 6, 6)).rows[0].outputs == ((2, CLASSES),)


def profile(where: str, _folder: Path) -> None:
    assert pn.profile(there(), X.to(where)).forward > 0


def benchmark(where: str, _folder: Path) -> None:
    assert pn.benchmark(there(), X.to(where), seconds=0).median > 0


def checks(where: str, _folder: Path) -> None:
    assert pn.check_gradients(nn.Linear(6, 2).to(NAME), X[:2, 0, 0].to(where)).ok


def inference(where: str, _folder: Path) -> None:
    model = there()
    for device in ("cpu", NAME):
        found = pn.InferenceEngine(model, device=device).predict(X.to(where))
        torch.testing.assert_close(found, network()(X), rtol=1e-4, atol=1e-5)
    require_at_home(model)


def saving(where: str, folder: Path) -> None:
    graph, model = graph_and_model()
    path = folder / "net.pnne"
    pn.save(graph, model, path, data=X.to(where))
    require_at_home(model)
    _, loaded = pn.load(path)
    torch.testing.assert_close(loaded.eval()(X), model(X.to(NAME)).cpu(), rtol=1e-4, atol=1e-5)


def training(where: str, _folder: Path) -> None:
    engine = pn.TrainingEngine(network(), (X.to(where), Y.to(where)), val_data=(X.to(where), Y), epochs=1, device=NAME)
    assert engine.start().wait(60)
    require_at_home(engine.model)


ON_DEVICE = [
    export_of_a_compiled_model, export_of_an_engine, export_of_a_placed_graph, placing_nodes,
    comparison_of_targets, comparison_of_an_engines_targets, forms_for_a_gpu, quantization, optimization,
    compilation_by_torch, importing, inspection, summary, profile, benchmark, checks, inference, saving, training,
]  # fmt: skip


@pytest.mark.parametrize("where", ["cpu", NAME])
@pytest.mark.parametrize("function", ON_DEVICE, ids=lambda function: function.__name__)
def test_inputs_follow_the_model(
    second: SecondDevice, tmp_path: Path, function: Callable[[str, Path], None], where: str
) -> None:
    second.run(function, where, tmp_path)


@pytest.mark.parametrize(
    ("end", "where"),
    [(".onnx", "cpu"), (".onnx", NAME), (".pt2", "cpu"), (".ts", NAME), (".safetensors", "cpu"), (".pt", NAME)],
)
def test_a_file_is_made_on_the_cpu(second: SecondDevice, tmp_path: Path, end: str, where: str) -> None:
    second.run(export, where, tmp_path, end)
