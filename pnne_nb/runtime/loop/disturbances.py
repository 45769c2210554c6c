"""`Disturbances`: what a cell did in the middle of a step without using the model, so that the step is made again."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable
from operator import attrgetter
from traceback import walk_tb
from typing import Any, Final, final

import torch
from torch import Tensor, nn


@final
class BufferSnapshot:
    """Copies of live `buffers` in memory that is reused for each step; batch norm alone has three per layer."""

    def __init__(self, buffers: Iterable[Tensor]) -> None:
        live: dict[tuple[torch.device, torch.dtype], list[Tensor]] = {}
        for buffer in buffers:
            live.setdefault((buffer.device, buffer.dtype), []).append(buffer)
        self._groups = [(group, [buffer.detach().clone() for buffer in group]) for group in live.values()]

    def take(self) -> None:
        for live, kept in self._groups:
            torch._foreach_copy_(kept, live)

    @torch.no_grad()
    def restore(self) -> None:
        for live, kept in self._groups:
            torch._foreach_copy_(live, kept)


_mode_of = attrgetter("training")
"""In C: it is asked for every layer before every batch."""


@final
class Modes:
    """Holds a model in train or eval mode, and its buffers as they were before the step under way."""

    def __init__(self) -> None:
        self.buffers = BufferSnapshot(())
        self._modules: list[nn.Module] = []
        self._modes: list[bool] = []

    def set(self, model: nn.Module, *, training: bool) -> None:
        """Set every layer of `model` to train or eval mode, and keep it there."""
        model.train(training)
        self._modules = list(model.modules())
        self._modes = list(map(_mode_of, self._modules))
        self.buffers = BufferSnapshot(model.buffers())

    @property
    def are_kept(self) -> bool:
        """Whether every layer is in its mode."""
        return list(map(_mode_of, self._modules)) == self._modes

    def restore(self) -> None:
        """Undo what a cell's ``model.eval()`` did since the last batch."""
        if not self.are_kept:
            for module, training in zip(self._modules, self._modes, strict=True):
                module.training = training


_AT_FIRST: Final = 2
"""So often a first step is made again before the model is taken to change its modes itself."""
_LATER: Final = 50
_TRACER = "/torch/fx/"
_TRACES: Final = 1000
_MOMENT: Final = 0.01
"""Seconds until a step that has met a tracer is made again, and how often at most."""


class DisturbedError(Exception):
    """The step under way was disturbed, and must be made again."""


class HeldError(Exception):
    """A cell has changed a mode, or compiles: the step under way is to be made when the cell has ended."""


@final
class Disturbances:
    """Finds ``model.eval()``, ``torch.compile``, and ``torch.fx``, which takes over the calls of all modules while it traces one.

    An optimizer computes in another way while any thread compiles, because torch says so in all of them. So nobody may begin
    to compile in the update of a step.

    Attributes:
        in_cell: Says whether a cell runs for which the training would wait.
    """

    def __init__(self, modes: Modes) -> None:
        self.in_cell: Callable[[], bool] = lambda: False
        self._modes = modes
        self._repeated = 0
        self._traced = 0
        self._most: int | None = _AT_FIRST
        self._compiler: Any = None

    @property
    def held(self) -> bool:
        """Whether the running cell compiles, or has changed a mode since the last batch, which it keeps until it ends."""
        if not self.in_cell():
            return False
        compiles = not self._keep_compiler()
        self.release_compiler()
        return compiles or self._modes_held

    @property
    def _modes_held(self) -> bool:
        # Not before a first step has shown that the training's own code keeps the modes.
        return self._most == _LATER and self.in_cell() and not self._modes.are_kept

    def begin(self) -> None:
        """Undo what a cell's ``model.eval()`` did since the last batch.

        Raises:
            HeldError: That cell still runs.
        """
        if self._modes_held:
            raise HeldError
        self._modes.restore()

    def look(self) -> None:
        """Check the modes before the update, and keep cells from compiling until `release_compiler`.

        Raises:
            DisturbedError: Somebody has changed a mode in this step.
            HeldError: The running cell has, or it compiles.
        """
        # Also where no cell runs: one may begin in the update.
        if not self._keep_compiler() and self.in_cell():
            raise HeldError
        if self._most is None or self._modes.are_kept:
            return
        if self._modes_held:
            raise HeldError
        self._repeated += 1
        if self._repeated > self._most:
            # Else a training whose own code does it would make each step twice.
            self._most = None
            return
        self._modes.restore()
        raise DisturbedError

    def _keep_compiler(self) -> bool:
        """Keep everybody else from compiling, without waiting; return whether nobody does."""
        lock = getattr(sys.modules.get("torch._dynamo.convert_frame"), "compile_lock", None)
        if lock is None:
            return True
        if lock.acquire(blocking=False):
            self._compiler = lock
            return True
        return False

    def release_compiler(self) -> None:
        """Let others compile again."""
        lock, self._compiler = self._compiler, None
        if lock is not None:
            lock.release()

    def made(self, error: BaseException) -> bool:
        """Return whether a step has failed for such a reason only."""
        if isinstance(error, DisturbedError):
            return True
        traced = any(_TRACER in frame.f_code.co_filename for frame, _ in walk_tb(error.__traceback__))
        if not (traced or "Proxy" in str(error)) or self._traced >= _TRACES:
            return False
        self._traced += 1
        time.sleep(_MOMENT)
        return True

    def over(self) -> None:
        """Record the end of a step."""
        self._repeated = self._traced = 0
        if self._most is not None:
            self._most = _LATER
