"""The dashboard of a training in a process of its own: it obeys as in a thread, and tells when the process has died."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, Locator, expect

from tests.browser.jupyter import LabServer, Notebook, Theme, write_notebook

SETUP = """
import ctypes, os, signal
import torch
import pnne_nb as pn
from sklearn.datasets import load_digits

images, digits = load_digits(return_X_y=True)
x, y = torch.tensor(images, dtype=torch.float32) / 16, torch.tensor(digits)
library = ctypes.PyDLL(None)

def counted(output, target):
    with open("steps", "ab") as file:
        file.write(b".")
    return torch.nn.functional.cross_entropy(output, target)

def drawn():
    graph = pn.NodeGraph("digits")
    graph.add("Input", name="x", shape=("N", 64))
    graph.add("Linear", name="hidden", in_features="auto", out_features=32)
    graph.add("ReLU", name="relu")
    graph.add("Linear", name="classes", in_features="auto", out_features=10)
    graph.add("Output", name="y")
    for source, target in [("x", "hidden"), ("hidden", "relu"), ("relu", "classes"), ("classes", "y")]:
        graph.connect(source, target)
    return graph
"""
NEW = """
graph = drawn()
engine = pn.TrainingEngine(
    graph, (x, y), loss=LOSS, epochs=10_000, device="cpu", checkpoint_dir=DIRECTORY, checkpoint_every=(50, "steps")
)
engine.start(process=True)
engine.pause()
dashboard = pn.TrainingDashboard(engine)
dashboard
"""


def press(dashboard: Locator, name: str) -> None:
    dashboard.get_by_role("button", name=name, exact=True).click()


def state(dashboard: Locator) -> Locator:
    return dashboard.get_by_role("status")


@pytest.fixture(scope="module")
def notebook(lab_server: LabServer, browser: Browser) -> Iterator[Notebook]:
    """One notebook, whose second cell makes a new training for each test: its kernel's first process takes long."""
    write_notebook(lab_server.directory / "process.ipynb", [SETUP, ""])
    with Notebook(lab_server, browser, "process.ipynb") as notebook:
        notebook.run_cell(0)
        yield notebook


@pytest.fixture
def dashboard(notebook: Notebook, request: pytest.FixtureRequest) -> Iterator[Locator]:
    """Of a training that has halted in its process."""
    loss = getattr(request, "param", "'CrossEntropyLoss'")
    directory = repr(re.sub(r"\W", "-", request.node.name))
    notebook.write_cell(1, NEW.replace("DIRECTORY", directory).replace("LOSS", loss))
    notebook.run_cell(1)
    notebook.scroll_to(1)
    dashboard = notebook.page.locator(".pnne-dashboard")
    expect(dashboard).to_have_count(1)
    dashboard.locator(".bqplot").nth(5).wait_for()
    expect(state(dashboard)).to_have_text("Paused")
    yield dashboard
    notebook.evaluate("engine.state in {'running', 'paused'} and engine.stop()")


def test_buttons_and_an_edit_reach_the_process(notebook: Notebook, dashboard: Locator) -> None:
    process = "engine._session.execution.executor.pid"
    press(dashboard, "Resume")
    expect(state(dashboard)).to_have_text("Running")
    notebook.wait_for("engine.progress.step >= 60")
    first = notebook.evaluate(process)
    assert first not in {None, notebook.evaluate("os.getpid()")}
    press(dashboard, "Pause")
    expect(state(dashboard)).to_have_text("Paused")
    notebook.evaluate("graph.set('hidden', out_features=48)")
    before = notebook.evaluate("engine.progress.step")
    press(dashboard, "Step")
    notebook.wait_for(f"engine.state == 'paused' and engine.progress.step == {before + 1}")
    assert notebook.evaluate("tuple(engine.model.hidden.weight.shape)") == (48, 64)
    assert notebook.evaluate("engine.history.cuts.tolist()") == [before]
    assert notebook.evaluate(process) == first
    press(dashboard, "Resume")
    expect(state(dashboard)).to_have_text("Running")
    press(dashboard, "Stop")
    expect(state(dashboard)).to_have_text("Stopped")
    press(dashboard, "Start")
    expect(state(dashboard)).to_have_text("Running")
    assert notebook.evaluate("engine.in_process")


@contextmanager
def frozen(notebook: Notebook) -> Iterator[None]:
    """A block during which a cell keeps Python's lock, without a moment for anybody else."""
    gate = notebook.directory / "gate"
    os.mkfifo(gate)
    cell = notebook.run(
        "gate = os.open('gate', os.O_RDONLY)\nlibrary.read(gate, ctypes.create_string_buffer(1), 1)\nos.close(gate)",
        wait=False,
    )
    # Waits until the cell has opened it, too.
    with gate.open("wb"):
        yield
        assert notebook.is_running(cell)
    gate.unlink()
    notebook.wait_for_cell(cell)


@pytest.mark.parametrize("dashboard", ["counted"], indirect=True)
def test_pause_is_obeyed_while_the_kernel_is_frozen(notebook: Notebook, dashboard: Locator) -> None:
    press(dashboard, "Resume")
    expect(state(dashboard)).to_have_text("Running")
    steps = notebook.directory / "steps"
    with frozen(notebook):
        with notebook.page.expect_response(lambda answer: answer.url.endswith("/pause")):
            press(dashboard, "Pause")
        # Only the running step may still end.
        made = len(steps.read_bytes()) + 1
        expect(state(dashboard)).not_to_have_text("Paused")
    expect(state(dashboard)).to_have_text("Paused")
    assert 0 < notebook.evaluate("engine.progress.step") <= made


def test_pause_is_shown_while_a_cell_keeps_pythons_lock_nearly_always(notebook: Notebook, dashboard: Locator) -> None:
    press(dashboard, "Resume")
    expect(state(dashboard)).to_have_text("Running")
    steps = notebook.evaluate("engine.progress.step")
    with notebook.busy_cell("print(engine.state)", meanwhile="library.usleep(50_000)") as busy:
        press(dashboard, "Pause")
        expect(state(dashboard)).to_have_text("Paused")
    assert "paused" in notebook.text(busy)
    assert notebook.evaluate("engine.progress.step") > steps


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_killed_process_is_told_and_the_training_goes_on_from_its_last_checkpoint(
    notebook: Notebook, dashboard: Locator, theme: Theme
) -> None:
    notebook.set_theme(theme)
    press(dashboard, "Resume")
    notebook.wait_for("engine.progress.step >= 120")
    notebook.screenshot(f"process-running-{theme}", dashboard)
    notebook.evaluate("os.kill(engine._session.execution.executor.pid, signal.SIGKILL)")
    expect(state(dashboard)).to_have_text("Failed")
    alert = dashboard.get_by_role("alert").filter(has_text="The training process has died (killed by SIGKILL).")
    expect(alert).to_be_visible()
    notebook.screenshot(f"process-killed-{theme}", dashboard)
    # The kernel lives, and the model is that of the last checkpoint, or of a later state that the kernel was told.
    kept = notebook.evaluate("engine.progress.step")
    assert kept >= 100
    press(dashboard, "Start")
    expect(state(dashboard)).to_have_text("Running")
    notebook.wait_for(f"engine.progress.step > {kept}")
    expect(alert).to_be_hidden()
