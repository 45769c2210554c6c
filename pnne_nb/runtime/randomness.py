"""The training's own random numbers, swapped in around each step so that no cell can disturb a seeded run."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, final

import numpy as np
import torch
from torch import Tensor


def key_of(*parts: int) -> int:
    """A number below 2**63 for a tuple such as (seed, epoch, position); near tuples give unrelated numbers."""
    digest = hashlib.blake2b(repr(parts).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


@contextmanager
def swapped_globals() -> Iterator[None]:
    """Give the caller's block the process's random generators, and put their states back afterwards."""
    torch_state, python_state, numpy_state = torch.get_rng_state(), random.getstate(), np.random.get_state()
    try:
        yield
    finally:
        torch.set_rng_state(torch_state)
        random.setstate(python_state)
        np.random.set_state(numpy_state)


@final
class PrivateRandomness:
    """A state of torch's generators that belongs to one training.

    Args:
        seed: Where the numbers begin.
        device: Its generator is private too, if it is not the CPU.
        python: Whether Python's and numpy's global generators are private as well: only a dataset that runs
            in the training thread needs them, and they cost some 40 µs a step.
    """

    def __init__(self, seed: int, device: torch.device, *, python: bool) -> None:
        self._generators = [torch.default_generator, *_device_generators(device)]
        self._mine = [torch.Generator(g.device).manual_seed(key_of(seed, 0)).get_state() for g in self._generators]
        self._python = python
        self._mine_python = random.Random(key_of(seed, 1)).getstate()
        self._mine_numpy: Any = np.random.RandomState(key_of(seed, 2) % 2**32).get_state()
        self._theirs: list[Tensor] = []
        self._theirs_python: Any = None
        self._theirs_numpy: Any = None

    def __enter__(self) -> None:
        self._theirs = [g.get_state() for g in self._generators]
        for generator, state in zip(self._generators, self._mine, strict=True):
            generator.set_state(state)
        if self._python:
            self._theirs_python, self._theirs_numpy = random.getstate(), np.random.get_state()
            random.setstate(self._mine_python)
            np.random.set_state(self._mine_numpy)

    def __exit__(self, *_: object) -> None:
        self._mine = [g.get_state() for g in self._generators]
        for generator, state in zip(self._generators, self._theirs, strict=True):
            generator.set_state(state)
        if self._python:
            self._mine_python, self._mine_numpy = random.getstate(), np.random.get_state()
            random.setstate(self._theirs_python)
            np.random.set_state(self._theirs_numpy)

    def state_dict(self) -> dict[str, Any]:
        """The states between two steps, in types that a safe load accepts."""
        version, internal, gauss = self._mine_python
        kind, keys, position, has_gauss, cached = self._mine_numpy
        return {
            "torch": list(self._mine),
            "python": [version, list(internal), gauss],
            "numpy": [kind, [int(key) for key in keys], int(position), int(has_gauss), float(cached)],
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from what `state_dict` returned; generators of other devices than then start afresh."""
        for index, saved in enumerate(state["torch"][: len(self._mine)]):
            self._mine[index] = saved.cpu()
        version, internal, gauss = state["python"]
        self._mine_python = (version, tuple(internal), gauss)
        kind, keys, position, has_gauss, cached = state["numpy"]
        self._mine_numpy = (kind, np.array(keys, dtype=np.uint32), position, has_gauss, cached)


def _device_generators(device: torch.device) -> list[torch.Generator]:
    match device.type:
        case "cuda":
            torch.cuda.init()  # type: ignore[no-untyped-call]
            return [torch.cuda.default_generators[device.index or 0]]
        case "mps":
            return [torch.mps._get_default_mps_generator()]
        case _:
            return []
