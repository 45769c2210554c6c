"""A loop of a person's own in a real JupyterLab: one line shows it live, and its cell obeys Pause and Stop."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.jupyter import LabServer, Notebook, Theme, write_notebook

SETUP = """
import torch
import pnne_nb as pn

torch.manual_seed(0)
x, y = torch.randn(256, 8), torch.arange(256) % 4
net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
optimizer = torch.optim.SGD(net.parameters(), lr=0.125)
"""
LOOP = """
batches = pn.track(list(zip(x.split(32), y.split(32))), model=net, optimizer=optimizer)
rounds = 0
while batches.monitor.state != "stopped":
    rounds += 1
    for inputs, target in batches:
        loss = torch.nn.functional.cross_entropy(net(inputs), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_loop_of_ones_own_is_shown_while_its_cell_runs_and_obeys_buttons(
    lab_server: LabServer, browser: Browser, theme: Theme
) -> None:
    name = f"own-loop-{theme}.ipynb"
    write_notebook(lab_server.directory / name, [SETUP, LOOP])
    with Notebook(lab_server, browser, name) as notebook:
        notebook.set_theme(theme)
        notebook.run_cell(0)
        notebook.run_cell(1, wait=False)
        dashboard = notebook.page.locator(".pnne-dashboard")
        expect(dashboard.get_by_role("status")).to_have_text("Running")
        facts = dashboard.locator(".pnne-facts")
        expect(facts).to_contain_text(re.compile(r"Epoch [\d,]+ · step [\d,]{2,}"))
        expect(dashboard.locator(".pnne-plots")).to_contain_text("Gradient norm")
        expect(dashboard.get_by_role("button", name="Start", exact=True)).to_have_count(0)
        dashboard.get_by_role("button", name="Pause", exact=True).click()
        expect(dashboard.get_by_role("status")).to_have_text("Paused")
        assert notebook.is_running(1)
        notebook.scroll_to(1)
        notebook.screenshot(f"own-loop-{theme}", dashboard)
        dashboard.get_by_role("button", name="Resume", exact=True).click()
        expect(dashboard.get_by_role("status")).to_have_text("Running")
        dashboard.get_by_role("button", name="Stop", exact=True).click()
        notebook.wait_for_cell(1)
        expect(dashboard.get_by_role("status")).to_have_text("Stopped")
        assert notebook.evaluate("batches.monitor.steps == len(batches.history['loss'])")
