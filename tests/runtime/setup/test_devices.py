from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import pnne_nb as pn
from pnne_nb.compiler.analysis.device_rule import devices_of
from pnne_nb.errors import ArgumentError, PnneError, TrainingError
from pnne_nb.runtime.setup import devices
from pnne_nb.runtime.setup.devices import Device, DeviceManager, placed_paths, settle
from pnne_nb.telemetry.frames import DeviceMemory
from tests.runtime.tasks import engine, images, network, picture_graph

GIB = 2**30
CPU, META = torch.device("cpu"), torch.device("meta")


@pytest.fixture
def manager() -> Iterator[DeviceManager]:
    made = DeviceManager()
    # Torch begins with TF32 on in cuDNN and off in matrix products; one setting stands for both.
    before, in_cudnn = made.settings, torch.backends.cudnn.allow_tf32
    yield made
    made.configure(**before)
    torch.backends.cudnn.allow_tf32 = in_cudnn


def test_the_cpu_is_always_there_with_its_memory(manager: DeviceManager) -> None:
    cpu = manager.devices[0]
    assert cpu.name == "cpu"
    assert 0 < cpu.allocated < cpu.total
    assert 0 < cpu.free <= cpu.total
    assert manager["cpu"].total == cpu.total
    assert repr(manager).startswith("DeviceManager(cpu")
    assert "<td>cpu</td>" in manager._repr_html_()


def test_an_unknown_device_is_refused(manager: DeviceManager) -> None:
    with pytest.raises(TrainingError, match="There is no device 'abacus' here; there is cpu"):
        manager["abacus"]


def test_the_emptiest_accelerator_that_has_room_is_chosen(
    manager: DeviceManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = {"cpu": 64 * GIB, "cuda:0": GIB, "cuda:1": 3 * GIB}
    monkeypatch.setattr(devices, "available_devices", lambda: list(free))
    monkeypatch.setattr(
        devices, "measured", lambda device: Device(str(device), "", 80 * GIB, free[str(device)], 0, 0, 0)
    )
    assert manager.choose() == torch.device("cuda:1")
    assert manager.choose(needed=2 * GIB) == torch.device("cuda:1")
    assert manager.choose(needed=9 * GIB) == torch.device("cpu")


def test_modules_move_in_place_and_tensors_in_containers(manager: DeviceManager) -> None:
    net = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.Linear(2, 2)))
    assert manager.move(net, "cpu") is net
    moved = manager.move({"x": [torch.ones(2)]}, "cpu")
    assert moved["x"][0].device.type == "cpu"


def test_settings(manager: DeviceManager) -> None:
    manager.configure(tf32=True, cudnn_benchmark=True, deterministic=True, threads=1)
    expected = {"tf32": True, "cudnn_benchmark": True, "deterministic": True, "threads": 1, "allocator": None}
    assert manager.settings == expected
    assert torch.backends.cudnn.allow_tf32
    manager.configure()
    assert manager.settings["tf32"]
    manager.release_memory()


def test_tf32_says_what_uses_it(manager: DeviceManager) -> None:
    for chosen in ("convolutions", "matrix products", True, False):
        manager.configure(tf32=chosen)
        assert manager.settings["tf32"] == chosen
        assert torch.backends.cudnn.allow_tf32 == (chosen in (True, "convolutions"))
        manager.configure(**manager.settings)
        assert manager.settings["tf32"] == chosen
    with pytest.raises(ArgumentError, match=r"tf32 cannot be 'conv'\. It is one of 'convolutions', 'matrix products'"):
        manager.configure(tf32="conv")
    with pytest.raises(ArgumentError, match="tf32 must be True, False, 'convolutions'"):
        manager.configure(tf32=1)  # type: ignore[arg-type]  # what is tested


def test_a_share_of_the_memory_is_all_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.accelerator, "get_memory_info", lambda _: (70 * GIB, 80 * GIB))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: "GPU")
    monkeypatch.setattr(devices, "memory_of", lambda _: DeviceMemory(GIB, 2 * GIB, GIB))
    for share, free in ((1.0, 70 * GIB), (0.5, 38 * GIB), (0.0125, 0)):
        monkeypatch.setattr(torch.cuda, "get_per_process_memory_fraction", lambda _, share=share: share)
        assert devices.measured(torch.device("cuda:0")).free == free


def test_the_allocator_is_chosen_before_cuda_is_used(manager: DeviceManager, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTORCH_ALLOC_CONF", "garbage_collection_threshold:0.8")
    manager.configure(allocator="expandable_segments:True")
    assert manager.settings["allocator"] == "expandable_segments:True"
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    manager.configure(allocator="expandable_segments:True")
    with pytest.raises(TrainingError, match="chosen before CUDA is first used in a process: restart the kernel"):
        manager.configure(allocator="backend:cudaMallocAsync")


def test_a_share_of_the_memory(manager: DeviceManager, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[tuple[float, int]] = []
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "set_per_process_memory_fraction", lambda *chosen: given.append(chosen))
    manager.configure(memory_fraction=0.5)
    assert given == [(0.5, 0), (0.5, 1)]
    with pytest.raises(TrainingError, match=r"memory_fraction must be a share in \(0, 1\], not 2"):
        manager.configure(memory_fraction=2)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"threads": 0}, "threads must be a whole number, at least 1, not 0"),
        ({"threads": "2"}, "threads must be a whole number, at least 1, not '2'"),
        ({"threads": 1.5}, r"threads must be a whole number, at least 1, not 1\.5"),
        (
            {"cudnn_benchmark": "yes"},
            "cudnn_benchmark must be True, False, or None, which leaves it as it is, not 'yes'",
        ),
        ({"memory_fraction": "half"}, r"memory_fraction must be a share in \(0, 1\], not 'half'"),
        ({"allocator": 3}, 'allocator must be a text such as "expandable_segments:True", not 3'),
    ],
)
def test_settings_that_cannot_be_are_refused_before_anything_changes(
    manager: DeviceManager, wrong: dict[str, Any], said: str
) -> None:
    before = manager.settings
    with pytest.raises(PnneError, match=said):
        manager.configure(tf32=not before["tf32"], deterministic=not before["deterministic"], **wrong)
    assert manager.settings == before


def test_modules_in_containers_move_in_place(manager: DeviceManager) -> None:
    @dataclass
    class Pair:
        nets: list[nn.Module]
        noise: torch.Tensor

    pair = Pair([nn.Linear(2, 2)], torch.ones(2))
    moved = manager.move({"pair": (pair,)}, "meta")["pair"][0]
    assert moved.nets[0] is pair.nets[0]
    assert pair.nets[0].get_parameter("weight").is_meta
    assert moved.noise.is_meta
    assert not pair.noise.is_meta


def test_what_has_nothing_to_move_and_no_memory_says_so(manager: DeviceManager) -> None:
    with pytest.raises(ArgumentError, match="value must be a module, a tensor, or a mapping, sequence or data class"):
        manager.move(np.ones(2), "cpu")
    with pytest.raises(TrainingError, match="'meta' knows shapes only, and has no memory; there is cpu"):
        manager["meta"]


# Layers stay where their nodes ask for. There is one device that computes here: ``meta`` stands for others.


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
        assert each.start().wait(60)
    assert trained.history["loss"].tolist() == plain.history["loss"].tolist()
    assert trained._loop.recipe.scattered
    assert spread.spare.weight.is_meta


def test_a_graph_whose_nodes_have_devices_trains_the_same() -> None:
    graph = picture_graph()
    expected = engine(model=graph)
    assert expected.start().wait(60)
    placed = picture_graph()
    placed.set("conv1", device="cpu")
    placed.set("fc", device="cpu")
    trained = engine(model=placed)
    assert trained.start().wait(60)
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
        assert trained.start().wait(60)
        losses.append(trained.history["loss"].tolist())
    assert losses[0] == losses[1]
