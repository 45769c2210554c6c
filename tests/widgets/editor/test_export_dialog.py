"""Exports and checks that an editor's dialog asks for."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import onnxruntime
import pytest
import torch
from torch import nn

import pnne_nb as pn
from pnne_nb.protocol.export_messages import ExportResult
from pnne_nb.widgets.editor import export_dialog, export_process
from pnne_nb.widgets.editor.export_process import Task, TaskResult, carry_out
from tests.widgets.editor.test_editor import View


def drawn() -> pn.NodeGraph:
    return pn.sequential(("Linear", {"in_features": 4, "out_features": 3}), nn.ReLU(), input=("N", 4))


@pytest.fixture
def editor() -> Iterator[pn.GraphEditor]:
    editor = pn.GraphEditor(drawn())
    yield editor
    editor.close()


def last_state(view: View, *wanted: str) -> dict[str, Any]:
    """Wait for an event that says that the export, or the check, is in one of these states."""

    def found() -> list[dict[str, Any]]:
        return [event for event in view.events if event.get("state") in wanted]

    with view.arrived:
        assert view.arrived.wait_for(lambda: bool(found()), 120), f"none of {wanted} came"
        return found()[-1]


def test_every_format_is_offered_with_what_it_lacks(editor: pn.GraphEditor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pnne_nb.export.formats.find_spec", lambda _: None)
    offered = {each["name"]: each for each in View(editor).ask("getExportFormats")["formats"]}
    assert set(offered) == {"onnx", "pt2", "safetensors", "pt", "torchscript", "aoti", "executorch"}
    assert "pip install 'pnne_nb[onnx]'" in offered["onnx"]["missing"]
    assert offered["pt2"]["missing"] == ""
    assert "minute" in offered["aoti"]["note"]
    assert "torch deprecates TorchScript" in offered["torchscript"]["note"]


def test_an_export_runs_in_a_process_of_its_own_and_its_report_stays(editor: pn.GraphEditor, tmp_path: Path) -> None:
    view = View(editor)
    path = tmp_path / "net.onnx"
    model = editor.model
    assert model is not None
    assert view.ask("startExport", format="onnx", path=str(path))["state"] == "running"
    assert "wait for it, or cancel it" in view.ask("startExport", format="onnx", path=f"{path}.onnx")["error"]
    done = last_state(view, "done", "failed")
    assert done["error"] == ""
    assert done["result"]["ok"]
    assert [each["node"] for each in done["result"]["nodes"]] == ["linear1", "relu1"]
    spread = done["result"]["nodes"][0]["histograms"]
    assert sum(spread["model"]) == sum(spread["file"]) > 0
    assert "net.onnx computes what the model computes" in editor._kept._bundle()["text/html"]

    x = torch.randn(5, 4)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    (output,) = session.run(None, {session.get_inputs()[0].name: x.numpy()})
    torch.testing.assert_close(torch.from_numpy(output), model.eval()(x).detach(), rtol=1e-4, atol=1e-5)

    editor.graph.set("linear1", bias=False)
    stale = view.events[-1] if view.events[-1]["message"] == "exportState" else None
    assert any(event.get("stale") for event in view.events), stale


def test_the_file_of_a_training_is_proved_on_its_data(tmp_path: Path) -> None:
    graph = drawn()
    engine = pn.TrainingEngine(graph, (torch.randn(20, 4), torch.arange(20) % 3), epochs=1, device="cpu")
    editor = pn.GraphEditor(graph)
    editor.training = engine
    view = View(editor)
    assert "proved on its data" in view.ask("getExportFormats")["weights"]
    view.ask("startExport", format="pt2", path=str(tmp_path / "net.pt2"))
    done = last_state(view, "done", "failed")
    assert "compared on data: equal within rounding" in done["result"]["facts"]
    editor.close()


def test_a_cancelled_export_leaves_nothing(editor: pn.GraphEditor, tmp_path: Path) -> None:
    view = View(editor)
    view.ask("startExport", format="onnx", path=str(tmp_path / "net.onnx"))
    view.ask("cancelExport")
    assert last_state(view, "cancelled", "done", "failed")["state"] == "cancelled"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("format", "path", "message"),
    [
        ("onnx", "net.pt2", "The name of a file of the format 'onnx' ends in .onnx"),
        ("onnx", "absent/net.onnx", "There is no directory"),
        ("onnx", "there.onnx", "exists already"),
        ("tflite", "net.tflite", "There is no format 'tflite'"),
    ],
)
def test_a_file_that_cannot_be_is_refused_at_once(
    editor: pn.GraphEditor, tmp_path: Path, format: str, path: str, message: str
) -> None:
    (tmp_path / "there.onnx").touch()
    answer = View(editor).ask("startExport", format=format, path=str(tmp_path / path))
    assert answer["message"] == "rejected"
    assert message in answer["error"]


def test_who_may_only_look_exports_nothing(editor: pn.GraphEditor, tmp_path: Path) -> None:
    editor.read_only = True
    answer = View(editor).ask("startExport", format="onnx", path=str(tmp_path / "net.onnx"))
    assert answer["error"] == "The editor is read-only."


def test_a_graph_with_problems_is_not_exported(tmp_path: Path) -> None:
    graph = pn.NodeGraph()
    graph.add("Linear", in_features=4, out_features=3)
    editor = pn.GraphEditor(graph)
    view = View(editor)
    view.ask("startExport", format="onnx", path=str(tmp_path / "net.onnx"))
    assert "The graph has problems" in last_state(view, "failed", "done")["error"]
    editor.close()


def test_types_of_the_notebook_are_exported_by_the_kernel(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    exported: list[nn.Module | None] = []

    def carry_out(_: Task, model: nn.Module | None, data: object) -> TaskResult:
        assert data is None
        exported.append(model)
        return TaskResult(result=ExportResult(ok=True, headline="It agrees.", facts=(), nodes=()))

    monkeypatch.setattr(export_dialog, "carry_out", carry_out)
    # As if somebody had registered torch's own layers.
    monkeypatch.setattr(export_dialog, "is_custom", lambda spec: spec.target.startswith("torch.nn."))
    editor = pn.GraphEditor(drawn())
    view = View(editor)
    assert not view.ask("startExport", format="pt2", path=str(tmp_path / "net.pt2"))["cancellable"]
    assert last_state(view, "done", "failed")["result"]["headline"] == "It agrees."
    assert exported == [editor.model]
    view.ask("watchExport", format="pt2")
    assert "pn.check_export(graph) checks it" in last_state(view, "failed")["error"]
    editor.close()


class Played:
    """A process that answers as the test says, and notes what it was asked."""

    def __init__(self, asked: list[Task]) -> None:
        self.asked = asked

    def close(self) -> None:
        self.end()

    def ask(self, task: Task) -> TaskResult:
        self.asked.append(task)
        return TaskResult((pn.Diagnostic("size-fixed", f"Check {len(self.asked)}.", "linear1", severity="warning"),))

    def end(self) -> None:
        """Nothing runs."""


def test_the_check_follows_edits(editor: pn.GraphEditor, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Task] = []
    monkeypatch.setattr(export_dialog, "_Process", lambda _changed: Played(asked))
    monkeypatch.setattr(export_dialog, "PAUSE", 0.0)
    view = View(editor)

    def told(message: str) -> bool:
        return any(found["message"] == message for each in view.events for found in each.get("findings", ()))

    assert view.ask("watchExport", format="onnx")["format"] == "onnx"
    with view.arrived:
        assert view.arrived.wait_for(lambda: told("Check 1."), 60)
    editor.graph.move("linear1", 5, 5)
    editor.graph.set("linear1", out_features=7)
    with view.arrived:
        assert view.arrived.wait_for(lambda: told("Check 2."), 60)
    assert '"out_features":7' in asked[-1].graph.replace(" ", "")
    assert view.ask("watchExport", format="")["state"] == "off"
    editor.close()
    assert not [each for each in threading.enumerate() if each.name == "pnne-export-check"]


def test_a_check_says_what_check_export_says() -> None:
    graph = drawn()
    graph.add("matrix_exp", name="exp")
    answer = carry_out(Task(graph.to_json(), "onnx"))
    assert list(answer.findings) == pn.check_export(graph, "onnx")


def test_whatever_fails_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("by zero")

    monkeypatch.setattr(export_process, "check_export", fail)
    answer = carry_out(Task(drawn().to_json(), "onnx"))
    assert answer.error == "The export failed with ZeroDivisionError: by zero"
