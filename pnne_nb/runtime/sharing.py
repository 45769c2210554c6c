"""The live model, used by a training thread and by cells: nobody meets a half-made step.

While training is under way, the first use of the model in a cell (a forward pass, ``state_dict``,
``train`` or ``eval``, a copy, ``engine.model``) parks the training at the next step boundary until that
cell ends; then buffers and modes are as before the cell. Random numbers that a cell draws are its own. A use
outside any cell has the model for as long as the call, or the backward pass of its output, takes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import MethodType
from typing import Any, final

import torch
from torch import Tensor, nn
from torch.autograd import Variable

from pnne_nb.errors import TrainingError
from pnne_nb.runtime.cells import cells
from pnne_nb.runtime.control import Control
from pnne_nb.runtime.drawing import guard_draws, trainings

_CELL = 0
"""The cell as a visitor; no thread has this number."""


@final
class SharedModel:
    """Guards one model while its training thread is at work.

    Args:
        model: The live model; has guards between `open` and `close`.
        control: Gives the turns.

    Attributes:
        exclusive: Whether every cell parks the training, also one that leaves the model alone.
    """

    def __init__(self, model: nn.Module, control: Control) -> None:
        self.exclusive = False
        self._model = model
        self._control = control
        self._lock = threading.Lock()
        self._parked = False
        self._watches_cell = False
        self._buffers: list[tuple[Tensor, Tensor]] = []
        self._closing: list[Callable[[], None]] = []

    def open(self) -> None:
        """Put the guards in place; called in the training thread.

        Raises:
            TrainingError: Another training has the model.
        """
        model = self._model
        if isinstance(model.__dict__.get("train"), _GuardedTrain):
            raise TrainingError("Another engine is training this model: stop it first, or train a copy of the model.")
        object.__setattr__(model, "train", _GuardedTrain(self, model))
        mine = self._control.in_training_thread
        arrive, leave = _Guard(self._arrive, self, mine), _Guard(self._leave, self, mine)
        # Another thread may be in the middle of a call: nobody may arrive whose leaving would go unseen.
        leaving = [
            model.register_forward_hook(leave, always_call=True).remove,
            model.register_state_dict_post_hook(leave).remove,  # type: ignore[no-untyped-call]
        ]
        self._closing = [
            lambda: model.__dict__.pop("train", None),
            model.register_forward_pre_hook(arrive, prepend=True).remove,
            model.register_state_dict_pre_hook(arrive).remove,  # type: ignore[no-untyped-call]
            *leaving,
            cells.at_begin(self._cell_began),
            lambda: trainings.remove(self._control),
        ]
        trainings.add(self._control)

    def close(self) -> None:
        """Take the guards away; called in the training thread."""
        for step in self._closing:
            step()
        self._closing = []

    def use(self) -> None:
        """Somebody is about to use the model: in a cell, it is theirs until the cell ends."""
        if self._control.alive and cells.open_here():
            self._park()

    @contextmanager
    def momentarily(self) -> Iterator[None]:
        """Have the model until the cell ends, or outside any cell for this block."""
        if self._control.in_training_thread():
            yield
            return
        self._arrive()
        try:
            yield
        finally:
            self._leave()

    def watch_cell(self) -> None:
        """Keep random numbers of the running cell apart from the training's, if the caller is in a cell."""
        if cells.open_here() and not self._watches_cell:
            self._watches_cell = True
            unguard = guard_draws()

            def ended() -> None:
                self._watches_cell = False
                unguard()

            cells.at_end(ended)

    def release(self) -> None:
        """Let training go on: the cell has ended, or itself asks for more training."""
        self._forget_failed_backward()
        with self._lock:
            if not self._parked:
                return
            self._parked = False
            with torch.no_grad():
                for buffer, kept in self._buffers:
                    buffer.copy_(kept)
            self._buffers = []
        self._control.leave(_CELL)

    def edited(self) -> None:
        """Whatever a block of ``paused()`` did to the buffers was meant: the end of the cell must not undo it."""
        with self._lock:
            if self._parked:
                self._buffers = [(buffer, buffer.detach().clone()) for buffer in self._model.buffers()]

    def _forget_failed_backward(self) -> None:
        # Autograd calls nobody back when a backward pass raises.
        self._control.leave(_backward_of_this_thread())

    def _park(self) -> None:
        # Only the cell's thread comes here, so that nobody parks twice.
        if not self._parked:
            self._control.arrive(_CELL, "a cell that uses the model")
            self._parked = True
            self.edited()
            cells.at_end(self.release)

    def _cell_began(self) -> None:
        self.watch_cell()
        if self.exclusive:
            self.use()

    def _arrive(self, *_: object) -> None:
        if cells.open_here():
            self.use()
        else:
            self._forget_failed_backward()
            self._control.arrive(threading.get_ident(), "a use of the model in another thread")

    def _leave(self, *received: Any) -> None:
        if cells.open_here():
            return
        # After a forward pass the last argument is its output.
        if len(received) == 3 and isinstance(received[-1], Tensor) and received[-1].requires_grad:
            received[-1].register_hook(self._backward_began)  # type: ignore[no-untyped-call]
        self._control.leave(threading.get_ident())

    def _backward_began(self, gradient: Tensor) -> None:
        """The output of a forward pass in another thread is differentiated: steps must not run meanwhile."""
        del gradient
        if self._control.in_training_thread() or cells.open_here():
            return
        key = _backward_of_this_thread()
        self._control.arrive(key, "a backward pass in another thread")
        Variable._execution_engine.queue_callback(lambda: self._control.leave(key))


@contextmanager
def between_steps(model: nn.Module) -> Iterator[None]:
    """Have `model` for this block, if it is in training: in the middle of a step, half of its tensors are older."""
    guard = model.__dict__.get("train")
    if isinstance(guard, _GuardedTrain):
        with guard.shared.momentarily():
            yield
    else:
        yield


def _backward_of_this_thread() -> int:
    """The thread's backward pass as a visitor, beside the thread itself."""
    return -threading.get_ident()


def _nothing(*_: object, **__: object) -> None:
    """What a guard is in a copy of the model."""


def _no_guard() -> Callable[..., None]:
    """Makes what a guard is in a saved model."""
    return _nothing


@final
class _Guard:
    """A hook of the live model that does nothing in its copies, which training knows nothing of."""

    def __init__(
        self, function: Callable[..., None], shared: SharedModel, in_training_thread: Callable[[], bool]
    ) -> None:
        self._function = function
        self._shared = shared
        self._in_training_thread = in_training_thread

    def __call__(self, *received: Any) -> None:
        # Each step of the training comes here twice.
        if not self._in_training_thread():
            self._function(*received)

    def __deepcopy__(self, memo: dict[int, Any]) -> Callable[..., None]:
        # A copy is being made, whose layers come after its hooks: from here on it is a consistent one.
        self._shared.use()
        return _nothing

    def __reduce__(self) -> tuple[Callable[[], Callable[..., None]], tuple[()]]:
        self._shared.use()
        return _no_guard, ()


@final
class _GuardedTrain:
    """Stands before ``model.train``, and so before ``model.eval``, as an attribute of the live model only.

    Attributes:
        shared: Gives the model to others.
    """

    def __init__(self, shared: SharedModel, model: nn.Module) -> None:
        self.shared = shared
        self._model = model

    def __call__(self, mode: bool = True) -> nn.Module:
        with self.shared.momentarily():
            return type(self._model).train(self._model, mode)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        copy = memo[id(self._model)]
        return MethodType(type(copy).train, copy)

    def __reduce__(self) -> tuple[Any, ...]:
        # In a loaded model, which is still without this attribute then, that is the class's method.
        return getattr, (self._model, "train")
