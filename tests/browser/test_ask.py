"""Asking a network in a real JupyterLab: from a wrong guess to the unit that made it, and into the drawing, by mouse."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Locator, expect

from tests.axe import violations
from tests.browser.jupyter import LabServer, Notebook, Theme, write_notebook
from tests.browser.test_explorer import click

SETUP = """
import pnne_nb as pn
from tests.widgets.explorer.digits import digits
net, x, y = digits()
"""
TABLE = """
pn.confusion(y, net(x).argmax(1))
"""
SHOW = """
explorer = pn.ModuleExplorer(net, x, y)
explorer
"""

TRAIN = """
import copy
engine = pn.TrainingEngine(copy.deepcopy(net), (x, y), epochs=2, checkpoint_dir="asked", device="cpu")
engine.start(); engine.wait()
live = pn.ModuleExplorer(engine)
live
"""


@pytest.fixture(scope="module")
def notebook(lab_server: LabServer, browser: Browser) -> Iterator[Notebook]:
    """One notebook for all of these tests: its cells are run again for each."""
    write_notebook(lab_server.directory / "ask.ipynb", [SETUP, TABLE, SHOW, TRAIN])
    with Notebook(lab_server, browser, "ask.ipynb") as notebook:
        notebook.collapse_sidebar()
        yield notebook


@pytest.fixture
def root(notebook: Notebook) -> Locator:
    for cell in range(3):
        notebook.run_cell(cell)
    root = notebook.output_area(2).locator("[data-testid='pnne-explorer']")
    root.locator("canvas").first.wait_for()
    return root


def panel(root: Locator) -> Locator:
    return root.locator(".pnne-explorer-panel")


def test_from_a_wrong_guess_to_the_unit_and_into_the_drawing_by_mouse(notebook: Notebook, root: Locator) -> None:
    before = notebook.evaluate("float(sum(p.double().sum() for p in net.state_dict().values()))")
    # 1: the wrong guess
    notebook.output_area(1).get_by_role("button", name="of class 5, predicted 4").click()
    expect(root.get_by_text("Answer, wrong")).to_be_visible()
    expect(root.locator(".pnne-answer th").first).to_have_text("4")
    # 2, 3: the unit that made it
    click(notebook, root, "1")
    root.get_by_role("button", name="Units", exact=True).click()
    culprit = panel(root).locator(".widget-vbox", has=notebook.page.locator(".pnne-moved")).last
    # 4: switched off, and the guess changes
    culprit.get_by_role("button", name="Switch off", exact=True).click()
    after = root.locator(".pnne-answer", has_text="Answer with the changes")
    expect(after).to_be_visible()
    expect(after.locator("th").first).not_to_have_text("4")
    # 5: kept as an edit
    root.get_by_role("button", name="Keep in the graph").click()
    expect(root.get_by_text("Kept in explorer.graph as one edit")).to_be_visible(timeout=60_000)
    guess = after.locator("th").first.text_content()
    assert notebook.evaluate("int(pn.compile(explorer.graph)(x[explorer.example:][:1]).argmax())") == int(guess or -1)
    assert notebook.evaluate("float(sum(p.double().sum() for p in net.state_dict().values()))") == before
    assert notebook.evaluate("sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in net.modules())") == 0
    # Once more, and it is no more in the drawing.
    nodes = notebook.evaluate("len(explorer.graph)")
    notebook.evaluate("explorer.graph.undo() is not None")
    assert notebook.evaluate("len(explorer.graph)") < nodes


def test_a_click_on_a_number_explains_it(notebook: Notebook, root: Locator) -> None:
    notebook.evaluate("explorer.select('0')")
    root.get_by_role("button", name="Number", exact=True).click()
    number = panel(root).get_by_role("button", name="at 0,0,1,2")
    number.focus()
    number.press("Enter")
    expect(panel(root).locator("pre")).to_contain_text("0[0, 0, 1, 2] (Conv2d) = Σ input · weight + bias")


def test_what_is_selected_in_the_drawing_is_selected_in_the_tree(notebook: Notebook, root: Locator) -> None:
    notebook.evaluate("explorer.select('3')")
    root.get_by_role("button", name="Show in the drawing").click()
    editor = root.locator("[data-testid='pnne-editor']")
    expect(editor.locator(".react-flow__node.selected [data-node='3'], [data-node='3'].selected")).to_be_visible(
        timeout=60_000
    )
    editor.locator("[data-node='4']").click()
    expect(panel(root).get_by_role("heading", name="4", exact=True)).to_be_visible()
    assert notebook.evaluate("explorer.selected") == "4"
    root.get_by_role("button", name="Show in the drawing").click()
    expect(editor).to_have_count(0)


def test_a_file_that_is_dropped_on_the_strip_is_the_example(notebook: Notebook, root: Locator) -> None:
    strip = root.locator(".pnne-strip")
    for name, said in (("row.csv", "row.csv has the shape"), ("zeros.csv", "Your own example")):
        text = "1,2" if name == "row.csv" else "0,0,0,0,0,0,0,0\\n" * 8
        files = strip.evaluate_handle(
            f"""() => {{ const data = new DataTransfer(); data.items.add(new File(["{text}"], "{name}")); return data; }}"""
        )
        for kind in ("dragover", "drop"):
            strip.dispatch_event(kind, {"dataTransfer": files})
        expect(strip.get_by_text(said)).to_be_visible()
    assert notebook.evaluate("explorer.example") == -1
    assert notebook.evaluate("float(explorer._alive().asked.examples.own.abs().sum())") == 0


CONTROLS = """root => {
    const found = [...root.querySelectorAll('button, input, select, [tabindex="0"]')]
        .filter(one => one.checkVisibility({visibilityProperty: true}) && !one.disabled);
    found.forEach((one, place) => { one.dataset.trial = place; });
    return found.map(one => one.outerHTML.slice(0, 120));
}"""
"""All that can be operated, which is numbered."""

FOCUSED = """root => {
    const one = document.activeElement, style = getComputedStyle(one);
    const seen = parseFloat(style.outlineWidth) > 0 && style.outlineStyle !== 'none' || style.boxShadow !== 'none';
    return [root.contains(one), Number(one.dataset.trial ?? -1), seen];
}"""

SIGNS = {"Layer": "zeros", "Units": "without it", "Why": "Red counts", "Number": "its formula", "Projection": "two directions",
         "Sequence": "no row of blocks"}  # fmt: skip


def walk(root: Locator) -> None:
    """Go by the tabulator from the first control to the last: all are reached, and each is seen to have the focus."""
    controls = root.evaluate(CONTROLS)
    root.locator("[data-trial='0']").focus()
    reached, unseen = set[int](), list[str]()
    for _ in range(len(controls) + 20):
        inside, place, seen = root.evaluate(FOCUSED)
        if not inside:
            break
        if place >= 0:
            reached.add(place)
            unseen += [] if seen or place == 0 else [controls[place]]  # a script has focused the first one
        root.page.keyboard.press("Tab")
    assert [controls[place] for place in range(len(controls)) if place not in reached] == []
    assert unseen == []


def test_every_control_of_all_tabs_is_reached_and_operated_by_keys(notebook: Notebook, root: Locator) -> None:
    keys = notebook.page.keyboard
    notebook.evaluate("explorer.select('1')")
    for tab, sign in SIGNS.items():
        root.get_by_role("button", name=tab, exact=True).first.focus()
        keys.press("Space")
        expect(panel(root).get_by_text(sign).first).to_be_visible()
        walk(root)
        assert violations(notebook.page, ".jp-OutputArea:has(.pnne-explorer)") == ""
        match tab:
            case "Units":
                panel(root).get_by_role("button", name="Switch off", exact=True).first.focus()
                keys.press("Enter")
                after = root.get_by_text("Answer with the changes")
                expect(after).to_be_visible()
                walk(root)
                root.locator(".pnne-what-if input[type=checkbox]").focus()
                keys.press("Space")
                expect(after).to_have_count(0)
                root.get_by_role("button", name="Remove all").focus()
                keys.press("Enter")
                notebook.wait_for("explorer._strip.what_if.rows == []")
            case "Why":
                panel(root).get_by_label("by", exact=True).focus()
                keys.press("ArrowDown")
                notebook.wait_for("explorer._access.settings['method'] == 'integrated-gradients'")
            case "Number":
                panel(root).locator("table button").nth(2).focus()
                keys.press("Enter")
                expect(panel(root).locator("pre")).to_contain_text("[0, 0, 0, 2]")
            case "Projection":
                panel(root).get_by_label("Colour by").focus()
                keys.press("ArrowDown")
                expect(panel(root).get_by_label("Colour by")).to_have_value("predicted class")
            case _:
                pass
    root.get_by_label("Example", exact=True).focus()
    keys.press("ArrowUp")
    notebook.wait_for("explorer.example == 1")
    root.get_by_label("Order by").focus()
    keys.press("ArrowDown")
    notebook.wait_for("explorer._strip._order.value == 'loss'")
    root.get_by_role("button", name="Keep", exact=True).focus()
    keys.press("Enter")
    card = notebook.output_area(2).locator(".pnne-card")
    expect(card).to_contain_text("explorer.ask('1', 'Sequence', example=")
    expect(card.locator("img").first).to_be_visible()
    assert violations(notebook.page, ".pnne-card") == ""


def test_a_slider_goes_back_through_the_checkpoints_by_keys(notebook: Notebook) -> None:
    for cell in (0, 3):
        notebook.run_cell(cell)
    live = notebook.output_area(3).locator("[data-testid='pnne-explorer']")
    slider = live.get_by_role("slider", name="Weights")
    for steps in (1, 2):
        slider.focus()
        notebook.page.keyboard.press("ArrowLeft")
        notebook.wait_for(f"live.checkpoint == sorted(engine.checkpoint_dir.glob('0*'))[-{steps}]")
    expect(live.locator(".widget-readout", has_text="epoch 1, step ")).to_be_visible()
    assert violations(notebook.page, ".jp-OutputArea:has(.noUi-handle) .pnne-explorer") == ""
    notebook.page.keyboard.press("End")
    notebook.wait_for("live.checkpoint is None")


def test_kept_cards_stay_in_a_saved_notebook_without_a_kernel(
    notebook: Notebook, root: Locator, lab_server: LabServer, browser: Browser
) -> None:
    notebook.evaluate("explorer.select('1')")
    for tab in ("Units", "Why", "Projection"):
        root.get_by_role("button", name=tab, exact=True).first.click()
        expect(panel(root).get_by_text(SIGNS[tab]).first).to_be_visible()
        root.get_by_role("button", name="Keep", exact=True).click()
    cards = notebook.output_area(2).locator(".pnne-card")
    expect(cards).to_have_count(3)
    notebook.page.evaluate("window.jupyterapp.commands.execute('docmanager:save')")
    path, saved = lab_server.directory / "ask.ipynb", lab_server.directory / "kept.ipynb"
    notebook.wait_until(lambda: path.read_text(encoding="utf-8").count("explorer.ask(") >= 3, "It is not saved.")
    shutil.copy(path, saved)
    with Notebook(lab_server, browser, saved.name, (1400, 1600)) as reopened:
        reopened.end_kernel()
        for theme in ("light", "dark"):
            reopened.set_theme(theme)
            cards = reopened.output_area(2).locator(".pnne-card")
            expect(cards).to_have_count(3)
            for card, tab in zip(cards.all(), ("Units", "Why", "Projection"), strict=True):
                expect(card).to_contain_text(SIGNS[tab])
                expect(card).to_contain_text(f"explorer.ask('1', '{tab}', example=0")
                card.scroll_into_view_if_needed()
                sizes = card.locator("img").evaluate_all("all => all.map(one => one.complete && one.naturalWidth)")
                assert sizes
                assert all(sizes)
                assert all(card.locator("img").evaluate_all("all => all.map(one => one.alt)"))
                reopened.screenshot(f"kept-{tab.lower()}-{theme}", card)
            assert violations(reopened.page, ".pnne-card") == ""


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_picture(notebook: Notebook, root: Locator, theme: Theme, baseline_errors: frozenset[str]) -> None:
    notebook.set_theme(theme)
    root.get_by_label("Order by").select_option("mistakes")
    expect(root.get_by_text("Answer, wrong")).to_be_visible()
    notebook.evaluate("explorer.select('1')")
    for tab, sign in (("Why", "Completeness gap"), ("Number", "its formula"), ("Units", "without it")):
        root.get_by_role("button", name=tab, exact=True).click()
        if tab == "Why":
            panel(root).get_by_label("by", exact=True).select_option("integrated-gradients")
        expect(panel(root).get_by_text(sign).first).to_be_visible()
        if tab == "Units":
            panel(root).get_by_role("button", name="Switch off", exact=True).first.click()
            expect(root.get_by_text("Answer with the changes")).to_be_visible()
            root.get_by_role("button", name="Over the data").click()
            expect(root.get_by_text("answers change")).to_be_visible()
        assert notebook.screenshot(f"ask-{tab.lower()}-{theme}", root).stat().st_size > 10_000
    small = root.evaluate(
        """root => [...root.querySelectorAll('*')].filter(element => element.childNodes.length
            && [...element.childNodes].some(node => node.nodeType === 3 && node.textContent.trim())
            && element.getClientRects().length && !(element instanceof SVGElement)
            && parseFloat(getComputedStyle(element).fontSize) < 11).map(element => element.outerHTML.slice(0, 90))"""
    )
    assert small == []
    # bqplot draws a figure once before the page has given it a size, where the machine is slow.
    told = {error for error in notebook.console_errors if "A negative value is not valid" not in error}
    assert told <= baseline_errors
