"""What the README and the pages under ``docs/`` show as Python runs as it stands there, from top to bottom."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from ipywidgets.widgets.widget import _instances
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import pnne_nb as pn

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ELSEWHERE = {"/shared/run": "shared", 'backend="inductor"': 'backend="eager"'}
"""What a test writes otherwise: no directory of the machine, no C++ compiler."""


class Net(nn.Module):
    """The module of the reader's own."""

    def __init__(self) -> None:
        super().__init__()
        self.layer1 = nn.Sequential()
        self.layer1.conv1 = nn.Conv2d(1, 4, 3)
        self.layer1.relu = nn.ReLU()
        self.fc = nn.Linear(144, 10)

    def forward(self, x: Tensor) -> Any:
        return self.fc(self.layer1(x).flatten(1))


def run(page: str, names: dict[str, Any]) -> dict[str, Any]:
    """Run every block of a page as one session, and return its names."""
    text = (ROOT / page).read_text(encoding="utf-8")
    for written, instead in ELSEWHERE.items():
        text = text.replace(written, instead)
    for block in BLOCK.finditer(text):
        # As many empty lines before, so that a traceback has the page's own lines.
        lines = "\n" * text.count("\n", 0, block.start(1))
        exec(compile(lines + block.group(1), page, "exec"), names)
    return names


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What the pages write goes to a directory of the test, and what they open is closed."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shared").mkdir()
    before = set(_instances)
    yield
    for model in set(_instances) - before:
        if model in _instances:  # some close others
            _instances[model].close()


def test_the_readme_runs() -> None:
    done = run("README.md", {"net": Net(), "example": torch.randn(4, 1, 8, 8)})
    assert done["engine"].state == "finished"
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 90


def test_the_tour_runs() -> None:
    done = run("docs/tour.md", {"net": Net(), "loss_fn": nn.CrossEntropyLoss()})
    assert isinstance(done["graph"], pn.NodeGraph)


def test_the_page_about_training_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    # Processes have tests of their own, and take seconds to start.
    start = pn.TrainingEngine.start
    monkeypatch.setattr(pn.TrainingEngine, "launch", lambda engine, nproc: start(engine))
    monkeypatch.setattr(pn.TrainingEngine, "start", lambda engine, process=False: start(engine))
    x, y = torch.randn(64, 1, 8, 8), torch.arange(64) % 10
    graph = pn.from_module(Net(), (x[:4],))
    names = {"pn": pn, "graph": graph, "x": x, "y": y, "x_val": x, "y_val": y}
    assert run("docs/training.md", names)["engine"].state == "finished"


def test_the_page_about_faults_runs() -> None:
    x, y = torch.randn(48, 1, 8, 8), torch.arange(48) % 10
    x[37, 0, 2, 3] = float("nan")
    model = Net()
    engine = pn.TrainingEngine(model, (x, y), epochs=1, batch_size=4, shuffle=False, device="cpu")
    engine.start()
    with pytest.raises(pn.TrainingError):
        engine.wait()
    names = {
        "pn": pn,
        "engine": engine,
        "model": model,
        "loader": DataLoader(TensorDataset(x[:32], y[:32]), 8),
        "val_loader": DataLoader(TensorDataset(x[40:], y[40:]), 8),
        "validate": lambda _: 2.3,
        "optimizer": torch.optim.SGD(model.parameters(), 0.1),
        "loss_fn": nn.CrossEntropyLoss(),
    }
    done = run("docs/faults.md", names)
    assert (done["fault"].step, done["fault"].stage, done["fault"].examples) == (10, "data", (1,))
    assert len(engine.history["loss"]) == 9, "eleven of twelve batches were trained, and two steps taken back"
    assert len(done["monitor"].history["loss"]) == 8
    assert done["monitor"].history["val_loss"].tolist() == [2.3, 2.3]


def test_the_page_about_hosts_runs() -> None:
    done = run("docs/hosts.md", {})
    assert done["svg"].startswith("<svg")
    assert "<img" in done["html"]
    assert done["engine"].state == "finished"


def test_the_example_of_a_document_runs() -> None:
    indented = (pn.NodeGraph.__doc__ or "").partition("::\n\n")[2].partition("\n\n")[0]
    names: dict[str, Any] = {"pn": pn}
    exec(textwrap.dedent(indented), names)
    assert names["model"].classify.out_features == 10
    assert names["model"](torch.zeros(2, 64)).shape == (2, 10)


def test_passes_run() -> None:
    net, x = Net(), torch.randn(4, 1, 8, 8)
    graph = pn.from_module(net, (x,))
    names = {"net": net, "x": x, "y": torch.arange(4), "loss_fn": nn.CrossEntropyLoss(), "pn": pn}
    done = run("docs/passes.md", {**names, "graph": graph, "model": pn.compile(graph, reuse=net)})
    assert torch.allclose(done["fast"](x), net(x), atol=1e-5)


def test_exporting_runs() -> None:
    class Pooled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv2d(3, 2, 3)

        def forward(self, image: Tensor) -> Any:
            return self.conv(image).mean((2, 3))

    graph = pn.NodeGraph("net")
    graph.add("Input", name="x", shape=("N", 4, "T"))
    graph.add("Conv1d", name="conv1", in_channels=4, out_channels=6, kernel_size=3)
    graph.add("mean", name="pool", dim=(2,))
    graph.add("Output", name="y")
    for source, target in (("x", "conv1"), ("conv1", "pool"), ("pool", "y")):
        graph.connect(source, target)
    data = torch.randn(32, 4, 9), torch.arange(32) % 6
    engine = pn.TrainingEngine(graph, data, epochs=1, device="cpu")
    done = run("docs/export.md", {"graph": graph, "engine": engine, "val_data": data, "net": Pooled()})
    assert done["report"].ok
    assert str(done["report"].sizes["T"]) == "T free, from 3"
    assert [each.what for each in done["report"].comparisons][-1] == "data"
    assert str(pn.check_export(graph, "onnx")) == "[]"


def test_the_page_about_speed_runs() -> None:
    x, y = torch.randn(96, 1, 8, 8), torch.arange(96) % 10
    graph = pn.from_module(Net(), (x[:4],))
    names = {"pn": pn, "graph": graph, "model": pn.compile(graph), "x": x[:4], "train": (x, y), "val": (x, y)}
    done = run("docs/faster.md", names)
    assert done["table"].best in done["table"].rows
    assert done["sweep"].best in (1, 8, 64)


def test_serving_runs() -> None:
    from fastapi.testclient import TestClient  # noqa: PLC0415  # an extra

    done = run("docs/serving.md", {"__name__": "serving"})
    with TestClient(done["app"]) as client:
        answer = client.post("/predict", json={"examples": [[5.1, 3.5, 1.4, 0.2], [6.7, 3.0, 5.2, 2.3]]})
        assert answer.status_code == 200
        assert [sorted(each) for each in answer.json()] == [["setosa", "versicolor", "virginica"]] * 2
        assert sum(answer.json()[0].values()) == pytest.approx(1)
        wrong = client.post("/predict", json={"examples": [[1.0, 2.0]]})
        assert wrong.status_code == 422
        assert "The input x of iris.pnne has the shape (N, 4), and the data (1, 2)" in wrong.json()["detail"]
        assert client.post("/predict", json={"examples": "x"}).status_code == 422
    assert Path("train_iris.safetensors").exists()
