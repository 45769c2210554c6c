"""The harness itself: what it says about a notebook is so."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.jupyter import LabServer, Notebook, chromium_path, write_notebook

if TYPE_CHECKING:
    from tests.browser.conftest import OpenNotebook


@pytest.fixture(scope="module")
def notebook(lab_server: LabServer, browser: Browser) -> Iterator[Notebook]:
    """One notebook for whatever needs no new one."""
    write_notebook(lab_server.directory / "harness.ipynb", [""])
    with Notebook(lab_server, browser, "harness.ipynb") as notebook:
        yield notebook


def test_runs_cells_and_reads_their_outputs(open_notebook: OpenNotebook) -> None:
    notebook = open_notebook("x = 20")
    notebook.run_cell(0)
    index = notebook.run("print('hello'); x + 1")
    assert notebook.text(index) == "hello\n21"
    assert notebook.evaluate("[x, 'a']") == [20, "a"]
    expect(notebook.output_area(index)).to_have_text(re.compile(r"^\s*hello\s*\[2\]:\s*21\s*$"))


def test_fails_when_a_cell_raises(notebook: Notebook) -> None:
    notebook.write_cell(0, "1 / 0")
    with pytest.raises(pytest.fail.Exception, match="Cell 0 raised ZeroDivisionError"):
        notebook.run_cell(0)


def test_kernel_and_outputs_survive_a_reload(notebook: Notebook) -> None:
    index = notebook.run("import ipywidgets; slider = ipywidgets.IntSlider(3); slider")
    notebook.output_area(index).locator(".widget-slider").wait_for()
    notebook.evaluate("setattr(slider, 'value', 7)")
    notebook.reload()
    expect(notebook.output_area(index).locator(".widget-readout")).to_have_text("7")


def test_themes(notebook: Notebook) -> None:
    notebook.set_theme("dark")
    assert notebook.page.evaluate("document.body.dataset.jpThemeLight") == "false"
    notebook.set_theme("light")
    assert notebook.screenshot("harness-light").stat().st_size > 1000


def test_a_plain_notebook_makes_no_errors_beyond_the_baseline(
    open_notebook: OpenNotebook, baseline_errors: frozenset[str]
) -> None:
    notebook = open_notebook()
    notebook.run("1")
    assert set(notebook.console_errors) <= baseline_errors


def test_a_missing_browser_fails_with_the_way_to_get_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PNNE_CHROMIUM", "/nowhere")
    with pytest.raises(pytest.fail.Exception, match="apt-get install chromium"):
        chromium_path()
