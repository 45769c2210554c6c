from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import pnne_nb as pn
from pnne_nb.compiler.analysis.memory_plan import size
from pnne_nb.compiler.passes.placement_plan import Placement, bytes_of
from pnne_nb.graph.schema.structural import DEVICE
from tests.compiler.graphs import wire
from tests.compiler.passes.graphs import convnet


def test_transfers_are_told_by_the_outputs_that_move() -> None:
    graph = convnet(2)
    done = pn.transform(graph, [pn.passes.PlaceNodes({"block1": "cpu"})])
    (report,) = done.reports
    assert [str(change) for change in report.changes] == ["placed block1: cpu", "moved block0.output: to cpu"]
    assert report.proof is not None
    assert report.proof.worst == 0
    assert 'x = x.to("cpu")' in pn.to_source(done.graph)
    x = torch.randn(2, 3, 8, 8)
    assert done.model(x).shape == (2, 5)


def test_devices_that_are_not_there_or_hold_nothing_are_refused() -> None:
    graph = convnet(1)
    before = graph.to_json()
    for device, message in (
        ("cuda:99", r"block0 cannot be on 'cuda:99': this machine has cpu"),
        ("meta", r"block0 cannot be on 'meta': tensors there hold no data"),
    ):
        with pytest.raises(pn.PassError, match=message):
            pn.transform(graph, [pn.passes.PlaceNodes({"block0": device})])
    with pytest.raises(pn.UnknownPropertyError, match=r"x \(Input\) has no property 'device'"):
        pn.transform(graph, [pn.passes.PlaceNodes({"x": "cpu"})])
    assert graph.to_json() == before


def narrow() -> pn.NodeGraph:
    """Three linear layers: 64 numbers between the first two, 2 between the others."""
    return pn.sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2), nn.Linear(2, 64), input=("N", 64))


def plan(
    graph: pn.NodeGraph,
    memory: dict[str, Any],
    *args: torch.Tensor,
    training: bool = False,
    optimizer: str | None = "AdamW",
) -> Placement:
    return pn.passes.PlaceByMemory(memory, training=training, optimizer=optimizer).plan(graph, args)


def test_the_cut_is_where_the_fewest_bytes_cross() -> None:
    found = plan(narrow(), {"cpu": "18 kB", "meta": "18 kB"}, torch.randn(1, 64))
    assert found.moved == 8
    assert found.devices["linear1"] == found.devices["relu1"] == found.devices["linear2"]
    assert found.devices["linear3"] != found.devices["linear1"]
    assert all(found.used[device] <= found.limits[device] for device in found.used)


def test_what_fits_on_one_device_is_not_cut() -> None:
    found = plan(narrow(), {"meta": "1 MB", "cpu": "1 GB"}, torch.randn(1, 64))
    assert found.moved == 0
    assert len(set(found.devices.values())) == 1


def test_it_is_the_best_of_all_cuts() -> None:
    sizes = (5, 40, 7, 30, 3, 20, 9)
    graph = pn.sequential(*(nn.Linear(*pair) for pair in itertools.pairwise(sizes)), input=("N", 5))
    weights = [4 * (a * b + b) for a, b in itertools.pairwise(sizes)]
    limits = {"cpu": 2600, "meta": 2600, "cuda:0": 2600}
    found = plan(graph, limits, torch.randn(2, 5))

    def need(start: int, end: int) -> int:
        return sum(weights[start:end]) + max(
            8 * sizes[place] * (place > start)
            + 8 * sizes[place] * (place == start and start > 0)
            + 8 * sizes[place + 1]
            for place in range(start, end)
        )

    best = min(
        sum(8 * sizes[cut] for cut in cuts)
        for count in range(3)
        for cuts in itertools.combinations(range(1, 6), count)
        if all(need(one, other) <= 2600 for one, other in itertools.pairwise((0, *cuts, 6)))
    )
    assert found.moved == best


def test_devices_of_this_machine_are_placed_on_and_proved() -> None:
    graph = narrow()
    x = torch.randn(1, 64)
    done = pn.transform(graph, [pn.passes.PlaceByMemory({"cpu:0": "18 kB", "cpu": "18 kB"})], args=(x,))
    (report,) = done.reports
    assert report.proof is not None
    assert report.proof.holds
    assert "moved linear2.output" in str(report)
    assert {done.graph[name].properties["device"] for name in ("linear1", "linear3")} == {"cpu", "cpu:0"}
    torch.testing.assert_close(done.model(x), pn.compile(graph, reuse=done.model)(x))


def test_skip_connections_keep_a_sum_with_its_first_input() -> None:
    graph = pn.NodeGraph("skip")
    graph.add("Input", "x", shape=("N", 32))
    for name in ("one", "two", "three"):
        graph.add("Linear", name, in_features=32, out_features=32)
    graph.add("add", "sum")
    graph.add("Output", "y")
    wire(graph, "x one two sum.input", "one sum.other", "sum three y")
    found = plan(graph, {"cpu": 2 * 4224 + 1000, "meta": 2 * 4224 + 1000}, torch.randn(1, 32))
    assert found.devices["sum"] == found.devices["two"]
    assert found.moved == 128


def test_shared_weights_stay_on_one_device() -> None:
    graph = pn.NodeGraph("tied")
    graph.add("Input", "x", shape=("N", 32))
    graph.add("Linear", "one", in_features=32, out_features=32)
    graph.add("Linear", "mid", in_features=32, out_features=32)
    graph.add("Linear", "again", shares="one")
    graph.add("Output", "y")
    wire(graph, "x one mid again y")
    with pytest.raises(pn.PassError, match="Nodes that share weights must be on one device"):
        plan(graph, {"cpu": 6000, "meta": 6000}, torch.randn(1, 32))


def test_a_model_that_does_not_fit_is_refused_with_the_node() -> None:
    message = r"The model does not fit into cpu 2 kB, meta 1 kB: there is no place for linear1; alone it needs 16\.\d kB, and cpu"
    with pytest.raises(pn.PassError, match=message):
        plan(narrow(), {"cpu": "2 kB", "meta": "1 kB"}, torch.randn(1, 64))


def test_training_needs_more() -> None:
    x = torch.randn(8, 3, 8, 8)
    graph = convnet(2)
    once, trained = (plan(graph, {"cpu": "1 GB"}, x, training=training) for training in (False, True))
    assert trained.used["cpu"] > 1.5 * once.used["cpu"]


@pytest.mark.parametrize(("optimizer", "copies"), [("Adam", 6), ("SGD", 4), (None, 2)])
def test_training_needs_the_state_of_the_optimizer(optimizer: str | None, copies: int) -> None:
    graph = pn.sequential(nn.Linear(1000, 1000), input=("N", 1000))
    placing = pn.passes.PlaceByMemory({"cpu": "1 GB"}, training=True, optimizer=optimizer)
    weights = 4 * 1001 * 1000
    assert placing.plan(graph, (torch.randn(1, 1000),)).used["cpu"] == pytest.approx(copies * weights, rel=0.02)


def test_meta_holds_no_data_to_compute_with() -> None:
    with pytest.raises(pn.PassError, match="cannot be on 'meta': tensors there hold no data"):
        pn.transform(narrow(), [pn.passes.PlaceByMemory({"cpu": "18 kB", "meta": "18 kB"})], args=(torch.randn(1, 64),))


@pytest.mark.parametrize(
    ("said", "bytes"),
    [(5, 5), ("5 B", 5), ("1.5 KB", 1500), ("1 TB", 10**12), ("2GiB", 2 * 2**30), ("8 GB", 8 * 10**9)],
)
def test_amounts_of_memory(said: int | str, bytes: int) -> None:
    assert bytes_of(said) == bytes


@pytest.mark.parametrize("wrong", [0, -1, "8", "8 XB", "GB", 1.5, None])
def test_wrong_amounts_of_memory_are_told(wrong: Any) -> None:
    with pytest.raises(pn.ArgumentError, match="A memory limit is a number of bytes or an amount such as '8 GB'"):
        bytes_of(wrong)


def test_wrong_devices_are_told() -> None:
    with pytest.raises(pn.ArgumentError, match="'gpu7' is no device such as"):
        plan(narrow(), {"gpu7": "1 GB"}, torch.randn(1, 64))
    with pytest.raises(pn.ArgumentError, match="memory must have from 1 to 8 devices, not 0"):
        plan(narrow(), {}, torch.randn(1, 64))


def test_the_plan_says_on_each_card_where_its_node_runs_and_what_is_moved_for_it() -> None:
    found = plan(narrow(), {"cpu": "18 kB", "meta": "18 kB"}, torch.randn(1, 64))
    first, last = found.devices["linear1"], found.devices["linear3"]
    assert found.moves == {"linear3": 8}
    assert {name: (mark.text, mark.level, mark.title) for name, mark in found.marks.items()} == {
        **dict.fromkeys(("linear1", "relu1", "linear2"), (first, "plain", "")),
        "linear3": (last, "near", f"8 B are moved to {last} for it."),
    }
    assert f"8 B are moved to {last} for it." in found._repr_html_()


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize(
    ("make", "sizes", "optimizer"), [(narrow, (1, 64), None), (functools.partial(convnet, 2), (8, 3, 8, 8), "AdamW")]
)
def test_the_memory_plan_of_a_placed_model_keeps_the_limits(
    make: Callable[[], pn.NodeGraph], sizes: tuple[int, ...], optimizer: str | None, nested: bool, training: bool
) -> None:
    graph, x = make(), torch.randn(sizes)
    layers = [name for name, node in graph.nodes.items() if node.type not in {"Input", "Output"}]
    if nested:
        graph.group(layers[:2], name="block")
    limit = int(0.95 * plan(graph, {"cpu": "1 GB"}, x, training=training, optimizer=optimizer).used["cpu"])
    found = plan(graph, {"cpu": limit, "meta": limit}, x, training=training, optimizer=optimizer)
    assert set(found.devices.values()) == {"cpu", "meta"}
    for node, device in found.devices.items():
        if DEVICE in graph[node].spec.properties:
            graph.set(node, device=device)
    # A tensor that nobody moves would be on another device than the weights, which torch refuses on meta as on a GPU.
    measured = pn.plan_memory(graph, args=(x,), training=training, optimizer=optimizer)
    assert set(measured.devices) == {"cpu", "meta"}
    for device, bytes in measured.devices.items():
        arguments = x.nbytes  # they are where the caller has them, and on the device of the first node
        assert bytes - arguments <= found.used[device], device
        assert bytes > 0.4 * found.used[device], device
    assert f"meta: {size(measured.devices['meta'])}" in repr(measured)
