"""What the editor costs the browser beside a bare React Flow page: renderer CPU for the first paint and per frame.

The built editor in a headless Chromium, on graphs of 1,000 and 3,000 nodes, takes turns with React Flow alone
(``js/tests/bareFlow.tsx``): the same nodes, places, size and zoom, without cards, ports, shapes or minimap. The ratio of the
two decides, so that a slow machine is not over the budget.

The renderer's main thread is accounted in CPU time (``threadTicks``). The moves are made inside the page, one per animation
frame; what an idle frame of the same loop costs is taken off. The least of some rounds counts: the first also compiles the
code, and a neighbour on the machine only adds.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, final

from playwright.sync_api import Page, sync_playwright

from benchmarks.budgets import Budgets
from hatch_build import install_packages, npm
from pnne_nb.graph.document import NodeGraph
from pnne_nb.graph.layout.cards import NONE_RESOLVED
from pnne_nb.graph.render.scene import NO_SHAPES, scene
from pnne_nb.graph.schema.registry import registry
from pnne_nb.graph.storage import read
from tests.browser.jupyter import CHROMIUM_FLAGS, chromium_path
from tests.editor.page import EditorPage, HostPage

BUDGET = {
    "first paint": 1.0,
    "pan, opening zoom": 3.0,
    "zoom, opening zoom": 3.0,
    "drag, opening zoom": 2.5,
    "pan, all in view": 2.5,
    "zoom, all in view": 2.5,
}
"""Times a bare React Flow page, whose nodes are a box with a name: no ports, badges or shapes on the wires."""

NODES = (1_000, 3_000)
FRAMES = 60
ROUNDS = 4
COLUMNS = 20
NODE = ".react-flow__node"
SIZE = (1180, 760)

# Presses on the element in the middle and moves the pointer once per frame, round and back; `RELEASE` ends it.
GESTURE = """([selector, frames, press]) => new Promise((done) => {
  const pane = document.querySelector(".react-flow__pane");
  const middle = (element) => {
    const { left, top, width, height } = element.getBoundingClientRect();
    return [left + width / 2, top + height / 2];
  };
  const [x, y] = middle(pane);
  const away = (element) => Math.hypot(middle(element)[0] - x, middle(element)[1] - y);
  // In the middle: at its edges, a canvas moves on by itself.
  const found = [...document.querySelectorAll(selector || ".react-flow__pane")];
  const element = found.sort((one, other) => away(one) - away(other))[0];
  const box = element.getBoundingClientRect();
  const start = [box.left + Math.min(box.width / 2, 60), box.top + Math.min(box.height / 2, 20)];
  const fire = (target, type, x, y, buttons) => {
    const more = { bubbles: true, cancelable: true, view: window, clientX: x, clientY: y, buttons, button: 0 };
    target.dispatchEvent(new PointerEvent(type.replace("mouse", "pointer"), { ...more, pointerId: 1, isPrimary: true }));
    target.dispatchEvent(new MouseEvent(type, more));
  };
  if (press) fire(element, "mousedown", ...start, 1);
  let frame = 0;
  const step = () => {
    frame += 1;
    const turn = (2 * Math.PI * frame) / frames;
    const [x, y] = [start[0] + 160 * Math.sin(turn), start[1] + 120 * Math.sin(2 * turn)];
    if (press) fire(frame > 2 ? window : element, "mousemove", x, y, 1);
    if (frame < frames) requestAnimationFrame(step);
    else requestAnimationFrame(() => done(frame));
  };
  window.release = () => press && fire(window, "mouseup", ...start, 0);
  requestAnimationFrame(step);
})"""

ZOOM = """([frames, sign]) => new Promise((done) => {
  const pane = document.querySelector(".react-flow__pane");
  const box = pane.getBoundingClientRect();
  let frame = 0;
  const step = () => {
    frame += 1;
    pane.dispatchEvent(new WheelEvent("wheel", {
      bubbles: true, cancelable: true, view: window, ctrlKey: true, deltaY: sign * 2,
      clientX: box.left + box.width / 2, clientY: box.top + box.height / 2,
    }));
    if (frame < frames) requestAnimationFrame(step);
    else requestAnimationFrame(() => done(frame));
  };
  requestAnimationFrame(step);
})"""

RELEASE = "() => window.release?.()"

VIEWPORT = """() => {
  const { a, e, f } = new DOMMatrix(getComputedStyle(document.querySelector(".react-flow__viewport")).transform);
  return { x: e, y: f, zoom: a };
}"""

CANVAS_SIZE = """() => {
  const { width, height } = document.querySelector(".react-flow").getBoundingClientRect();
  return [width, height];
}"""

OPEN_BARE = """([graph, width, height]) => {
  window.openView = (el) => {
    el.style.cssText = `width: ${width}px; height: ${height}px`;
    return window.openBare(el, graph);
  };
  const el = document.createElement("div");
  document.getElementById("views").append(el);
  window.openView(el);
}"""

SETTLED = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"


def network(nodes: int) -> NodeGraph:
    """Columns of layers with skips between them, in the places of a large imported model."""
    graph = NodeGraph("large")
    with graph.transaction("Build"):
        graph.add("Input", name="x", shape=("N", 8))
        previous = "x"
        for index in range(1, nodes):
            name = f"n{index}"
            if index % 10 == 0:
                graph.add("add", name=name)
                graph.connect(f"{previous}.output", f"{name}.input")
                graph.connect(f"n{index - 5}.output", f"{name}.other")
            else:
                graph.add("ReLU" if index % 2 else "Linear", name=name, **({} if index % 2 else {"out_features": 8}))
                graph.connect(previous, name)
            previous = name
        rows = nodes // COLUMNS
        for index, name in enumerate(graph.nodes):
            graph.move(name, 210.0 * (index // rows), 110.0 * (index % rows))
    return graph


@final
class Measured:
    """A page and what its main thread has used."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self._cdp = page.context.new_cdp_session(page)
        self._cdp.send("Performance.enable", {"timeDomain": "threadTicks"})

    def cpu_ms(self) -> float:
        """CPU milliseconds that the renderer's main thread has used in tasks."""
        found: list[dict[str, Any]] = self._cdp.send("Performance.getMetrics")["metrics"]
        return 1000.0 * next(float(metric["value"]) for metric in found if metric["name"] == "TaskDuration")

    def frame_ms(self, script: str, argument: object) -> float:
        """CPU milliseconds per frame of a gesture, an idle frame's taken off."""
        self.page.bring_to_front()
        self.page.evaluate(SETTLED)
        start = self.cpu_ms()
        self.page.evaluate(GESTURE, ["", FRAMES, False])
        idle = self.cpu_ms() - start
        start = self.cpu_ms()
        self.page.evaluate(script, argument)
        spent = self.cpu_ms() - start - idle
        self.page.evaluate(RELEASE)
        self.page.evaluate(SETTLED)
        return max(0.0, spent) / FRAMES

    def zoom_ms(self) -> float:
        """CPU milliseconds per frame of zooming out; it ends where it began."""
        taken = self.frame_ms(ZOOM, [FRAMES, 1])
        self.page.evaluate(ZOOM, [FRAMES, -1])
        return taken

    def first_paint_ms(self) -> float:
        """CPU milliseconds from nothing to the second frame of a view, beside one that the page has already."""
        self.page.bring_to_front()
        start = self.cpu_ms()
        self.page.evaluate(
            """async () => {
              const el = document.createElement("div");
              document.getElementById("views").prepend(el);
              window.closeFirst = window.openView(el);
              await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
            }"""
        )
        spent = self.cpu_ms() - start
        self.page.evaluate("() => { window.closeFirst(); document.getElementById('views').firstChild.remove(); }")
        self.page.evaluate(SETTLED)
        return spent


Pages = tuple[Measured, Measured]
"""The editor, and React Flow alone."""


def bare_front_end(folder: Path) -> None:
    """Bundle the bare page as the editor is bundled: minified, React in its production form."""
    install_packages()
    options = ("--bundle", "--minify", "--format=esm", "--jsx=automatic", "--log-level=warning")
    production = '--define:process.env.NODE_ENV="production"'
    npm("exec", "--", "esbuild", "tests/bareFlow.tsx", *options, production, f"--outdir={folder}")


def bare_page(editor: EditorPage, front_end: Path, size: tuple[int, int] = SIZE) -> Page:
    """A page with React Flow alone: what the editor shows, at the same places, sizes and zoom."""
    shown = scene(read(editor.graph.to_json()), "", registry, NO_SHAPES, NONE_RESOLVED)
    graph = {
        "nodes": [
            {
                "name": card.name, "left": card.x, "top": card.y,
                "width": card.geometry.width, "height": card.geometry.height,
            }
            for card in shown.cards
        ],
        "edges": [
            {"source": wire.source.partition(".")[0], "target": wire.target.partition(".")[0]} for wire in shown.wires
        ],
        "viewport": editor.page.evaluate(VIEWPORT),
    }  # fmt: skip
    page = editor.page.context.browser.new_context().new_page()  # type: ignore[union-attr]  # it was launched
    page.set_viewport_size({"width": size[0], "height": size[1]})
    page.set_content("<!doctype html><body style='margin: 0'><main id='views'></main></body>")
    page.add_style_tag(path=front_end / "bareFlow.css")
    page.add_script_tag(path=front_end / "bareFlow.js", type="module")
    page.wait_for_function("() => window.openBare")
    page.evaluate(OPEN_BARE, [graph, *editor.page.evaluate(CANVAS_SIZE)])
    page.wait_for_selector(".react-flow__node")
    return page


def main() -> None:
    budgets = Budgets()

    def report(what: str, pages: Pages, measure: Callable[[Measured], float], rounds: int = ROUNDS) -> None:
        taken = [[measure(page) for page in pages] for _ in range(rounds)]
        own, bare = (min(times) for times in zip(*taken, strict=True))
        ratio = own / max(bare, 0.05)
        budgets.report(f"{what:26} {own:7.1f} ms CPU, {bare:6.1f} bare:", ratio, BUDGET[what], "x")

    with TemporaryDirectory() as folder, sync_playwright() as playwright:
        bare_front_end(Path(folder))
        browser = playwright.chromium.launch(executable_path=chromium_path(), args=list(CHROMIUM_FLAGS))
        for nodes in NODES:
            host = HostPage(browser)
            editor = EditorPage(host, network(nodes), theme="light", size=SIZE, views=1, busy=False)
            bare = bare_page(editor, Path(folder))
            pages = Measured(editor.page), Measured(bare)
            print(f"{nodes} nodes")
            if nodes == NODES[0]:
                report("first paint", pages, Measured.first_paint_ms, 5)
            for zoom in ("opening zoom", "all in view"):
                if zoom == "all in view":
                    editor.button("Fit view").click()
                    editor.page.wait_for_function("() => document.querySelector('.pnne-far')")
                    editor.page.wait_for_timeout(400)  # the glide there
                    bare.evaluate("viewport => window.moveBare(viewport)", editor.page.evaluate(VIEWPORT))
                report(f"pan, {zoom}", pages, lambda page: page.frame_ms(GESTURE, ["", FRAMES, True]))
                report(f"zoom, {zoom}", pages, Measured.zoom_ms)
                if zoom == "opening zoom":
                    report(f"drag, {zoom}", pages, lambda page: page.frame_ms(GESTURE, [NODE, FRAMES, True]))
            bare.context.close()
            host.close()
        browser.close()
    budgets.end()


if __name__ == "__main__":
    main()
