"""The module explorer in a real JupyterLab: it shows the structure, a click looks inside, and both themes read well."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, expect

from tests.axe import violations
from tests.browser.jupyter import LabServer, Notebook, Theme, write_notebook

SETUP = """
import torch
from torch import nn
import pnne_nb as pn
from sklearn.datasets import load_digits

images, digits = load_digits(return_X_y=True)
x = torch.tensor(images[:16], dtype=torch.float32).reshape(-1, 1, 8, 8) / 16
torch.manual_seed(0)
class Block(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.conv, self.norm, self.relu = nn.Conv2d(c, c, 3, padding=1), nn.BatchNorm2d(c), nn.ReLU()
    def forward(self, x):
        return x + self.relu(self.norm(self.conv(x)))
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.block1, self.block2 = nn.Conv2d(1, 8, 3, padding=1), Block(8), Block(8)
        self.patches = nn.Flatten(2)
        self.attend = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        self.head = nn.Linear(8, 10)
    def forward(self, x):
        x = self.patches(self.block2(self.block1(self.stem(x)))).transpose(1, 2)
        return self.head(self.attend(x).mean(1))
net = Net()
"""
SHOW = """
explorer = pn.ModuleExplorer(net, args=x, target=torch.tensor(digits[:16]), loss_fn=nn.CrossEntropyLoss())
explorer
"""


WORDS = """
class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.token, self.place = nn.Embedding(12, 16), nn.Embedding(32, 16)
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(16, 4, 32, batch_first=True, norm_first=True) for _ in range(3)
        )
        self.head = nn.Linear(16, 12)
    def forward(self, ids):
        h = self.token(ids) + self.place(torch.arange(ids.shape[1]))
        for block in self.blocks:
            h = block(h, src_mask=nn.Transformer.generate_square_subsequent_mask(ids.shape[1]))
        return self.head(h)
texts = "the cat sat on a mat and dog ran far away .".split()
ids = torch.randint(0, 12, (30, 8), generator=torch.Generator().manual_seed(0))
reader = pn.ModuleExplorer(Words(), ids, tokenizer=texts)
reader.select("blocks.0")
reader
"""
POINTS = """
points = pn.ModuleExplorer(net, data=x, target=torch.tensor(digits[:16]))
points.select("attend")
points
"""


@pytest.fixture(scope="module")
def notebook(lab_server: LabServer, browser: Browser) -> Iterator[Notebook]:
    """One notebook for all of these tests: its cells are run again for each."""
    write_notebook(lab_server.directory / "explorer.ipynb", [SETUP, SHOW, WORDS, POINTS])
    with Notebook(lab_server, browser, "explorer.ipynb") as notebook:
        notebook.collapse_sidebar()
        yield notebook


@pytest.fixture
def shown(notebook: Notebook) -> tuple[Notebook, Locator]:
    for cell in (0, 1):
        notebook.run_cell(cell)
    root = notebook.output_area(1).locator("[data-testid='pnne-explorer']")
    root.locator("canvas").first.wait_for()
    return notebook, root


def cytoscape(root: Locator, body: str, argument: object = None) -> Any:
    """Evaluate `body`, in which `cy` is the graph that the canvas paints."""
    return root.evaluate(
        f"""(root, argument) => {{
            const holder = [...root.querySelectorAll('*')].find(element => element._cyreg?.cy);
            if (!holder) return null;
            const cy = holder._cyreg.cy; {body} }}""",
        argument,
    )


def click(notebook: Notebook, root: Locator, path: str) -> None:
    """Click a box of the graph with the mouse."""
    notebook.page.wait_for_function(
        """path => [...document.querySelectorAll('.pnne-explorer *')]
            .some(element => element._cyreg?.cy?.nodes().some(node => node.data('key') === path))""",
        arg=path,
    )
    # The strip is above it, and a mouse reaches what is in view.
    root.locator(".pnne-explorer-graph").evaluate("graph => graph.scrollIntoView({block: 'end'})")
    # The graph is laid out, and then fitted into its place.
    frames: list[list[float]] = []

    def stands_still() -> bool:
        frames.append(place(root, path))
        return len(frames) >= 3 and frames[-1] == frames[-2] == frames[-3]

    notebook.wait_until(stands_still, f"{path} does not stand still.")
    notebook.page.mouse.click(*frames[-1])


def place(root: Locator, path: str) -> list[float]:
    """Where on the page the box of a layer is: left and right of the middle of its upper edge."""
    found: list[float] = cytoscape(
        root,
        """const node = cy.nodes().filter(node => node.data('key') === argument)[0];
           const box = node.renderedBoundingBox({includeLabels: false}); const frame = cy.container().getBoundingClientRect();
           return [frame.x + (box.x1 + box.x2) / 2, frame.y + box.y1 + Math.min(8, (box.y2 - box.y1) / 2)];""",
        path,
    )
    return found


def settle(notebook: Notebook, root: Locator) -> None:
    """Wait until the plots are drawn the same for half a second: bqplot's own transition is over then."""
    plots = root.locator(".bqplot").first.element_handle()
    notebook.page.wait_for_function(
        """plots => {
            const drawn = plots.innerHTML;
            const before = plots.lastDrawn;
            if (before?.drawn !== drawn) plots.lastDrawn = {drawn, since: performance.now()};
            return before?.drawn === drawn && performance.now() - before.since >= 500;
        }""",
        arg=plots,
    )


def test_a_click_looks_inside(shown: tuple[Notebook, Locator]) -> None:
    notebook, root = shown
    click(notebook, root, "stem")
    expect(root.get_by_role("heading", name="stem")).to_be_visible()
    notebook.wait_for("explorer.selected == 'stem'")
    expect(root.locator(".pnne-explorer-panel figure.pnne-picture img")).to_have_count(2)
    expect(root.locator(".bqplot path.line").first).to_be_attached()
    notebook.wait_for("sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in net.modules()) == 0")


def test_a_second_click_opens_and_closes(shown: tuple[Notebook, Locator]) -> None:
    notebook, root = shown
    before = notebook.evaluate("'attend.norm1' in explorer.shown")
    click(notebook, root, "attend")
    notebook.wait_for("explorer.selected == 'attend'")
    click(notebook, root, "attend")
    notebook.wait_for(f"('attend.norm1' in explorer.shown) != {before}")
    expect(root.locator("canvas").first).to_be_visible()


def test_clicks_are_answered_while_a_cell_is_busy(shown: tuple[Notebook, Locator]) -> None:
    notebook, root = shown
    with notebook.busy_cell():
        click(notebook, root, "stem")
        expect(root.get_by_role("heading", name="stem")).to_be_visible()
        expect(root.get_by_text("A cell is running and may use the model")).to_be_visible()
        root.get_by_placeholder("Search").fill("self_attn")
        root.locator("select[size] option", has_text="attend.self_attn  (").first.wait_for(state="attached")
    expect(root.locator(".pnne-explorer-panel figure.pnne-picture img")).to_have_count(2)


def test_keys_walk_through_the_layers(shown: tuple[Notebook, Locator]) -> None:
    notebook, root = shown
    graph = root.get_by_role("application", name="Layers")
    graph.focus()
    cells = notebook.page.locator(".jp-Notebook .jp-Cell").count()
    graph.press("ArrowDown")
    expect(root.get_by_role("heading", name="stem")).to_be_visible()
    expect(root.locator(".pnne-unseen")).to_have_text(re.compile("^stem, Conv2d, 1 of "))
    graph.press("x")
    notebook.evaluate("explorer.select('attend')")
    before = notebook.evaluate("'attend.norm1' in explorer.shown")
    graph.press("Enter")
    notebook.wait_for(f"('attend.norm1' in explorer.shown) != {before}")
    graph.press("/")
    expect(root.get_by_placeholder("Search")).to_be_focused()
    assert notebook.page.locator(".jp-Notebook .jp-Cell").count() == cells, "no key reached the notebook"


def test_search_goes_to_a_layer(shown: tuple[Notebook, Locator]) -> None:
    _, root = shown
    root.get_by_placeholder("Search").fill("self_attn")
    root.locator("select[size] option", has_text="attend.self_attn  (").first.wait_for(state="attached")
    # By its value: whether spaces that do not break match those of a label depends on the version of Playwright.
    option = root.locator("select[size] option", has_text="(MultiheadAttention)")
    root.locator("select[size]").select_option(value=option.evaluate("option => option.value"))
    expect(root.get_by_role("heading", name="attend.self_attn")).to_be_visible()
    expect(root.locator("figcaption", has_text="Attention by head")).to_be_visible()


def test_running_the_cell_again_leaves_no_widgets(shown: tuple[Notebook, Locator]) -> None:
    notebook, _ = shown
    notebook.run_cell(1)
    widgets = notebook.evaluate("len(__import__('ipywidgets').widgets.widget._instances)")
    for _ in range(3):
        notebook.run_cell(1)
    assert notebook.evaluate("len(__import__('ipywidgets').widgets.widget._instances)") == widgets


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_picture(shown: tuple[Notebook, Locator], theme: Theme, baseline_errors: frozenset[str]) -> None:
    notebook, root = shown
    notebook.set_theme(theme)
    notebook.wait_for(f"explorer._page.theme == {theme!r}")
    click(notebook, root, "stem")
    expect(root.get_by_role("heading", name="stem")).to_be_visible()
    root.locator(".bqplot path.line").first.wait_for(state="attached")
    settle(notebook, root)
    assert notebook.screenshot(f"explorer-{theme}", root).stat().st_size > 10_000

    def ink_fits() -> bool:
        return bool((cytoscape(root, "return cy.nodes()[0].style('color');") == "rgb(31,35,40)") == (theme == "light"))

    notebook.wait_until(ink_fits, "The boxes have the ink of the other theme.")
    assert set(notebook.console_errors) <= baseline_errors


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_sequence_and_a_projection(notebook: Notebook, theme: Theme) -> None:
    """Heads with their tokens, what each block would say, a text that goes on; points that open their example."""
    notebook.set_theme(theme)
    notebook.run_cell(0)
    notebook.run_cell(2)
    reads = notebook.output_area(2).locator("[data-testid='pnne-explorer']")
    reads.get_by_role("button", name="Sequence", exact=True).click()
    expect(reads.locator("table.pnne-head")).to_be_visible()
    expect(reads.get_by_text("What it would say if it stopped after each block")).to_be_visible()
    reads.get_by_role("button", name="Go on", exact=True).click()
    expect(reads.get_by_text("Step by step")).to_be_visible()
    notebook.screenshot(f"explorer-sequence-{theme}", reads)
    notebook.run_cell(3)
    plane = notebook.output_area(3).locator("[data-testid='pnne-explorer']")
    plane.get_by_role("button", name="Projection", exact=True).click()
    dots = plane.locator(".bqplot .dot")
    expect(dots).to_have_count(16)
    dots.nth(5).click(force=True)
    notebook.wait_for("points.example == 5")
    notebook.screenshot(f"explorer-projection-{theme}", plane)
    assert violations(notebook.page, ".jp-OutputArea:has(.pnne-head) .pnne-explorer") == ""
    assert violations(notebook.page, ".jp-OutputArea:has(.dot) .pnne-explorer") == ""
