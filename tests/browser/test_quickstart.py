"""The main job, with the mouse, in a real JupyterLab: draw, train, watch, stop, reload; and the shipped notebook."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from playwright.sync_api import expect

from tests.browser.pages import DashboardPage, EditorPage

if TYPE_CHECKING:
    from tests.browser.conftest import OpenNotebook
    from tests.browser.jupyter import Notebook

IMPORTS = """
import time, torch
from sklearn.datasets import load_digits
import pnne_nb as pn
torch.set_num_threads(1)
digits = load_digits()
images = torch.tensor(digits.images, dtype=torch.float32).unsqueeze(1) / 16
labels = torch.tensor(digits.target)
held_out = torch.arange(len(labels)) % 5 == 0
"""
EDITOR = "graph = pn.NodeGraph(name='mine'); editor = pn.GraphEditor(graph); editor"
TRAIN = """
engine = pn.TrainingEngine(graph, (images[~held_out], labels[~held_out]), (images[held_out], labels[held_out]),
                           optimizer=("AdamW", {"lr": 3e-3}), epochs=20_000)
pn.TrainingDashboard(engine)
"""

# Type, name, place in the canvas (None: a click puts it in the middle), and what to type into the property panel.
DRAWING: tuple[tuple[str, str, tuple[int, int] | None, dict[str, str]], ...] = (
    ("Input", "x", None, {"shape": "N, 1, 8, 8"}),
    ("Conv2d", "conv", (250, 90), {"in_channels": "1", "out_channels": "8", "kernel_size": "3"}),
    ("ReLU", "relu", (250, 210), {}),
    ("MaxPool2d", "pool", (250, 330), {"kernel_size": "2"}),
    ("Flatten", "flat", (950, 90), {}),
    ("Linear", "head", (950, 210), {"in_features": "auto", "out_features": "10"}),
    ("Output", "y", (950, 330), {}),
)
WIRES = [
    ("x.output", "conv.input"),
    ("conv.output", "relu.input"),
    ("relu.output", "pool.input"),
    ("pool.output", "flat.input"),
    ("flat.output", "head.input"),
    ("head.output", "y.input"),
]


def editor_of(notebook: Notebook, index: int) -> EditorPage:
    root = notebook.output_area(index).get_by_test_id("pnne-editor")
    expect(root).to_be_visible()
    expect(root).to_have_attribute("data-version", re.compile(r"\d+"))
    return EditorPage(notebook.page, root)


def dashboard_of(notebook: Notebook, index: int) -> DashboardPage:
    root = notebook.output_area(index).locator(".pnne-dashboard")
    expect(root).to_be_visible()
    return DashboardPage(root)


def expect_wires(editor: EditorPage) -> None:
    for source, target in WIRES:
        expect(editor.edge(source, target)).to_be_attached()
    expect(editor.root.locator("[data-edge]")).to_have_count(len(WIRES))


def test_draw_train_watch_stop_and_reload(open_notebook: OpenNotebook, baseline_errors: frozenset[str]) -> None:  # noqa: PLR0915  one long walk
    notebook = open_notebook(size=(1800, 1100))
    notebook.collapse_sidebar()
    notebook.run(IMPORTS)
    drawing = notebook.run(EDITOR)
    editor = editor_of(notebook, drawing)

    # Draw: from the palette by search and drag, properties in the panel, edges from port to port.
    for type, name, place, values in DRAWING:
        if place is None:
            editor.add_by_click(type, name)
        else:
            editor.add_by_drag(type, name, *place)
        if values:
            editor.set(name, **values)
    for source, target in WIRES:
        editor.connect(source, target)
    expect_wires(editor)

    # Shapes stand on the edges.
    expect(editor.edge("conv.output", "relu.input")).to_contain_text("8×6×6")
    expect(editor.edge("flat.output", "head.input")).to_contain_text("72")
    assert notebook.wait_for("editor.model is not None and list(editor.model.state_dict())") == [
        "conv.weight", "conv.bias", "head.weight", "head.bias",
    ]  # fmt: skip

    # Undo and redo, by button and by key, without JupyterLab taking the key for itself.
    editor.set("conv", out_channels="16")
    expect(editor.edge("conv.output", "relu.input")).to_contain_text("16×6×6")
    editor.button("Undo").click()
    expect(editor.edge("conv.output", "relu.input")).to_contain_text("8×6×6")
    editor.button("Redo").click()
    expect(editor.edge("conv.output", "relu.input")).to_contain_text("16×6×6")
    editor.select("relu")
    editor.node("relu").locator(".pnne-card-header").press("Delete")
    expect(editor.node("relu")).to_have_count(0)
    notebook.page.keyboard.press("Control+z")
    expect(editor.node("relu")).to_be_visible()
    expect_wires(editor)
    assert notebook.evaluate("graph['conv'].properties['out_channels']") == 16

    # An edge that cannot be is refused, with the reason.
    version = editor.version
    editor.drag_between("head.output", "conv.input")
    expect(editor.root.get_by_role("alert").or_(editor.root.get_by_role("status")).first).to_be_visible()
    assert (editor.version, len(editor.edges())) == (version, len(WIRES))

    editor.button("Arrange").click()
    # Each node stands below the one before, or at the head of the next column.
    drawn = [name for _, name, _, _ in DRAWING]
    notebook.wait_for(
        f"(lambda places: places == sorted(places) and len({{x for x, _ in places}}) < 4)"
        f"([(round(graph[name].position[0]), graph[name].position[1]) for name in {drawn}])"
    )
    editor.button("Fit view").click()
    expect_wires(editor)

    # Train: the curve moves, and the buttons answer, also while a cell is busy.
    training = notebook.run(TRAIN)
    dashboard = dashboard_of(notebook, training)
    expect(dashboard.state).to_have_text("Ready")
    dashboard.button("Start").click()
    expect(dashboard.state).to_have_text("Running")
    seen: list[str] = []

    def moved() -> bool:
        if (line := dashboard.loss_line) and line not in seen:
            seen.append(line)
        return len(seen) >= 4

    notebook.wait_until(moved, "The loss curve does not move.")
    dashboard.button("Pause").click()
    expect(dashboard.state).to_have_text("Paused")
    halted = notebook.wait_for("engine.state == 'paused' and engine.progress.step")
    notebook.wait_until(lambda: dashboard.step == halted, f"Step {halted} is not shown.")
    dashboard.button("Step").click()
    notebook.wait_for(f"engine.progress.step == {halted + 1}")
    dashboard.button("Resume").click()
    notebook.wait_until(lambda: dashboard.step > halted + 20, "The training has not gone on.")

    with notebook.busy_cell("engine.state", meanwhile="sum(range(10_000))") as busy:
        dashboard = dashboard_of(notebook, training)
        dashboard.button("Stop").click()
        expect(dashboard.state).to_have_text("Stopped")
    assert notebook.text(busy) == "'stopped'"

    # Reload: graph and plots are as they were.
    line = dashboard.loss_line
    notebook.screenshot("draw-and-train-light")
    notebook.set_theme("dark")
    notebook.screenshot("draw-and-train-dark")
    notebook.reload()
    dashboard = dashboard_of(notebook, training)
    expect(dashboard.state).to_have_text("Stopped")
    notebook.wait_until(lambda: dashboard.loss_line == line, "The loss curve is another one after the reload.")
    editor = editor_of(notebook, drawing)
    for _, name, _, _ in DRAWING:
        expect(editor.node(name)).to_be_visible()
    expect_wires(editor)
    expect(editor.edge("conv.output", "relu.input")).to_contain_text("16×6×6")
    notebook.screenshot("reloaded-dark")
    notebook.set_theme("light")
    assert set(notebook.console_errors) <= baseline_errors


def test_the_shipped_notebook(open_notebook: OpenNotebook, baseline_errors: frozenset[str]) -> None:
    notebook = open_notebook(path="01_quickstart.ipynb", size=(1500, 1150))
    notebook.collapse_sidebar()
    notebook.run_all()
    # Of the processor, in all threads: other work of the machine does not count.
    seconds = notebook.evaluate("__import__('time').process_time()")
    assert seconds < 60, f"The quickstart took {seconds:.0f} s of the processor."
    drawing = notebook.find_cell("editor = pn.GraphEditor(graph")
    editor = editor_of(notebook, drawing)
    editor.button("Fit view").click()
    expect(editor.edge("flat.output", "classify.input")).to_contain_text("128")
    editor.select("conv1")
    notebook.screenshot("01_quickstart-GraphEditor", editor.root)
    training = notebook.find_cell("pn.TrainingDashboard(engine)")
    dashboard = dashboard_of(notebook, training)
    expect(dashboard.state).to_have_text("Finished")
    notebook.screenshot("01_quickstart-TrainingDashboard", dashboard.root)
    assert set(notebook.console_errors) <= baseline_errors
