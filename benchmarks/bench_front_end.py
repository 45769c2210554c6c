"""What the editor costs the browser: renderer CPU milliseconds for the first paint and per frame of each gesture.

The built editor in a headless Chromium, on graphs of 1,000 and 3,000 nodes. The renderer's main thread is accounted
in CPU time (``threadTicks``), so that a busy machine does not decide; the moves are made inside the page, one per
animation frame, and what an idle frame of the same loop costs is taken off. Pans and drags are made several times and
the least counts: the first also compiles their code, and a neighbour on the machine only adds. Painting in software is
slower than on any screen with a graphics card.
"""

from __future__ import annotations

from typing import Any

from playwright.sync_api import CDPSession, sync_playwright

from pnne_nb.graph.document import NodeGraph
from tests.browser.jupyter import CHROMIUM_FLAGS, chromium_path
from tests.editor.page import EditorPage, HostPage

FIRST_PAINT_MS = 150.0
FRAME_MS = {1_000: 8.0, 3_000: 16.0}
FRAMES = 60
ROUNDS = 4
COLUMNS = 20

# Presses on an element and moves the pointer once per frame, round and back; `RELEASE` ends it.
GESTURE = """([selector, frames, press]) => new Promise((done) => {
  const element = selector ? document.querySelector(selector) : document.querySelector(".react-flow__pane");
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


def cpu_ms(cdp: CDPSession) -> float:
    """CPU milliseconds that the renderer's main thread has used in tasks."""
    found: list[dict[str, Any]] = cdp.send("Performance.getMetrics")["metrics"]
    return 1000.0 * next(float(metric["value"]) for metric in found if metric["name"] == "TaskDuration")


def per_frame(editor: EditorPage, cdp: CDPSession, script: str, argument: object) -> float:
    """CPU milliseconds per frame of a gesture, an idle frame's taken off; the least of some rounds."""
    return min(one_round(editor, cdp, script, argument) for _ in range(ROUNDS if script == GESTURE else 1))


def one_round(editor: EditorPage, cdp: CDPSession, script: str, argument: object) -> float:
    """CPU milliseconds per frame, once."""
    editor.page.evaluate(SETTLED)
    start = cpu_ms(cdp)
    editor.page.evaluate(GESTURE, ["", FRAMES, False])
    idle = cpu_ms(cdp) - start
    start = cpu_ms(cdp)
    editor.page.evaluate(script, argument)
    spent = cpu_ms(cdp) - start - idle
    editor.page.evaluate(RELEASE)
    editor.page.evaluate(SETTLED)
    return max(0.0, spent) / FRAMES


def first_paint(editor: EditorPage, cdp: CDPSession) -> float:
    """CPU milliseconds from nothing to the second frame of a view, beside one that the page has already."""
    start = cpu_ms(cdp)
    editor.page.evaluate(
        """async () => {
          const el = document.createElement("div");
          document.getElementById("views").prepend(el);
          window.closeFirst = window.openView(el);
          await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
        }"""
    )
    spent = cpu_ms(cdp) - start
    editor.page.evaluate("() => window.closeFirst()")
    editor.page.evaluate(SETTLED)
    return spent


def main() -> None:
    """Print the figures; raise `SystemExit` with the first that is over its budget."""
    over: list[str] = []

    def report(what: str, value: float, limit: float) -> None:
        print(f"{what:44} {value:7.1f} ms CPU   (budget {limit:g})", flush=True)
        if value > limit:
            over.append(what)

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium_path(), args=list(CHROMIUM_FLAGS))
        for nodes, limit in FRAME_MS.items():
            host = HostPage(browser)
            editor = EditorPage(host, network(nodes), theme="light", size=(1180, 760), views=1, busy=False)
            cdp = editor.page.context.new_cdp_session(editor.page)
            cdp.send("Performance.enable", {"timeDomain": "threadTicks"})
            if nodes == min(FRAME_MS):
                report(f"first paint, {nodes} nodes", min(first_paint(editor, cdp) for _ in range(5)), FIRST_PAINT_MS)
            for zoom in ("opening zoom", "all in view"):
                if zoom == "all in view":
                    editor.button("Fit view").click()
                    editor.page.wait_for_function("() => document.querySelector('.pnne-far')")
                    editor.page.wait_for_timeout(400)  # the glide there
                report(f"pan, {nodes} nodes, {zoom}", per_frame(editor, cdp, GESTURE, ["", FRAMES, True]), limit)
                report(f"zoom, {nodes} nodes, {zoom}", per_frame(editor, cdp, ZOOM, [FRAMES, 1]), limit)
                editor.page.evaluate(ZOOM, [FRAMES, -1])
                if zoom == "opening zoom":
                    node = ".react-flow__node"
                    report(f"drag, {nodes} nodes, {zoom}", per_frame(editor, cdp, GESTURE, [node, FRAMES, True]), limit)
            host.close()
        browser.close()
    if over:
        raise SystemExit(f"Over budget: {', '.join(over)}.")


if __name__ == "__main__":
    main()
