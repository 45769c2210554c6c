"""The editor as a guest in a page: keys, wheel, theme, several views, a kernel that is busy, leaving no trace."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from pnne_nb.graph.document import NodeGraph
from tests.editor.conftest import OpenEditor
from tests.editor.page import STATIC, EditorPage


def chain(length: int = 3) -> NodeGraph:
    """An Input and a chain of layers, arranged."""
    graph = NodeGraph("chain")
    layers = (("Linear", {"name": f"fc{number}", "out_features": 8}) for number in range(1, length + 1))
    graph.chain(("Input", {"name": "x", "shape": ("N", 8)}), *layers, ("Output", {"name": "y"}))
    graph.arrange()
    return graph


# Whether the view has ended its glide.
AT_REST = """() => new Promise((done) => {
  const view = document.querySelector(".react-flow__viewport");
  const before = view.style.transform;
  setTimeout(() => done(view.style.transform === before), 100);
})"""


def zoom(editor: EditorPage) -> float:
    style = editor.root.first.locator(".react-flow__viewport").get_attribute("style")
    found = re.search(r"scale\(([\d.]+)\)", style or "")
    assert found, style
    return float(found[1])


def test_keys_edit_the_graph_and_never_reach_the_notebook(open_editor: OpenEditor) -> None:
    editor = open_editor(chain())
    editor.page.evaluate(
        """() => {
          window.stolen = [];
          document.addEventListener("keydown", (event) => {
            const marked = event.target.getAttribute?.("data-lm-suppress-shortcuts") === "true";
            if (!marked) window.stolen.push(event.key);
          }, true);
        }"""
    )
    editor.node("fc2").click()
    version = editor.graph.version
    editor.page.keyboard.press("Delete")
    expect(editor.node("fc2")).to_have_count(0)
    editor.page.keyboard.press("Control+z")
    expect(editor.node("fc2")).to_be_visible()
    editor.page.keyboard.press("Control+Shift+z")
    expect(editor.node("fc2")).to_have_count(0)
    editor.page.keyboard.press("Control+z")
    expect(editor.node("fc2")).to_be_visible()
    editor.page.keyboard.press("Control+y")
    expect(editor.node("fc2")).to_have_count(0)
    editor.settle()
    assert editor.graph.version == version + 5
    for key in ("x", "d", "a", "Shift+Enter", "Enter"):
        editor.page.keyboard.press(key)
    editor.root.get_by_role("searchbox").fill("conv")
    editor.page.keyboard.type("xddab")
    editor.button("Fit view").focus()
    editor.page.keyboard.press("x")
    assert editor.page.evaluate("() => window.stolen") == []


def test_the_wheel_scrolls_the_page_until_the_editor_was_clicked(open_editor: OpenEditor) -> None:
    editor = open_editor(chain(1))
    before = zoom(editor)
    box = editor.node("fc1").bounding_box()
    assert box is not None
    editor.page.mouse.move(box["x"] - 40, box["y"])
    editor.page.mouse.wheel(0, 120)
    editor.page.wait_for_function("() => window.scrollY > 0")
    assert zoom(editor) == before
    editor.page.evaluate("() => window.scrollTo(0, 0)")
    editor.page.keyboard.down("Control")
    editor.page.mouse.wheel(0, -100)
    editor.page.keyboard.up("Control")
    editor.page.wait_for_function(
        "before => !document.querySelector('.react-flow__viewport').style.transform.includes(`scale(${before})`)",
        arg=before,
    )
    zoomed = zoom(editor)
    assert zoomed > before
    editor.page.mouse.click(box["x"] - 60, box["y"] - 20)
    editor.page.mouse.wheel(0, 100)
    editor.page.wait_for_function(
        "before => !document.querySelector('.react-flow__viewport').style.transform.includes(`scale(${before})`)",
        arg=zoomed,
    )
    assert zoom(editor) < zoomed
    assert editor.page.evaluate("() => window.scrollY") == 0


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_editor_follows_the_theme(open_editor: OpenEditor, theme: str) -> None:
    editor = open_editor(chain(), theme=theme, size=(1280, 640))
    expect(editor.root).to_have_attribute("data-theme", theme)
    editor.node("fc2").click()
    editor.screenshot(f"editor_{theme}")
    lightness = editor.node("fc1").evaluate("card => getComputedStyle(card).backgroundColor")
    red = float(re.findall(r"[\d.]+", lightness)[0])
    assert (red < 0.5 or 1 < red < 128) == (theme == "dark")
    editor.page.evaluate(
        "() => { document.body.dataset.theme = 'light'; document.body.dataset.jpThemeLight = 'true'; }"
    )
    expect(editor.root).to_have_attribute("data-theme", "light")


def test_every_style_rule_is_ours_alone() -> None:
    css = re.sub(r"/\*.*?\*/", "", (STATIC / "editor.css").read_text(encoding="utf-8"), flags=re.DOTALL)
    css = re.sub(r"@keyframes[^{]+\{(?:[^{}]*\{[^{}]*\})*\s*\}", "", css)
    css = re.sub(r"@media[^{]+\{", "", css)
    selectors = [part for rule in re.findall(r"([^{}]+)\{[^{}]*\}", css) for part in _parts(rule)]
    assert len(selectors) > 100
    assert [selector for selector in selectors if not selector.startswith(".pnne-editor")] == []


def _parts(rule: str) -> list[str]:
    """The selectors of a rule; commas inside brackets separate nothing."""
    return [part.strip() for part in re.split(r",(?![^(]*\))", rule.strip())]


def test_two_views_of_a_model_stay_in_step(open_editor: OpenEditor) -> None:
    editor = open_editor(chain(), views=2)
    assert editor.page.evaluate("() => window.model.get('views')") == 2
    first, second = editor.root.nth(0), editor.root.nth(1)
    editor.node("fc1").click()
    editor.page.keyboard.press("Delete")
    expect(first.locator("[data-node=fc1]")).to_have_count(0)
    expect(second.locator("[data-node=fc1]")).to_have_count(0)
    expect(second).to_have_attribute("data-version", str(editor.graph.version))


def test_edits_from_python_appear(open_editor: OpenEditor) -> None:
    editor = open_editor(chain())
    editor.graph.set("fc1", out_features=32)
    editor.graph.add("ReLU", name="late")
    editor.deliver()
    expect(editor.node("fc1")).to_contain_text("→32")
    expect(editor.node("late")).to_be_attached()
    editor.settle()


def test_a_busy_kernel_is_waited_for_and_the_graph_can_be_saved(open_editor: OpenEditor) -> None:
    editor = open_editor(chain(), own_page=True)
    editor.page.clock.install()
    editor.kernel.busy = True
    editor.node("fc1").click()
    editor.page.keyboard.press("Delete")
    expect(editor.node("fc1")).to_have_count(0)
    editor.page.clock.run_for(3_500)
    expect(editor.root.get_by_role("status").filter(has_text="Waiting for kernel")).to_be_visible()
    editor.page.clock.run_for(12_000)
    expect(editor.root.get_by_role("status").filter(has_text="Not connected")).to_be_visible()
    expect(editor.button("Copy graph as JSON")).to_be_visible()
    cut = "notice => notice.scrollHeight > notice.clientHeight + 1 || notice.scrollWidth > notice.clientWidth + 1"
    assert not editor.root.locator(".pnne-offline").evaluate(cut)


def test_a_closed_editor_leaves_nothing_behind(open_editor: OpenEditor) -> None:
    editor = open_editor(chain())
    editor.node("fc1").click()
    assert editor.page.evaluate("() => window.listenerCount()") > 0
    editor.page.evaluate("() => window.closeViews()")
    expect(editor.root).to_have_count(0)
    assert editor.page.evaluate("() => window.listenerCount()") == 0
    assert editor.page.evaluate("() => window.model.get('views')") == 0


def test_the_source_is_shown_with_pythons_reason_when_there_is_none(open_editor: OpenEditor) -> None:
    editor = open_editor(chain())
    editor.button("Code").click()
    source = editor.root.get_by_role("region", name="Source")
    expect(source).to_contain_text("class Net(nn.Module)")
    editor.node("fc2").click()
    editor.page.keyboard.press("Delete")
    expect(source).to_contain_text("its source can be shown once they are gone")
    source.get_by_role("button", name="Close").click()
    expect(source).to_have_count(0)


def test_the_size_in_the_page_is_the_size_that_was_computed(open_editor: OpenEditor) -> None:
    graph = chain(2)
    graph.add("cat", name="cat1")
    graph.connect("fc1", "cat1")
    graph.connect("fc2", "cat1")
    graph.add("LSTM", name="lstm", hidden_size=4)
    graph.add("MaxPool2d", name="pool", kernel_size=2, return_indices=True)
    graph.add("add", name="sum")
    graph.arrange()
    editor = open_editor(graph, size=(1800, 1200))
    editor.button("Fit view").click()
    expect(editor.root.locator("[data-node]")).to_have_count(8)
    sizes = editor.page.evaluate(
        """() => [...document.querySelectorAll("[data-node]")].map((card) => {
          const frame = card.parentElement;
          const content = [...card.children].filter((child) => getComputedStyle(child).position !== "absolute");
          return {
            name: card.dataset.node,
            wanted: [parseFloat(frame.style.width), parseFloat(frame.style.height)],
            found: [card.offsetWidth, card.offsetHeight],
            content: content.reduce((sum, child) => sum + child.offsetHeight, 0),
            ports: [...card.querySelectorAll("[data-port]")].map((port) => [port.offsetLeft, port.offsetTop]),
          };
        })"""
    )
    for size in sizes:
        assert size["found"] == size["wanted"], size
        assert size["content"] == size["wanted"][1], size


def test_from_far_away_a_large_graph_is_one_picture_and_comes_back_whole(open_editor: OpenEditor) -> None:
    graph = chain(160)
    editor = open_editor(graph)
    near = editor.root.locator("[data-edge]").count()
    assert near > 3
    assert editor.root.locator("[data-node]").count() < 30
    editor.button("Fit view").click()
    far = editor.root.locator(".pnne-far")
    expect(far).to_be_visible()
    expect(editor.root.locator("[data-edge]")).to_have_count(0)
    # The node under the pointer is there all the same, to be clicked and dragged.
    box = editor.root.get_by_role("region", name="Graph").bounding_box()
    assert box is not None
    editor.page.wait_for_function(AT_REST)
    for offset in range(6):  # a node is two pixels high, and so are the gaps
        editor.page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2 + offset)
        editor.page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        if editor.root.locator("[data-node]").count() == 1:
            break
    expect(editor.root.locator("[data-node]")).to_have_count(1)
    editor.page.mouse.down()
    editor.page.mouse.up()
    expect(editor.root.get_by_role("textbox", name="Name")).to_be_visible()
    editor.page.keyboard.press("Escape")
    editor.page.keyboard.down("Shift")
    editor.page.mouse.move(box["x"] + 60, box["y"] + 60)
    editor.page.mouse.down()
    editor.page.mouse.move(box["x"] + box["width"] - 60, box["y"] + box["height"] - 60, steps=4)
    editor.page.mouse.up()
    editor.page.keyboard.up("Shift")
    editor.page.wait_for_function("() => window.model.get('selection').length > 100")
    editor.page.keyboard.press("Escape")
    editor.page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 60)
    editor.page.keyboard.down("Control")
    for _ in range(18):
        editor.page.mouse.wheel(0, -120)
    editor.page.keyboard.up("Control")
    expect(far).to_have_count(0)
    nodes = editor.root.locator("[data-node]")
    expect(nodes.nth(1)).to_be_visible()
    names = [nodes.nth(place).get_attribute("data-node") for place in range(nodes.count())]
    for source, target in ((edge.source, edge.target) for edge in graph.edges):
        if source.split(".")[0] in names and target.split(".")[0] in names:
            expect(editor.edge(source, target)).to_be_attached()
