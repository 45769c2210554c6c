"""The graph editor and the dashboard as a person with a mouse sees them."""

from __future__ import annotations

import re
from typing import final

from playwright.sync_api import Locator, Page, expect

STEPS = 8
"""Moves of the pointer in one drag: a browser that sees only the two ends takes it for a click."""


@final
class EditorPage:
    """One view of a graph editor.

    Args:
        page: The page it is on.
        root: The editor's root element.
    """

    def __init__(self, page: Page, root: Locator) -> None:
        self.page = page
        self.root = root

    # Looking

    @property
    def version(self) -> int:
        """The version that Python has acknowledged."""
        return int(self.root.get_attribute("data-version") or -1)

    def node(self, name: str) -> Locator:
        """The picture of a node."""
        return self.root.locator(f'[data-node="{name}"]')

    def port(self, address: str) -> Locator:
        """A port, ``"conv1.input"``."""
        return self.root.locator(f'[data-port="{address}"]')

    def edge(self, source: str, target: str) -> Locator:
        """An edge with its label."""
        return self.root.locator(f'[data-edge="{source}->{target}"]')

    def field(self, node: str, prop: str) -> Locator:
        """A field of the property panel."""
        return self.root.locator(f'[data-property="{node}.{prop}"]')

    def button(self, name: str) -> Locator:
        """A button of the toolbar."""
        return self.root.get_by_role("button", name=name, exact=True)

    def node_names(self) -> list[str]:
        """Names of the nodes in view."""
        return [
            name or "" for name in self.root.locator("[data-node]").evaluate_all("all => all.map(n => n.dataset.node)")
        ]

    def edges(self) -> set[str]:
        """The edges in view, as ``source->target``."""
        return set(self.root.locator("[data-edge]").evaluate_all("all => all.map(e => e.dataset.edge)"))

    # Acting

    def search(self, text: str) -> None:
        """Type into the palette's search box."""
        self.root.get_by_role("searchbox").fill(text)

    def option(self, type: str) -> Locator:
        """A result of the search."""
        return self.root.locator(f'[role="option"][data-type="{type}"]')

    def add_by_click(self, type: str, name: str) -> None:
        """Search for a type, click it, and give the new node a name."""
        self.search(type)
        self.option(type).click()
        self._name_selected(name)

    def add_by_drag(self, type: str, name: str, x: float, y: float) -> None:
        """Search for a type, drag it to a place in the canvas (pixels from its corner), and name the new node."""
        self.search(type)
        box = self.canvas_box()
        self._drag(*self._centre(self.option(type)), box["x"] + x, box["y"] + y)
        self._name_selected(name)

    def canvas_box(self) -> dict[str, float]:
        """Where the canvas is on the page."""
        box = self.root.locator(".pnne-canvas").bounding_box()
        assert box is not None
        return {"x": box["x"], "y": box["y"], "width": box["width"], "height": box["height"]}

    def _name_selected(self, name: str) -> None:
        field = self.root.get_by_label("Name", exact=True)
        expect(field).to_be_visible()
        field.fill(name)
        field.press("Enter")
        expect(self.node(name)).to_be_visible()

    def select(self, name: str) -> None:
        """Click a node."""
        self.node(name).locator(".pnne-card-header").click()
        expect(self.root.get_by_label("Name", exact=True)).to_have_value(name)

    def set(self, node: str, **values: str) -> None:
        """Select a node and type values into its property panel."""
        self.select(node)
        for prop, value in values.items():
            field = self.field(node, prop)
            field.fill(value)
            field.press("Enter")

    def connect(self, source: str, target: str) -> None:
        """Drag from an output port to an input port."""
        self.drag_between(source, target)
        expect(self.edge(source, target)).to_be_attached()

    def drag_between(self, source: str, target: str) -> None:
        """Drag from port to port, whatever comes of it."""
        self._drag(*self._centre(self.port(source)), *self._centre(self.port(target)))

    def _drag(self, from_x: float, from_y: float, to_x: float, to_y: float) -> None:
        mouse = self.page.mouse
        mouse.move(from_x, from_y)
        mouse.down()
        mouse.move(to_x, to_y, steps=STEPS)
        mouse.up()

    @staticmethod
    def _centre(target: Locator) -> tuple[float, float]:
        target.wait_for()
        box = target.bounding_box()
        assert box is not None
        return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


@final
class DashboardPage:
    """One view of a training dashboard.

    Args:
        root: The dashboard's root element.
    """

    def __init__(self, root: Locator) -> None:
        self.root = root

    def button(self, name: str) -> Locator:
        """A button of the control bar."""
        return self.root.get_by_role("button", name=name, exact=True)

    @property
    def state(self) -> Locator:
        """The word that says how the training stands."""
        return self.root.locator(".pnne-state")

    @property
    def loss_line(self) -> str:
        """The drawn curve of the training loss, as the path of its SVG element."""
        return self.root.locator(".pnne-plots svg.svg-figure path.line").first.get_attribute("d") or ""

    @property
    def step(self) -> int:
        """The number of steps that the control bar shows."""
        found = re.search(r"step (\d+)", self.root.locator(".pnne-facts").inner_text())
        return int(found[1]) if found else 0
