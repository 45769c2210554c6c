"""What a network computes in a ``with`` block, its nodes compute there: in the drawing, the source and the proof."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

import pnne_nb as pn
from pnne_nb.compiler.analysis.verify import compare

Contexts = dict[str, tuple[str, ...]]

OUTSIDE = torch.no_grad()


def inside(graph: pn.NodeGraph) -> Contexts:
    found: Any = {name: node.properties.get("inside") for name, node in graph.nodes.items()}
    return {name: names for name, names in found.items() if names}


def imported(net: nn.Module, x: Tensor) -> pn.NodeGraph:
    graph = pn.from_module(net, x)
    report = pn.verify(graph, net, x)
    assert report, str(report)
    assert report.opaque == {}
    return graph


class Mixed(nn.Module):
    """Casts, leaves that inside it, and counts without gradients: a decorated method does."""

    def __init__(self) -> None:
        super().__init__()
        self.fc, self.out = nn.Linear(6, 6), nn.Linear(6, 3)
        self.register_buffer("average", torch.zeros(6))
        self.average: Tensor

    @torch.no_grad()
    def count(self, x: Tensor) -> Tensor:
        mean = x.mean(0)
        self.average.mul_(0.9).add_(mean, alpha=0.1)
        return mean

    def forward(self, x: Tensor) -> Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            h = self.fc(x)
            h = F.relu(h) @ h.t()
            with torch.autocast("cpu", enabled=False):
                exact = h.float() @ x
        with torch.no_grad():
            scale = exact.abs().amax()
        scaled = exact / scale + self.count(x)
        return self.out(scaled)  # type: ignore[no-any-return]  # nn.Module says Any


MIXED = """        with torch.autocast("cpu", dtype=torch.bfloat16):
            h = self.fc(x)  # (4, 6) bfloat16
            h = F.relu(h) @ torch.t(h)  # (4, 4) bfloat16
        with (
            torch.autocast("cpu", dtype=torch.bfloat16),
            torch.autocast("cpu", enabled=False),
        ):
            exact = h.float() @ x  # (4, 6)
        with torch.no_grad():
            scale = torch.abs(exact)  # (4, 6)
            scale = torch.amax(scale)  # ()
"""


def test_the_source_has_the_blocks_and_the_element_types() -> None:
    graph = imported(Mixed(), torch.randn(4, 6))
    source = pn.to_source(graph)
    assert MIXED in source
    assert "with torch.no_grad():\n            mean = torch.mean(x, dim=0)" in source
    assert pn.to_source(pn.NodeGraph.from_json(graph.to_json())) == source


def test_shapes_have_the_element_types_of_what_runs() -> None:
    net, x = Mixed(), torch.randn(4, 6)
    graph = imported(net, x)
    specs = pn.infer_shapes(graph)
    seen: dict[str, str] = {}
    model: nn.Module = pn.compile(graph, reuse=net)
    model.get_submodule("fc").register_forward_hook(lambda *each: seen.update(fc=str(each[2].dtype)))
    model(x)
    assert f"torch.{specs['fc.output'].dtype}" == seen["fc"] == "torch.bfloat16"
    assert [specs[f"{name}.output"].dtype for name in ("matmul", "exact")] == ["bfloat16", "float32"]


class Norm(nn.Module):
    """Leaves whatever autocast there is where its input lies, as large models' norms do."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(6, 6)

    def forward(self, x: Tensor) -> Tensor:
        kind = x.device.type
        with torch.autocast(device_type=kind, enabled=False):
            x = x.float() @ self.fc.weight
        return x + torch.zeros(6, device=kind)


def test_what_shows_only_in_an_autocast_of_the_caller_is_kept() -> None:
    net, x = Norm(), torch.randn(4, 6)
    graph = imported(net, x)
    assert set(inside(graph).values()) == {("autocast cpu off", "autocast cuda off")}
    model = pn.compile(graph, reuse=net)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert all(check.equal for check in compare(net, model, (x,), {}))
        assert model(x).dtype == torch.float32


class Kinds(nn.Module):
    def __init__(self, block: Callable[[], AbstractContextManager[object]]) -> None:
        super().__init__()
        self.block = block
        self.fc = nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        with self.block():
            y: Tensor = self.fc(x)
        return x * y


class NoGrad(Kinds):
    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            y: Tensor = self.fc(x)
        return x * y


class Switched(Kinds):
    def forward(self, x: Tensor) -> Tensor:
        with torch.set_grad_enabled(self.training):
            y: Tensor = self.fc(x)
        return x * y


class Enabled(Kinds):
    @torch.enable_grad()
    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.fc(x)
        return x * y


class Decorated(Kinds):
    @torch.autocast("cpu", dtype=torch.bfloat16)  # type: ignore[untyped-decorator]  # torch does not say
    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.fc(x)
        return x * y


class Global(Kinds):
    def forward(self, x: Tensor) -> Tensor:
        with OUTSIDE:
            y: Tensor = self.fc(x)
        return x * y


class Inference(Kinds):
    @torch.inference_mode()
    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.fc(x)
        return x * y


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (NoGrad, {"fc": ("no_grad",)}),
        (Enabled, {"fc": ("enable_grad",), "mul": ("enable_grad",)}),
        (Decorated, {"fc": ("autocast cpu bfloat16",), "mul": ("autocast cpu bfloat16",)}),
        (Global, {"fc": ("no_grad",)}),
        (Inference, {"fc": ("inference_mode",), "mul": ("inference_mode",)}),
    ],
)
def test_every_kind_and_decorators(kind: type[Kinds], expected: Contexts) -> None:
    net, x = kind(nullcontext), torch.randn(2, 3)
    graph = imported(net, x)
    assert {name: names for name, names in inside(graph).items() if name in ("fc", "mul")} == expected


def test_a_context_that_the_module_keeps_shows_by_what_it_does() -> None:
    assert inside(imported(Kinds(torch.no_grad), torch.randn(2, 3)))["fc"] == ("no_grad",)


SWITCHED = """        if self.training:
            with torch.enable_grad():
                y = self.fc(x)  # (2, 3)
        else:
            with torch.no_grad():
                fc2 = self.fc(x)  # (2, 3)
        y = y if self.training else fc2  # (2, 3)
        return x * y  # (2, 3)
"""


def test_both_modes_keep_their_own() -> None:
    assert SWITCHED in pn.to_source(imported(Switched(nullcontext), torch.randn(2, 3)))


@pytest.mark.parametrize(
    ("block", "reason"),
    [
        (lambda: sdpa_kernel(SDPBackend.MATH), "choice of attention's kernels of its own"),
        (lambda: torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t), "tensors saved for the backward"),
        (lambda: torch.device("meta"), "mode for torch's functions of its own"),
    ],
)
def test_a_context_that_no_node_can_be_in_closes_the_module_with_the_reason(
    block: Callable[[], AbstractContextManager[object]], reason: str
) -> None:
    graph = pn.from_module(nn.Sequential(Kinds(block), nn.ReLU()), torch.randn(2, 3))
    origin: Any = graph["0"].origin
    assert reason in origin["reason"]


def drawn() -> pn.NodeGraph:
    graph = pn.NodeGraph("drawn")
    x = graph.add("Input", name="x", shape=("N", 3))
    graph.add("Linear", name="fc", in_features=3, out_features=3, inside=("no_grad",))
    for name in ("one", "two"):
        graph.add("exp", name=name)
        graph.connect("fc.output", f"{name}.input")
    graph.add("add", name="sum")
    graph.connect(x, "fc.input")
    graph.connect("one.output", "sum.input")
    graph.connect("two.output", "sum.other")
    graph.connect("sum.output", graph.add("Output", name="y"))
    return graph


def test_equal_nodes_in_different_contexts_stay_apart() -> None:
    graph, x = drawn(), torch.randn(2, 3)
    graph.set("one", inside=("autocast cpu bfloat16",))
    assert list(pn.transform(graph, [pn.passes.MergeEqualNodes()], (x,)).graph.nodes) == list(graph.nodes)
    graph.set("two", inside=("autocast cpu bfloat16",))
    assert len(pn.transform(graph, [pn.passes.MergeEqualNodes()], (x,)).graph.nodes) == len(graph.nodes) - 1


def test_a_normalisation_in_another_context_is_not_fused() -> None:
    graph = pn.NodeGraph("norm")
    graph.add("Input", name="x", shape=("N", 3))
    graph.add("Linear", name="fc", in_features=3, out_features=3, inside=("autocast cpu bfloat16",))
    graph.add("BatchNorm1d", name="norm", num_features=3)
    graph.add("Output", name="y")
    for source, target in (("x", "fc"), ("fc", "norm"), ("norm", "y")):
        graph.connect(source, target)
    result = pn.transform(graph, [pn.passes.FuseBatchNorm()], (torch.randn(2, 3),))
    assert "different contexts" in str(result.reports[0].skipped)


def test_constants_are_folded_as_their_context_has_them() -> None:
    graph = pn.NodeGraph("folded")
    graph.add("Input", name="x", shape=(3, 3))
    graph.add("ones", name="ones", size=(3, 3))
    graph.add("matmul", name="product", inside=("autocast cpu bfloat16",))
    graph.add("add", name="sum")
    graph.add("Output", name="y")
    for source, target in (
        ("ones.output", "product.input"), ("ones.output", "product.other"), ("x.output", "sum.input"),
        ("product.output", "sum.other"), ("sum.output", "y.input"),
    ):  # fmt: skip
        graph.connect(source, target)
    result = pn.transform(graph, [pn.passes.FoldConstants()], (torch.randn(3, 3),))
    assert result.graph["product"].properties["dtype"] == "bfloat16"


def test_a_drawn_node_can_be_put_there_and_moved_with_its_group() -> None:
    graph, x = drawn(), torch.randn(2, 3)
    before = pn.compile(graph)
    assert before(x).requires_grad is False
    graph.group(["fc", "one"], name="block")
    after = pn.compile(graph, reuse=before)
    assert torch.equal(before(x), after(x))
    assert after(x).requires_grad is False
    graph.set("block", inside=("autocast cpu bfloat16",))
    graph.ungroup("block")
    assert inside(graph) == {"fc": ("autocast cpu bfloat16", "no_grad"), "one": ("autocast cpu bfloat16",)}


def test_an_unknown_context_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(pn.GraphError, match="one of 'no_grad', 'enable_grad'"):
        drawn().set("one", inside=("nograd",))
