"""The boundary around a training in a thread: whoever else uses its model waits for the end of the running step.

In a notebook, a use of the model in a cell, or in a thread while a cell runs, keeps the training waiting until that cell ends.
Then buffers are as before the cell. Where no cell runs, as in a script, a use is refused with the line to write.

Nothing belongs to the boundary but hooks on the training's own layers and, as soon as somebody else has used the model, on its
own parameters; `cell_mode` sees the rest of what a cell does.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any, Final, NamedTuple, cast, final

import torch
from torch import Tensor, nn
from torch._functorch.pyfunctorch import temporarily_clear_interpreter_stack
from torch.utils._python_dispatch import _disable_current_modes

from pnne_nb.errors import TrainingError
from pnne_nb.process.fork import renewed_after_fork
from pnne_nb.runtime.thread.cells import cells
from pnne_nb.runtime.thread.control import Control
from pnne_nb.runtime.thread.running_trainings import add_running, remove_running, running
from pnne_nb.runtime.thread.step_lock import adopt_backward_thread, in_some_step, is_of_a_step

_CELL = "cell"
"""The cell as a visitor; the others are threads."""
_REASON = "a cell that uses the model"

_LINE = (
    "`with engine.paused() as model:` waits for the end of the running step, and keeps the training waiting until the end of "
    "that block; engine.snapshot() gives a copy."
)

_functorch: Any = torch._C._functorch


class Beside(NamedTuple):
    """A tensor that a training works with beside its model.

    Attributes:
        name: In words.
        tensor: Of any shape.
        is_data: Whether everybody may read it, because the training only reads it, too.
    """

    name: str
    tensor: Tensor
    is_data: bool


@final
class Boundary:
    """Keeps others from a model while a step changes it.

    Args:
        model: The live model.
        control: Gives the turns.
        tell: Takes what is to be told of a use: what happened, and what to do.
        beside: What the training works with beside the model.

    Attributes:
        exclusive: Whether every cell keeps the training waiting, also one that leaves the model alone.
    """

    def __init__(
        self,
        model: nn.Module,
        control: Control,
        tell: Callable[[str, str], object],
        beside: Callable[[], Iterable[Beside]] = tuple,
    ) -> None:
        self.model = model
        self.control = control
        self.exclusive = False
        self._tell = tell
        self._beside = beside
        self._kept: dict[str, _Buffers] = {}
        self._changed: dict[str, None] = {}
        self._told: set[str] = set()
        self._lent = 0
        self._given_back = 0
        self._closing: list[Callable[[], object]] = []
        self._stops_backward = False
        self._memory: dict[int, list[Beside]] | None = None
        renewed_after_fork(self)

    def renew_after_fork(self) -> None:
        """Fall in a forked child, where nothing trains the model."""
        self._closing, self._kept = [], {}

    @property
    def is_open(self) -> bool:
        """Whether a training is under way that uses of the model concern."""
        return bool(self._closing)

    @property
    def is_lent(self) -> bool:
        """Whether somebody has the model to himself."""
        return bool(self._lent)

    def open(self) -> None:
        """Let the calling thread train the model from now on.

        Raises:
            TrainingError: Another training has the model.
        """
        model = self.model
        if any(isinstance(hook, _Hook) for hook in model._forward_pre_hooks.values()):
            raise TrainingError(
                "Another engine is training this model: stop it first, by engine.stop() or the Stop button of its dashboard, or "
                "train copy.deepcopy(model). Where its variable is used again, make the model again too."
            )
        self._trainer = threading.get_ident()
        for device in {parameter.device for parameter in model.parameters()}:
            adopt_backward_thread(device)
        self.watch_layers()
        add_running(self)
        self._closing.append(lambda: remove_running(self))

    def watch_layers(self) -> None:
        """Hang a hook on each layer that has tensors, and has none yet."""
        hook = _Hook(self.arrive, self._trainer)
        for layer in _hooked(self.model):
            if not any(isinstance(each, _Hook) for each in layer._forward_pre_hooks.values()):
                self._closing.append(layer.register_forward_pre_hook(hook, prepend=True).remove)

    def close(self) -> None:
        """Fall; called in the training thread."""
        closing, self._closing = self._closing, []
        for step in closing:
            step()
        self._stops_backward = False
        # What is done to the model of a training that is over is meant.
        self._kept, self._changed, self._told = {}, {}, set()

    # Uses

    def arrive(self) -> None:
        """Wait until the model may be used by the calling thread, which is not the training's.

        Raises:
            TrainingError: No cell runs, at whose end the training could go on.
        """
        if not self.is_open or self._may_pass():
            return
        if not cells.open:
            raise TrainingError(f"The model is in training, and a step may be changing it. {_LINE}")
        self._stop_backward()
        self.park()

    def _may_pass(self, in_step: Callable[[], bool] = in_some_step) -> bool:
        return bool(self._lent) or self.held_here() or in_step() or self.control.rests

    def held_here(self) -> bool:
        """Return whether the training waits for the calling thread, or for the cell that runs there."""
        return (bool(self._kept) and cells.open_here()) or self.control.is_visited_by(threading.get_ident())

    def park(self) -> None:
        """Keep the training waiting until the running cell ends."""
        if self.is_open and not self._kept:
            cells.at_end(self._end_of_cell)
            self.control.arrive(_CELL, _REASON)
            # Of several threads of a cell, the first one's counts: no other has used the model before it.
            self._kept.setdefault(_CELL, _Buffers(self.model))

    def yield_while(self, held: Callable[[], bool]) -> None:
        """Give the model to the running cell until it ends if it is `held`; called in the training thread between two steps."""
        given_back = self._given_back
        if self.is_open and not self._kept and held():
            self.control.expect(_CELL, _REASON)
            self._kept.setdefault(_CELL, _Buffers(self.model))
            cells.at_end(self._end_of_cell)
            # The cell may have ended, or asked for more training, before that.
            if not cells.open or given_back != self._given_back:
                self._end_of_cell()

    def use(self) -> None:
        """Give the model to the caller; a cell keeps it until the cell ends."""
        if cells.open_here():
            self.park()

    def let_go(self) -> None:
        """Take the model back from the calling cell, which ends or asks for more training."""
        if cells.open_here():
            self._given_back += 1
            self._end_of_cell()

    def _end_of_cell(self) -> None:
        kept, self._kept = self._kept, {}
        changed, self._changed = [name for name in self._changed if name not in self._told], {}
        try:
            if self.is_open:
                for buffers in kept.values():
                    buffers.restore()
        finally:
            # Also where an interrupt has cut its arrival, or this, short.
            self.control.forget(_CELL)
        self._told.update(changed)
        if changed and self.is_open:
            self._tell(
                f"A cell has changed {', '.join(changed[:3])}{' …' * (len(changed) > 3)} during the training, which goes on with "
                "that: the run no longer follows from its seed and data, and a resume would not repeat it.",
                "If it was meant, do it in `with engine.paused() as model:`. If not, undo it; engine.rewind() or "
                "engine.load_checkpoint() goes back to the weights from before.",
            )

    @contextmanager
    def lent(self) -> Iterator[None]:
        """Treat uses and changes in this block as intended; whoever enters it has a turn at the model."""
        self._lent += 1
        try:
            yield
        finally:
            self._lent -= 1
            self._changed, self._memory = {}, None
            if self.is_open:
                self.watch_layers()
                if self._kept:
                    self._kept = {_CELL: _Buffers(self.model)}

    def cell_began(self) -> None:
        """Record the begin of a cell in the calling thread."""
        self._memory = None
        if self.is_open and self.exclusive:
            self.park()

    # Tensors

    def uses(self, tensors: Iterable[Tensor], *, writes: bool = False) -> list[str]:
        """Return the names of the training's tensors to whose memory some of these belong; of data, if one `writes` there."""
        if self._memory is None:
            self._memory = self._found()
        known = self._memory
        return [
            each.name for tensor in tensors for each in known.get(memory_of(tensor), ()) if writes or not each.is_data
        ]

    def _found(self) -> dict[int, list[Beside]]:
        found: dict[int, list[Beside]] = {}
        with torch._C.DisableTorchFunction():
            own = [Beside(name, tensor, False) for name, tensor in self.model.named_parameters()]
            # A name of its own is not told of: a buffer is put back.
            own += [Beside("", tensor, False) for tensor in self.model.buffers()]
            for each in (*own, *self._beside()):
                found.setdefault(memory_of(each.tensor), []).append(each)
        return found

    def shares(self, model: nn.Module) -> bool:
        """Return whether `model` and this one have a layer or a tensor in common: a dropout has no tensors, but a mode."""
        layers = {id(layer) for layer in self.model.modules()}
        tensors = (*model.parameters(), *model.buffers())
        return any(id(layer) in layers for layer in model.modules()) or bool(self.uses(tensors))

    def note_changed(self, names: Iterable[str]) -> None:
        """Remember what the running cell has written, to tell of it when the cell ends."""
        if not self._lent:
            self._changed.update(dict.fromkeys(filter(None, names)))

    # Backward passes of threads that go on when their cell has ended

    def _stop_backward(self) -> None:
        """Hang a hook on each parameter: a backward pass that goes on in another thread must not meet the training's."""
        if not self._stops_backward:
            self._stops_backward = True
            for parameter in self.model.parameters():
                if parameter.requires_grad and parameter.is_leaf:
                    handle = parameter.register_hook(self._before_gradient)  # type: ignore[no-untyped-call]  # torch leaves it untyped
                    self._closing.append(handle.remove)

    def _before_gradient(self, _: Tensor) -> None:
        here = threading.get_ident()
        # A thread of autograd's own, on an accelerator, makes one pass after the other.
        if here == self._trainer or here not in threading._active:  # type: ignore[attr-defined]  # the only list of Python's threads by number
            return
        if not (self._kept or self._may_pass(is_of_a_step)):
            raise TrainingError(
                f"A backward pass meets the training, which has gone on since its cell has ended. {_LINE}"
            )


def between_steps(model: nn.Module) -> AbstractContextManager[None]:
    """Return a block that keeps the trainings of `model`, or of a part of it, between two steps."""
    return _visits([each for each in boundaries() if each.shares(model)])


@contextmanager
def _visits(found: Iterable[Boundary]) -> Iterator[None]:
    with ExitStack() as visits:
        for each in found:
            visits.enter_context(each.control.visit("a block that looks at the model"))
        yield


def boundaries() -> tuple[Boundary, ...]:
    """Return those of the trainings under way."""
    return cast("tuple[Boundary, ...]", running())


def _hooked(model: nn.Module) -> Iterator[nn.Module]:
    """Yield the layers that have tensors; an encoder layer of torch takes another way in evaluation if there is a hook inside."""
    yield model
    inside = {id(part) for layer in model.modules() if isinstance(layer, _NO_HOOKS) for part in layer.modules()}
    for layer in model.modules():
        own = layer._parameters or layer._buffers or isinstance(layer, torch.jit.ScriptModule)
        if own and layer is not model and id(layer) not in inside:
            yield layer


_NO_HOOKS = (nn.TransformerEncoderLayer,)


def plain(tensor: Tensor) -> Tensor:
    """Return the tensor that a transform of ``torch.func`` has wrapped, or the same one."""
    while _functorch.is_functorch_wrapped_tensor(tensor):
        tensor = _functorch.get_unwrapped(tensor)
    return tensor


def memory_of(tensor: Tensor) -> int:
    """Return a key that a tensor and its views share; the tensor itself if it has no memory, such as a sparse one."""
    try:
        return int(plain(tensor).untyped_storage()._cdata)
    except (NotImplementedError, RuntimeError, ValueError, AttributeError):
        return id(tensor)


@final
class _Buffers:
    """The buffers of a model, to put them back where they were."""

    def __init__(self, model: nn.Module) -> None:
        with _plainly(), torch._C.DisableTorchFunction():
            self._kept = [
                (module, name, buffer, buffer.detach().clone())
                for module in model.modules()
                for name, buffer in module._buffers.items()
                if buffer is not None
            ]

    def restore(self) -> None:
        with _plainly(), torch._C.DisableTorchFunction():
            for module, name, buffer, kept in self._kept:
                if module._buffers.get(name) is not buffer and name not in module._parameters:
                    module._buffers[name] = buffer
                if (buffer.dtype, buffer.shape, buffer.device) != (kept.dtype, kept.shape, kept.device):
                    buffer.data = kept
                else:
                    # Without no_grad, which an interrupt may leave on in the cell's thread.
                    buffer.detach().copy_(kept)


@contextmanager
def _plainly() -> Iterator[None]:
    """Disable the dispatch modes and transforms (``torch.func``) of the cell in this block."""
    with _disable_current_modes(), temporarily_clear_interpreter_stack():
        yield


@final
class _NoHook:
    """A hook of a copy of the model: it does nothing."""

    only_watches: Final = True

    def __call__(self, *_: object) -> None:
        pass


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]  # torch leaves it untyped
def _compiles_for_training() -> bool:
    """Return whether the calling thread, which compiles, has a training's turn, or the model by ``paused()``."""
    return in_some_step() or any(each.is_lent for each in boundaries())


@torch.compiler.disable  # type: ignore[untyped-decorator]  # torch leaves it untyped
def _arrive_uncompiled(arrive: Callable[[], None]) -> None:
    if not in_some_step():
        arrive()


@final
class _Hook:
    """The hook of a layer in training; in copies of the layer, it does nothing."""

    only_watches: Final = True  # an import of the model leaves it out

    def __init__(self, arrive: Callable[[], None], trainer: int) -> None:
        self._arrive = arrive
        self._trainer = trainer

    def __call__(self, *_: object) -> None:
        # Each step of the training comes here.
        if torch.compiler.is_dynamo_compiling():
            # Code that a cell compiles comes here as well when it runs; the training's own stays whole.
            if not _compiles_for_training():
                _arrive_uncompiled(self._arrive)
        elif threading.get_ident() != self._trainer:
            self._arrive()

    def __deepcopy__(self, memo: dict[int, Any]) -> _NoHook:
        return _NoHook()

    def __reduce__(self) -> tuple[type[_NoHook], tuple[()]]:
        return _NoHook, ()


def without_hooks(copied: nn.Module) -> nn.Module:
    """Take the hooks that do nothing out of a copy of a model in training, and return it."""
    for layer in copied.modules():
        for number, hook in list(layer._forward_pre_hooks.items()):
            if isinstance(hook, _NoHook):
                del layer._forward_pre_hooks[number]
    return copied
