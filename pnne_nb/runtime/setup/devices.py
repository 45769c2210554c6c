"""Lists the devices that can compute, their memory and settings, and moves a model to those that its nodes ask for."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from dataclasses import fields, is_dataclass
from numbers import Real
from typing import Any, Protocol, TypeVar, final, runtime_checkable

import msgspec
import psutil  # type: ignore[import-untyped]  # its stubs are a package of their own
import torch
from torch import Tensor, nn

from pnne_nb.compiler.analysis.device_rule import devices_of, to_device
from pnne_nb.compiler.pipeline.compile import load
from pnne_nb.compiler.shapes.scope import available_devices
from pnne_nb.compiler.weights.memory_check import memory
from pnne_nb.errors import TrainingError, choose, expect
from pnne_nb.graph.document import NodeGraph
from pnne_nb.process.byte_units import format_bytes
from pnne_nb.runtime.data.open_data import require_count
from pnne_nb.runtime.setup.precision import choose_device
from pnne_nb.runtime.thread import determinism
from pnne_nb.telemetry.frames import DeviceMemory

T = TypeVar("T")

_ALLOCATOR = "PYTORCH_ALLOC_CONF"
_NOWHERE = torch.device("meta")


class Device(msgspec.Struct, frozen=True):
    """One device and its memory, in bytes.

    Attributes:
        name: As torch calls it: ``"cpu"``, ``"cuda:0"``, ``"mps:0"``.
        description: The product's name.
        total: Memory there is; for the CPU, what a container may take, where that is less.
        free: Memory that is not in use, and that this process may take.
        allocated: What this process's tensors take; for the CPU, all that the process takes.
        reserved: What torch's allocator keeps for this process.
        peak: The most that was ever allocated; for the CPU, the same as `allocated`.
    """

    name: str
    description: str
    total: int
    free: int
    allocated: int
    reserved: int
    peak: int


@runtime_checkable
class Needs(Protocol):
    """Memory that was counted."""

    @property
    def peak(self) -> int:
        """Most bytes in use at once."""


@final
class DeviceManager:
    """Lists devices with their memory, chooses one, moves modules and data, and holds torch's settings."""

    @property
    def devices(self) -> list[Device]:
        """Every device that training can use, the CPU first, with its memory as it is now."""
        return [measured(torch.device(name)) for name in available_devices()]

    def __getitem__(self, name: str | torch.device) -> Device:
        """Return one device by name; ``"auto"`` is the best.

        Raises:
            TrainingError: There is no such device here, or it is ``"meta"``, which has no memory.
        """
        chosen = choose_device(name)
        if chosen.type == "meta":
            raise TrainingError(
                f"'meta' knows shapes only, and has no memory; there is {', '.join(available_devices())}."
            )
        return measured(chosen)

    def choose(self, needed: int | Needs = 0) -> torch.device:
        """Return the accelerator with the most free memory if what is needed fits there, else the CPU.

        Args:
            needed: Bytes, or what was counted: ``engine.memory_needs``, ``pn.plan_memory(...)``.
        """
        expect(needed, (int, Needs), "needed", "bytes, engine.memory_needs or pn.plan_memory(...)")
        least = needed if isinstance(needed, int) else needed.peak
        accelerators = [device for device in self.devices if device.name != "cpu" and device.free >= least]
        best = max(accelerators, key=lambda device: device.free, default=None)
        return torch.device("cpu" if best is None else best.name)

    def move(self, value: T, device: str | torch.device = "auto") -> T:
        """Put modules, in place and with all that they contain, and tensors on `device`, in nested containers too.

        Args:
            value: A module, a tensor, or a mapping, sequence or data class with them inside; what else is in it stays.
            device: ``"auto"`` is the accelerator if there is one.

        Returns:
            The module itself; else the same with the moved tensors.

        Raises:
            TrainingError: There is no such device here.
            ArgumentError: There is nothing to move in a value of this kind.
        """
        chosen = choose_device(device)
        if not is_dataclass(value):
            what = "a module, a tensor, or a mapping, sequence or data class with them inside"
            expect(value, (nn.Module, Tensor, Mapping, tuple, list), "value", what)
        for module in _modules_in(value):
            module.to(chosen)
        moved: T = to_device(value, chosen)
        return moved

    @property
    def settings(self) -> dict[str, Any]:
        """The settings that `configure` changes."""
        return {
            "tf32": determinism.tf32(),
            "cudnn_benchmark": torch.backends.cudnn.benchmark,
            "deterministic": torch.are_deterministic_algorithms_enabled(),
            "threads": torch.get_num_threads(),
            "allocator": os.environ.get(_ALLOCATOR),
        }

    def configure(
        self,
        *,
        tf32: determinism.TF32 | None = None,
        cudnn_benchmark: bool | None = None,
        deterministic: bool | None = None,
        threads: int | None = None,
        allocator: str | None = None,
        memory_fraction: float | None = None,
    ) -> None:
        """Change settings of the whole process; None leaves one as it is.

        Args:
            tf32: Whether matrix products and convolutions of float32 may use the faster, less exact TF32; ``"convolutions"``
                or ``"matrix products"`` lets these alone. Torch begins with ``"convolutions"``.
            cudnn_benchmark: Whether cuDNN tries which algorithm is fastest for each shape.
            deterministic: Whether an operation without a deterministic version raises.
            threads: How many threads operations use in the calling thread and in trainings made from now on.
            allocator: Of CUDA memory, as torch's ``PYTORCH_ALLOC_CONF`` has it, e.g. ``"expandable_segments:True"``;
                before CUDA is first used.
            memory_fraction: Share of each CUDA device's memory, in (0, 1], that this process may take.

        Raises:
            TrainingError: One of them is out of its range, or comes too late; then nothing has changed.
            ArgumentError: One of them is of another type; likewise.
        """
        if isinstance(tf32, str):
            choose(tf32, determinism.TF32_ALONE, "tf32")
        else:
            expect(
                tf32,
                bool | None,
                "tf32",
                "True, False, 'convolutions', 'matrix products', or None, which leaves it as it is",
            )
        for name, chosen in {"cudnn_benchmark": cudnn_benchmark, "deterministic": deterministic}.items():
            expect(chosen, bool | None, name, "True, False, or None, which leaves it as it is")
        if threads is not None:
            require_count("threads", threads)
        expect(memory_fraction, Real | None, "memory_fraction", "a share in (0, 1]")
        if memory_fraction is not None and not 0 < memory_fraction <= 1:
            raise TrainingError(f"memory_fraction must be a share in (0, 1], not {memory_fraction!r}.")
        expect(allocator, str | None, "allocator", 'a text such as "expandable_segments:True"')
        if allocator is not None and allocator != self.settings["allocator"]:
            if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]  # torch leaves it untyped
                raise TrainingError(
                    "The allocator is chosen before CUDA is first used in a process: restart the kernel, and call "
                    f"configure(allocator={allocator!r}) first."
                )
            os.environ[_ALLOCATOR] = allocator
        if memory_fraction is not None:
            for index in range(torch.cuda.device_count()):
                torch.cuda.set_per_process_memory_fraction(memory_fraction, index)
        determinism.configure(tf32, cudnn_benchmark, deterministic)
        if threads is not None:
            torch.set_num_threads(int(threads))

    def release_memory(self) -> None:
        """Return the unused memory of torch's allocators to the devices."""
        if torch.accelerator.is_available():
            torch.accelerator.empty_cache()

    def __repr__(self) -> str:
        return f"DeviceManager({', '.join(device.name for device in self.devices)})"

    def _repr_html_(self) -> str:
        cells = "".join(
            f"<tr><td>{device.name}</td><td>{device.description}</td><td>{format_bytes(device.free)}</td>"
            f"<td>{format_bytes(device.total)}</td><td>{format_bytes(device.allocated)}</td></tr>"
            for device in self.devices
        )
        return (
            "<table><tr><th>Device</th><th></th><th>Free</th><th>Total</th><th>Used by this process</th></tr>"
            f"{cells}</table>"
        )


def _modules_in(value: object) -> Iterator[nn.Module]:
    match value:
        case nn.Module():
            yield value
        case Mapping():
            for item in value.values():
                yield from _modules_in(item)
        case tuple() | list():
            for item in value:
                yield from _modules_in(item)
        case _ if is_dataclass(value):
            for field in fields(value):
                yield from _modules_in(getattr(value, field.name))
        case _:
            return


def measured(device: torch.device) -> Device:
    """Return `device` with its present memory."""
    match device.type:
        case "cpu":
            there, own = memory(), psutil.Process().memory_info().rss
            return Device("cpu", "CPU", there.total, there.free, own, own, own)
        case "mps":
            total, used = torch.mps.recommended_max_memory(), memory_of(device)
            free = total - used.reserved
            return Device(str(device), "Apple GPU", total, free, used.allocated, used.reserved, used.peak)
        case _:
            free, total = torch.accelerator.get_memory_info(device)
            used = memory_of(device)
            if device.type == "cuda":
                # A process may be allowed a share only, of which its allocator has some already.
                allowed = int(torch.cuda.get_per_process_memory_fraction(device) * total)
                free = max(0, min(free, allowed - used.reserved))
            name = torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
            return Device(str(device), name, total, free, used.allocated, used.reserved, used.peak)


def memory_of(device: torch.device) -> DeviceMemory:
    """Measure the memory of an accelerator that this process takes."""
    if device.type == "mps":
        # It keeps no record of the most.
        allocated = torch.mps.current_allocated_memory()
        return DeviceMemory(allocated, torch.mps.driver_allocated_memory(), allocated)
    return DeviceMemory(
        torch.accelerator.memory_allocated(device),
        torch.accelerator.memory_reserved(device),
        torch.accelerator.max_memory_allocated(device),
    )


# The devices of a model


def placed_paths(model: nn.Module | NodeGraph) -> frozenset[str]:
    """Return the paths of layers whose nodes have a device; empty for a plain module."""
    return frozenset(load(model).generated.devices) if isinstance(model, NodeGraph) else frozenset()


def settle(model: nn.Module, device: torch.device, placed: Collection[str]) -> bool:
    """Move all tensors to `device`, in place, but for layers at the paths `placed`; return whether there are several devices.

    A plain module whose parameters are on several devices already stays as it is.

    Raises:
        TrainingError: The model has shapes only, and no numbers.
    """
    if not placed and len(found := devices_of(model)) <= 1:
        if found == {_NOWHERE} != {device}:
            raise TrainingError(
                "The model's parameters have no numbers: they are on the device 'meta', which knows shapes only. Make room "
                'by model.to_empty(device="cpu"), and fill it by load_state_dict or by each layer\'s reset_parameters().'
            )
        model.to(device)
        return False
    if placed:
        for path, layer in model.named_modules():
            if not _is_within(path, placed):
                # Its own tensors only: parts of it may have places.
                layer._apply(lambda tensor: tensor.to(device), recurse=False)
    return devices_of(model) != {device}


def _is_within(path: str, placed: Collection[str]) -> bool:
    parts = path.split(".")
    return any(".".join(parts[: count + 1]) in placed for count in range(len(parts)))
