"""Saves and restores the process-wide random state of torch, Python and NumPy.

Every block that must leave it as it was is made of these two. Only `runtime.thread.rng` does it otherwise: a training
swaps its own state in and out around each step, which are two states and no block that ends where it began.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager

import numpy as np
import torch

from pnne_nb.process.fork import fork_safe

SEED = 0
_seeded = fork_safe(threading.RLock())
"""Held while random numbers begin at a fixed seed: two comparisons at once would draw each other's."""


@contextmanager
def preserved_random_state(devices: Collection[torch.device] | None = None) -> Iterator[None]:
    """Restore the global generators after this block, also after an error.

    Args:
        devices: Accelerators of one type whose generators count too; None means every CUDA device, and what is no
            accelerator is left out.
    """
    if devices is None:
        kind, indices = "cuda", list(range(torch.cuda.device_count()))
    else:
        accelerators = {device for device in devices if device.type not in ("cpu", "meta")}
        kind = next(iter(accelerators)).type if accelerators else "cuda"
        indices = sorted({device.index or 0 for device in accelerators})
    with torch.random.fork_rng(devices=indices, device_type=kind):
        python, numpy = random.getstate(), np.random.get_state()  # noqa: NPY002  # the generator that models use
        try:
            yield
        finally:
            random.setstate(python)
            np.random.set_state(numpy)  # noqa: NPY002  # as above


@contextmanager
def private_random_state(seed: int = SEED) -> Iterator[None]:
    """Seed the global generators with `seed` in this block, and restore them afterwards; one thread at a time.

    Args:
        seed: Where all of them begin.
    """
    with _seeded, preserved_random_state():
        torch.manual_seed(seed)
        random.seed(seed)
        np.random.seed(seed)  # noqa: NPY002  # what modules draw with
        yield
