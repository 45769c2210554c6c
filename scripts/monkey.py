"""Plays with an editor at random: ``python scripts/monkey.py [gestures [seed [layers]]]``, 5,000 unless told otherwise.

In a real JupyterLab, in two views, while a thread of the kernel edits the same graph. At the end both views must hold the
document that Python has, the notebook must be as it was, and the console must be without errors. It takes rounds of 500
gestures, each with a graph and a seed of its own, so that what is found can be found again soon. A graph begins with 3
layers; from 150 nodes on, edges are drawn on one sheet.
"""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from playwright.sync_api import sync_playwright

from tests.browser.jupyter import CHROMIUM_FLAGS, LabServer, Notebook, chromium_path, write_notebook
from tests.browser.monkey import play
from tests.browser.workbench import Workbench

ROUND = 500


def main(gestures: int = 5000, seed: int = 0, layers: int = 3) -> None:
    """Play; the first round that ends otherwise than it should raises."""
    with TemporaryDirectory() as folder, sync_playwright() as playwright:
        directory = Path(folder)
        write_notebook(directory / "monkey.ipynb", ["", ""])
        write_notebook(directory / "plain.ipynb", ["1 + 1"])
        browser = playwright.chromium.launch(executable_path=chromium_path(), args=list(CHROMIUM_FLAGS))
        with LabServer(directory) as server:
            with Notebook(server, browser, "plain.ipynb") as plain:
                plain.run_cell(0)
                known = frozenset(plain.console_errors)
            with Notebook(server, browser, "monkey.ipynb", (1500, 1000)) as notebook:
                workbench = Workbench(notebook)
                for done in range(0, gestures, ROUND):
                    play(workbench, known, directory, min(ROUND, gestures - done), seed + done, layers)
                    print(f"{min(done + ROUND, gestures)} gestures", flush=True)
        browser.close()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
