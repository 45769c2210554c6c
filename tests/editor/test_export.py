"""The dialog for exporting, and the lenses on the graph while it is open."""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator, expect

from pnne_nb.errors import Diagnostic
from pnne_nb.graph.document import NodeGraph
from pnne_nb.protocol.export_messages import ExportCheck, ExportResult, ExportState, NodeError
from tests.editor.conftest import OpenEditor, chain
from tests.editor.page import EditorPage

RESULT = ExportResult(
    ok=False,
    headline="net.onnx differs from the model, first at node fc2.",
    facts=("onnx, 1,234 bytes: /home/me/net.onnx", "sizes: N free"),
    nodes=(NodeError("fc1", "Linear", 1.2e-7, 0.31, ok=True), NodeError("fc2", "Linear", 0.02, 5100.0, ok=False)),
)


@pytest.fixture
def graph() -> NodeGraph:
    return chain(140)


def opened(editor: EditorPage) -> Locator:
    editor.button("Export").click()
    dialog = editor.root.first.get_by_role("dialog", name="Export")
    expect(dialog.get_by_role("combobox", name="Format")).to_be_focused()
    return dialog


def show(editor: EditorPage, event: ExportState | ExportCheck) -> None:
    editor.kernel.show(event)
    editor.deliver()


def lens(editor: EditorPage, node: str) -> Locator:
    return editor.node(node).locator(".pnne-lens")


def test_an_export_is_asked_for_and_its_report_shown(editor: EditorPage) -> None:
    dialog = opened(editor)
    expect(dialog.get_by_role("textbox", name="File")).to_have_value("net.onnx")
    expect(dialog).to_contain_text("Free sizes: N.")
    expect(dialog).to_contain_text("The weights are those of the training.")

    editor.page.keyboard.press("Tab")
    editor.page.keyboard.press("Enter")  # in the field for the file
    expect(dialog.get_by_role("progressbar", name="Writing and proving the file")).to_be_visible()
    asked = next(each for each in editor.kernel.received if each["message"] == "startExport")
    assert (asked["format"], asked["path"], asked["overwrite"]) == ("onnx", "net.onnx", False)

    show(editor, ExportState("done", "onnx", "/home/me/net.onnx", result=RESULT))
    report = dialog.get_by_role("region", name="Report")
    expect(report).to_contain_text("first at node fc2")
    expect(report.get_by_role("row")).to_have_count(3)
    expect(lens(editor, "fc1")).to_have_text("0.31 ×")
    expect(lens(editor, "fc2")).to_have_class("pnne-lens pnne-lens-bad")
    editor.screenshot("export-report")

    report.get_by_role("button", name="fc2").click()
    expect(editor.node("fc2")).to_be_visible()
    show(editor, ExportState("done", "onnx", "/home/me/net.onnx", stale=True, result=RESULT))
    expect(lens(editor, "fc1")).to_have_count(0)
    expect(dialog).to_contain_text("The graph was edited since")


def test_an_export_is_cancelled(editor: EditorPage) -> None:
    dialog = opened(editor)
    dialog.get_by_role("button", name="Export and prove").click()
    dialog.get_by_role("button", name="Cancel export").click()
    expect(dialog).to_contain_text("The export was cancelled; no file was written.")


def test_what_python_refuses_is_said_in_the_dialog(editor: EditorPage) -> None:
    dialog = opened(editor)
    dialog.get_by_role("textbox", name="File").fill("there.onnx")
    dialog.get_by_role("button", name="Export and prove").click()
    expect(dialog.get_by_role("alert")).to_have_text("'there.onnx' exists already.")


def test_a_format_that_is_not_installed_says_so(editor: EditorPage) -> None:
    dialog = opened(editor)
    dialog.get_by_role("combobox", name="Format").select_option("executorch")
    expect(dialog.get_by_role("textbox", name="File")).to_have_value("net.pte")
    expect(dialog).to_contain_text("needs executorch, which is not installed")
    expect(dialog.get_by_role("button", name="Export and prove")).to_be_disabled()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_check_colours_nodes_while_the_dialog_is_open(
    graph: NodeGraph, open_editor: OpenEditor, theme: str
) -> None:
    editor = open_editor(graph, theme=theme)
    dialog = opened(editor)
    expect(dialog).to_contain_text("Checking for onnx")
    findings = (
        Diagnostic("no-translation", "matrix_exp has no translation.", "fc2"),
        Diagnostic("size-fixed", "N is fixed to 3.", "fc1", severity="warning"),
    )
    show(editor, ExportCheck("done", "onnx", findings))
    expect(dialog).to_contain_text("It cannot be exported to onnx: 1 problem.")
    expect(lens(editor, "fc2")).to_have_text("no translation")
    expect(lens(editor, "fc1")).to_have_text("size fixed")
    expect(lens(editor, "x")).to_have_text("✓")
    editor.screenshot(f"export-check-{theme}")

    editor.page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    expect(lens(editor, "x")).to_have_count(0)
    watched = [each["format"] for each in editor.kernel.received if each["message"] == "watchExport"]
    assert watched == ["onnx", ""]
