"""Guards the live model, which the training thread, cells and other threads use, so that nobody sees an unfinished step.

The first use of the model, or of any part of it, in a cell parks the training at the next step boundary until that cell
ends; then buffers and modes are as before the cell. Random numbers that a cell draws are its own. Another thread has the
model for as long as its call takes; where the result can be differentiated, until its backward pass has ended, or the
result is gone, or the thread is. Only the holder lets go. `use_guard` notices the uses.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from types import FrameType
from typing import Any, Final, final

import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from pnne_nb.errors import TrainingError
from pnne_nb.process.fork import fork_safe, renewed_after_fork
from pnne_nb.runtime.thread.cells import cells
from pnne_nb.runtime.thread.control import Control
from pnne_nb.runtime.thread.live_models import live_models, plain, without_modes
from pnne_nb.runtime.thread.live_state import Belongings, ChangeWatch
from pnne_nb.runtime.thread.rng_guard import trainings
from pnne_nb.runtime.thread.step_lock import has_turn
from pnne_nb.runtime.thread.use_guard import (
    KEPT,
    close_entries,
    guard_new_threads,
    guard_thread,
    open_entries,
    tensors_in,
    unguard_thread,
)

_CELL = "cell"
"""The cell as a visitor; the others are threads."""

_LINGER = 0.005
"""Seconds for which the training waits for another use by the same thread: a forward pass consists of many."""

PATIENCE = 30.0
"""Seconds for which the training waits for the backward pass of a result that a thread keeps without using the model."""


class _Result:
    """An object that lives as long as the autograd graph of a thread's result."""


@final
class _Holder:
    """A thread that holds the model outside of any cell: its uses under way (`calls`), and when the last one ended (`used`)."""

    def __init__(self, thread: threading.Thread) -> None:
        self.thread = thread
        self.calls = 0
        self.used = time.monotonic()
        self.results: list[weakref.ref[_Result]] = []
        self.frames: list[FrameType] = []

    def needs_it(self) -> bool:
        """Return whether a use is running, or a backward pass may follow."""
        self.results = [result for result in self.results if result() is not None]
        return bool(self.calls or self.results or self.frames)

    def look(self) -> None:
        """Forget ended threads and calls of compiled code, which do not report their end."""
        frame = sys._current_frames().get(self.thread.ident or 0)
        if frame is None or not self.thread.is_alive():
            self.calls, self.results, self.frames = 0, [], []
        if self.frames:
            running = set()
            while frame is not None:
                running.add(frame)
                frame = frame.f_back
            self.frames = [called for called in self.frames if called in running]


@final
class SharedModel:
    """Guards one model.

    Args:
        model: The live model.
        control: Gives the turns.
        tell: Takes what is to be told of a use: what happened, and what to do.
        belongings: Says what the training works with beside the model.

    Attributes:
        exclusive: Whether every cell parks the training, also one that leaves the model alone.
        steps_here: Whether this process makes the steps, so that they go on with what others write into the model.
        guards: Whether uses concern the training: not where a process makes its steps with a model of its own.
    """

    def __init__(
        self,
        model: nn.Module,
        control: Control,
        tell: Callable[[str, str], object],
        belongings: Callable[[], Belongings | None] = lambda: None,
    ) -> None:
        self.model = model
        self.exclusive = False
        self._control = control
        self._tell = tell
        self._lock = fork_safe(threading.RLock())
        self._parked = False
        self._holders: dict[threading.Thread, _Holder] = {}
        self._buffers: dict[int, tuple[Tensor, Tensor]] = {}
        self._places: list[tuple[nn.Module, str, Tensor]] = []
        self._changes = ChangeWatch(model, belongings, tell)
        self._closing: list[Callable[[], object]] = []
        self.guards = self.steps_here = True
        control.look = self._look
        renewed_after_fork(self)
        live_models.add(self)
        guard_new_threads(wanted=True)
        if cells.open_here():
            guard_thread()

    def renew_after_fork(self) -> None:
        """Lift the guard in a forked child, where nothing trains the model."""
        self.guards = self._parked = False
        self._holders, self._buffers = {}, {}

    def open(self) -> None:
        """Let the calling thread train the model from now on.

        Raises:
            TrainingError: Another training has the model.
        """
        model = self.model
        if any(isinstance(hook, _Guard) for hook in model._forward_pre_hooks.values()):
            raise TrainingError(
                "Another engine is training this model: stop it first, by engine.stop() or the Stop button of its dashboard, or "
                "train copy.deepcopy(model). Where its variable is used again, make the model again too."
            )
        mine = self._control.in_training_thread
        arrive = _Guard(lambda *_: self._enter_forward(), self, mine)
        leave = _Guard(self._leave_forward, self, mine)
        # What a scripted layer does, nobody sees but at its call.
        scripted = [part for part in model.modules() if isinstance(part, torch.jit.ScriptModule) and part is not model]
        for part in (model, *scripted):
            leaving = part.register_forward_hook(leave, always_call=True).remove
            self._closing += [part.register_forward_pre_hook(arrive, prepend=True).remove, leaving]
        self._closing += [
            model.register_state_dict_post_hook(leave).remove,  # type: ignore[no-untyped-call]  # torch leaves it untyped
            model.register_state_dict_pre_hook(arrive).remove,  # type: ignore[no-untyped-call]  # torch leaves it untyped
            lambda: trainings.remove(self._control),
            partial(close_entries, threading.get_ident()),
        ]
        open_entries()
        trainings.add(self._control)
        live_models.refresh()
        with self._lock:
            if self._parked or self._holders:
                # They were there before the training, and have not meant to change it either.
                self._keep_buffers(model.buffers())

    def close(self) -> None:
        """End the training's hold on the model; called in the training thread, or for it if it was abandoned."""
        for step in self._closing:
            step()
        self._closing = []
        self._changes.run_ended()
        with self._lock:
            # What is done to the model of a training that is over is meant.
            self._buffers = {}

    # Cells

    def use(self) -> None:
        """Give the model to a user; a cell keeps it until the cell ends."""
        if cells.open_here() and self.guards:
            self._park()

    def let_go(self) -> None:
        """Take the model back from the calling cell or thread, which ends or asks for more training."""
        if cells.open_here():
            self._end_of_cell()
            if self._control.alive and self.guards:
                self._changes.cell_began()
        else:
            holder = self._holders.get(threading.current_thread())
            if holder is not None:
                holder.calls, holder.results, holder.frames = 0, [], []
                self._leave(holder)

    @contextmanager
    def edited(self) -> Iterator[None]:
        """Treat changes in this block as intended: the end of a use does not undo or report them."""
        with self._changes.meant():
            yield
        live_models.refresh()
        with self._lock:
            self._buffers, self._places = {}, []
            if self._parked and self._closing:
                self._keep_all_buffers()

    def cell_began(self) -> None:
        """Record the begin of a cell in the calling thread."""
        holder = self._holders.get(threading.current_thread())
        if holder is not None:
            # Between two cells, no use is under way: an interrupt has cut the end of one short.
            holder.calls = 0
            self._leave(holder)
        if self._control.alive:
            if self.guards:
                self._changes.tell_of_arrays()
                cells.at_end(self._end_of_cell)
                self._changes.cell_began()
            if self.exclusive:
                self.use()

    def _park(self) -> None:
        # Only the cell's thread comes here, so that nobody parks twice.
        if not self._parked:
            cells.at_end(self._end_of_cell)
            self._control.arrive(_CELL, "a cell that uses the model")
            with self._lock:
                self._parked = True
                if self._closing:
                    self._keep_all_buffers()
                    self._changes.parked()

    def _end_of_cell(self) -> None:
        changed: list[str] = []
        try:
            with self._lock:
                try:
                    changed = self._changes.take() if self._closing and self.steps_here else []
                finally:
                    self._changes.forget()
                    self._parked = False
                    self._restore_if_unused()
        finally:
            # Also where an interrupt has cut its arrival, or this, short.
            self._control.forget(_CELL)
        self._changes.tell("A cell", changed)

    # Threads

    @contextmanager
    def in_use(self, buffers: Iterable[Tensor] = ()) -> Iterator[None]:
        """Use the model or a part of it in this block.

        Outside of a cell, those `buffers` are as before when the thread has no more use for the model: a forward pass
        in train mode moves the statistics of batch norm.
        """
        if self._is_own():
            yield
        elif cells.open_here():
            self._park()
            yield
        else:
            holder = self._arrive()
            try:
                with self._lock:
                    self._keep_buffers(buffers)
                yield
            finally:
                self._depart(holder)

    def use_until_return(self, frame: FrameType) -> None:
        """Give the model to the calling thread until the function of `frame`, which calls compiled code, returns."""
        if self._is_own():
            return
        if cells.open_here():
            self._park()
            return
        holder = self._arrive()
        with self._lock:
            holder.frames.append(frame)
            self._keep_buffers(self.model.buffers())
            holder.calls -= 1

    def keep(self, output: Any) -> None:
        """Hold the training until the backward pass of `output`, which the calling thread computed with the model."""
        if self._is_own() or cells.open_here():
            return
        holder = self._holders.get(threading.current_thread())
        results = [each for each in map(plain, tensors_in((output,))) if each.grad_fn is not None]
        for result in results if holder is not None else ():
            node: Any = result.grad_fn
            kept = node.metadata.setdefault(KEPT, {})
            if id(self) not in kept:
                kept[id(self)] = _Result()
                with self._lock:
                    assert holder is not None
                    holder.results.append(weakref.ref(kept[id(self)]))

    def beside(self) -> Iterator[tuple[Tensor, bool]]:
        """See `GuardedModel`."""
        belongings = self._changes.belongings() if self.guards else None
        if belongings is not None:
            for state in tuple(belongings.optimizer.state.values()):
                yield from ((value, False) for value in tuple(state.values()) if isinstance(value, Tensor))
            yield from ((tensor, True) for tensor in belongings.data.values())

    def written(self, memory: int) -> None:
        if self._closing and self.steps_here and not self._is_own():
            self._changes.written(memory, in_cell=cells.open_here())

    def lend(self, memory: int, array: NDArray[Any] | None) -> None:
        """Record that the calling thread shares the model's memory; an array that still exists is reported in the next cell."""
        if not self._is_own():
            self._changes.lend(memory, array, in_cell=self.parked_here())

    def held_here(self) -> bool:
        """Return whether a use in the calling thread neither waits nor needs a clean-up."""
        return self._is_own() or self.parked_here()

    def parked_here(self) -> bool:
        return self._parked and cells.open_here()

    def _is_own(self) -> bool:
        """Return whether the caller is the training, or a step of another training that holds this one between two steps."""
        return not self.guards or self._control.in_training_thread() or has_turn()

    def _arrive(self) -> _Holder:
        me = threading.current_thread()
        with self._lock:
            holder = self._holders.get(me)
            if holder is not None:
                holder.calls += 1
                return holder
        self._control.arrive(me, "a use of the model in another thread")
        with self._lock:
            holder = self._holders[me] = _Holder(me)
            holder.calls = 1
            return holder

    def _depart(self, holder: _Holder) -> None:
        with self._lock:
            holder.calls = max(0, holder.calls - 1)
            holder.used = time.monotonic()
            if holder.needs_it():
                return
        self._leave(holder)

    def _leave(self, holder: _Holder) -> None:
        leaves = False
        try:
            with self._lock:
                leaves = not holder.needs_it() and self._holders.get(holder.thread) is holder
                if leaves:
                    del self._holders[holder.thread]
                    self._restore_if_unused()
        finally:
            if leaves:
                self._control.leave(holder.thread, _LINGER)

    def _look(self) -> None:
        """Check whether the holders for whom the training waits still need the model."""
        now = time.monotonic()
        for holder in tuple(self._holders.values()):
            with self._lock:
                holder.look()
                forgotten = bool(holder.results) and not holder.calls and now - holder.used > PATIENCE
                if forgotten:
                    holder.results = []
            self._leave(holder)
            if forgotten:
                self._tell(
                    f"The training has waited {PATIENCE:.0f} s for the backward pass of a result that the thread "
                    f"{holder.thread.name!r} keeps, and goes on without it.",
                    "Compute what is not differentiated under torch.no_grad(), or delete it. A backward pass of it now "
                    "raises an error of torch: the weights have changed.",
                )

    # The live model's own forward pass, seen in every thread

    def _enter_forward(self) -> None:
        guard_thread()
        # The hook, and what has called it.
        self.use_until_return(sys._getframe(3))

    def _leave_forward(self, *received: Any) -> None:
        holder = self._holders.get(threading.current_thread())
        if holder is None or cells.open_here() or self._is_own():
            return
        # After a forward pass the last argument is its output.
        if len(received) == 3:
            self.keep(received[-1])
        with self._lock:
            del holder.frames[-1:]
        self._leave(holder)

    # Buffers

    def _keep_buffers(self, buffers: Iterable[Tensor]) -> None:
        """Save the buffers that no use has changed yet, while a training runs."""
        with torch._C.DisableTorchFunction(), without_modes():
            for buffer in buffers if self._closing else ():
                self._buffers.setdefault(id(buffer), (buffer, buffer.detach().clone()))

    def _keep_all_buffers(self) -> None:
        """Save the model's buffers and their layers, because a cell may replace a buffer."""
        self._keep_buffers(self.model.buffers())
        if not self._places:
            self._places = [
                (module, name, buffer)
                for module in self.model.modules()
                for name, buffer in module._buffers.items()
                if buffer is not None
            ]

    def _restore_if_unused(self) -> None:
        if not (self._parked or self._holders):
            with torch._C.DisableTorchFunction(), without_modes():
                for module, name, buffer in self._places:
                    if module._buffers.get(name) is not buffer and name not in module._parameters:
                        module._buffers[name] = buffer
                for buffer, kept in self._buffers.values():
                    if (buffer.dtype, buffer.shape, buffer.device) != (kept.dtype, kept.shape, kept.device):
                        buffer.data = kept
                    else:
                        # Without no_grad, which an interrupt may leave on in the cell's thread.
                        buffer.detach().copy_(kept)
            self._buffers, self._places = {}, []


def _cell_began() -> None:
    """Guard the calling thread at the begin of a cell, if there is an engine."""
    shared = [each for each in live_models.all() if isinstance(each, SharedModel)]
    if not shared:
        unguard_thread()
        guard_new_threads(wanted=False)
        return
    guard_thread()
    live_models.refresh()
    for each in shared:
        each.cell_began()


cells.at_begin(_cell_began)


@contextmanager
def between_steps(model: nn.Module) -> Iterator[None]:
    """Hold `model` for this block if it is in training, because in mid-step only some of its tensors are updated."""
    with contextlib.ExitStack() as stack:
        for guarded in live_models.of_module(model):
            stack.enter_context(guarded.in_use())
        yield


@final
class _NoGuard:
    """A guard of a copy of the model: it does nothing."""

    only_watches: Final = True

    def __call__(self, *_: object, **__: object) -> None:
        pass


@final
class _Guard:
    """A hook of the live model; in copies of the model, it does nothing."""

    only_watches: Final = True  # an import of the model leaves it out

    def __init__(
        self, function: Callable[..., None], shared: SharedModel, in_training_thread: Callable[[], bool]
    ) -> None:
        self._function = function
        self._shared = shared
        self._in_training_thread = in_training_thread

    def __call__(self, *received: Any) -> None:
        # Each step of the training comes here twice. Compiled code is seen where it is called.
        if not torch.compiler.is_compiling() and not self._in_training_thread():
            self._function(*received)

    def __deepcopy__(self, memo: dict[int, Any]) -> _NoGuard:
        # A copy is being made, whose layers come after its hooks: from here on it is a consistent one.
        self._shared.use()
        return _NoGuard()

    def __reduce__(self) -> tuple[type[_NoGuard], tuple[()]]:
        self._shared.use()
        return _NoGuard, ()
