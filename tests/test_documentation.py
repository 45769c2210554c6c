"""What the README and the pages under ``docs/`` show as Python runs as it stands there, from top to bottom."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from ipywidgets.widgets.widget import _instances

import pnne_nb as pn
from tests.pages import ROOT, blocks

TASKS = sorted(
    path.relative_to(ROOT).as_posix()
    for folder in ("howto", "coming-from", "reference", "explanation")
    for path in (ROOT / "docs" / folder).glob("*.md")
)


def run(page: str) -> dict[str, Any]:
    """Run every block of a page as one session, and return its names: a reader has no others."""
    names: dict[str, Any] = {"__name__": "session"}
    for line, block in blocks(page):
        # As many empty lines before, so that a traceback has the page's own lines.
        exec(compile("\n" * line + block, page, "exec"), names)
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
    done = run("README.md")
    assert done["engine"].state == "finished"
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 90


def test_the_tour_runs() -> None:
    assert isinstance(run("docs/tour.md")["graph"], pn.NodeGraph)


def test_the_page_about_training_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    # Processes have tests of their own, and take seconds to start.
    start = pn.TrainingEngine.start
    monkeypatch.setattr(pn.TrainingEngine, "launch", lambda engine, nproc: start(engine))
    monkeypatch.setattr(pn.TrainingEngine, "start", lambda engine, process=False: start(engine))
    assert run("docs/training.md")["engine"].state == "finished"


def test_the_page_about_faults_runs() -> None:
    done = run("docs/faults.md")
    assert (done["fault"].step, done["fault"].stage, done["fault"].examples) == (2, "data", (5,))
    assert len(done["engine"].history["loss"]) == 13, (
        "fifteen of sixteen batches were trained, and two steps taken back"
    )
    assert len(done["monitor"].history["loss"]) == 46
    assert len(done["monitor"].history["val_loss"]) == 2


def test_the_page_about_asking_runs() -> None:
    done = run("docs/ask.md")
    assert done["values"].shape == done["x"].shape
    assert done["effects"].effects[-1] == pytest.approx(1)


def test_the_page_about_hosts_runs() -> None:
    done = run("docs/hosts.md")
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
    done = run("docs/passes.md")
    assert [bool(report.changes) for report in done["done"].reports] == [False, True]
    assert done["done"].reports[1].proof.holds
    assert done["fast"](done["x"]).shape == (4, 10)


def test_exporting_runs() -> None:
    done = run("docs/export.md")
    assert done["report"].ok
    assert str(done["report"].sizes["T"]) == "T free, from 3"
    assert [each.what for each in done["report"].comparisons][-1] == "data"
    assert {each.code for each in pn.check_export(done["graph"], "onnx")} <= {"axis-fixed"}


def test_the_page_about_speed_runs() -> None:
    done = run("docs/faster.md")
    assert done["table"].best in done["table"].rows
    assert done["sweep"].best in (1, 8, 64)


def test_serving_runs() -> None:
    from fastapi.testclient import TestClient  # noqa: PLC0415  # an extra

    done = run("docs/serving.md")
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


@pytest.mark.parametrize("page", TASKS)
def test_a_page_by_task_runs(page: str) -> None:
    assert run(page)["pn"] is pn
    assert len((ROOT / page).read_text(encoding="utf-8").splitlines()) <= 60
