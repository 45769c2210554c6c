"""Finds trained models by their tensors and modules."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from types import FrameType
from typing import Any, NamedTuple, Protocol, final

import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch._functorch.pyfunctorch import temporarily_clear_interpreter_stack
from torch.utils._python_dispatch import _disable_current_modes

from pnne_nb.process.fork import fork_safe

_functorch: Any = torch._C._functorch


@contextmanager
def without_modes() -> Iterator[None]:
    """Disable the function modes and transforms (``torch.func``) of the cell in this block.

    Those of Python's functions are switched off by ``torch._C.DisableTorchFunction`` in the same ``with``: an interrupt may
    leave a generator such as this one open, and what it switches off stays so until somebody collects it.
    """
    with _disable_current_modes(), temporarily_clear_interpreter_stack():
        yield


def plain(tensor: Tensor) -> Tensor:
    """Return the tensor that a transform of ``torch.func`` has wrapped, or the same one."""
    while _functorch.is_functorch_wrapped_tensor(tensor):
        tensor = _functorch.get_unwrapped(tensor)
    return tensor


class GuardedModel(Protocol):
    """A live model whose uses outside its training are detected; see `model_guard.SharedModel`."""

    model: nn.Module

    def beside(self) -> Iterator[tuple[Tensor, bool]]:
        """Return other tensors that the training uses, and whether it only reads them, as it does its data."""

    def written(self, memory: int) -> None:
        """Record that the calling thread has written a tensor of the training with this memory."""

    def in_use(self, buffers: Iterable[Tensor] = ()) -> AbstractContextManager[None]:
        """Return a context manager that uses the model or a part of it, and restores `buffers` at its end."""

    def use_until_return(self, frame: FrameType) -> None:
        """Give the model to the calling thread until the function of `frame` returns."""

    def keep(self, output: Any) -> None:
        """Keep the model for the calling thread, which computed `output` with it, until the backward pass."""

    def lend(self, memory: int, array: NDArray[Any] | None) -> None:
        """Record that the calling thread holds this memory of the model, for instance as an array."""

    def held_here(self) -> bool:
        """Return whether a use in the calling thread need not wait."""

    def parked_here(self) -> bool:
        """Return whether the training waits for the cell of the calling thread."""


class _Known(NamedTuple):
    """A tensor of a model."""

    tensor: weakref.ref[Tensor]
    guarded: weakref.ref[GuardedModel]
    is_buffer: bool
    is_data: bool


class _Layer(NamedTuple):
    """A module of a model, or the model itself."""

    module: weakref.ref[nn.Module]
    guarded: weakref.ref[GuardedModel]


@final
class LiveModels:
    """The models of all existing engines. Memory identifies tensors and their views."""

    def __init__(self) -> None:
        self._lock = fork_safe(threading.Lock())
        self._guarded: list[weakref.ref[GuardedModel]] = []
        self._tensors: dict[int, list[_Known]] = {}
        self._layers: dict[int, list[_Layer]] = {}

    def add(self, guarded: GuardedModel) -> None:
        """Register a model for as long as its guard exists."""
        with self._lock:
            self._guarded.append(weakref.ref(guarded, lambda _: self.refresh()))
        self.refresh()

    def refresh(self) -> None:
        """Update the tensors and layers of the models, some of which an edit or a cell may have replaced."""
        tensors: dict[int, list[_Known]] = {}
        layers: dict[int, list[_Layer]] = {}
        # Without the lock: this runs as well where the garbage collector ends an engine, in any thread.
        self._guarded = [known for known in self._guarded if known() is not None]
        with torch._C.DisableTorchFunction():
            for known in tuple(self._guarded):
                guarded = known()
                if guarded is not None:
                    own: list[tuple[Tensor, bool, bool]] = []
                    own += [(tensor, False, False) for tensor in guarded.model.parameters()]
                    own += [(tensor, True, False) for tensor in guarded.model.buffers()]
                    own += [(tensor, False, is_data) for tensor, is_data in guarded.beside()]
                    for tensor, is_buffer, is_data in own:
                        entry = _Known(weakref.ref(tensor), known, is_buffer, is_data)
                        tensors.setdefault(memory_of(tensor), []).append(entry)
                    for module in guarded.model.modules():
                        layers.setdefault(id(module), []).append(_Layer(weakref.ref(module), known))
        self._tensors, self._layers = tensors, layers

    def __bool__(self) -> bool:
        return bool(self._tensors)

    def all(self) -> list[GuardedModel]:
        return [guarded for known in tuple(self._guarded) if (guarded := known()) is not None]

    def of(self, tensors: Iterable[Tensor], *, writes: bool = False) -> dict[GuardedModel, list[Tensor]]:
        """Return the models to which some of these tensors belong, each with the tensors that are its buffers.

        Data belongs to one for whoever `writes` it: everybody may read it meanwhile.
        """
        found: dict[GuardedModel, list[Tensor]] = {}
        known = self._tensors
        for tensor in tensors:
            memory = memory_of(tensor)
            for entry in known.get(memory, ()):
                own, guarded = entry.tensor(), entry.guarded()
                # Where the model's tensor has gone, or has other memory, this may be somebody else's by now.
                if guarded is None or own is None or (entry.is_data and not writes):
                    continue
                if memory_of(own) == memory:
                    buffers = found.setdefault(guarded, [])
                    if entry.is_buffer:
                        buffers.append(plain(tensor))
        return found

    def of_module(self, module: nn.Module) -> list[GuardedModel]:
        """Return the models that contain `module`, or share a parameter or buffer with it.

        A dropout or an activation has no tensors, but a mode.
        """
        found = set(self.with_layer(module))
        with torch._C.DisableTorchFunction():
            found.update(self.of([*module.parameters(), *module.buffers()]))
        return list(found)

    def with_layer(self, module: nn.Module) -> list[GuardedModel]:
        layers = self._layers.get(id(module), ())
        return [guarded for entry in layers if entry.module() is module and (guarded := entry.guarded()) is not None]

    def just_before(self, tensors: Iterable[Tensor]) -> Iterator[GuardedModel]:
        """Yield the models whose parameters are inputs of the operations that created these tensors.

        Not every operation is seen when it is made: one of a custom autograd function, an extension or compiled code shows
        in its result.
        """
        for tensor in tensors:
            try:
                node = tensor.grad_fn
            except RuntimeError:
                # A view made without gradients whose base was changed since, as by a step of the training. Autograd
                # refuses to differentiate it; whoever asks for that is told so by autograd.
                continue
            for before, _ in () if node is None else node.next_functions:
                if before is not None and type(before).__name__ == _LEAF:
                    yield from self.of([before.variable])  # type: ignore[attr-defined]  # of this kind of node only

    def behind(self, roots: Iterable[Any]) -> tuple[set[GuardedModel], list[Any]]:
        """Return the models whose parameters get gradients in a backward pass from `roots`, and its autograd nodes."""
        found: set[GuardedModel] = set()
        seen: dict[Any, None] = {}
        tensors = [root for root in roots if isinstance(root, Tensor)]
        found.update(self.of(root for root in tensors if root.grad_fn is None))
        waiting = [root.grad_fn for root in tensors if root.grad_fn is not None]
        while waiting:
            node = waiting.pop()
            if node in seen:
                continue
            seen[node] = None
            if type(node).__name__ == _LEAF:
                found.update(self.of([node.variable]))  # type: ignore[attr-defined]  # only AccumulateGrad has one
            waiting += [before for before, _ in node.next_functions if before is not None]
        return found, list(seen)


_LEAF = "AccumulateGrad"
"""The node of autograd that adds to the gradient of a parameter."""


def memory_of(tensor: Tensor) -> int:
    """Return a key that a tensor and its views share; the tensor itself if it has no memory, such as a sparse one."""
    try:
        return int(plain(tensor).untyped_storage()._cdata)
    except (NotImplementedError, RuntimeError, ValueError, AttributeError):
        return id(tensor)


live_models = LiveModels()
"""The one of this process."""
