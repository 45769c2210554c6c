"""Passes on small graphs drawn at random: whatever they find to do, the model computes what it did."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import nn

import pnne_nb as pn

SIZE = 4
MOVES = (
    *("Linear", "BatchNorm1d", "ReLU", "in place", "Dropout", "dropout", "tanh", "neg", "relu_"),
    *("add", "mul", "constant", "arange", "parameter", "shared", "view", "rand_like"),
)


class Step(NamedTuple):
    """One node: what it is, and which of the values before it it takes."""

    move: str
    first: int
    second: int


STEPS = st.lists(
    st.builds(Step, st.sampled_from(MOVES), st.integers(0, 30), st.integers(0, 30)), min_size=2, max_size=9
)


def drawn(steps: Sequence[Step], ends: Sequence[int]) -> pn.NodeGraph:
    """Return the graph that the steps describe; values that nothing takes stay dead."""
    graph = pn.NodeGraph("drawn")
    graph.add("Input", "x", shape=("N", SIZE))
    graph.add("Linear", "stem", in_features=SIZE, out_features=SIZE)
    graph.connect("x", "stem")
    values, layers = ["stem"], ["stem"]
    for step in steps:
        first, second = (values[index % len(values)] for index in (step.first, step.second))
        match step.move:
            case "Linear":
                node = graph.add("Linear", in_features=SIZE, out_features=SIZE)
                layers.append(node.name)
            case "BatchNorm1d":
                node = graph.add("BatchNorm1d", num_features=SIZE)
            case "in place":
                node = graph.add("ReLU", inplace=True)
            case "shared":
                node = graph.add("Linear", shares=layers[step.second % len(layers)])
            case "constant":
                node = graph.add("mul", other=0.5)
            case "view":
                node = graph.add("view", size=(-1, SIZE))
            case "arange" | "parameter":
                if step.move == "arange":
                    other = graph.add("arange", end=SIZE)
                else:
                    other = graph.add("Parameter", shape=(SIZE,), init="ones")
                node = graph.add("add")
                graph.connect(f"{other.name}.output", f"{node.name}.other")
            case "add" | "mul":
                node = graph.add(step.move)
                graph.connect(f"{second}.output", f"{node.name}.other")
            case _:
                node = graph.add(step.move)
        graph.connect(f"{first}.output", f"{node.name}.input")
        values.append(node.name)
    for number, end in enumerate(ends):
        graph.add("Output", f"y{number}")
        graph.connect(f"{values[-1 - end % len(values)]}.output", f"y{number}.input")
    return graph


def seen(model: nn.Module, x: torch.Tensor, *, training: bool) -> dict[str, torch.Tensor]:
    """Run a model and its gradients; buffers are put back."""
    buffers = {name: buffer.clone() for name, buffer in model.named_buffers()}
    model.train(training)
    model.zero_grad()
    torch.manual_seed(1)
    given = x.clone().requires_grad_()
    results = model(given)
    results = results if isinstance(results, tuple) else (results,)
    sum(each.square().sum() for each in results).backward()
    found = {f"output {number}": each.detach().clone() for number, each in enumerate(results)}
    found |= {f"buffer {name}": buffer.clone() for name, buffer in model.named_buffers()}
    found |= {f"gradient {k}": p.grad.clone() for k, p in model.named_parameters() if p.grad is not None}
    if given.grad is not None:
        found["gradient of the input"] = given.grad
    with torch.no_grad():
        for name, buffer in model.named_buffers():
            buffer.copy_(buffers[name])
    return found


def runs(model: nn.Module, x: torch.Tensor) -> bool:
    """Whether a drawn model can be trained at all: what works in place may change what the backward pass needs."""
    try:
        seen(model, x, training=True)
    except RuntimeError:
        return False
    return True


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
@given(STEPS, st.lists(st.integers(0, 3), min_size=1, max_size=2))
def test_a_model_computes_the_same_after_every_pass(steps: list[Step], ends: list[int]) -> None:
    graph = drawn(steps, ends)
    model = pn.compile(graph)
    x = torch.randn(3, SIZE, generator=torch.Generator().manual_seed(0))
    if not runs(model, x):
        return
    with torch.no_grad():
        for name, buffer in model.named_buffers():
            if name.endswith(("running_mean", "running_var")):
                buffer.uniform_(0.5, 1.5)
    paths = set(graph.nodes)
    passes = [
        *(pn.passes.RemoveDeadNodes(keep_weights=True), pn.passes.RemoveDeadNodes(), pn.passes.FoldConstants()),
        *(pn.passes.MergeEqualNodes(), pn.passes.FuseBatchNorm(), pn.passes.CheckpointActivations(["stem"])),
    ]
    before = {mode: seen(model, x, training=mode) for mode in (False, True)}
    for one in passes:
        try:
            done = pn.transform(graph, [one], args=(x,), reuse=model)
        except pn.PassError:
            assert isinstance(one, pn.passes.CheckpointActivations)  # refused where something works in place
            continue
        (report,) = done.reports
        assert {node for change in report.changes for node in change.nodes} <= paths
        fused = isinstance(one, pn.passes.FuseBatchNorm)
        for mode in (False,) if fused else (False, True):
            after = seen(done.model, x, training=mode)
            same = {name for name in before[mode] if not fused or name.startswith("output")}
            for name in same & after.keys():
                torch.testing.assert_close(
                    after[name], before[mode][name], rtol=1e-4, atol=1e-4, msg=f"{one.name} {name}"
                )
            assert {name for name in same if name.startswith("output")} <= after.keys()
    assert set(graph.nodes) == paths
