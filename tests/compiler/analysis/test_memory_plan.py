from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
import torch
from torch import nn

import pnne_nb as pn
from pnne_nb.compiler.analysis.memory_plan import BACKWARD, OPTIMIZER, backward, measure_step
from pnne_nb.compiler.analysis.observe import Observer
from tests.compiler import graphs
from tests.compiler.graphs import wire
from tests.compiler.passes.graphs import convnet


def chain(length: int) -> pn.NodeGraph:
    """Functions one after another, each with a result of 4,000 bytes."""
    graph = pn.NodeGraph("chain")
    graph.add("Input", "x", shape=(10, 100))
    last = "x"
    for number in range(length):
        graph.add("tanh" if number % 2 else "sin", f"f{number}")
        wire(graph, f"{last} f{number}")
        last = f"f{number}"
    graph.add("Output", "y")
    return wire(graph, f"{last} y")


def seen(model: nn.Module, *inputs: torch.Tensor, training: bool) -> int:
    """Run on real tensors, and return the most bytes that were in use at once."""
    with Observer() as observer, torch.set_grad_enabled(training):
        result = model(*inputs)
        if training:
            backward(result)
    live: list[int] = list(observer.live())
    return max(live)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize(
    "build", [lambda: convnet(2, dropout=0.1), graphs.residual, graphs.lenet, graphs.mlp, graphs.branches]
)
def test_the_plan_is_what_real_tensors_need(build: Callable[[], pn.NodeGraph], *, training: bool) -> None:
    graph = build()
    shapes: list[Any] = [node.properties["shape"] for node in graph.nodes.values() if node.type == "Input"]
    inputs = [torch.randn(6, *shape[1:]) for shape in shapes]
    model = pn.compile(graph).train(training)
    plan = pn.plan_memory(model, tuple(inputs), training=training, optimizer=None)
    assert max(plan.live) == seen(model, *inputs, training=training)
    tensors = [*model.parameters(), *model.buffers(), *inputs]
    assert plan.fixed == sum(tensor.nbytes for tensor in tensors)
    assert plan.peak == plan.fixed + max(plan.live)


def test_results_are_released_after_their_last_use() -> None:
    graph = chain(40)
    x = torch.randn(10, 100)
    model = pn.compile(graph)
    plan = pn.plan_memory(model, x)
    assert max(plan.live) == 2 * x.nbytes == seen(model, x, training=False)
    assert [(each.node, each.bytes, each.died - each.born) for each in plan.lifetimes[:2]] == [
        ("f0", 4000, 1), ("f1", 4000, 1),
    ]  # fmt: skip


def test_a_function_that_keeps_its_variables_needs_more() -> None:
    class Hoarding(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            kept = [x]
            for number in range(40):
                kept.append(torch.tanh(kept[-1]) if number % 2 else torch.sin(kept[-1]))
            return kept[-1]

    x = torch.randn(10, 100)
    assert seen(Hoarding(), x, training=False) == 20 * seen(pn.compile(chain(40)), x, training=False)


def test_branches_are_deleted_before_the_end() -> None:
    graph = chain(6)
    graph.add("add", "sum")
    graph.disconnect("f5", "y")
    wire(graph, "f5 sum.input", "f0 sum.other", "sum y")
    plan = pn.plan_memory(graph)
    by_node = {each.node: each for each in plan.lifetimes}
    assert plan.steps[by_node["f0"].died] == "sum"
    assert plan.steps[by_node["f2"].died] == "f3"


def test_training_keeps_what_the_backward_pass_needs() -> None:
    graph = convnet(2)
    plan = pn.plan_memory(graph, torch.randn(4, 3, 8, 8), training=True)
    assert plan.steps[-2:] == (f"stem {BACKWARD}", OPTIMIZER)
    assert plan.steps.index(f"head {BACKWARD}") < plan.steps.index(f"block1.norm1 {BACKWARD}")
    assert plan.peak_at == f"block1.relu1 {BACKWARD}"
    assert plan.saved_by("block0") > 0
    assert plan.saved_by("block0") == sum(plan.saved_by(f"block0.{name}0") for name in ("conv", "norm", "relu", "drop"))
    assert pn.plan_memory(graph, torch.randn(4, 3, 8, 8)).saved_by("block0") == 0


def test_what_is_computed_again_counts_at_the_node_that_asks_for_it() -> None:
    graph = convnet(2)
    before = pn.plan_memory(graph, torch.randn(4, 3, 8, 8), training=True)
    graph.set("block0", checkpoint=True)
    plan = pn.plan_memory(graph, torch.randn(4, 3, 8, 8), training=True)
    assert set(plan.steps) - {"block0"} == set(before.steps)  # torch 2.11 has a step for the checkpoint itself
    step = f"block0.relu0 {BACKWARD}"
    assert plan.live[plan.steps.index(step)] > before.live[before.steps.index(step)]
    assert plan.saved_by("block0") < before.saved_by("block0") / 2


@pytest.mark.parametrize("optimizer", ["Adam", "SGD", "RMSprop", torch.optim.NAdam])
def test_a_training_step_counts_the_optimizer_as_it_is(optimizer: Any) -> None:
    graph, x = convnet(2), torch.randn(4, 3, 8, 8)
    plan = pn.plan_memory(graph, x, training=True, optimizer=optimizer)
    model = pn.compile(graph)
    kind = getattr(torch.optim, optimizer) if isinstance(optimizer, str) else optimizer
    moved = kind(model.parameters())
    with Observer() as observer:
        for _ in range(2):
            moved.zero_grad()
            model(x).sum().backward()
            moved.step()
    kept = [tensor for entry in moved.state.values() for tensor in entry.values() if isinstance(tensor, torch.Tensor)]
    there = [*model.parameters(), *model.buffers(), x]
    assert plan.optimizer == sum(tensor.nbytes for tensor in kept)
    assert plan.peak == pytest.approx(sum(tensor.nbytes for tensor in there) + max(observer.live()), rel=0.02)


def test_adam_keeps_twice_the_parameters() -> None:
    graph = pn.sequential(nn.Linear(1000, 1000), input=("N", 1000))
    weights = 4 * 1001 * 1000
    x = torch.randn(1, 1000)
    assert pn.plan_memory(graph, x, training=True).optimizer == pytest.approx(2 * weights, rel=1e-3)
    assert pn.plan_memory(graph, x, training=True, optimizer=None).optimizer == 0
    assert pn.plan_memory(graph, x).peak < 1.1 * weights
    assert pn.plan_memory(graph, x, training=True).peak > 4 * weights


def test_an_unknown_optimizer_is_refused() -> None:
    with pytest.raises(
        pn.ArgumentError, match=r"optimizer must be the name of one in torch\.optim.*Did you mean 'AdamW'"
    ):
        pn.plan_memory(convnet(1), torch.randn(2, 3, 8, 8), training=True, optimizer="Adamw")


def test_a_model_that_would_not_fit_can_be_planned() -> None:
    graph = pn.NodeGraph("huge")
    graph.add("Input", "x", shape=(1_000_000, 1_000_000))
    graph.add("relu", "act")
    graph.add("Output", "y")
    wire(graph, "x act y")
    x = torch.empty(1_000_000, 1_000_000, device="meta")
    assert pn.plan_memory(graph, x).peak == 2 * 4 * 10**12


def test_the_plan_reads_well() -> None:
    plan = pn.plan_memory(chain(3))
    assert str(plan).splitlines() == [
        "peak 12 kB at f1: 4 kB always, 8 kB while it runs",
        "  f0      4 kB ████████████",
        "  f1      8 kB ████████████████████████ ← peak",
        "  f2      8 kB ████████████████████████ ← peak",
    ]
    assert repr(plan) == "MemoryPlan(3 steps, peak 12 kB at f1)"
    assert plan.table()[0] == ("f0", 4000, "f0", "f1")
    assert "<b>Peak 12 kB</b> at f1; 4 kB of it always" in plan._repr_html_()


def test_what_cannot_be_planned_says_why() -> None:
    with pytest.raises(pn.CompileError, match="Linear was not compiled from a graph, so it has no nodes whose memory"):
        pn.plan_memory(nn.Linear(1, 1), torch.zeros(1, 1))
    with pytest.raises(
        pn.CompileError, match=r"Inputs are needed to run the model: pass args=\(\.\.\.\), or the graph"
    ):
        pn.plan_memory(pn.compile(graphs.mlp()))
    with pytest.raises(pn.ArgumentError, match="model must be a NodeGraph or a model compiled from one, not 3"):
        pn.plan_memory(3)  # type: ignore[arg-type]  # that is the point
    graph = chain(1)
    graph.add("nonzero", "where")
    graph.disconnect("f0", "y")
    wire(graph, "f0 where y")
    with pytest.raises(pn.CompileError, match="The memory cannot be computed without data at 'where'"):
        pn.plan_memory(graph, torch.randn(10, 100))


def test_inputs_that_do_not_fit_are_told_in_a_few_lines(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(pn.ExecutionError, match="Node 'fc1' failed"):
        pn.plan_memory(pn.compile(graphs.mlp()), (torch.zeros(2, 3),))
    assert not caplog.records
    with pytest.raises(pn.ArgumentError, match="training must be True or False, not 'yes'"):
        pn.plan_memory(graphs.mlp(), training="yes")  # type: ignore[arg-type]  # that is the point


@pytest.mark.parametrize("training", [False, True])
def test_two_names_of_the_cpu_are_one_device(training: bool) -> None:
    graph = pn.sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 2), input=("N", 4))
    expected = pn.plan_memory(graph, args=(torch.zeros(3, 4),), training=training)
    graph.set("batch_norm1d1", device="cpu:0")
    found = pn.plan_memory(graph, args=(torch.zeros(3, 4),), training=training)
    assert found.devices == expected.devices == {"cpu": expected.peak}
    assert "cpu" not in repr(found)


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("look", ["plan", "plan of a model", "summary", "placement"])
def test_looking_at_the_memory_draws_nothing(look: str, *, training: bool) -> None:
    graph, x = convnet(1, dropout=0.5), torch.randn(2, 3, 8, 8)
    model = pn.compile(graph)
    before = torch.get_rng_state()
    match look:
        case "plan":
            pn.plan_memory(graph, x, training=training)
        case "plan of a model":
            pn.plan_memory(model, x, training=training)
        case "summary":
            pn.summary(graph, x)
        case _:
            pn.passes.PlaceByMemory({"cpu": "1 GB"}, training=training).plan(graph, x)
    assert torch.equal(torch.get_rng_state(), before)


class Recurrent(nn.Module):
    def __init__(self, layer: nn.RNNBase) -> None:
        super().__init__()
        self.layer = layer
        self.head = nn.Linear(layer.hidden_size * (1 + layer.bidirectional), 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = self.head(self.layer(x)[0][:, -1])
        return scores


def attending() -> nn.Module:
    layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
    return nn.Sequential(nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), nn.Flatten(), nn.Linear(320, 3))


def perceptron() -> nn.Module:
    return nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, 3))


NETS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "lstm": (lambda: Recurrent(nn.LSTM(8, 32, 2, batch_first=True)), (16, 20, 8)),
    "long lstm": (lambda: Recurrent(nn.LSTM(4, 16, batch_first=True, bidirectional=True)), (70, 130, 4)),
    "gru": (lambda: Recurrent(nn.GRU(8, 32, batch_first=True)), (16, 20, 8)),
    "attention": (attending, (8, 10, 32)),
    "conv": (lambda: nn.Sequential(pn.compile(convnet(1, dropout=0.1)), nn.Flatten(), nn.LazyLinear(3)), (6, 3, 8, 8)),
    "mlp": (perceptron, (64, 16)),
}


@pytest.mark.parametrize("optimizer", [torch.optim.Adam, torch.optim.SGD, torch.optim.RMSprop])
@pytest.mark.parametrize("name", NETS)
def test_a_step_takes_what_real_tensors_take(name: str, optimizer: Callable[..., torch.optim.Optimizer]) -> None:
    make, shape = NETS[name]
    net, x, y = make(), torch.randn(shape), torch.arange(shape[0]) % 3
    net(x)
    moved = optimizer(net.parameters(), lr=1e-3)

    def loss(model: nn.Module, given: Any) -> torch.Tensor:
        return nn.functional.cross_entropy(model(given[0]), given[1])

    before = copy.deepcopy(net.state_dict())
    plan = measure_step(net, moved, lambda: (torch.empty_like(x), torch.empty_like(y)), loss)
    assert not moved.state
    assert all(torch.equal(before[key], value) for key, value in net.state_dict().items())
    assert all(parameter.grad is None for parameter in net.parameters())
    with Observer() as observer:
        for _ in range(2):
            moved.zero_grad()
            loss(net, (x, y)).backward()  # type: ignore[no-untyped-call]  # torch does not say
            moved.step()
    there = sum(tensor.nbytes for tensor in (*net.parameters(), *net.buffers(), x, y))
    assert plan.peak == pytest.approx(there + max(observer.live()), rel=0.1)
    held = sum(each.nbytes for entry in moved.state.values() for each in entry.values() if torch.is_tensor(each))
    assert plan.optimizer == held
    # What the model's own summary and the training say is the same count.
    told = pn.summary(net, x, optimizer=moved).step_memory
    engine = pn.TrainingEngine(
        net, (x, y), optimizer=moved, loss="CrossEntropyLoss", batch_size=len(x), device="cpu", metrics=()
    )
    assert told == pytest.approx(plan.peak, rel=0.1)
    assert engine.memory_needs.peak == pytest.approx(plan.peak, rel=0.01)


def test_what_kernels_of_cudnn_take_is_named_as_unknown() -> None:
    plan = pn.plan_memory(graphs.mlp())
    assert not plan.unknown
    plan = msgspec.structs.replace(plan, workspaces=("a", "b", "c", "d"))
    assert plan.unknown == "; without the workspaces of cuDNN at a, b, c and 1 more, which no tensor shows"
    assert all(plan.unknown in text for text in (str(plan), repr(plan), plan._repr_html_()))
    of_a_module = msgspec.structs.replace(plan, workspaces=("",))
    assert of_a_module.unknown == "; without the workspaces of cuDNN, which no tensor shows"
