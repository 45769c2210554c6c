"""The graph editor and the dashboard as a person with a mouse sees them."""

from __future__ import annotations

import re
from typing import final

from playwright.sync_api import Locator, Page, expect

STEPS = 8
"""Moves of the pointer in one drag: a browser that sees only the two ends takes it for a click."""


DRAWN = """(figure) => [...figure.querySelectorAll('path.line, rect.bar')]
    .map((mark) => mark.getAttribute('d') ?? [mark.getAttribute('width'), mark.getAttribute('height')]).join(' ')"""
"""What a figure shows: its curves and bars."""

AT_REST = """() => new Promise((done) => {
    const places = () => [...document.querySelectorAll('.react-flow__viewport')].map((view) => view.style.transform).join();
    const before = places();
    setTimeout(() => done(places() === before), 100);
})"""
"""Whether the canvases have stood still for a moment."""

COUNT_PICTURES = """() => {
    const drawn = DRAWN;
    const figures = document.querySelectorAll('.pnne-dashboard .bqplot');
    const looks = {
        loss: () => drawn(figures[0]),
        'gradient norms': () => drawn(figures[2]),
        histogram: () => drawn(figures[3]),
        progress: () => document.querySelector('.pnne-dashboard .pnne-facts').textContent,
    };
    const last = Object.fromEntries(Object.entries(looks).map(([name, look]) => [name, look()]));
    const counts = Object.fromEntries(Object.keys(looks).map((name) => [name, 0]));
    window.pictures = {counts};
    const frame = () => {
        for (const [name, look] of Object.entries(looks)) {
            const now = look();
            if (now !== last[name]) counts[name] += 1;
            last[name] = now;
        }
        requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
}""".replace("DRAWN", DRAWN)
"""Counts, at each of the page's own frames, the different pictures of a dashboard: `window.pictures.counts`."""


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

    def wait_until_at_rest(self) -> None:
        """Wait until the canvas no longer moves: it glides to what it is to show."""
        self.page.wait_for_function(AT_REST)

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

    @property
    def canvas(self) -> Locator:
        """What takes the keyboard for the whole graph."""
        return self.root.get_by_role("region", name="Graph")

    @property
    def toast(self) -> Locator:
        """What the editor has to say, until it is dismissed."""
        return self.root.locator(".pnne-toast")

    @property
    def said(self) -> Locator:
        """What a screen reader is told."""
        return self.root.locator(".pnne-said")

    @property
    def dialog(self) -> Locator:
        """The search over the canvas."""
        return self.root.get_by_role("dialog")

    @property
    def selected(self) -> Locator:
        """The nodes that look selected."""
        return self.root.locator(".react-flow__node.selected")

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
        """Search for a type, click it with Shift, so that no edge leads to it, and give the new node a name."""
        self.search(type)
        before = self._selected_name()
        self.option(type).click(modifiers=["Shift"])
        self._name_selected(name, before)

    def add_by_drag(self, type: str, name: str, x: float, y: float) -> None:
        """Search for a type, drag it to a place in the canvas (pixels from its corner), and name the new node."""
        self.search(type)
        box = self.canvas_box()
        before = self._selected_name()
        self._drag(*self.centre(self.option(type)), box["x"] + x, box["y"] + y)
        self._name_selected(name, before)

    def press(self, *keys: str) -> None:
        """Press keys one after the other, wherever the focus is."""
        for key in keys:
            self.page.keyboard.press(key)

    def pick(self, *names: str) -> None:
        """Click a node, and the others with Shift."""
        for place, name in enumerate(names):
            self.node(name).locator(".pnne-card-header").click(modifiers=["Shift"] if place else [])
        expect(self.selected).to_have_count(len(names))

    def quick(self, text: str) -> None:
        """Type into the search over the canvas, and take the first result."""
        self.dialog.get_by_role("searchbox").fill(text)
        expect(self.dialog.get_by_role("option").first).to_be_visible()
        self.page.keyboard.press("Enter")
        expect(self.dialog).to_have_count(0)

    def on_canvas(self, x: float, y: float) -> tuple[float, float]:
        """The point of the page that lies `x` and `y` pixels from the canvas's corner."""
        box = self.canvas_box()
        return box["x"] + x, box["y"] + y

    def wire_middle(self, source: str, target: str) -> tuple[float, float]:
        """The middle of an edge, on the page."""
        x, y = (
            self.edge(source, target)
            .locator("path")
            .first.evaluate(
                """path => {
                  const middle = path.getPointAtLength(path.getTotalLength() / 2).matrixTransform(path.getScreenCTM());
                  return [middle.x, middle.y];
                }"""
            )
        )
        return x, y

    def drag(self, start: Locator, x: float, y: float, *, drop: bool = True) -> None:
        """Drag from the middle of an element to a point of the page, and perhaps let go."""
        self.drag_point(self.centre(start), (x, y), drop=drop)

    def drag_point(self, start: tuple[float, float], end: tuple[float, float], *, drop: bool = True) -> None:
        """Drag from one point of the page to another, and perhaps let go."""
        mouse = self.page.mouse
        mouse.move(*start)
        mouse.down()
        mouse.move(end[0] - 12, end[1] - 6, steps=STEPS)
        mouse.move(*end, steps=3)
        if drop:
            mouse.up()

    def canvas_box(self) -> dict[str, float]:
        """Where the canvas is on the page."""
        box = self.root.locator(".pnne-canvas").bounding_box()
        assert box is not None
        return {"x": box["x"], "y": box["y"], "width": box["width"], "height": box["height"]}

    def _selected_name(self) -> str:
        field = self.root.get_by_label("Name", exact=True)
        return field.input_value() if field.count() else ""

    def _name_selected(self, name: str, before: str) -> None:
        field = self.root.get_by_label("Name", exact=True)
        expect(field).to_be_visible()
        # The form of the new node, and not of the one before.
        expect(field).not_to_have_value(before)
        field.fill(name)
        expect(field).to_have_value(name)
        field.press("Enter")
        expect(self.node(name)).to_be_visible()
        # The page shows the name at once. Python has it when Undo names it: messages of a page and of a test go different
        # ways to the kernel, so that what a test asks for next would overtake it.
        expect(self.button("Undo")).to_have_attribute("title", re.compile(rf"^Undo (Add|Rename \w+ to) {name} "))

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
        self._drag(*self.centre(self.port(source)), *self.centre(self.port(target)))

    def _drag(self, from_x: float, from_y: float, to_x: float, to_y: float) -> None:
        mouse = self.page.mouse
        mouse.move(from_x, from_y)
        mouse.down()
        mouse.move(to_x, to_y, steps=STEPS)
        mouse.up()

    @staticmethod
    def centre(target: Locator) -> tuple[float, float]:
        """The middle of an element, on the page."""
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
        found = re.search(r"step ([\d,]+)", self.root.locator(".pnne-facts").inner_text())
        return int(found[1].replace(",", "")) if found else 0
