"""A second device for a machine without a GPU: it computes in the CPU's memory, and refuses tensors of two devices.

It is torch's own backend for devices that are written in Python. As on a GPU, an operation takes tensors of one device, but
for numbers, indices and copies; numbers are read by a copy; and backward runs in a thread of the device.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any, final

import torch
from torch import Tensor
from torch.utils import _pytree as pytree
from torch.utils import backend_registration

NAME = "second"
_CODES = {"cpu": 1, NAME: 12}
"""What DLPack calls them; 12 is a device of an extension."""
_MAY_MIX = {"_copy_from", "_copy_from_and_resize", "index", "index_put_", "_index_put_impl_"}
_kept: list[Any] = []
waits: list[str] = []
"""Each operation for which a GPU would be waited for: it brings numbers of the device to the CPU."""


class _Hooks(torch._C._acc.PrivateUse1Hooks):
    def is_available(self) -> bool:
        return True

    def has_primary_context(self, dev_id: int) -> bool:
        del dev_id
        return True

    def is_built(self) -> bool:
        return True


class _Module(backend_registration._DummyBackendModule):
    """What torch calls ``torch.second``: its generator is never drawn from."""

    def get_rng_state(self, _device: object = 0) -> Tensor:
        return torch.zeros(16, dtype=torch.uint8)

    def set_rng_state(self, _state: Tensor, _device: object = 0) -> None:
        pass

    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        return [torch.bfloat16, torch.float16]

    def synchronize(self, _device: object = None) -> None:
        pass


def register() -> None:
    """Register the device in this process; there is no way back, and it must come before the first backward pass."""
    backend_registration._setup_privateuseone_for_python_backend(NAME, _Module(), _Hooks())
    _kept.append(torch.library.Library("_", "IMPL"))  # type: ignore[no-untyped-call]  # torch does not say
    _kept[0].fallback(_computed, "PrivateUse1")
    _kept[0].fallback(torch.library.fallthrough_kernel, "AutocastPrivateUse1")
    # Of these torch has an implementation that says only that there is none, which comes before the fallback.
    _kept.append(torch.library.Library("aten", "IMPL"))  # type: ignore[no-untyped-call]  # nor here
    _kept[1].impl("convolution_overrideable", _convolution, "PrivateUse1")
    _kept[1].impl("convolution_backward_overrideable", _convolution_backward, "PrivateUse1")
    # It has no memory of its own to tell of.
    torch._C._accelerator_isAllocatorInitialized = lambda: False
    torch.accelerator.get_memory_info = lambda *_: (2**33, 2**34)
    torch.accelerator.synchronize = lambda *_: None
    for name in ("memory_allocated", "memory_reserved", "max_memory_allocated"):
        setattr(torch.accelerator, name, lambda *_: 0)
    # A copy asks for memory of an allocator, which a device without memory of its own has not.
    torch.UntypedStorage.clone = _clone  # type: ignore[assignment, method-assign]


def seen_from(tensor: Tensor, device: str) -> Tensor:
    """Return a tensor of the same memory that belongs to another device: DLPack's description of it is rewritten."""
    tensor = tensor.resolve_conj().resolve_neg() if tensor.is_complex() else tensor
    capsule = torch._C._to_dlpack(tensor)
    address = ctypes.pythonapi.PyCapsule_GetPointer
    address.restype, address.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    place = ctypes.cast(address(capsule, b"dltensor") + ctypes.sizeof(ctypes.c_void_p), ctypes.POINTER(ctypes.c_int32))
    place[0], place[1] = _CODES[device], 0
    found: Tensor = torch._C._from_dlpack(capsule)
    return found


def _computed(op: Any, *args: Any, **kwargs: Any) -> Any:
    """Compute an operation of the device's tensors on the CPU; `op` and the rest are as torch's dispatcher gives them."""
    name = op._schema.name.removeprefix("aten::")
    leaves = {id(leaf): leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)}
    here = {key: leaf for key, leaf in leaves.items() if leaf.device.type == NAME}
    strangers = [leaf for key, leaf in leaves.items() if key not in here and leaf.dim()]
    if strangers and name not in _MAY_MIX:
        raise RuntimeError(
            f"Expected all tensors to be on the same device, but found at least two devices, {NAME}:0 and "
            f"{strangers[0].device}! ({name})"
        )
    if name == "set_" and len(args) > 1 and isinstance(args[1], torch.UntypedStorage):
        return _set(*args, **kwargs)
    # A view of a tensor that is not of inference mode is none either.
    with torch.inference_mode(
        mode=all(leaf.is_inference() for leaf in here.values()) and torch.is_inference_mode_enabled()
    ):
        return _run(op, name, here, args, kwargs)


def _run(op: Any, name: str, here: dict[int, Tensor], args: Any, kwargs: Any) -> Any:
    # What memory is made for in the operation itself cannot be a tensor of memory that is there.
    resized = {key for key, leaf in here.items() if not leaf.numel() and ("out" in kwargs or name == "resize_")}
    inside = {
        key: torch.empty(0, dtype=leaf.dtype) if key in resized else seen_from(leaf, "cpu")
        for key, leaf in here.items()
    }
    given = {id(held): here[key] for key, held in inside.items()}
    args, kwargs = pytree.tree_map_only(Tensor, lambda leaf: inside.get(id(leaf), leaf), (args, kwargs))
    if name == "_local_scalar_dense" or (name.startswith("_copy_from") and id(args[1]) not in given):
        waits.append(name)
    if name in ("_copy_from", "_copy_from_and_resize"):
        args[1].copy_(args[0])
        return given.get(id(args[1]), args[1])
    if "device" in kwargs:
        kwargs["device"] = torch.device("cpu")
    kwargs.pop("pin_memory", None)
    result = op(*args, **kwargs)
    for key in resized:
        here[key].data = seen_from(inside[key], NAME)
    if name == "_local_scalar_dense":
        return result
    return pytree.tree_map_only(
        Tensor, lambda leaf: given[id(leaf)] if id(leaf) in given else seen_from(leaf, NAME), result
    )


def _numbers(storage: torch.UntypedStorage) -> Tensor:
    """Return the bytes of a storage, in its memory, as a tensor of the CPU `[nbytes]`."""
    memory = (ctypes.c_uint8 * storage.nbytes()).from_address(storage.data_ptr())
    memory.storage = storage  # type: ignore[attr-defined]  # it lives as long as the tensor
    return torch.frombuffer(memory, dtype=torch.uint8)


def _set(tensor: Tensor, storage: torch.UntypedStorage, offset: int = 0, size: Any = (), stride: Any = ()) -> Tensor:
    tensor.data = seen_from(_numbers(storage).view(tensor.dtype).as_strided(size, stride, offset), NAME)
    return tensor


def _clone(storage: torch.UntypedStorage) -> torch.UntypedStorage:
    if storage.device.type == NAME:
        return seen_from(_numbers(storage).clone(), NAME).untyped_storage()
    return type(storage)(storage.nbytes(), device=storage.device).copy_(storage)


def _convolution(*args: Any) -> Any:
    return _computed(torch.ops.aten.convolution.default, *args)


def _convolution_backward(gradient: Tensor, image: Tensor, weight: Tensor, *rest: Any) -> Any:
    *how, transposed, padding, groups, mask = rest
    bias = [weight.shape[1] * groups if transposed else weight.shape[0]]
    arguments = gradient, image, weight, bias, *how, transposed, padding, groups, mask
    return _computed(torch.ops.aten.convolution_backward.default, *arguments)


@final
class SecondDevice:
    """A process with the device, in which functions run that a module of tests has."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._line, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs,), daemon=True)
        self._process.start()
        theirs.close()

    def run(self, function: Callable[..., object], *args: object) -> None:
        """Run a function there, and fail where it fails."""
        self._line.send((function, args))
        failed = self._line.recv()
        assert not failed, failed

    def close(self) -> None:
        """End the process at once: threads of torch's may wait in it."""
        self._process.kill()
        self._process.join()
        self._line.close()


def _serve(line: Connection) -> None:
    register()
    while True:
        function, args = line.recv()
        line.send(_failure(function, *args))


def _failure(function: Callable[..., object], *args: object) -> str:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    try:
        function(*args)
    except BaseException:  # noqa: BLE001  # whatever it is, the other process tells it
        return traceback.format_exc()
    return ""
