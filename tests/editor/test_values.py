"""What is written on cards instead of being drawn, templates, and nodes that are left out."""

from __future__ import annotations

import re

import pytest
import torch
from playwright.sync_api import expect
from torch import nn

import pnne_nb as pn
from pnne_nb.graph.document import NodeGraph
from pnne_nb.graph.templates import gpt_block
from tests.editor.conftest import OpenEditor
from tests.editor.page import EditorPage


def attention() -> NodeGraph:
    graph = gpt_block()
    graph.arrange()
    return graph


@pytest.fixture
def graph() -> NodeGraph:
    return attention()


def test_parts_are_outputs_and_steps_are_one_card(editor: EditorPage) -> None:
    expect(editor.node("q")).to_have_count(0)
    expect(editor.page.locator('[data-port="q.output"]')).to_have_count(1)
    steps = editor.node("q_heads")
    expect(steps).to_contain_text("unflatten dim -1")
    expect(steps).to_contain_text("transpose 1 · 2")
    expect(editor.node("q_first")).to_have_count(0)
    expect(editor.page.locator(".pnne-card")).to_have_count(17)


def test_the_switch_draws_all_of_it_and_changes_nothing(editor: EditorPage) -> None:
    version = editor.graph.version
    editor.page.get_by_role("button", name="Values", exact=True).click()
    for name in ("q", "k", "v", "q_first"):
        expect(editor.node(name)).to_have_count(1)
    assert editor.graph.version == version
    editor.page.get_by_role("button", name="Values", exact=True).click()
    expect(editor.node("q")).to_have_count(0)


class Last(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.fc = nn.LSTM(8, 16, batch_first=True), nn.Linear(16, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        states, _ = self.lstm(x)
        return self.fc(states)  # type: ignore[no-any-return]  # torch types the call of a module as Any


def test_outputs_that_imported_code_does_not_use_are_drawn_by_the_switch_alone(open_editor: OpenEditor) -> None:
    graph = pn.from_module(Last(), args=(torch.zeros(2, 5, 8),))
    assert "h_n" not in graph.to_svg()
    editor = open_editor(graph)
    expect(editor.port("lstm.output")).to_be_attached()
    expect(editor.port("lstm.h_n")).to_have_count(0)
    editor.page.get_by_role("button", name="Values", exact=True).click()
    expect(editor.port("lstm.h_n")).to_be_attached()
    graph.disconnect("lstm.output", "fc.input")
    assert "h_n" in graph.to_svg(), "to be connected"


class First(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.block, self.head, self.other = nn.Linear(8, 16), nn.Linear(16, 3), nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.head(self.block(x)[:, 0]), self.other(x)


def test_a_part_of_a_result_is_the_label_of_its_edge_which_selects_it(open_editor: OpenEditor) -> None:
    graph = pn.from_module(First(), args=(torch.zeros(2, 5, 8),))
    assert ">block[:, 0]<" in graph.to_svg()
    editor = open_editor(graph)
    version = graph.version
    expect(editor.node("getitem")).to_have_count(0)
    edge = editor.edge("getitem.output", "head.input")
    label = edge.locator(".pnne-wire-label")
    expect(label).to_have_text(re.compile(r"^block\[:, 0\] · N×"))
    label.click(position={"x": 8, "y": 6})
    expect(editor.root.get_by_role("complementary", name="Properties")).to_contain_text("getitem")
    expect(edge).to_have_class(re.compile("pnne-chosen"))
    assert graph.version == version
    edge.locator("path").first.click(force=True)
    anchor = editor.root.locator(".react-flow__edge.selected .react-flow__edgeupdater-target")
    editor.drag(anchor, editor.port("other.input"))
    editor.settle()
    assert graph["getitem"].properties["index"] == (slice(None), 0)
    assert [each.target for each in graph.edges if each.source == "getitem.output"] == ["other.input"]
    graph.undo()
    assert "[:, 0]" in pn.to_source(graph)


def test_a_chain_is_deleted_as_one_and_comes_back_with_one_undo(editor: EditorPage) -> None:
    editor.node("q_heads").click()
    editor.page.keyboard.press("Delete")
    expect(editor.node("q_heads")).to_have_count(0)
    assert "q_first" not in editor.graph
    assert "q" in editor.graph, "it is an output of chunk, which stays"
    editor.page.keyboard.press("Control+z")
    expect(editor.node("q_heads")).to_have_count(1)
    assert "q_first" in editor.graph


def test_x_draws_the_steps_one_by_one(editor: EditorPage) -> None:
    editor.node("q_heads").click()
    editor.page.keyboard.press("x")
    expect(editor.node("q_first")).to_have_count(1)
    editor.page.keyboard.press("x")
    expect(editor.node("q_first")).to_have_count(0)


def test_an_empty_graph_offers_templates_and_files_to_begin_with(open_editor: OpenEditor) -> None:
    editor = open_editor(NodeGraph("new"))
    starts = editor.root.locator(".pnne-starts")
    with editor.page.expect_file_chooser():
        starts.get_by_role("button", name="A graph file").click()
    starts.get_by_role("button", name="LeNet").click()
    expect(editor.node("conv1")).to_have_count(1)
    expect(starts).to_have_count(0)
    editor.settle()
    assert len(editor.graph) == 14
    assert editor.graph.undo_label == "Add LeNet"


def test_a_template_is_drawn_in_an_empty_graph_and_is_a_block_beside_others(open_editor: OpenEditor) -> None:
    editor = open_editor(NodeGraph("new"))
    editor.page.locator('[data-type="template:LeNet"]').click()
    expect(editor.node("conv1")).to_have_count(1)
    editor.page.keyboard.press("Escape")
    assert len(editor.graph) == 14
    editor.page.get_by_role("searchbox").fill("GPT")
    editor.page.locator('[data-type="template:GPT_block"]').click()
    expect(editor.node("gpt_block1")).to_have_count(1)
    assert editor.graph["gpt_block1"].type == "Subgraph"
    editor.graph.undo()
    editor.graph.undo()
    assert len(editor.graph) == 0, "each was one edit"


def test_b_leaves_a_node_out_and_lets_it_run_again(editor: EditorPage) -> None:
    editor.node("gelu").click()
    editor.page.keyboard.press("b")
    expect(editor.node("gelu")).to_contain_text("ablate bypass")
    assert editor.graph["gelu"].properties["ablate"] == "bypass"
    editor.page.keyboard.press("Shift+B")
    expect(editor.node("gelu")).to_contain_text("ablate zeros")
    editor.page.keyboard.press("Shift+B")
    expect(editor.node("gelu")).not_to_contain_text("ablate")
    assert "ablate" not in editor.graph["gelu"].properties
