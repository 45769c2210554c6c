"""The training's own random numbers, swapped in around each step so that no cell can disturb a seeded run."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, final

import numpy as np
import torch
from torch import Tensor

from pnne_nb.runtime.drawing import trainings


def key_of(*parts: int) -> int:
    """A number below 2**63 for a tuple such as (seed, epoch, position); near tuples give unrelated numbers."""
    digest = hashlib.blake2b(repr(parts).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


_WORDS = 625
"""Numbers in a state of Python's generator."""

_state_of = torch.Generator.get_state


class _Captured(NamedTuple):
    """States of Python's and numpy's global generators."""

    python: Any
    numpy: Any

    @classmethod
    def now(cls) -> _Captured:
        # Datasets use the global generators, so these are what must be kept.
        return cls(random.getstate(), np.random.get_state())  # noqa: NPY002

    @classmethod
    def seeded(cls, seed: int) -> _Captured:
        return cls(random.Random(seed).getstate(), np.random.RandomState(seed % 2**32).get_state())  # noqa: S311

    def restore(self) -> None:
        random.setstate(self.python)
        np.random.set_state(self.numpy)  # noqa: NPY002


@contextmanager
def seeded_globals(seed: int) -> Iterator[None]:
    """A block in which every global generator begins at `seed`; their states are put back afterwards."""
    with trainings.between_steps():
        torch_state, others = torch.default_generator.get_state(), _Captured.now()
        try:
            torch.default_generator.manual_seed(seed)
            _Captured.seeded(seed).restore()
            yield
        finally:
            torch.default_generator.set_state(torch_state)
            others.restore()


def globals_as_numbers() -> list[float]:
    """The states of the CPU's global generators, for another process: always equally many numbers, each of them exact."""
    (_, internal, gauss), (_, keys, position, has_gauss, cached) = _Captured.now()
    python = [*internal, gauss is not None, gauss or 0.0]
    return [*map(float, [*_state_of(torch.default_generator).tolist(), *python, *keys, position, has_gauss, cached])]


def set_globals(numbers: Sequence[float]) -> None:
    """Be where `globals_as_numbers` was."""
    count = _state_of(torch.default_generator).numel()
    internal, (has, gauss) = numbers[count : count + _WORDS], numbers[count + _WORDS : count + _WORDS + 2]
    *keys, position, has_gauss, cached = numbers[count + _WORDS + 2 :]
    torch.default_generator.set_state(torch.tensor(numbers[:count], dtype=torch.uint8))
    _Captured(
        (random.Random.VERSION, tuple(map(int, internal)), gauss if has else None),
        ("MT19937", np.array(keys, dtype=np.uint32), int(position), int(has_gauss), cached),
    ).restore()


@final
class PrivateRandomness:
    """A state of the random generators that belongs to one training; entered around each step, in the training's `turn`.

    Args:
        seed: Where the numbers begin.
        device: Its generator is private too, if it is not the CPU.
        more: Further devices, those that parts of a model are on.
        python: Whether Python's and numpy's global generators are private as well: only a dataset that runs
            in the training thread and a step function need them, and they cost some 40 µs a step.
    """

    def __init__(self, seed: int, device: torch.device, *, python: bool, more: Collection[torch.device] = ()) -> None:
        others = sorted({other for other in more if other != device}, key=str)
        found = [generator for each in (device, *others) for generator in _device_generators(each)]
        self._generators = [torch.default_generator, *found]
        self._mine = [torch.Generator(g.device).manual_seed(key_of(seed)).get_state() for g in self._generators]
        self._python = python
        self._mine_others = _Captured.seeded(key_of(seed))
        self._theirs: list[Tensor] = []
        self._theirs_others = self._mine_others

    def __enter__(self) -> None:
        self._theirs = [*map(_state_of, self._generators)]
        self._set(self._mine)
        if self._python:
            self._theirs_others = _Captured.now()
            self._mine_others.restore()

    def __exit__(self, *_: object) -> None:
        self._mine = [*map(_state_of, self._generators)]
        self._set(self._theirs)
        if self._python:
            self._mine_others = _Captured.now()
            self._theirs_others.restore()

    def reseed(self, seed: int) -> None:
        """Between two blocks: torch's numbers begin at `seed`."""
        self._mine = [torch.Generator(g.device).manual_seed(seed).get_state() for g in self._generators]

    def rewind(self) -> None:
        """Inside a block: be again where the generators were at its beginning."""
        self._set(self._mine)
        if self._python:
            self._mine_others.restore()

    def _set(self, states: Sequence[Tensor]) -> None:
        for generator, state in zip(self._generators, states, strict=True):
            generator.set_state(state)

    def state_dict(self) -> dict[str, Any]:
        """The states between two steps, in types that a safe load accepts."""
        version, internal, gauss = self._mine_others.python
        kind, keys, position, has_gauss, cached = self._mine_others.numpy
        return {
            "torch": list(self._mine),
            "python": [version, list(internal), gauss],
            "numpy": [str(kind), torch.tensor(keys.astype(np.int64)), int(position), int(has_gauss), float(cached)],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from what `state_dict` returned; generators of other devices than then start afresh.

        Raises:
            RuntimeError, TypeError, ValueError: It is the state of no generators.
        """
        version, internal, gauss = state["python"]
        kind, keys, position, has_gauss, cached = state["numpy"]
        others = _Captured(
            (version, tuple(internal), gauss), (kind, keys.numpy().astype(np.uint32), position, has_gauss, cached)
        )
        mine = [saved.cpu() for saved in state["torch"][: len(self._mine)]]
        # Otherwise it would be a step that fails, later.
        random.Random().setstate(others.python)  # noqa: S311
        np.random.RandomState().set_state(others.numpy)
        torch.Generator().set_state(mine[0])
        self._mine[: len(mine)] = mine
        self._mine_others = others


def _device_generators(device: torch.device) -> list[torch.Generator]:
    match device.type:
        case "cuda":
            torch.cuda.init()  # type: ignore[no-untyped-call]
            return [torch.cuda.default_generators[device.index or 0]]
        case "mps":
            return [torch.mps._get_default_mps_generator()]
        case _:
            return []
