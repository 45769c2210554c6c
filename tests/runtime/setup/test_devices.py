from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from pnne_nb.errors import ArgumentError, PnneError, TrainingError
from pnne_nb.runtime.setup import devices
from pnne_nb.runtime.setup.devices import Device, DeviceManager

GIB = 2**30


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
