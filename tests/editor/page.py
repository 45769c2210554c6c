"""The built editor in a plain page, and the gestures of a person in it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, final

from playwright.sync_api import Browser, ConsoleMessage, Locator, Page, Route, expect

from pnne_nb.graph.document import NodeGraph
from pnne_nb.graph.schema.registry import registry
from pnne_nb.protocol.codec import catalog_event
from tests.browser.jupyter import PAGE_SECONDS
from tests.editor.kernel import Kernel, to_json

STATIC = Path(__file__).resolve().parents[2] / "pnne_nb" / "widgets" / "static"
ARTIFACTS = Path(__file__).resolve().parents[1] / "artifacts"
ORIGIN = "http://localhost"  # a secure context, so that the clipboard is there
HOST = (Path(__file__).parent / "host.html").read_text(encoding="utf-8")
STILL = """() => new Promise((done) => {
  const view = document.querySelector(".react-flow__viewport");
  let before = "", frames = 0;
  const look = () => {
    frames = view.style.transform === before ? frames + 1 : 0;
    before = view.style.transform;
    frames < 10 ? requestAnimationFrame(look) : done();
  };
  look();
})"""


@final
class HostPage:
    """A page that shows one editor after another: loading the bundle and the catalogue once saves most of the time.

    Args:
        browser: The browser to open it in.
    """

    def __init__(self, browser: Browser) -> None:
        self.errors: list[str] = []
        self.kernel = Kernel(NodeGraph())
        self._context = browser.new_context()
        self._context.grant_permissions(["clipboard-read", "clipboard-write"], origin=ORIGIN)
        self.page: Page = self._context.new_page()
        self.page.set_default_timeout(PAGE_SECONDS * 1000)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("console", self._note)
        self.page.route(f"{ORIGIN}/**", self._serve)
        self.page.expose_function("askKernel", self._ask)
        self.page.expose_function("readSnapshot", lambda: json.loads(to_json(self.kernel.snapshot())))
        self.page.expose_function("readCatalogKey", lambda: catalog_event(registry.values()).key)
        self.page.goto(ORIGIN)
        self.page.wait_for_function("() => window.openEditor")

    def close(self) -> None:
        """Close the page and all that belongs to it."""
        self._context.close()

    def _ask(self, content: Mapping[str, Any]) -> list[dict[str, Any]]:
        return self.kernel.receive(content)

    def _note(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.errors.append(message.text)

    def _serve(self, route: Route) -> None:
        name = route.request.url.removeprefix(ORIGIN).partition("?")[0].strip("/")
        if name == "":
            route.fulfill(content_type="text/html", body=HOST)
        elif (STATIC / name).is_file():
            route.fulfill(path=STATIC / name)
        else:
            route.fulfill(status=204)


@final
class EditorPage:
    """One model of the editor in one or more views, on a page that has no other."""

    def __init__(
        self, host: HostPage, graph: NodeGraph, *, theme: str, size: tuple[int, int], views: int, busy: bool
    ) -> None:
        self.graph = graph
        self.page = host.page
        self.kernel = host.kernel = Kernel(graph, busy=busy)
        self.page.set_viewport_size({"width": size[0], "height": size[1]})
        self.page.evaluate("options => window.openEditor(options)", {"theme": theme, "views": views})
        # A graph without places is arranged meanwhile, which is a version more.
        expect(self.root.first).to_have_attribute("data-version", re.compile(r"\d"))
        # The catalogue comes after it, the first time: what is typed before that finds nothing to add. Busy, it never comes.
        if not busy:
            expect(self.root.first.get_by_text("Loading node types…")).to_have_count(0)

    def close(self) -> None:
        """Take the editor out of the page, and the fingers off mouse and keyboard."""
        self.page.mouse.up()
        for key in ("Shift", "Control"):
            self.page.keyboard.up(key)
        self.page.evaluate("() => window.closeViews()")

    # What is there

    @property
    def root(self) -> Locator:
        return self.page.get_by_test_id("pnne-editor")

    def node(self, name: str) -> Locator:
        return self.root.first.locator(f'[data-node="{name}"]')

    def port(self, address: str) -> Locator:
        return self.root.first.locator(f'[data-port="{address}"]')

    def edge(self, source: str, target: str) -> Locator:
        return self.root.first.locator(f'[data-edge="{source}->{target}"]')

    def field(self, node: str, name: str) -> Locator:
        return self.root.first.locator(f'[data-property="{node}.{name}"]')

    def button(self, name: str) -> Locator:
        return self.root.first.get_by_role("button", name=name, exact=True)

    @property
    def toast(self) -> Locator:
        return self.root.first.locator(".pnne-toast")

    # What a person does

    def search(self, text: str) -> Locator:
        """Type into the palette; return the options that it shows."""
        self.root.first.get_by_role("searchbox").fill(text)
        return self.root.first.get_by_role("option")

    def add(self, type: str, *, loose: bool = False) -> None:
        self.search(type)
        option = self.root.first.locator(f'[role="option"][data-type="{type}"]')
        option.click(modifiers=["Shift"] if loose else [])

    def drag(self, start: Locator, end: Locator, *, drop: bool = True) -> None:
        """Drag from the middle of one element to the middle of another."""
        self.drag_by(start, *self._middle(end), drop=drop)

    def drag_by(self, start: Locator, x: float, y: float, *, drop: bool = True) -> None:
        """Drag from the middle of an element to a point of the page."""
        mouse = self.page.mouse
        mouse.move(*self._middle(start))
        mouse.down()
        mouse.move(x - 12, y - 6, steps=4)
        mouse.move(x, y, steps=3)
        if drop:
            mouse.up()

    def settle(self) -> None:
        """Wait until every view shows the document's version."""
        for view in self.root.all():
            expect(view).to_have_attribute("data-version", str(self.graph.version))

    def rest(self) -> None:
        """Wait until the view has not glided for ten frames."""
        self.page.evaluate(STILL)

    def deliver(self) -> None:
        """Hand the page what Python's own edits have made."""
        for message in self.kernel.pending():
            self.page.evaluate("message => window.model.receive(message)", message)

    def screenshot(self, name: str) -> None:
        ARTIFACTS.mkdir(exist_ok=True)
        self.page.screenshot(path=ARTIFACTS / f"{name}.png")

    def _middle(self, element: Locator) -> tuple[float, float]:
        box = element.bounding_box()
        assert box is not None, f"{element} is not shown."
        return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def sent(kernel: Kernel, kind: str) -> list[Mapping[str, Any]]:
    """The messages of one kind that the browser has sent."""
    return [message for message in kernel.received if message["message"] == kind]
