"""Fixtures of the editor's tests: the built editor in a plain page, on a document of this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from pnne_nb.graph.document import NodeGraph
from tests.editor.page import STATIC, EditorPage

OpenEditor = Callable[..., EditorPage]
"""``open_editor(graph)`` opens a page with one editor of the document."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.browser)


@pytest.fixture
def open_editor(browser: Browser) -> Iterator[OpenEditor]:
    """Return a function that opens a page with an editor; every page must end without an error."""
    if not (STATIC / "editor.js").exists():
        pytest.fail("The editor is not built: run `npm ci && npm run build` in js/.", pytrace=False)
    pages: list[EditorPage] = []

    def open_one(
        graph: NodeGraph,
        *,
        theme: str = "light",
        size: tuple[int, int] = (1180, 760),
        views: int = 1,
        busy: bool = False,
    ) -> EditorPage:
        page = EditorPage(browser, graph, theme=theme, size=size, views=views, busy=busy)
        pages.append(page)
        return page

    yield open_one
    errors = [error for page in pages for error in page.errors]
    for page in pages:
        page.close()
    assert not errors, f"The page reported errors: {errors}"
