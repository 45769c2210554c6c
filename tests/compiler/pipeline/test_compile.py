from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import hypothesis
import hypothesis.strategies as st
import pytest
import torch
from torch import nn

import pnne_nb as pn
from tests.compiler import graphs

Case = tuple[Callable[[], pn.NodeGraph], Callable[[], nn.Module], Callable[[int], Sequence[torch.Tensor]]]


def _tokens(count: int) -> list[torch.Tensor]:
    return [torch.arange(count * 6).reshape(count, 6) % 11]


CASES: dict[str, Case] = {
    "mlp": (graphs.mlp, graphs.MLP, lambda n: [torch.randn(n, 8)]),
    "lenet": (graphs.lenet, graphs.LeNet, lambda n: [torch.randn(n, 1, 28, 28)]),
    "residual": (graphs.residual, graphs.Residual, lambda n: [torch.randn(n, 3, 8, 8)]),
    "branches": (graphs.branches, graphs.Branches, lambda n: [torch.randn(n, 4), torch.randn(n, 4)]),
    "nested": (graphs.nested, graphs.Nested, lambda n: [torch.randn(n, 6)]),
    "recurrent": (graphs.recurrent, graphs.Recurrent, _tokens),
    "weights": (graphs.weights, graphs.Weights, lambda n: [torch.randn(n, 3)]),
}

every_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


def stand_alone(source: str, name: str) -> nn.Module:
    namespace: dict[str, object] = {"__name__": "stand_alone"}
    exec(source, namespace)
    cls = namespace[name]
    assert isinstance(cls, type)
    model = cls()
    assert isinstance(model, nn.Module)
    return model


def results(model: Callable[..., Any], inputs: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
    torch.manual_seed(1)
    out = model(*inputs)
    return out if isinstance(out, tuple) else (out,)


def assert_same(one: nn.Module, other: nn.Module, inputs: Sequence[torch.Tensor]) -> None:
    """Compare keys, outputs, gradients and buffers, bit for bit; `other` takes over the weights of `one`."""
    assert list(one.state_dict()) == list(other.state_dict())
    other.load_state_dict(one.state_dict())
    for train in (True, False):
        one.train(train)
        other.train(train)
        first, second = results(one, inputs), results(other, inputs)
        assert len(first) == len(second)
        for a, b in zip(first, second, strict=True):
            assert torch.equal(a, b)
        for model, outputs in ((one, first), (other, second)):
            model.zero_grad()
            torch.stack([output.square().mean() for output in outputs]).sum().backward()  # type: ignore[no-untyped-call]  # torch does not say
        for (name, a), (_, b) in zip(one.named_parameters(), other.named_parameters(), strict=True):
            assert a.grad is not None, name
            assert b.grad is not None, name
            assert torch.equal(a.grad, b.grad), name
        for (name, a), (_, b) in zip(one.named_buffers(), other.named_buffers(), strict=True):
            assert torch.equal(a, b), name


@every_case
@pytest.mark.parametrize("batch", [1, 2, 7])
def test_compiled_is_what_a_person_would_write(case: Case, batch: int) -> None:
    graph, hand, inputs = case
    if graph is graphs.residual and batch == 1:
        batch = 3
    assert_same(pn.compile(graph()), hand(), inputs(batch))


@every_case
def test_source_alone_gives_the_same_module(case: Case) -> None:
    build, _, inputs = case
    graph = build()
    model = pn.compile(graph)
    source = pn.to_source(graph)
    assert "pnne_nb" not in source
    assert_same(model, stand_alone(source, type(model).__name__), inputs(3))


@every_case
def test_same_seed_draws_the_same_weights_as_the_hand_written_module(case: Case) -> None:
    build, hand, _ = case
    graph = build()
    torch.manual_seed(5)
    ours = pn.compile(graph).state_dict()
    torch.manual_seed(5)
    theirs = hand().state_dict()
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)


@every_case
def test_saved_and_loaded_graph_compiles_to_the_same_class(case: Case) -> None:
    graph = case[0]()
    assert type(pn.compile(pn.NodeGraph.from_json(graph.to_json()))) is type(pn.compile(graph))


@every_case
@pytest.mark.filterwarnings("ignore:The tensor attributes self.lstm")  # torch says so of every LSTM that it exports
def test_exports(case: Case) -> None:
    build, _, inputs = case
    model = pn.compile(build()).eval()
    given = tuple(inputs(2))
    exported = torch.export.export(model, given).module()
    for a, b in zip(results(model, given), results(exported, given), strict=True):
        torch.testing.assert_close(a, b)


@every_case
@pytest.mark.filterwarnings(
    "ignore:The .grad attribute of a Tensor that is not a leaf"
)  # torch 2.15 asks for an LSTM's
def test_torch_compile(case: Case) -> None:
    build, _, inputs = case
    model = pn.compile(build())
    given = inputs(2)
    torch.compiler.reset()
    compiled = torch.compile(model, backend="eager", fullgraph=build is not graphs.recurrent)
    for a, b in zip(results(model.eval(), given), results(compiled, given), strict=True):
        torch.testing.assert_close(a, b)


@every_case
def test_source_can_be_inspected(case: Case) -> None:
    model = pn.compile(case[0]())
    assert inspect.getsource(type(model)).startswith(f"class {type(model).__name__}(nn.Module):")


def test_inputs_by_name() -> None:
    model = pn.compile(graphs.branches())
    left, right = torch.randn(2, 4), torch.randn(2, 4)
    assert torch.equal(model(left, right)[0], model(right=right, left=left)[0])


def test_a_shared_module_has_one_entry() -> None:
    model = pn.compile(graphs.branches())
    assert list(model.state_dict()) == ["shared.weight", "shared.bias"]


def test_an_unchanged_graph_is_not_compiled_again() -> None:
    graph = graphs.mlp()
    one = pn.compile(graph)
    assert type(pn.compile(graph)) is type(one)
    graph.move("fc1", x=10, y=10)
    assert type(pn.compile(graph)) is type(one)
    graph.set("fc1", out_features=16)
    assert type(pn.compile(graph)) is type(one)
    graph.set("fc1", bias=False)
    assert type(pn.compile(graph)) is not type(one)


def test_the_random_state_is_not_disturbed_by_shape_inference() -> None:
    torch.manual_seed(3)
    pn.infer_shapes(graphs.lenet())
    pn.to_source(graphs.recurrent())
    drawn = torch.rand(4)
    torch.manual_seed(3)
    assert torch.equal(drawn, torch.rand(4))


def test_every_problem_is_listed() -> None:
    graph = pn.NodeGraph("unfinished")
    graph.add("Linear", "fc1", in_features=3)
    graph.add("ReLU", "act")
    with pytest.raises(pn.CompileError, match=r"'unfinished' has \d problems") as caught:
        pn.compile(graph)
    assert {d.node for d in caught.value.diagnostics} == {None, "fc1", "act"}
    assert {"no-input", "no-output", "missing-property", "unconnected-input"} <= {
        d.code for d in caught.value.diagnostics
    }


def test_auto_needs_a_shape() -> None:
    graph = pn.NodeGraph("auto")
    graph.add("Input", "x")
    graph.add("Linear", "fc", out_features=3)
    graph.add("Output", "y")
    graphs.wire(graph, "x fc y")
    with pytest.raises(pn.CompileError, match=r"fc: in_features is 'auto', but the shape of the input is not known"):
        pn.compile(graph)


def test_auto_must_be_the_same_in_every_use() -> None:
    graph = pn.NodeGraph("uses")
    graph.add("Input", "x", shape=("N", 4))
    graph.add("Linear", "fc", out_features=6)
    graph.add("Output", "y")
    graphs.wire(graph, "x fc y")
    block = graph.group(["fc"], "one")
    graph.add("Subgraph", "two", definition=block.definition)
    graph.disconnect("one", "y")
    graphs.wire(graph, "one two y")
    with pytest.raises(pn.CompileError, match=r"would be 4 and 6 in different uses"):
        pn.compile(graph)


def test_a_shape_that_keeps_auto_unknown_raises_a_shape_error() -> None:
    graph = graphs.lenet()
    graph.set("conv1", in_channels=3)
    with pytest.raises(
        pn.ShapeError, match=r"conv1.input: in_channels is 3, and the input \(N, 1, 28, 28\) has 1 there"
    ):
        pn.compile(graph)


def test_explicit_sizes_that_do_not_fit_raise_a_shape_error() -> None:
    graph = pn.NodeGraph("misfit")
    for type, name, properties in (
        ("Input", "x", {"shape": ("N", 8)}),
        ("Linear", "fc", {"in_features": 100, "out_features": 2}),
        ("Output", "y", {}),
    ):
        graph.add(type, name, **properties)
    graph.connect("x", "fc", "y")
    with pytest.raises(pn.ShapeError, match=r"fc.input: in_features is 100, and the input \(N, 8\) has 8 there"):
        pn.compile(graph)


def test_a_graph_of_training_nodes_is_no_model() -> None:
    graph = pn.NodeGraph("training")
    graph.add("AdamW", "optimizer")
    with pytest.raises(pn.CompileError, match="there is no model to compile"):
        pn.compile(graph)


def test_training_nodes_beside_a_model_are_left_out() -> None:
    graph = graphs.mlp()
    graph.add("AdamW", "optimizer")
    assert [name for name, _ in pn.compile(graph).named_children()] == ["fc1", "act", "fc2"]


def test_an_argument_of_a_function_may_be_typed_in() -> None:
    graph = pn.NodeGraph("typed")
    graph.add("Input", "x", shape=("N", 2))
    graph.add("mul", "twice", other=2.0)
    graph.add("pow", "power", exponent=2)
    graph.add("Output", "y")
    graphs.wire(graph, "x twice power.input", "power y")
    assert "x * 2.0" in pn.to_source(graph)
    assert "x**2" in pn.to_source(graph)
    assert torch.equal(pn.compile(graph)(torch.ones(1, 2)), torch.full((1, 2), 4.0))


def test_an_opaque_node_takes_its_module_from_reuse() -> None:
    graph = pn.NodeGraph("opaque")
    graph.add("Input", "x", shape=("N", 4))
    graph.add("Module", "body", target="somewhere.Body")
    graph.add("Linear", "head", in_features=4, out_features=2)
    graph.add("Output", "y")
    graphs.wire(graph, "x body head y")
    with pytest.raises(pn.CompileError, match="body: The node is opaque"):
        pn.compile(graph)
    source = nn.Module()
    source.body = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    source.head = nn.Linear(4, 2)
    model = pn.compile(graph, reuse=source)
    x = torch.randn(3, 4)
    assert torch.equal(model(x), source.get_submodule("head")(source.get_submodule("body")(x)))
    assert list(model.state_dict()) == list(source.state_dict())
    with torch.no_grad():
        model.get_parameter("body.0.weight").zero_()
    assert source.get_parameter("body.0.weight").abs().sum() > 0, (
        "the given module is not changed through the compiled one"
    )
    twin = copy.deepcopy(model)
    assert torch.equal(twin(x), model(x))


def test_a_registered_class_is_used_as_it_is() -> None:
    class Doubled(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return 2 * x

    pn.register_node(category="Custom", replace=True)(Doubled)
    graph = pn.NodeGraph("custom")
    graph.add("Input", "x", shape=("N", 2))
    graph.add("Doubled", "twice")
    graph.add("Output", "y")
    graphs.wire(graph, "x twice y")
    model = pn.compile(graph)
    assert isinstance(model.twice, Doubled)
    assert torch.equal(model(torch.ones(1, 2)), torch.full((1, 2), 2.0))


LAYERS = st.sampled_from(
    [
        ("Linear", {"in_features": "auto", "out_features": 5}),
        ("Linear", {"in_features": "auto", "out_features": 3, "bias": False}),
        ("ReLU", {}),
        ("GELU", {"approximate": "tanh"}),
        ("LayerNorm", {"normalized_shape": "auto"}),
        ("Dropout", {"p": 0.5}),
        ("tanh", {}),
        ("neg", {}),
    ]
)


@hypothesis.given(st.lists(LAYERS, min_size=1, max_size=6), st.lists(st.integers(0, 5), max_size=3))
def test_random_networks_equal_their_stand_alone_source(
    layers: list[tuple[str, dict[str, Any]]], skips: list[int]
) -> None:
    graph = pn.NodeGraph("random")
    graph.add("Input", "x", shape=("N", 4))
    graph.add("Output", "y")
    last = graph["x"]
    for kind, properties in layers:
        node = graph.add(kind, **properties)
        graph.connect(f"{last}.output", node)
        last = node
    for start in skips:
        # A residual round a linear layer that keeps the size.
        size = pn.infer_shapes(graph)[f"{last}.output"].shape[-1]
        inner = graph.add("Linear", in_features="auto", out_features=size)
        total = graph.add("add" if start % 2 else "mul")
        graph.connect(f"{last}.output", inner)
        graph.connect(f"{last}.output", f"{total}.input")
        graph.connect(f"{inner}.output", f"{total}.other")
        last = total
    graph.connect(f"{last}.output", "y.input")
    model = pn.compile(graph)
    twin = stand_alone(pn.to_source(graph), type(model).__name__)
    assert list(model.state_dict()) == list(twin.state_dict())
    twin.load_state_dict(model.state_dict())
    for batch in (1, 2, 7):
        x = torch.randn(batch, 4)
        (a,), (b,) = results(model, [x]), results(twin, [x])
        assert torch.equal(a, b)
        shape = pn.infer_shapes(graph)[f"{last}.output"].shape
        assert tuple(a.shape) == tuple(batch if size == "N" else size for size in shape)
