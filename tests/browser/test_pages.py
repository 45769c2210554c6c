"""The blocks of the README and of the pages, pasted into the cells of a notebook: each shows the widget that it ends with."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.pages import ROOT, blocks

if TYPE_CHECKING:
    from tests.browser.conftest import OpenNotebook

WIDGETS = {
    "GraphEditor": '[data-testid="pnne-editor"]',
    "TrainingDashboard": ".pnne-dashboard",
    "ModuleExplorer": ".pnne-explorer",
    "app": ".widget-vbox",
}
"""What shows a widget, with what is on the page then."""

EVERY_PAGE = ["README.md", *sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md"))]
PAGES = ["README.md", "docs/tour.md", "docs/hosts.md"]


def shown_by(block: str) -> str | None:
    """Return the name of the widget that the last line of a block shows, and fail if another line shows one in vain."""
    body = ast.parse(block).body
    names = [
        each.value.func.attr
        if isinstance(each, ast.Expr)
        and isinstance(each.value, ast.Call)
        and isinstance(each.value.func, ast.Attribute)
        else None
        for each in body
    ]
    lost = [name for name in names[:-1] if name in WIDGETS]
    assert not lost, f"{lost} are no last lines of their block: a cell does not show them.\n{block}"
    return names[-1] if names[-1] in WIDGETS else None


@pytest.mark.parametrize("page", EVERY_PAGE)
def test_a_block_shows_no_widget_in_vain(page: str) -> None:
    for _, block in blocks(page):
        shown_by(block)


@pytest.mark.parametrize("page", PAGES)
def test_each_block_shows_its_widget(page: str, open_notebook: OpenNotebook, baseline_errors: frozenset[str]) -> None:
    notebook = open_notebook()
    shown = 0
    for _, block in blocks(page):
        cell = notebook.run(block)
        if (name := shown_by(block)) is not None:
            expect(notebook.output_area(cell).locator(WIDGETS[name]).first).to_be_visible()
            shown += 1
        assert not [each for each in notebook.outputs(cell) if each.get("name") == "stderr"], block
    assert shown >= 1
    assert set(notebook.console_errors) <= baseline_errors
