"""The rule of devices, as far as it goes on the CPU and on the device that knows shapes only."""

from __future__ import annotations

import torch
from torch import nn

import pnne_nb as pn
from pnne_nb.compiler.analysis.device_rule import comparable, following, home_of, on_cpu, unplaced
from tests.runtime.tasks import picture_graph

META = torch.device("meta")


def test_inputs_that_are_with_the_model_stay_the_same_objects() -> None:
    given = {"x": [torch.ones(2)], "n": 3}
    assert following(given, nn.Linear(2, 2)) is given
    assert following(given, nn.ReLU()) is given, "a model without tensors is nowhere"
    assert home_of(nn.ReLU()) is None


def test_inputs_move_to_a_model_of_shapes_and_not_away_from_one() -> None:
    sizes = nn.Linear(2, 2, device=META)
    x, y = following((torch.ones(3, 2), "mode"), sizes)
    assert x.device == META
    assert y == "mode"
    assert sizes(x).shape == (3, 2)
    nothing = torch.ones(3, 2, device=META)
    assert following(nothing, nn.Linear(2, 2)) is nothing, "there are no numbers to move"


def test_a_model_on_the_cpu_is_not_copied() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2, device=META))
    assert on_cpu(model) is model


def test_a_graph_without_devices_is_not_copied() -> None:
    graph = picture_graph()
    assert unplaced(graph) is graph
    graph.set("fc", device="cuda:0")
    graph.group(["conv1", "relu1"], name="block")
    graph.set("block.conv1", device="cpu")
    version, free = graph.version, unplaced(graph)
    assert graph.version == version
    assert graph["block.conv1"].properties["device"] == "cpu"
    assert free["block.conv1"].properties["device"] is None
    assert free["fc"].properties["device"] is None


def test_the_weights_of_a_graph_stay_with_what_has_no_devices() -> None:
    net = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 2))
    graph = pn.from_module(net, args=(torch.ones(4, 2),))
    graph.set("1", device="cpu")
    assert torch.equal(pn.compile(unplaced(graph))(torch.ones(4, 2)), net(torch.ones(4, 2)))


def test_tensors_of_one_device_are_compared_there() -> None:
    one, other = torch.ones(2), torch.zeros(2)
    mine, theirs = comparable(one, other)
    assert mine is one
    assert theirs is other
