"""How often what a person sees really changes: a training in JupyterLab and Chromium, its pictures counted in the page."""

from __future__ import annotations

import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

from tests.browser.jupyter import CHROMIUM_FLAGS, LabServer, Notebook, chromium_path, write_notebook
from tests.browser.pages import COUNT_PICTURES

SECONDS = 10
WARM = 4
"""Seconds from the click on Start until counting begins: until the page has come to rest."""

CELL = """
import sys, time
sys.path.insert(0, {root!r})
import pnne_nb as pn
from benchmarks.models import MODELS
net, x, y = MODELS[{name!r}]()
engine = pn.TrainingEngine(net, (x, y), epochs=1_000_000, batch_size=64, device="cpu")
dashboard = pn.TrainingDashboard(engine)
dashboard
"""
READING = "(time.perf_counter(), engine.progress.step, dashboard._bar.tick)"


def seen_training(name: str) -> str:
    """Train a model of `benchmarks.models` with its dashboard on screen, and say what the page showed in a second."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright, LabServer(Path(folder)) as server:
        write_notebook(Path(folder) / "seen.ipynb", [CELL.format(root=str(Path(__file__).parents[1]), name=name)])
        browser = playwright.chromium.launch(executable_path=chromium_path(), args=list(CHROMIUM_FLAGS))
        with Notebook(server, browser, "seen.ipynb") as notebook:
            notebook.run_all()
            page = notebook.page
            page.locator(".pnne-dashboard .bqplot").nth(3).wait_for()
            page.get_by_role("button", name="Start", exact=True).click()
            page.wait_for_timeout(1000 * WARM)
            page.evaluate(COUNT_PICTURES)
            began, first_step, first_tick = notebook.evaluate(READING)
            page.wait_for_timeout(1000 * SECONDS)
            painted = page.evaluate("window.pictures.counts")
            ended, last_step, last_tick = notebook.evaluate(READING)
            page.get_by_role("button", name="Stop", exact=True).click()
        browser.close()
    wall = ended - began
    pictures = ", ".join(f"{kind} {count / wall:.1f}" for kind, count in painted.items())
    return (
        f"{(last_step - first_step) / wall:.0f} steps/s, {(last_tick - first_tick) / wall:.1f} frames sent/s; different"
        f" pictures painted/s: {pictures}"
    )
