"""Random gestures of a person, the same for the same seed, while code edits the same graph."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any, final

from playwright.sync_api import Error, Locator

from tests.browser.pages import EditorPage
from tests.browser.workbench import Workbench

# Edits from a thread of the kernel, seeded too: what a cell or a training in the background may do.
ALSO_IN_PYTHON = """
import random, threading
enough = threading.Event()

def edit_along(seed, most):
    chance, count = random.Random(seed), 0
    while not enough.wait(0.03):
        names = list(graph.nodes)
        try:
            match chance.randrange(9):
                case 0 | 1 if len(names) < most:
                    graph.add(chance.choice(["ReLU", "Linear", "add", "Dropout"]))
                case 2:
                    graph.connect(chance.choice(names), chance.choice(names))
                case 3:
                    graph.move(chance.choice(names), chance.uniform(-400, 900), chance.uniform(-400, 900))
                case 4 if len(names) > 6:
                    graph.remove(chance.choice(names))
                case 5:
                    graph.rename(chance.choice(names), f"py_{count}")
                case 6:
                    graph.set(chance.choice(names), out_features=chance.randrange(1, 9))
                case 7 if chance.random() < 0.3:
                    graph.undo()
                case 8 if chance.random() < 0.1:
                    graph.arrange()
        except pn.PnneError:
            pass
        count += 1
    return count

edits = []
editing = threading.Thread(target=lambda: edits.append(edit_along({seed}, {most})), daemon=True)
editing.start()
"""

KEYS = (
    "Delete", "Control+z", "Control+z", "Control+y", "Control+c", "Control+v", "Control+d", "Control+g", "Control+a",
    "Control+x", "Control+Shift+V", "ArrowDown", "ArrowRight", "Shift+ArrowLeft", "Tab", "Enter", "Escape", "F2", "?",
    "v", "f", "a", "c", "m", "b", "r", "Space", "Home", "End", "+", "-", "0", "1", "ContextMenu", "Backspace",
    "w", "s", "Shift+Z", "o", "Shift+O", "h", "t", "z", "x", "k", "Shift+C", "Alt+ArrowDown",
)  # fmt: skip
WORDS = ("relu", "linear", "conv", "add", "x", "out_features", "12", "py_1", "")
BUTTONS = ("Undo", "Redo", "Arrange", "Fit view", "Properties", "Palette", "Code", "Zoom in", "Zoom out")

HAS_KEYS = "root => root.contains(document.activeElement)"
IS_THERE = "(root, [x, y]) => root.contains(document.elementFromPoint(x, y))"


@final
class Monkey:
    """Plays with the views of one document.

    Args:
        workbench: The notebook in which the views are open.
        views: The views.
        seed: Of its choices.
    """

    def __init__(self, workbench: Workbench, views: list[EditorPage], seed: int) -> None:
        self._workbench = workbench
        self._page = workbench.page
        self._views = views
        self._chance = random.Random(seed)
        self.log: list[str] = []

    def play(self, gestures: int) -> None:
        """Make so many gestures."""
        kinds = (
            *(self._key, self._key, self._click, self._drag, self._drag, self._double_click, self._wheel),
            *(self._link, self._type, self._menu, self._button),
        )
        for _ in range(gestures):
            view = self._chance.choice(self._views)
            kind = self._chance.choice(kinds)
            self.log.append(kind.__name__)
            try:
                # The wheel scrolls the notebook while nobody has clicked into the view.
                view.canvas.scroll_into_view_if_needed(timeout=500)
                kind(view)
            except Error:
                continue  # what it wanted to take is gone meanwhile: Python edits too

    def _spot(self, view: EditorPage) -> tuple[float, float]:
        box = view.canvas.bounding_box(timeout=500)
        if box is None:
            raise Error("The view is not shown.")
        x = box["x"] + self._chance.uniform(0.05, 0.95) * box["width"]
        y = box["y"] + self._chance.uniform(0.05, 0.95) * box["height"]
        return self._seen(view, x, y)

    def _seen(self, view: EditorPage, x: float, y: float) -> tuple[float, float]:
        """A place, if the view is what is seen there: who clicks beside it means the notebook."""
        if not view.root.evaluate(IS_THERE, [x, y]):
            raise Error("Something else is there.")
        return x, y

    def _any(self, found: Locator) -> Locator:
        count = found.count()
        if count == 0:
            raise Error("There is none.")
        return found.nth(self._chance.randrange(count))

    def _place(self, view: EditorPage, target: Locator) -> tuple[float, float]:
        box = target.bounding_box(timeout=500)
        if box is None:
            raise Error("It is not shown.")
        return self._seen(view, box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)

    def _key(self, view: EditorPage) -> None:
        key = self._chance.choice(KEYS)
        # A person who has left the editor sees it, and means the notebook.
        if view.root.evaluate(HAS_KEYS):
            self.log[-1] += f" {key}"
            self._page.keyboard.press(key)

    def _click(self, view: EditorPage) -> None:
        held = self._chance.random() < 0.3
        place = self._place(view, self._any(view.root.locator("[data-node]")))
        if held:
            self._page.keyboard.down("Shift")
        self._page.mouse.click(*place)
        if held:
            self._page.keyboard.up("Shift")

    def _drag(self, view: EditorPage) -> None:
        nodes = view.root.locator("[data-node]")
        start = self._spot(view) if self._chance.random() < 0.5 else self._place(view, self._any(nodes))
        self._move(start, self._spot(view), self._chance.choice((None, None, "Shift", "Alt")))

    def _link(self, view: EditorPage) -> None:
        ports = view.root.locator("[data-port]")
        self._move(self._place(view, self._any(ports)), self._place(view, self._any(ports)), None)

    def _move(self, start: tuple[float, float], end: tuple[float, float], held: str | None) -> None:
        mouse, keyboard = self._page.mouse, self._page.keyboard
        if held:
            keyboard.down(held)
        mouse.move(*start)
        mouse.down()
        mouse.move(*end, steps=3)
        mouse.up()
        if held:
            keyboard.up(held)

    def _double_click(self, view: EditorPage) -> None:
        self._page.mouse.dblclick(*self._spot(view))

    def _wheel(self, view: EditorPage) -> None:
        self._page.mouse.move(*self._spot(view))
        self._page.mouse.wheel(0, self._chance.choice((-200, 200)))

    def _type(self, view: EditorPage) -> None:
        field = self._any(view.root.locator("input:visible, textarea:visible"))
        field.fill(self._chance.choice(WORDS), timeout=500)
        self._page.keyboard.press(self._chance.choice(("Enter", "Escape", "Tab")))

    def _menu(self, view: EditorPage) -> None:
        self._page.mouse.click(*self._spot(view), button="right")
        items = view.root.locator("[role=menuitem]:visible")
        if self._chance.random() < 0.7:
            chosen = self._any(items)
            name = chosen.inner_text(timeout=500)
            if "file" not in name:
                self.log[-1] += f" {name!r}"
                self._page.mouse.click(*self._place(view, chosen))

    def _button(self, view: EditorPage) -> None:
        name = self._chance.choice(BUTTONS)
        self.log[-1] += f" {name}"
        view.root.get_by_role("button", name=name, exact=True).first.click(timeout=500)


def play(workbench: Workbench, known: frozenset[str], folder: Path, gestures: int, seed: int, layers: int = 3) -> None:
    """Play in two views while code edits the same graph; fail where something is not as it should be at the end.

    Args:
        workbench: The notebook.
        known: Console errors that are JupyterLab's own.
        folder: For the documents as the views have them.
        gestures: How many.
        seed: Of the gestures and of the edits.
        layers: With which the graph begins; where there are many, it draws its edges otherwise.
    """
    types = [("Linear", "ReLU")[place % 2] for place in range(layers)]
    views = workbench.open_views(2, f"chain(*{types}, out_features=4)", "height=430")
    before, seen = workbench.state(), len(workbench.notebook.console_errors)
    workbench.execute(ALSO_IN_PYTHON.replace("{seed}", str(seed)).replace("{most}", str(layers + 37)))
    monkey = Monkey(workbench, views, seed)
    try:
        monkey.play(gestures)
    finally:
        workbench.execute("enough.set(); editing.join(); enough.clear()")
    workbench.page.keyboard.press("Escape")
    for view in views:
        workbench.in_step(view)
    errors = [error for error in workbench.notebook.console_errors[seen:] if error not in known]
    assert errors == [], "\n".join([*errors, *monkey.log[-30:]])
    truth = comparable(workbench.value("__import__('json').loads(graph.to_json())"))
    for place, view in enumerate(views):
        assert comparable(saved(view, folder / f"view{place}.json")) == truth
    assert workbench.state() == before


def saved(view: EditorPage, path: Path) -> Any:
    """The document as a view has it: what its file would hold."""
    with view.root.page.expect_download() as download:
        view.root.get_by_role("button", name="Save graph file", exact=True).click(force=True)
    download.value.save_as(path)
    return json.loads(path.read_text(encoding="utf-8"))


def comparable(document: Any) -> Any:
    """A document without what a file may leave out, and without the order of edges, which does not show."""
    graphs = {}
    for id, graph in document["graphs"].items():
        nodes = [
            {key: value for key, value in node.items() if value not in (None, {}, False)}
            for node in graph.get("nodes", [])
        ]
        frames = sorted(graph.get("frames", []), key=lambda frame: frame["name"])
        edges = sorted((edge["source"], edge["target"]) for edge in graph.get("edges", []))
        graphs[id] = {
            "nodes": nodes,
            "edges": edges,
            "frames": [{"text": "", "title": "", **frame} for frame in frames],
        }
    return {"name": document["name"], "graphs": graphs}
