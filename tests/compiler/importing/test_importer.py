"""Import: equal to the original, hierarchy kept, nothing silently wrong."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

import pnne_nb as pn
from pnne_nb.compiler.analysis.nested_values import difference
from pnne_nb.process.random_state import private_random_state
from tests.compiler.importing import nets


def tokens(*shape: int) -> Tensor:
    return torch.randint(7, shape)


MODELS: dict[str, tuple[Callable[[], nn.Module], tuple[Any, ...], tuple[Any, ...]]] = {
    "residual": (nets.ResNet, (torch.randn(2, 3, 8, 8),), (torch.randn(3, 3, 12, 10),)),
    "dense": (nets.Dense, (torch.randn(2, 3, 5, 5),), (torch.randn(1, 3, 7, 6),)),
    "inception": (nets.Inception, (torch.randn(2, 3, 6, 6),), (torch.randn(3, 3, 4, 8),)),
    "gpt": (nets.GPT, (tokens(2, 5),), (tokens(3, 4),)),
    "gpt with targets": (nets.GPT, (tokens(2, 5), tokens(2, 5)), (tokens(3, 6), tokens(3, 6))),
    "recurrent": (nets.Classifier, (tokens(2, 5),), (tokens(3, 2),)),
    "attention": (nets.SelfAttention, (torch.randn(2, 3, 8),), (torch.randn(1, 4, 8),)),
    "attention with mask": (
        nets.SelfAttention,
        (torch.randn(2, 3, 8), torch.zeros(3, 3)),
        (torch.randn(1, 2, 8), torch.zeros(2, 2)),
    ),
    "shared": (nets.Shared, (torch.randn(3, 4),), (torch.randn(1, 4),)),
    "tied": (nets.Tied, (tokens(2, 3),), (tokens(4),)),
    "tensors": (nets.Tensors, (torch.randn(2, 3),), (torch.randn(5, 3),)),
    "arithmetic": (nets.Arithmetic, (torch.randn(2, 4, 4),), (torch.randn(3, 6, 4),)),
    "one layer": (lambda: nn.Linear(3, 2), (torch.randn(2, 3),), (torch.randn(4, 3),)),
    "transformer": (
        lambda: nn.Sequential(nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2)),
        (torch.randn(2, 3, 8),),
        (torch.randn(1, 5, 8),),
    ),
    "branching": (nets.AroundBranching, (torch.randn(2, 4),), (torch.randn(3, 4),)),
}


def run(module: nn.Module, args: tuple[Any, ...]) -> Any:
    with private_random_state():
        return module(*args)


@pytest.mark.parametrize("name", MODELS)
def test_the_round_trip_is_equal_bit_for_bit(name: str) -> None:
    make, args, others = MODELS[name]
    net = make()
    before = copy.deepcopy(net.state_dict())
    graph = pn.from_module(net, args)
    assert difference(before, net.state_dict()) == ""
    read = pn.NodeGraph.from_json(graph.to_json())
    assert read == graph
    assert [node.origin for node in read.nodes.values()] == [node.origin for node in graph.nodes.values()]
    report = pn.verify(read, net, args)
    assert report, str(report)
    model = pn.compile(read, reuse=net)
    assert list(model.state_dict()) == list(net.state_dict())
    for mode in (True, False):
        assert difference(run(net.train(mode), others), run(model.train(mode), others)) == ""


@pytest.mark.parametrize("name", [name for name in MODELS if name not in ("branching", "shared", "tensors")])
def test_nothing_of_these_is_opaque(name: str) -> None:
    make, args, _ = MODELS[name]
    net = make()
    graph = pn.from_module(net, args)
    assert pn.verify(graph, net, args).opaque == {}
    assert {node.origin.proof for node in graph.nodes.values() if node.origin is not None} == {"equal"}


def test_the_hierarchy_is_kept_and_equal_blocks_share_a_definition() -> None:
    graph = pn.from_module(nets.ResNet(), (torch.randn(2, 3, 8, 8),))
    assert graph["layer1.0.conv1"].type == "Conv2d"
    assert graph["layer1.0.conv1"].properties["kernel_size"] == 3
    assert graph["layer1.0"].definition == graph["layer1.1"].definition
    assert graph["layer2.0"].definition != graph["layer2.1"].definition
    assert graph["layer2.0.downsample.1"].type == "BatchNorm2d"


def test_what_is_edited_is_not_said_to_be_proved() -> None:
    net, args = nets.ResNet(), (torch.randn(2, 3, 8, 8),)
    graph = pn.from_module(net, args)
    graph.set("layer2.0.conv1", padding_mode="circular")
    proofs = {name: node.origin.proof for name, node in graph.nodes.items() if node.origin is not None}
    assert [name for name, proof in proofs.items() if proof != "equal"] == ["layer2"]
    assert "edited" in repr(graph["layer2.0.conv1"].origin)
    assert not pn.verify(graph, net, args)
    graph.undo()
    assert "edited" not in graph.to_json()
    assert pn.verify(graph, net, args)


def test_values_of_plain_tensors_are_in_the_document() -> None:
    net = nets.Tensors()
    graph = pn.from_module(net, (torch.randn(2, 3),))
    assert graph["plain_values"].properties["value"] == (1.0, 2.0, 3.0)
    assert graph["scales.1"].type == "Parameter"
    assert "torch.as_tensor((1.0, 2.0, 3.0), dtype=torch.float32)" in pn.to_source(graph)


def test_what_is_changed_in_place_stays_so() -> None:
    graph = pn.from_module(nets.ResNet(), (torch.randn(2, 3, 8, 8),))
    assert graph["layer1.0.add_"].type == "add_"


def test_what_branches_on_data_is_the_only_opaque_node() -> None:
    net = nets.AroundBranching()
    graph = pn.from_module(net, (torch.randn(2, 4),))
    assert [node.name for node in graph.nodes.values() if node.type == "Module"] == ["branch"]
    origin = graph["branch"].origin
    assert origin is not None
    assert origin.proof == "opaque"
    assert "depends on the values of its inputs" in origin.reason
    with pytest.raises(pn.CompileError, match="its module cannot be built from the graph"):
        pn.compile(graph, reuse=None)


def test_a_module_that_cannot_be_drawn_at_all_is_one_opaque_node() -> None:
    net = nets.Branching()
    x = torch.randn(2, 4)
    graph = pn.from_module(net, (x,))
    assert [node.type for node in graph.nodes.values()] == ["Input", "Module", "Output"]
    assert torch.equal(pn.compile(graph, reuse=net)(x), net(x))
    assert pn.verify(graph, net, x)


def hooked() -> nn.Module:
    inner = nn.Linear(4, 4)
    inner.register_forward_hook(lambda _module, _args, result: result * 2)
    return inner


class Recursive(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x: Tensor, depth: int = 2) -> Tensor:
        out: Tensor = self.linear(x) if depth == 0 else self(x, depth - 1)
        return out


class Renamed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.add_module("class", nn.Linear(4, 4))

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = getattr(self, "class")(x)
        return out


class Heads(nn.Module):
    """Names that no node can have, in a dictionary that is called nowhere as a whole."""

    def __init__(self) -> None:
        super().__init__()
        self.parts = nn.ModuleDict({"class": nn.Linear(4, 4), "for": nn.ModuleDict({"if": nn.Linear(4, 4)})})

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.parts["for"]["if"](self.parts["class"](x))  # type: ignore[index]  # a dictionary
        return out


class Custom(nn.Linear):
    def forward(self, input: Tensor) -> Tensor:
        return super().forward(input).sort()[0] if self.training else super().forward(input)


class Averaging(nn.Module):
    """A buffer that is assigned anew: to whoever reads it, the same as a change in place."""

    count: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        self.count = self.count + 1
        return x * self.count


class Counting(nn.Module):
    calls = 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return x * 2


def replaced() -> nn.Module:
    inner = nn.Linear(4, 4)
    inner.forward = lambda x: x + 1  # type: ignore[method-assign,assignment]  # as monkey patches do
    return inner


@pytest.mark.parametrize(
    ("inner", "reason"),
    [
        (hooked, "it has hooks"),
        (nets.Branching, "depends on the values of its inputs"),
        (Counting, "its forward assigns to calls"),
        (replaced, "its forward method was replaced"),
    ],
)
def test_what_cannot_be_drawn_is_opaque_with_the_reason(inner: Callable[[], nn.Module], reason: str) -> None:
    net = nets.Around(inner())
    x = torch.randn(2, 4)
    graph = pn.from_module(net, (x,))
    report = pn.verify(graph, net, (x,))
    assert report, str(report)
    assert set(report.opaque) == {"inner"}
    assert reason in next(iter(report.opaque.values()))
    assert list(pn.compile(graph, reuse=net).state_dict()) == list(net.state_dict())


@pytest.mark.parametrize("make", [Recursive, Averaging, Heads, Renamed, nets.Alternating, lambda: Custom(4, 4)])
def test_what_only_looks_untraceable_is_drawn(make: Callable[[], nn.Module]) -> None:
    net = nets.Around(make())
    x = torch.randn(2, 4)
    report = pn.verify(pn.from_module(net, (x,)), net, (x,))
    assert report, str(report)
    assert report.opaque == {}


def test_a_model_on_the_meta_device_is_imported_by_its_shapes() -> None:
    net = nn.Sequential(nn.Linear(3, 2), nn.ReLU()).to("meta")
    graph = pn.from_module(net, (torch.empty(2, 3, device="meta"),))
    assert graph["0"].type == "Linear"


def test_numbers_and_keywords_stay_arguments() -> None:
    net = nets.Sized()
    x = torch.randn(2, 4, 4)
    graph = pn.from_module(net, (x, 2), {"flag": False})
    model = pn.compile(graph, reuse=net)
    assert difference(run(net, (x, 3, False)), run(model, (x, 3, False))) == ""
    assert pn.verify(graph, net, (x, 2), {"flag": False})


def test_a_module_that_contains_itself_is_refused() -> None:
    net = nn.Sequential(nn.Linear(2, 2))
    net[0].add_module("loop", net)
    with pytest.raises(pn.CompileError, match="Sequential contains itself"):
        pn.from_module(net, (torch.randn(1, 2),))


def test_inputs_that_do_not_fit_are_refused() -> None:
    with pytest.raises(pn.CompileError, match=r"Linear cannot be called with \(\[2, 5\] float32\)"):
        pn.from_module(nn.Linear(3, 2), (torch.randn(2, 5),))


def test_what_is_no_module_is_refused() -> None:
    with pytest.raises(pn.CompileError, match=r"takes an nn\.Module, not a int"):
        pn.from_module(3, ())  # type: ignore[arg-type]  # that is the point


def test_what_cannot_be_copied_is_refused() -> None:
    net = nn.Linear(2, 2)
    net.generator = (each for each in [1])  # type: ignore[assignment]  # generators cannot be copied
    with pytest.raises(pn.CompileError, match="Linear cannot be copied"):
        pn.from_module(net, (torch.randn(1, 2),))


def test_inputs_that_both_refuse_prove_nothing() -> None:
    net = nn.Linear(3, 2)
    graph = pn.from_module(net, (torch.randn(2, 3),))
    with pytest.raises(
        pn.CompileError, match=r"Nothing can be compared: both modules refuse these inputs: .*missing 1 required"
    ):
        pn.verify(graph, net)
    single = nn.BatchNorm1d(3)
    assert pn.verify(pn.from_module(single, (torch.randn(2, 3),)), single, torch.randn(1, 3)), "in evaluation mode"


def test_a_report_says_what_differs() -> None:
    net, other = nn.Sequential(nn.Linear(3, 3), nn.ReLU()), nn.Sequential(nn.Linear(3, 3), nn.Tanh())
    graph = pn.from_module(net, (torch.randn(2, 3),))
    report = pn.verify(graph, other, (torch.randn(2, 3),))
    assert not report
    assert report.differences[0].what == "outputs"
    assert "outputs in train mode: different (differs by up to" in str(report)
    assert repr(report) == f"VerificationReport({len(report.differences)} of 7 comparisons differ)\n{report}"
    assert repr(pn.verify(graph, net, (torch.randn(2, 3),))).startswith("VerificationReport(equal)\nkeys: equal\n")


def layers(width: int) -> st.SearchStrategy[nn.Module]:
    makers: list[Callable[[], nn.Module]] = [
        lambda: nn.Linear(width, width),
        lambda: nn.Linear(width, width, bias=False),
        nn.ReLU,
        lambda: nn.Dropout(0.3),
        lambda: nn.LayerNorm(width),
        lambda: nn.BatchNorm1d(width, momentum=0.2),
        nn.Identity,
    ]
    return st.sampled_from(makers).map(lambda make: make())


class Joined(nn.Module):
    """Random parts, joined in a random way."""

    def __init__(self, parts: list[nn.Module], how: str) -> None:
        super().__init__()
        self.how = how
        self.parts = nn.ModuleList(parts)

    def forward(self, x: Tensor) -> Tensor:
        y = x
        for part in self.parts:
            z = part(y)
            y = z if self.how == "chain" else y + z if self.how == "residual" else torch.cat([z, x], 1)[:, : x.size(1)]
        return y


def modules() -> st.SearchStrategy[nn.Module]:
    return st.recursive(
        layers(4),
        lambda inner: st.one_of(
            st.lists(inner, min_size=1, max_size=3).map(lambda parts: nn.Sequential(*parts)),
            st.builds(Joined, st.lists(inner, min_size=1, max_size=3), st.sampled_from(("chain", "residual", "cat"))),
        ),
        max_leaves=6,
    )


@given(modules())
def test_random_modules_come_back_equal(inner: nn.Module) -> None:
    net = nets.Around(inner)
    x = torch.randn(3, 4)
    graph = pn.NodeGraph.from_json(pn.from_module(net, (x,)).to_json())
    report = pn.verify(graph, net, (x,))
    assert report, str(report)
    assert report.opaque == {}
