"""Layers stay where their nodes ask for. There is one device that computes here: ``meta`` stands for others."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import pnne_nb as pn
from pnne_nb.runtime.setup.device_map import devices_of, placed_paths, settle
from tests.runtime.tasks import engine, images, network, picture_graph

CPU, META = torch.device("cpu"), torch.device("meta")


def test_a_plain_module_on_one_device_moves_as_a_whole() -> None:
    net = network()
    assert not settle(net, META, ())
    assert devices_of(net) == {META}


def test_a_plain_module_that_is_spread_out_stays() -> None:
    net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2, device="meta"))
    assert settle(net, CPU, ())
    assert [parameter.device for parameter in net.parameters()] == [CPU, CPU, META, META]


def test_placed_layers_stay_and_the_others_move() -> None:
    net = nn.Sequential()
    net.add_module("stem", nn.Linear(2, 2))
    net.add_module("block", nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)))
    net.register_buffer("own", torch.zeros(1))
    kept = net.get_parameter("block.0.weight")
    assert settle(net, META, {"block.0"})
    assert net.get_parameter("block.0.weight") is kept
    where = {name: tensor.device for name, tensor in net.state_dict().items()}
    assert {name for name, device in where.items() if device == CPU} == {"block.0.weight", "block.0.bias"}


def test_the_nodes_of_a_graph_tell_what_is_placed() -> None:
    graph = picture_graph()
    assert placed_paths(graph) == frozenset()
    graph.set("fc", device="cpu")
    assert placed_paths(graph) == {"fc"}
    assert placed_paths(network()) == frozenset()


class Elsewhere(nn.Module):
    """Returns its output from another device, as a model in parts does; the device is told apart by its class."""

    def __init__(self) -> None:
        super().__init__()
        self.net = network()
        self.spare = nn.Linear(1, 1, device="meta")

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.net(x)
        return scores


def test_a_model_on_several_devices_trains_as_on_one() -> None:
    plain = engine(model=network(), optimizer=lambda parameters: torch.optim.SGD(list(parameters), lr=0.1))
    spread = Elsewhere()
    trained = engine(model=spread, optimizer=torch.optim.SGD(spread.net.parameters(), lr=0.1), val_data=images(2))
    for each in (plain, trained):
        each.start()
        assert each.wait(60)
    assert trained.history["loss"].tolist() == plain.history["loss"].tolist()
    assert trained._loop.recipe.scattered
    assert spread.spare.weight.is_meta


def test_a_graph_whose_nodes_have_devices_trains_the_same() -> None:
    graph = picture_graph()
    expected = engine(model=graph)
    expected.start()
    assert expected.wait(60)
    placed = picture_graph()
    placed.set("conv1", device="cpu")
    placed.set("fc", device="cpu")
    trained = engine(model=placed)
    trained.start()
    assert trained.wait(60)
    assert trained.history["loss"].tolist() == expected.history["loss"].tolist()


def test_a_model_that_was_placed_by_memory_trains_the_same_on_its_two_devices() -> None:
    layers = (nn.Flatten(), nn.Linear(36, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 4))
    graph, x = pn.sequential(*layers, input=("N", 1, 6, 6)), images()[0][:8]
    model = pn.compile(graph)
    placing = pn.passes.PlaceByMemory({"cpu": "1 GB"}, training=True)
    limit = int(0.9 * placing.plan(graph, (x,), reuse=model).used["cpu"])
    placed = pn.transform(
        graph, [pn.passes.PlaceByMemory({"cpu": limit, "cpu:0": limit}, training=True)], args=(x,), reuse=model
    )
    assert {node.properties.get("device") for node in placed.graph.nodes.values()} == {None, "cpu", "cpu:0"}
    losses = []
    for each in (model, placed.model):
        trained = engine(model=each)
        trained.start()
        assert trained.wait(60)
        losses.append(trained.history["loss"].tolist())
    assert losses[0] == losses[1]
