from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import nn

from pnne_nb.errors import TrainingError
from pnne_nb.runtime import devices
from pnne_nb.runtime.devices import Device, DeviceManager

GIB = 2**30


@pytest.fixture
def manager() -> Iterator[DeviceManager]:
    made = DeviceManager()
    before = made.settings
    yield made
    made.configure(**before)


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


def test_threads_below_one_are_refused(manager: DeviceManager) -> None:
    with pytest.raises(TrainingError, match="threads must be at least 1, not 0"):
        manager.configure(threads=0)
