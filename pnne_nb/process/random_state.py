"""Saves and restores the process-wide random state of torch, Python and NumPy.

Every block that must leave it as it was is made of these. Only `runtime.thread.rng` does it otherwise: a training
swaps its own state in and out around each step, which are two states and no block that ends where it began.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, final

import numpy as np
import torch

from pnne_nb.process.fork import fork_safe

SEED = 0
turn: Any = fork_safe(threading.RLock())
"""Held by a thread while the global generators, or torch's switches, are not everybody's: in a step of a training, or where
random numbers begin at a fixed seed. A thread may nest it.

It is entered by ``with`` itself: written in C, it is left in any case, also when an interrupt comes just then.
"""
between_steps: Callable[[], AbstractContextManager[None]] = nullcontext
"""Makes the blocks in which no training of this process makes a step, whose states the generators have meanwhile."""


def _alone() -> AbstractContextManager[Any]:
    found: AbstractContextManager[Any] = turn
    return found


alone: Callable[[], AbstractContextManager[Any]] = _alone
"""Makes those that moreover have the turn; what a step calls has it already."""


@final
class RandomState:
    """The state of the global generators, to be put back.

    Args:
        devices: Accelerators of one type whose generators count too; None means every CUDA device, and what is no
            accelerator is left out.
    """

    def __init__(self, devices: Collection[torch.device] | None = None) -> None:
        if devices is None:
            kind, indices = "cuda", list(range(torch.cuda.device_count()))
        else:
            accelerators = {device for device in devices if device.type not in ("cpu", "meta")}
            kind = next(iter(accelerators)).type if accelerators else "cuda"
            indices = sorted({device.index or 0 for device in accelerators})
        self._module: Any = getattr(torch, kind)
        with between_steps():
            self._torch = torch.get_rng_state()
            self._accelerators = {index: self._module.get_rng_state(index) for index in indices}
            self._python, self._numpy = random.getstate(), np.random.get_state()  # noqa: NPY002  the generator that models use

    def restore(self) -> None:
        """Let the generators draw what they would have drawn here."""
        with between_steps():
            torch.set_rng_state(self._torch)
            for index, state in self._accelerators.items():
                self._module.set_rng_state(state, index)
            random.setstate(self._python)
            np.random.set_state(self._numpy)  # noqa: NPY002  as above


@contextmanager
def preserved_random_state(devices: Collection[torch.device] | None = None) -> Iterator[None]:
    """Restore the global generators after this block, also after an error.

    Args:
        devices: As for `RandomState`.
    """
    with between_steps():
        state = RandomState(devices)
        try:
            yield
        finally:
            state.restore()


@contextmanager
def private_random_state(seed: int = SEED) -> Iterator[None]:
    """Seed the global generators with `seed` in this block, and restore them afterwards; one thread at a time."""
    with alone(), preserved_random_state():
        torch.manual_seed(seed)
        random.seed(seed)
        np.random.seed(seed)  # noqa: NPY002  # what modules draw with
        yield
