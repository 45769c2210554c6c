"""Properties and feedback in a real JupyterLab: what one types reaches the kernel, and what Python finds is shown."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from playwright.sync_api import expect

if TYPE_CHECKING:
    from tests.browser.workbench import Workbench

CONV = "placed(chain(), 'Conv2d', 'conv', 0.0, 180.0, out_channels=6, kernel_size=5)"
RESNET_18 = """
import torch
from torch import nn

class BasicBlock(nn.Module):
    def __init__(self, wide, out, stride):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(wide, out, 3, stride, 1, bias=False), nn.BatchNorm2d(out)
        self.conv2, self.bn2 = nn.Conv2d(out, out, 3, 1, 1, bias=False), nn.BatchNorm2d(out)
        self.relu = nn.ReLU(inplace=True)
        self.down = None if wide == out else nn.Conv2d(wide, out, 1, stride)

    def forward(self, x):
        y = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        return self.relu(y + (x if self.down is None else self.down(x)))

stages = [nn.Sequential(BasicBlock(max(4, out // 2), out, 2 if out > 4 else 1), BasicBlock(out, out, 1)) for out in (4, 8, 16, 32)]
stem = [nn.Conv2d(3, 4, 7, 2, 3), nn.ReLU()]
net = nn.Sequential(*stem, *stages, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10))
"""
FROM_PYTHON = "graph.set('linear1', out_features=16)"


def test_values_are_judged_while_one_types_and_stored_as_the_property_wants_them(workbench: Workbench) -> None:
    editor = workbench.open(CONV)
    editor.select("conv")
    reason = editor.root.locator(".pnne-reason")
    channels, size = editor.field("conv", "out_channels"), editor.field("conv", "kernel_size")
    for field, text, why in (
        (channels, "0", "It must be a whole number ≥ 1."),
        (size, "3, 5, 7", "a tuple of 2 values"),
    ):
        field.fill(text)
        expect(reason).to_contain_text(why)
        expect(field).to_have_attribute("aria-invalid", "true")
        field.press("Escape")
        expect(reason).to_have_count(0)
    assert workbench.properties("conv") == {"out_channels": 6, "kernel_size": 5}
    size.fill("3, 5")
    size.press("Enter")
    workbench.done("Set conv.kernel_size", editor)
    channels.press("ArrowUp")
    channels.press("Enter")
    workbench.done("Set conv.out_channels", editor)
    editor.field("conv", "padding_mode").select_option("reflect")
    workbench.done("Set conv.padding_mode", editor)
    editor.field("conv", "bias").uncheck()
    workbench.done("Set conv.bias", editor)
    assert workbench.properties("conv") == {
        "out_channels": 7, "kernel_size": (3, 5), "padding_mode": "reflect", "bias": False,
    }  # fmt: skip
    expect(editor.node("conv")).to_contain_text("no bias")
    editor.root.get_by_role("button", name="Reset kernel_size").click()
    workbench.done("Reset conv.kernel_size", editor)
    expect(editor.field("conv", "kernel_size")).to_have_value("")
    assert "kernel_size" not in workbench.properties("conv")
    docs = editor.root.get_by_role("link", name="docs")
    expect(docs).to_have_attribute("href", re.compile(r"docs\.pytorch\.org/.*Conv2d"))
    editor.select("x")
    editor.field("x", "dtype").select_option("float16")
    workbench.done("Set x.dtype", editor)
    assert workbench.properties("x")["dtype"] == "float16"
    expect(editor.field("x", "dtype")).to_have_value("float16")


def test_several_nodes_are_set_at_once(workbench: Workbench) -> None:
    editor = workbench.open("chain('Linear', 'Linear', out_features=8)")
    workbench.execute(FROM_PYTHON)
    editor.pick("linear1", "linear2")
    field = editor.field("linear1", "out_features")
    expect(field).to_have_attribute("placeholder", "mixed")
    field.fill("32")
    field.press("Enter")
    workbench.done("Set 2 nodes.out_features", editor)
    assert [workbench.properties(name) for name in ("linear1", "linear2")] == [{"out_features": 32}] * 2
    for name in ("linear1", "linear2"):
        expect(editor.node(name)).to_contain_text("→32")


def test_the_17_relus_of_a_resnet18_become_gelu_in_three_actions_and_back_in_one(workbench: Workbench) -> None:
    workbench.execute(RESNET_18)
    editor = workbench.open("pn.from_module(net, args=(torch.randn(2, 3, 32, 32),))", "height=700")
    count = "[len(graph.find(type=type)) for type in ('ReLU', 'GELU')]"
    assert workbench.value(count) == [17, 0]
    editor.canvas.focus()
    editor.press("Control+f")
    editor.dialog.get_by_role("searchbox").fill("relu")
    workbench.notebook.screenshot("find-all", editor.root)
    editor.dialog.get_by_role("button", name="Select all 17").click()
    panel = editor.root.get_by_role("complementary", name="Properties")
    expect(panel).to_contain_text("17 nodes selected")
    workbench.notebook.wait_for("len(editor.selection) == 17")
    workbench.notebook.screenshot("select-all", editor.root)
    editor.press("t")
    editor.quick("gelu")  # the two blocks of the first stage are one definition
    workbench.done("Change 15 nodes to GELU", editor)
    assert workbench.value(count) == [0, 17]
    editor.press("b")
    workbench.done("Set 15 nodes.ablate", editor)
    editor.press("Delete")
    expect(editor.toast).to_contain_text("Nodes inside blocks are selected too")
    editor.press("Control+z", "Control+z")
    workbench.notebook.wait_for("graph.undo_label != 'Set 15 nodes.ablate'")
    assert workbench.value(count) == [17, 0]
    editor.press("Escape")
    editor.node("1").click()
    editor.press("Shift+t", "Shift+t")
    expect(panel).to_contain_text("17 nodes selected")


def test_shapes_costs_and_problems_follow_the_edits(workbench: Workbench) -> None:
    editor = workbench.open("chain('Linear', 'Linear', 'Output', out_features=8)")
    expect(editor.edge("linear2.output", "output1.input")).to_contain_text("N×8")
    costs = editor.root.get_by_role("region", name="Costs of the model")
    expect(costs).to_contain_text("144 parameters, 576 B")
    expect(costs).to_contain_text("128 mult-adds")
    workbench.execute(FROM_PYTHON)
    expect(editor.edge("linear1.output", "linear2.input")).to_contain_text("N×16")
    expect(costs).to_contain_text("280 parameters")
    editor.select("linear2")
    expect(editor.root.get_by_label("Costs", exact=True)).to_contain_text("Parameters136")
    editor.field("linear2", "in_features").fill("5")
    editor.field("linear2", "in_features").press("Enter")
    problem = editor.node("linear2").get_by_role("img", name=re.compile("in_features is 5"))
    expect(problem).to_be_visible()
    editor.canvas.focus()
    editor.press("Escape")
    expect(
        editor.root.get_by_role("complementary", name="Properties").get_by_role("list", name="Problems")
    ).to_be_visible()
    workbench.notebook.screenshot("lab-problem-at-rest", editor.root)
    editor.root.get_by_role("button", name="1 problem").click()
    editor.root.get_by_role("list", name="Problems").get_by_role("button", name=re.compile("^linear2")).click()
    expect(editor.root.get_by_label("Name", exact=True)).to_have_value("linear2")
    workbench.notebook.screenshot("lab-problem", editor.root)
    panel = editor.root.get_by_role("complementary", name="Properties")
    panel.get_by_role("button", name="Set in_features to 16").click()
    workbench.done("Set in_features to 16", editor)
    assert workbench.properties("linear2")["in_features"] == 16
    expect(problem).to_have_count(0)
    expect(editor.root.get_by_role("button", name="No problems")).to_be_disabled()
