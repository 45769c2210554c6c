"""Records the state with which a training continues; two records show what a cell has changed.

Everything is compared as torch has it: tensors by their identity, their memory and the number of times they were written,
layers by what they are made of. A step pays nothing for it: it is taken when a cell begins to use the model, and when that
cell ends. What the training changes itself is not compared while it goes on: of data and of the optimizer's options, see
`Surroundings`.
"""

from __future__ import annotations

import threading
import weakref
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple, final

import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from pnne_nb.runtime.thread.live_models import memory_of, without_modes
from pnne_nb.runtime.thread.torch_switches import shared_switches

_modules: Any = nn.modules.module

_HOOKS = ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks")
"""Where a module keeps what runs with each step; hooks of its state do not."""

_GLOBAL_HOOKS: tuple[dict[int, Any], ...] = (
    _modules._global_forward_pre_hooks,
    _modules._global_forward_hooks,
    _modules._global_backward_pre_hooks,
    _modules._global_backward_hooks,
)
"""Where torch keeps those of every module."""

_PLAIN = (bool, int, float, complex, str, type(None))
"""Of such values are the options of a layer."""

_MOVED = frozenset({"training", "_is_full_backward_hook"})
"""Attributes of a module that are put back, or go along with its hooks."""

_WHOLE = 1 << 20
"""Bytes up to which all of a tensor of the data is looked at, and not only some thousand of its numbers."""

_LOOKED_AT = 4096
"""Numbers of a larger one."""


class Belongings(NamedTuple):
    """Optimizer and data of a training.

    Attributes:
        optimizer: Moves the model.
        data: The tensors of training and validation, by a name in words.
        keeps_options: Whether nothing in the training changes the optimizer's options, as a schedule does.
    """

    optimizer: torch.optim.Optimizer
    data: Mapping[str, Tensor]
    keeps_options: bool


@final
class _Seen:
    """A tensor's identity, version and other properties at one moment."""

    def __init__(self, tensor: Tensor, *more: object) -> None:
        # The alias keeps the memory from becoming another tensor's.
        self._tensor, self._alias = tensor, tensor.detach()
        self._more = (tensor._version, tensor.dtype, tensor.shape, *more)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, _Seen)
            and self._tensor is other._tensor
            and memory_of(self._alias) == memory_of(other._alias)
            and self._more == other._more
        )

    __hash__ = None  # type: ignore[assignment]  # it is only compared


@final
class _Same:
    """Objects whose identity must not change."""

    def __init__(self, *objects: object) -> None:
        self._objects = objects

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, _Same)
            and len(self._objects) == len(other._objects)
            and all(one is another for one, another in zip(self._objects, other._objects, strict=True))
        )

    __hash__ = None  # type: ignore[assignment]  # it is only compared


Facts = dict[str, object]
"""What is compared, by its name in words: ``fc1.weight``, ``the hooks of fc1``."""


@final
class LiveState:
    """Model and optimizer of a training between two of its steps."""

    def __init__(self, model: nn.Module, belongings: Belongings | None) -> None:
        self._model = model
        self._belongings = belongings
        self._layers = dict(_layers(model))
        self._facts = _facts(model, belongings)
        self._tensors = list(_named_tensors(model, belongings))
        self._contents: dict[int, int] = {}

    def lend(self, memory: int) -> None:
        """Record that other code gets a tensor's memory, to which torch does not see writes."""
        for number, (_, tensor) in enumerate(self._tensors):
            if memory_of(tensor) == memory and number not in self._contents:
                self._contents[number] = _checksum(tensor)

    def changed(self) -> list[str]:
        """Return the names of what has changed; a replaced layer without its parts."""
        found = _differing(self._layers, dict(_layers(self._model)))
        parts = _differing(self._facts, _facts(self._model, self._belongings, self._facts))
        for number, known in self._contents.items():
            name, tensor = self._tensors[number]
            if _checksum(tensor) != known:
                parts.append(name)
        gone = tuple(f"{name}." for name in found)
        found += [name for name in parts if not f"{name.rpartition(' ')[2]}.".startswith(gone)]
        return list(dict.fromkeys(found))


@final
class Surroundings:
    """State that a cell can change without using the model, and that the training does not change.

    That is data, layers, the optimizer's options, and what torch has for the whole process.
    """

    def __init__(self, model: nn.Module, belongings: Belongings) -> None:
        self._model = model
        self._belongings = belongings
        self._states = [(name, _Same(values)) for name, values in _states(model, belongings.optimizer)]
        self._facts = self._now()

    def changed(self) -> list[str]:
        """Return the names of what has changed."""
        # The first step makes them: there may be more of them by now.
        states = {name: _Same(values) for name, values in _states(self._model, self._belongings.optimizer)}
        gone = [name for name, values in self._states if values != states.get(name)]
        return _differing(self._facts, self._now()) + gone

    def _now(self) -> Facts:
        belongings = self._belongings
        facts: Facts = dict(_layers(self._model)) | shared_switches()
        facts["the hooks of all modules"] = _Same(*(hook for hooks in _GLOBAL_HOOKS for hook in hooks.values()))
        for name, tensor in belongings.data.items():
            # Elsewhere, to look would wait for what the training has asked of the device.
            facts[name] = _Seen(tensor, _checksum(_sample(tensor)) if tensor.device.type == "cpu" else 0)
        return facts | _options(belongings.optimizer) if belongings.keeps_options else facts


@final
class ChangeWatch:
    """Tells unintended changes of a training by cells and threads, once for each name: what happened, and what to do."""

    def __init__(
        self,
        model: nn.Module,
        belongings: Callable[[], Belongings | None],
        tell: Callable[[str, str], object],
    ) -> None:
        self.belongings = belongings
        self._model = model
        self._tell = tell
        self._parked: LiveState | None = None
        self._around: Surroundings | None = None
        self._written: dict[str, None] = {}
        self._told: set[str] = set()
        self._editors: list[threading.Thread] = []
        self._arrays: list[weakref.ref[NDArray[Any]]] = []
        self._told_of_arrays = False

    def run_ended(self) -> None:
        """Allow all reports again in the next run."""
        self._told = set()

    def cell_began(self) -> None:
        """Record what a cell may change without using the model."""
        belongings = self.belongings()
        with torch._C.DisableTorchFunction(), without_modes():
            self._around = None if belongings is None else Surroundings(self._model, belongings)

    def parked(self) -> None:
        """Record everything, because the training now waits for a cell."""
        with torch._C.DisableTorchFunction(), without_modes():
            self._parked = LiveState(self._model, self.belongings())

    def take(self) -> list[str]:
        """Return the names of what has changed since then, and drop the record."""
        found = [*self._written]
        with torch._C.DisableTorchFunction(), without_modes():
            for state in (self._parked, self._around):
                found += () if state is None else state.changed()
        self.forget()
        return found

    def forget(self) -> None:
        self._parked, self._around, self._written = None, None, {}

    @contextmanager
    def meant(self) -> Iterator[None]:
        """Ignore the changes of the calling thread in this block."""
        me = threading.current_thread()
        self._editors.append(me)
        try:
            yield
        finally:
            self._editors.remove(me)
            self._written = {}
            if self._around is not None:
                self.cell_began()
            if self._parked is not None:
                self.parked()

    def written(self, memory: int, *, in_cell: bool) -> None:
        """Record a write by the calling thread to a tensor with this memory; a cell's writes are reported at its end."""
        me = threading.current_thread()
        if me in self._editors:
            return
        belongings = self.belongings()
        with torch._C.DisableTorchFunction(), without_modes():
            data = () if belongings is None else belongings.data.items()
            tensors = [*_named_tensors(self._model, belongings), *data]
            names = [name for name, tensor in tensors if memory_of(tensor) == memory]
        if in_cell:
            self._written.update(dict.fromkeys(names))
        else:
            self.tell(f"The thread {me.name!r}", names)

    def lend(self, memory: int, array: NDArray[Any] | None, *, in_cell: bool) -> None:
        """Record that the calling thread gets this memory, to which torch does not see writes."""
        if array is not None and not self._told_of_arrays:
            self._arrays.append(weakref.ref(array))
        if in_cell and self._parked is not None:
            with torch._C.DisableTorchFunction(), without_modes():
                self._parked.lend(memory)

    def tell_of_arrays(self) -> None:
        """Report once that an array of an earlier cell shares memory with the model."""
        kept, self._arrays = [array for array in self._arrays if array() is not None], []
        if kept and not self._told_of_arrays:
            self._told_of_arrays = True
            self._tell(
                "An array of NumPy from an earlier cell shares its memory with the model in training. Reading or writing it "
                "may happen in the middle of a step, without any warning.",
                "Keep a copy instead: tensor.detach().numpy().copy(). Change weights in `with engine.paused() as model:`.",
            )

    def tell(self, who: str, changed: list[str]) -> None:
        """Report what has changed, unless this run has reported it already."""
        names = [name for name in dict.fromkeys(changed) if name not in self._told]
        self._told.update(names)
        if names:
            self._tell(
                f"{who} has changed {', '.join(names[:3])}{' …' * (len(names) > 3)} during the training, which goes on with "
                "that: the run no longer follows from its seed and data, and a resume would not repeat it.",
                "If it was meant, do it in `with engine.paused() as model:`. If not, undo it; engine.rewind() or "
                "engine.load_checkpoint() goes back to the weights from before.",
            )


def _named_tensors(model: nn.Module, belongings: Belongings | None) -> Iterator[tuple[str, Tensor]]:
    yield from model.named_parameters()
    if belongings is not None:
        for name, values in _states(model, belongings.optimizer):
            for value in values.values():
                if isinstance(value, Tensor):
                    yield name, value


def _differing(before: Mapping[str, object], now: Mapping[str, object]) -> list[str]:
    missing = object()
    names = dict.fromkeys([*before, *now])
    return [name for name in names if before.get(name, missing) != now.get(name, missing)]


def _layers(model: nn.Module) -> Iterator[tuple[str, object]]:
    for path, module in model.named_modules(remove_duplicate=False):
        if path:
            yield path, _Same(module, type(module))


def _facts(model: nn.Module, belongings: Belongings | None, before: Facts | None = None) -> Facts:
    """Return what is compared; an attribute not there `before`, which hides none of the class, is nobody's option."""
    found: Facts = {}
    for name, weight in model.named_parameters(remove_duplicate=False):
        own: Any = weight
        hooks = [*(own._backward_hooks or {}).values(), *(own._post_accumulate_grad_hooks or {}).values()]
        found[name] = _Seen(weight, weight.requires_grad, _Same(*hooks))
    for path, module in model.named_modules():
        kind, start = type(module), f"{path}." if path else ""
        hooks = [hook for name in _HOOKS for hook in vars(module)[name].values()]
        found[f"the hooks of {path or 'the model'}"] = _Same(*(hook for hook in hooks if not _is_ours(hook)))
        for name, value in vars(module).items():
            known = before is None or start + name in before or hasattr(kind, name)
            if not known or name in _MOVED or _is_own_method(module, name, value):
                continue
            if callable(value):
                found[start + name] = _Same(value)
            elif _is_plain(value):
                found[start + name] = value
    if belongings is not None:
        found |= _options(belongings.optimizer)
        for name, values in _states(model, belongings.optimizer):
            found[name] = {key: _Seen(each) if isinstance(each, Tensor) else each for key, each in values.items()}
    return found


def _is_own_method(module: nn.Module, name: str, value: object) -> bool:
    """Return whether `value` is the class's own method, as after a temporary replacement."""
    return getattr(value, "__self__", None) is module and getattr(value, "__func__", 0) is getattr(
        type(module), name, None
    )


def _options(optimizer: torch.optim.Optimizer) -> Facts:
    found: Facts = {}
    for number, group in enumerate(optimizer.param_groups):
        where = "the optimizer" if len(optimizer.param_groups) == 1 else f"group {number} of the optimizer"
        for name, value in group.items():
            if name == "params":
                found[f"the parameters of {where}"] = _Same(*value)
            elif isinstance(value, Tensor):
                found[f"{name} of {where}"] = _Seen(value)
            elif _is_plain(value):
                found[f"{name} of {where}"] = value
    return found


def _states(model: nn.Module, optimizer: torch.optim.Optimizer) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, weight in model.named_parameters():
        # Asked for itself, a parameter without one would get one.
        if weight in optimizer.state:
            yield f"the optimizer's state of {name}", optimizer.state[weight]


def _is_plain(value: object) -> bool:
    return isinstance(value, _PLAIN) or (isinstance(value, tuple) and all(isinstance(each, _PLAIN) for each in value))


def _is_ours(hook: Callable[..., object]) -> bool:
    return (getattr(hook, "__module__", None) or type(hook).__module__).startswith("pnne_nb.")


def _sample(tensor: Tensor) -> Tensor:
    if tensor.layout is not torch.strided or tensor.nbytes <= _WHOLE:
        return tensor
    flat = tensor.detach().flatten() if tensor.is_contiguous() else tensor.detach().select(-1, 0).flatten()
    return flat[:: max(1, flat.numel() // _LOOKED_AT)]


def _checksum(tensor: Tensor) -> int:
    """Return a checksum of a tensor's bits; 0 if it has no ordinary memory."""
    # Without no_grad, which an interrupt may leave on in the cell's thread.
    try:
        bits: Any = tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy()
        return zlib.crc32(bits)
    except (RuntimeError, TypeError, ValueError):
        return 0
