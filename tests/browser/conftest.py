"""Fixtures of the browser tests: one JupyterLab for all of them, a page for each."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Browser

from tests.browser.jupyter import LabServer, Notebook, write_notebook
from tests.browser.workbench import Workbench

NOTEBOOKS = Path(__file__).resolve().parents[2] / "notebooks"

OpenNotebook = Callable[..., Notebook]
"""``open_notebook(*cells)`` opens a new notebook; ``open_notebook(path="x.ipynb")`` a copy from notebooks/."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.browser)
            item.add_marker(pytest.mark.timeout(300))


@pytest.fixture(scope="session")
def lab_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabServer]:
    """A real JupyterLab on a copy of the project's notebooks."""
    directory = tmp_path_factory.mktemp("lab")
    for notebook in NOTEBOOKS.glob("*.ipynb"):
        shutil.copy(notebook, directory)
    with LabServer(directory) as server:
        yield server


@pytest.fixture
def open_notebook(lab_server: LabServer, browser: Browser, request: pytest.FixtureRequest) -> Iterator[OpenNotebook]:
    """Return a function that opens a notebook; everything it opened is closed after the test."""
    with ExitStack() as stack:
        count = 0

        def open_one(
            *cells: str,
            path: str | None = None,
            size: tuple[int, int] = (1400, 1000),
            interface: Literal["lab", "notebook"] = "lab",
        ) -> Notebook:
            nonlocal count
            if path is None:
                count += 1
                path = f"{request.node.name.partition('[')[0]}_{count}.ipynb"
                write_notebook(lab_server.directory / path, cells)
            return stack.enter_context(Notebook(lab_server, browser, path, size, interface))

        yield open_one


@pytest.fixture(scope="session")
def workbench(lab_server: LabServer, browser: Browser) -> Iterator[Workbench]:
    """One notebook for the walks through the editor, which open theirs in it one after the other."""
    write_notebook(lab_server.directory / "workbench.ipynb", ["", ""])
    with Notebook(lab_server, browser, "workbench.ipynb", (1500, 1000)) as notebook:
        yield Workbench(notebook)


@pytest.fixture(scope="session")
def baseline_errors(lab_server: LabServer, browser: Browser) -> frozenset[str]:
    """Console errors that JupyterLab itself makes on a plain notebook; only others are ours."""
    write_notebook(lab_server.directory / "plain.ipynb", ["1 + 1"])
    with Notebook(lab_server, browser, "plain.ipynb") as notebook:
        notebook.run_cell(0)
        notebook.reload()
        return frozenset(notebook.console_errors)
