from __future__ import annotations

import pytest
import torch

import pnne_nb as pn
from tests.compiler.graphs import wire
from tests.compiler.passes.graphs import convnet


def inputs() -> torch.Tensor:
    return torch.randn(16, 3, 8, 8, generator=torch.Generator().manual_seed(0))


def test_chosen_nodes_are_checkpointed_with_the_same_gradients() -> None:
    graph = convnet(3, dropout=0.2)
    done = pn.transform(graph, [pn.passes.CheckpointActivations(["block1"])], args=inputs())
    (report,) = done.reports
    assert not report.refused
    assert report.changes[0].nodes == ("block1",)
    assert done.graph["block1"].properties["checkpoint"] is True
    assert "bit for bit, gradients and buffers bit for bit" in str(report.proof)
    assert "checkpoint" not in graph["block1"].properties


def test_a_budget_is_met_with_as_few_nodes_as_needed() -> None:
    graph = convnet(6, dropout=0.2)
    plan = pn.plan_memory(graph, inputs(), training=True, optimizer=None)
    counts = []
    for part in (1.0, 0.8, 0.6):
        budget = int(plan.peak * part)
        done = pn.transform(graph, [pn.passes.CheckpointActivations(budget=budget)], args=inputs())
        assert pn.plan_memory(done.graph, inputs(), training=True, optimizer=None).peak <= budget
        counts.append(len(done.reports[0].changes))
    assert counts[0] == 0 < counts[1] < counts[2] < 6


def test_nodes_inside_are_tried_where_whole_blocks_are_not_enough() -> None:
    graph = convnet(4)
    graph.group([f"block{number}" for number in range(4)], "body")
    plan = pn.plan_memory(graph, inputs(), training=True, optimizer=None)
    done = pn.transform(graph, [pn.passes.CheckpointActivations(budget=int(plan.peak * 0.8))], args=inputs())
    nodes = [change.nodes[0] for change in done.reports[0].changes]
    assert nodes
    assert all(node.startswith("body.block") for node in nodes)


def test_an_impossible_budget_says_what_is_possible() -> None:
    graph = convnet(2)
    before = graph.to_json()
    with pytest.raises(
        pn.PassError,
        match=r"A training step does not fit into 50 kB: it needs .* kB, and at least .* kB with checkpoints, at "
        r"block1.relu1 \(backward\); .* kB of that are parameters, buffers and inputs. Use a smaller "
        "batch or a larger budget, or group nodes",
    ):
        pn.transform(graph, [pn.passes.CheckpointActivations(budget=50_000)], args=inputs())
    assert graph.to_json() == before


def test_what_cannot_be_computed_again_is_not_chosen() -> None:
    graph = pn.NodeGraph("recurrent")
    graph.add("Input", "x", shape=("N", 6, 16))
    graph.add("GRU", "rnn", input_size=16, hidden_size=16, num_layers=2, dropout=0.5, batch_first=True)
    graph.add("Output", "y")
    last = "rnn.output"
    for number in range(3):
        graph.add("Linear", f"up{number}", in_features=16, out_features=64)
        graph.add("GELU", f"act{number}")
        graph.add("Linear", f"down{number}", in_features=64, out_features=16)
        wire(graph, f"{last} up{number}.input", f"up{number} act{number} down{number}")
        last = f"down{number}"
    wire(graph, "x rnn", f"{last} y")
    for number in range(3):
        graph.group([f"up{number}", f"act{number}", f"down{number}"], f"mlp{number}")
    x = torch.randn(64, 6, 16)
    plan = pn.plan_memory(graph, x, training=True, optimizer=None)
    done = pn.transform(graph, [pn.passes.CheckpointActivations(budget=int(plan.peak * 0.8))], args=x)
    (report,) = done.reports
    assert "dropout between its layers" in report.skipped["rnn"]
    assert {change.nodes[0][:3] for change in report.changes} == {"mlp"}


@pytest.mark.parametrize(
    ("node", "error", "message"),
    [
        ("nowhere", pn.UnknownNodeError, "nowhere"),
        ("x", pn.UnknownPropertyError, "x \\(Input\\) has no property 'checkpoint'"),
        ("sum", pn.UnknownPropertyError, "sum \\(add\\) has no property 'checkpoint'"),
    ],
)
def test_only_nodes_with_a_module_can_be_checkpointed(node: str, error: type[Exception], message: str) -> None:
    graph = convnet(1)
    graph.add("add", "sum", other=1)
    graph.disconnect("head", "y")
    wire(graph, "head sum y")
    with pytest.raises(error, match=message):
        pn.transform(graph, [pn.passes.CheckpointActivations([node])], args=inputs())


def test_either_nodes_or_a_budget() -> None:
    for wrong in ({}, {"nodes": ["a"], "budget": 1}):
        with pytest.raises(pn.PassError, match="Give either the nodes to checkpoint, or a budget in bytes"):
            pn.passes.CheckpointActivations(**wrong)  # type: ignore[arg-type]  # that is the point


def test_what_is_checkpointed_already_is_left() -> None:
    graph = convnet(2)
    graph.set("block0", checkpoint=True)
    done = pn.transform(graph, [pn.passes.CheckpointActivations(["block0"])])
    assert str(done.reports[0]) == ("CheckpointActivations: nothing to do\n  left block0: it is checkpointed already")
    with pytest.raises(pn.UnknownNodeError, match="There is no node 'nowhere'"):
        pn.transform(graph, [pn.passes.CheckpointActivations(["nowhere"])])


def test_a_model_that_looks_at_its_data_is_measured_with_them() -> None:
    graph = convnet(2)
    wire_item(graph)
    x = inputs()
    done = pn.transform(graph, [pn.passes.CheckpointActivations(["block0"])], args=x)
    (gain,) = [gain for gain in done.reports[0].gains if gain.what == "memory of a training step"]
    assert gain.after < gain.before
    budget = int(gain.before) - 1
    done = pn.transform(graph, [pn.passes.CheckpointActivations(budget=budget)], args=x)
    assert done.reports[0].changes
    with pytest.raises(pn.PassError, match="A training step does not fit into 50 kB"):
        pn.transform(graph, [pn.passes.CheckpointActivations(budget=50_000)], args=x)


def wire_item(graph: pn.NodeGraph) -> None:
    """Scale what a model gives by a number that only its data tell."""
    for kind, name in (("mean", "average"), ("item", "number"), ("mul", "scaled")):
        graph.add(kind, name)
    graph.disconnect("head", "y")
    wire(graph, "head average number")
    graph.connect("head", "scaled.input")
    graph.connect("number", "scaled.other")
    graph.connect("scaled", "y")
