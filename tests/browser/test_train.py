"""A model is drawn and trained in a real JupyterLab by mouse alone."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from playwright.sync_api import expect

from tests.axe import violations

if TYPE_CHECKING:
    from tests.browser.workbench import Workbench

SETUP = """
import torch, pnne_nb as pn
images = torch.randn(64, 1, 28, 28)
pictures = (images, (images.mean((1, 2, 3)) > 0).long())
graph = pn.NodeGraph("mine")
"""


def test_a_lenet_is_drawn_and_trained_by_mouse_alone(workbench: Workbench) -> None:
    workbench.execute(SETUP)
    editor = workbench.open("graph", "height=700")
    editor.root.locator('[data-type="template:LeNet"]').click()
    expect(editor.node("fc3")).to_have_count(1)
    editor.root.locator(".react-flow__pane").click(position={"x": 8, "y": 8})
    editor.root.get_by_role("button", name="Train…").click()
    form = editor.root.get_by_role("region", name="Train")
    expect(form.get_by_label("Data")).to_have_value("variable pictures")
    form.get_by_label("Optimizer").select_option("SGD")
    form.get_by_label("Precision").select_option("bf16")
    line = 'pn.TrainingEngine(editor.graph, pictures, optimizer=("SGD", {"lr": 0.001}), precision="bf16", epochs=5)'
    expect(form).to_contain_text(line)
    form.get_by_role("button", name="Start", exact=True).click()
    said = form.get_by_role("status", name="Training")
    expect(said).to_contain_text(re.compile(r"finished, epoch 5 of 5, 5 steps, loss \d"))
    expect(said).to_contain_text("CrossEntropyLoss (chosen:")
    for theme in ("dark", "light"):
        workbench.notebook.set_theme("dark" if theme == "dark" else "light")
        workbench.notebook.screenshot(f"train-{theme}", editor.root)
        assert violations(workbench.page, "[data-testid=pnne-editor]") == ""
    for _ in range(2):  # the second press runs the same cell again
        form.get_by_role("button", name="Open dashboard").click()
    expect(workbench.page.locator(".jp-Cell .pnne-dashboard")).to_have_count(1)
    cell = workbench.notebook.find_cell("pn.TrainingDashboard(editor.engine)")
    expect(workbench.notebook.output_area(cell).locator(".pnne-state")).to_have_text("Finished")
    assert cell == workbench.notebook.find_cell("display(editor)") + 1
    assert workbench.value("_.engine is editor.engine")
    assert workbench.value("(editor.engine.config.precision, type(editor.engine.optimizer).__name__)") == (
        "bf16",
        "SGD",
    )
    workbench.notebook.screenshot("train-dashboard", workbench.notebook.output_area(cell))
    workbench.notebook.delete_cell(cell)


def test_an_editor_without_a_name_shows_the_dashboard_in_the_place_of_its_picture(workbench: Workbench) -> None:
    workbench.execute(SETUP)
    editor = workbench.open("pn.sequential(torch.nn.Flatten(), torch.nn.Linear(784, 2), input=('N', 1, 28, 28))")
    workbench.execute("del editor")
    editor.root.get_by_role("button", name="Train…").click()
    editor.root.get_by_role("button", name="Start", exact=True).click()
    expect(editor.root.get_by_role("status", name="Training")).to_contain_text("if editor = pn.GraphEditor(…)")
    editor.root.get_by_role("button", name="Open dashboard").click()
    expect(workbench.notebook.output_area(1).locator(".pnne-dashboard")).to_have_count(1)


def test_an_empty_canvas_opens_a_module_of_the_kernel_in_the_next_cell(workbench: Workbench) -> None:
    workbench.execute(
        SETUP + "net = torch.nn.Sequential(torch.nn.Conv2d(1, 4, 3), torch.nn.ReLU())\ngone = torch.nn.Linear(3, 2)"
    )
    editor = workbench.open("pn.NodeGraph('new')")
    editor.root.get_by_role("button", name="net (Sequential)").click()
    expect(workbench.page.get_by_test_id("pnne-editor")).to_have_count(2)
    cell = workbench.notebook.find_cell("pn.GraphEditor(net, args=(images[:2],))")
    expect(workbench.notebook.output_area(cell).locator("[data-node]")).to_have_count(4)
    workbench.notebook.delete_cell(cell)
    workbench.execute("del gone")
    editor.root.get_by_role("button", name="gone (Linear)").click()
    expect(editor.toast).to_contain_text("The kernel has no module gone any more")
