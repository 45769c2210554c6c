"""What a very large graph costs: 50,000 nodes, and 1,000 nodes on a screen of 3840×2160.

First paint is the CPU time of kernel and page together after the cell is run, the page's code loaded: making the editor, its
snapshot, and the page's main thread until its second frame, with the cards in view; the others are made later, in idle
pieces. Frames are measured as in `bench_front_end`, those on the large screen beside a bare page of React Flow. An edit is
measured from the press of a key, or the release of a link, until the page shows Python's answer, in CPU time of the page;
the kernel is a test's, and `bench_editor` measures the real one.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from playwright.sync_api import Browser, expect, sync_playwright

import pnne_nb as pn
from benchmarks.bench_front_end import (
    FRAMES,
    GESTURE,
    NODE,
    SETTLED,
    VIEWPORT,
    Measured,
    bare_front_end,
    bare_page,
    network,
)
from benchmarks.budgets import Budgets
from pnne_nb.graph.document import NodeGraph
from pnne_nb.protocol.codec import encode_event
from pnne_nb.widgets.editor.editor import GraphEditor
from tests.browser.jupyter import CHROMIUM_FLAGS, chromium_path
from tests.editor.kernel import Kernel, to_json
from tests.editor.page import EditorPage, HostPage

NODES = 50_000
SCREEN = (3840, 2160)
EDITS = 12
BUDGET = {"first paint": 2000.0, "frame": 16.0, "edit": 100.0, "frame at 3840×2160": 8.0}
"""CPU milliseconds."""


# As text, as from a kernel: through the debugger, which hands over one value after another, the page pays seconds more.
FETCH = """() => {
  window.readSnapshot = () => fetch("/snapshot.json").then((answer) => answer.json());
  window.askKernel = (content) =>
    fetch("/ask.json", { method: "POST", body: JSON.stringify(content) }).then((answer) => answer.json());
}"""


def kernel_ms(graph: NodeGraph) -> float:
    """CPU milliseconds of the kernel for what a page gets of an editor at first, the analysis aside, which is done when idle."""
    start = time.thread_time()
    editor = GraphEditor(graph)
    for known in (None, graph.version):  # the model's state, and the answer to the page's first question
        json.dumps(encode_event(editor._snapshot(known=known)))
    spent = 1000 * (time.thread_time() - start)
    editor.close()
    return spent


def page_ms(browser: Browser, graph: NodeGraph) -> tuple[float, EditorPage, HostPage]:
    """CPU milliseconds of the page's main thread for the first paint; the page had an editor before."""
    host = HostPage(browser)
    host.page.set_default_timeout(120_000)
    EditorPage(host, pn.NodeGraph("warm"), theme="light", size=(1180, 760), views=1, busy=False).close()
    measured = Measured(host.page)
    snapshot = to_json(Kernel(graph).snapshot())
    host.page.route("**/snapshot.json", lambda route: route.fulfill(body=snapshot, content_type="application/json"))
    host.page.route("**/ask.json", lambda route: route.fulfill(json=host.kernel.receive(route.request.post_data_json)))
    host.page.evaluate(FETCH)
    start = measured.cpu_ms()
    editor = EditorPage(host, graph, theme="light", size=(1180, 760), views=1, busy=False)
    host.page.wait_for_selector(NODE)
    host.page.evaluate(SETTLED)
    return measured.cpu_ms() - start, editor, host


def edit_ms(editor: EditorPage, measured: Measured) -> dict[str, list[float]]:
    """CPU milliseconds of some edits of each kind: a move by keys, a value, a link from its release, and their undoing."""
    taken: dict[str, list[float]] = {}

    def measure(kind: str, act: Callable[[], None]) -> None:
        version = editor.graph.version
        start = measured.cpu_ms()
        act()
        # A question at each frame would make frames that the page does not need, for as long as a move by keys waits.
        editor.page.wait_for_function(
            "version => Number(document.querySelector('.pnne-editor').dataset.version) > version",
            arg=version,
            polling=20,
        )
        editor.page.evaluate(SETTLED)
        taken.setdefault(kind, []).append(measured.cpu_ms() - start)

    keyboard, mouse = editor.page.keyboard, editor.page.mouse
    for number in range(EDITS):
        editor.root.first.locator(f'{NODE} [data-node="n4"] .pnne-card-header').click()
        measure("move", lambda: keyboard.press("ArrowRight"))
        measure("undo of a move", lambda: keyboard.press("Control+z"))
        editor.field("n4", "out_features").fill(str(20 + number))
        measure("property", lambda: keyboard.press("Enter"))
        editor.root.first.get_by_role("region", name="Graph").focus()
        measure("undo of a property", lambda: keyboard.press("Control+z"))
        editor.drag(editor.port("n2.output"), editor.port("n4.input"), drop=False)
        measure("link", mouse.up)
        measure("undo of a link", lambda: keyboard.press("Control+z"))
    return taken


def main() -> None:
    budgets = Budgets()
    expect.set_options(timeout=120_000)

    def report(what: str, kind: str, taken: float) -> None:
        budgets.report(f"{what}, CPU", taken, BUDGET[kind], "ms")

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium_path(), args=list(CHROMIUM_FLAGS))
        graph = network(NODES)
        print(f"{NODES} nodes are made", flush=True)
        kernel = kernel_ms(graph)
        print(f"{kernel:.0f} ms in the kernel", flush=True)
        page, editor, host = page_ms(browser, graph)
        print(f"{NODES} nodes: first paint {kernel:.0f} ms in the kernel and {page:.0f} ms in the page")
        report("first paint", "first paint", kernel + page)
        measured = Measured(editor.page)
        report("pan, opening zoom", "frame", measured.frame_ms(GESTURE, ["", FRAMES, True]))
        report("zoom, opening zoom", "frame", measured.zoom_ms())
        for kind, taken in edit_ms(editor, measured).items():
            print(f"{kind}:", *(f"{each:.0f}" for each in taken))
            report(f"{kind}, 95th percentile", "edit", sorted(taken)[round(0.95 * (len(taken) - 1))])
        editor.button("Fit view").click()
        editor.page.wait_for_function("() => document.querySelector('.pnne-far')")
        editor.page.wait_for_timeout(400)  # the glide there
        report("pan, all in view", "frame", measured.frame_ms(GESTURE, ["", FRAMES, True]))
        report("zoom, all in view", "frame", measured.zoom_ms())
        host.close()
        host = HostPage(browser)
        editor = EditorPage(host, network(1000), theme="light", size=SCREEN, views=1, busy=False)
        editor.page.evaluate("() => document.querySelector('.pnne-editor').style.height = '2100px'")
        with TemporaryDirectory() as folder:
            bare_front_end(Path(folder))
            bare = bare_page(editor, Path(folder), SCREEN)
        own, yardstick = Measured(editor.page), Measured(bare)
        for zoom in ("opening zoom", "all in view"):
            if zoom == "all in view":
                editor.button("Fit view").click()
                editor.page.wait_for_timeout(400)  # the glide there
                bare.evaluate("viewport => window.moveBare(viewport)", editor.page.evaluate(VIEWPORT))
            for gesture, measure in (
                ("pan", lambda page: page.frame_ms(GESTURE, ["", FRAMES, True])),
                ("zoom", Measured.zoom_ms),
            ):
                report(f"{gesture}, {zoom}, 3840×2160", "frame at 3840×2160", measure(own))
                print(f"{'React Flow alone, CPU':66} {measure(yardstick):9.3f} ms", flush=True)
        browser.close()
    budgets.end()


if __name__ == "__main__":
    main()
