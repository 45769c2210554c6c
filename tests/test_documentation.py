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


def test_the_readme_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    # Groups of processes have tests of their own, and take many seconds to start.
    monkeypatch.setattr(pn.TrainingEngine, "launch", lambda engine, nproc: engine.start())
    done = run("README.md", {"net": Net(), "loss_fn": nn.CrossEntropyLoss()})
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
