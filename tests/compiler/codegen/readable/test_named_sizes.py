"""Named sizes in source: arguments of constructors."""

from __future__ import annotations

from typing import Any

import torch

import pnne_nb as pn


def classes(graph: pn.NodeGraph) -> tuple[str, dict[str, Any]]:
    text = pn.to_source(graph)
    names: dict[str, Any] = {}
    exec(text, names)
    return text, names


def test_a_size_is_an_argument_with_its_default_and_what_follows_is_calculated() -> None:
    graph = pn.NodeGraph("net")
    graph.sizes["hidden"], graph.sizes["inner"] = 64, "4*hidden"
    graph.sizes["unused"] = 3
    graph.add("Input", name="x", shape=("N", 1, 28, 28))
    conv = ("Conv2d", {"out_channels": "hidden//4", "kernel_size": 5})
    graph.chain(conv, "Flatten", ("Linear", {"out_features": "inner"}), ("Linear", {"out_features": 10}), after="x")
    graph.chain("Output")
    text, names = classes(graph)
    assert "def __init__(self, hidden: int = 64) -> None:\n        inner = 4*hidden\n" in text
    assert "nn.Conv2d(1, hidden//4, 5)" in text
    assert "nn.Linear(576*(hidden//4), inner)" in text, "inferred sizes follow"
    assert "nn.Linear(inner, 10)" in text
    x = torch.randn(2, 1, 28, 28)
    for hidden in (64, 32):
        graph.sizes["hidden"] = hidden
        model = pn.compile(graph)
        shown = names["Net"](hidden=hidden)
        shown.load_state_dict(model.state_dict())
        assert torch.equal(shown(x), model(x))


def test_blocks_take_sizes_and_forward_reads_them_from_the_module() -> None:
    graph = pn.NodeGraph("net")
    graph.sizes["hidden"] = 64
    graph.add("Input", name="x", shape=("N", 10))
    graph.chain(
        ("Linear", {"name": "hidden", "out_features": "hidden"}),
        ("view", {"size": (-1, 2, "hidden//2")}),
        ("mul", {"other": "hidden - 60"}),
        after="x",
    )
    graph.group([name for name in graph.nodes if name != "x"], name="block")
    graph.chain(("Linear", {"name": "last", "out_features": "hidden"}), "Output", after="block")
    text, names = classes(graph)
    assert "self.block = Block(hidden=hidden)" in text
    assert "self.hidden2 = hidden" in text, "a layer has that name"
    assert ".view(-1, 2, self.hidden2//2)" in text
    assert "* (self.hidden2-60)" in text
    x = torch.randn(3, 10)
    shown, model = names["Net"](), pn.compile(graph)
    shown.load_state_dict(model.state_dict())
    assert torch.equal(shown(x), model(x))
    assert names["Net"](hidden=32)(x).shape == (3, 2, 32)


def test_blocks_that_differ_in_sizes_stay_runnable() -> None:
    graph = pn.NodeGraph("net")
    graph.sizes["width"] = 8
    graph.add("Input", name="x", shape=("N", 8))
    before = "x"
    for size in ("width", "2*width", "width"):
        graph.chain(("Linear", {"name": "fc", "out_features": size}), ("ReLU", {"name": "act"}), after=before)
        before = str(graph.group(["fc", "act"], name=f"block{len(graph.nodes)}"))
    graph.chain("Output", after=before)
    text, names = classes(graph)
    assert "def __init__(self, width: int = 8) -> None:" in text
    shown, model, x = names["Net"](), pn.compile(graph), torch.randn(3, 8)
    shown.load_state_dict(model.state_dict())
    assert torch.equal(shown(x), model(x))
    assert names["Net"](width=5)(torch.randn(3, 8)).shape == (3, 5)
