"""Fixtures of the editor's tests: the built editor in a plain page, on a document of this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from pnne_nb.graph.document import NodeGraph
from tests.editor.page import STATIC, EditorPage, HostPage

OpenEditor = Callable[..., EditorPage]
"""``open_editor(graph)`` opens a page with one editor of the document."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.browser)


@pytest.fixture(scope="session")
def host(browser: Browser) -> Iterator[HostPage]:
    """The page that the tests take turns with."""
    if not (STATIC / "editor.js").exists():
        pytest.fail("The editor is not built: run `npm ci && npm run build` in js/.", pytrace=False)
    page = HostPage(browser)
    yield page
    page.close()


@pytest.fixture
def open_editor(browser: Browser, host: HostPage) -> Iterator[OpenEditor]:
    """Return a function that opens an editor, in place of the one before; none may leave an error behind."""
    opened: list[EditorPage] = []
    own: list[HostPage] = []

    def open_one(
        graph: NodeGraph,
        *,
        theme: str = "light",
        size: tuple[int, int] = (1180, 760),
        views: int = 1,
        busy: bool = False,
        own_page: bool = False,
    ) -> EditorPage:
        if opened:
            opened[-1].close()
        if own_page:
            own.append(HostPage(browser))
        page = own[-1] if own_page else host
        opened.append(EditorPage(page, graph, theme=theme, size=size, views=views, busy=busy))
        return opened[-1]

    yield open_one
    errors = [error for page in (host, *own) for error in page.errors]
    for editor in opened[-1:]:
        editor.close()
    for page in own:
        page.close()
    host.errors.clear()
    assert not errors, f"The page reported errors: {errors}"


@pytest.fixture
def editor(graph: NodeGraph, open_editor: OpenEditor) -> EditorPage:
    """An editor of the test file's own ``graph``."""
    return open_editor(graph)


def chain(step: float) -> NodeGraph:
    """``x -> fc1 -> fc2`` from top to bottom, the centres `step` pixels apart."""
    graph = NodeGraph("net")
    layers = (("Linear", {"name": name, "out_features": 8}) for name in ("fc1", "fc2"))
    graph.chain(("Input", {"name": "x", "shape": ("N", 8)}), *layers)
    for place, name in enumerate(graph.nodes):
        graph.move(name, 0, step * place)
    return graph
