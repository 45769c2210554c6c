"""Run to here in a real JupyterLab: Python runs the example, beside a training too."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from playwright.sync_api import expect

if TYPE_CHECKING:
    from tests.browser.workbench import Workbench

IMAGES = "pn.sequential(pn.nn.Conv2d(3, 8, 3), pn.nn.ReLU(), ('Linear', dict(in_features=99)), input=('N', 3, 32, 32))"


def test_one_example_shows_the_tensor_at_a_node_although_the_end_is_wrong(workbench: Workbench) -> None:
    workbench.execute("from torch import nn; import torch; pn.nn = nn")
    editor = workbench.open(IMAGES)
    before = workbench.value("graph.version")
    editor.node("relu1").click()
    editor.press("i")
    panel = editor.root.get_by_role("dialog", name="Tensor at relu1.output")
    expect(panel).to_contain_text("float32 3 × 8 × 30 × 30", timeout=30_000)
    expect(panel).to_contain_text("A made-up example of the shapes that the Inputs have")
    picture = panel.get_by_role("img", name="The first example, 8 channels")
    assert picture.evaluate("image => image.complete && image.naturalWidth > 200")
    for theme in ("dark", "light"):
        workbench.notebook.set_theme(theme)
        workbench.notebook.screenshot(f"run-to-here-{theme}", editor.root)
    panel.get_by_role("button", name="Close").click()
    workbench.execute("editor.example = torch.rand(1, 5, 8, 8)")
    editor.press("i")
    expect(panel).to_contain_text(re.compile("conv2d1"), timeout=30_000)
    assert workbench.value("graph.version") == before


def test_while_a_training_runs_its_data_is_run_and_it_goes_on(workbench: Workbench) -> None:
    workbench.execute("from torch import nn; import torch; pn.nn = nn")
    editor = workbench.open("pn.sequential(pn.nn.Linear(8, 16), pn.nn.ReLU(), pn.nn.Linear(16, 2), input=('N', 8))")
    workbench.execute(
        "engine = pn.TrainingEngine(graph, (torch.randn(256, 8), torch.zeros(256).long()), epochs=100_000)\n"
        "editor.training = engine\nengine.start()"
    )
    try:
        editor.node("relu1").click()
        editor.press("i")
        panel = editor.root.get_by_role("dialog", name="Tensor at relu1.output")
        expect(panel).to_contain_text("The first examples of the training's data", timeout=30_000)
        expect(panel).to_contain_text("float32 16 × 16")
        workbench.execute("step = engine.progress.step")
        workbench.notebook.wait_for("engine.progress.step > step and engine.state == 'running'")
    finally:
        workbench.execute("engine.stop(); engine.wait(); editor.training = None")
