"""An imported module in a real JupyterLab: its drawing is there and can be edited while it is compared with the original."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from playwright.sync_api import expect

from tests.browser.pages import EditorPage

if TYPE_CHECKING:
    from tests.browser.conftest import OpenNotebook

SETUP = """
import torch, pnne_nb as pn
from pnne_nb.widgets.editor import live_proof

# The proof waits for a file: a page must have time to look.
from pathlib import Path
pieces = live_proof.UnprovedImport.go_on
def when_allowed(drawn, *, until_proved=False):
    return Path("prove").exists() and pieces(drawn, until_proved=until_proved)
live_proof.UnprovedImport.go_on = when_allowed

net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
editor = pn.GraphEditor(net, args=(torch.randn(2, 8),))
editor
"""


def test_badges_turn_when_the_proof_arrives(open_notebook: OpenNotebook, baseline_errors: frozenset[str]) -> None:
    notebook = open_notebook(SETUP, size=(1400, 1000))
    notebook.run_all()
    page = notebook.page
    editor = EditorPage(page, page.get_by_test_id("pnne-editor"))
    badges = editor.root.locator("[data-node] .pnne-origin")
    expect(badges).to_have_count(3)
    for badge in badges.all():
        expect(badge).to_have_accessible_name(re.compile("Being proved"))
    editor.node("1").click()
    expect(editor.root.locator(".pnne-origin-line")).to_contain_text("Being proved")
    page.keyboard.press("Delete")
    expect(badges).to_have_count(2)
    notebook.run("open('prove', 'w').close()")
    expect(badges.first).to_have_accessible_name(re.compile("gave the same as the original"))
    expect(badges.last).to_have_accessible_name(re.compile("changed since"))
    # The batch was free when they were compared.
    label = editor.root.locator("[data-edge='input.output->0.input'] .pnne-wire-label")
    expect(label).to_contain_text("N×8")
    expect(label.locator("title")).to_have_text("2×8 in the example")
    expect(editor.node("input")).to_contain_text("N×8")
    assert notebook.evaluate("[editor.unproved, [n.name for n in editor.graph.nodes.values()]]") == [
        "",
        ["input", "0", "2", "output"],
    ]
    assert set(notebook.console_errors) <= baseline_errors
