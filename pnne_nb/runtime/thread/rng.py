"""The training's own random state, swapped in around each step, so that no cell can disturb a seeded run."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, final

import numpy as np
import torch
from torch import Tensor

from pnne_nb.process import random_state
from pnne_nb.process.fork import renewed_after_fork
from pnne_nb.runtime.thread.generators import PrivateGenerators, States
from pnne_nb.runtime.thread.running_trainings import alone, between_steps
from pnne_nb.runtime.thread.step_lock import in_some_step


def key_of(*parts: int) -> int:
    """Return a number below 2**63 for a tuple such as (seed, epoch, position); near tuples give unrelated numbers."""
    digest = hashlib.blake2b(repr(parts).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


_WORDS = 625
"""Numbers in a state of Python's generator."""

_state_of = torch.Generator.get_state
_default = torch.default_generator


@contextmanager
def seeded_globals(seed: int) -> Iterator[None]:
    """Seed every global generator with `seed` in this block, and restore their states afterwards."""
    with alone():
        before, others = _default.get_state(), States.of()
        try:
            _default.manual_seed(seed)
            States.seeded(seed).restore()
            yield
        finally:
            _default.set_state(before)
            others.restore()


def globals_as_numbers() -> list[float]:
    """Return the states of the CPU's global generators as a fixed number of exact numbers, for another process."""
    python, numpy = States.of()
    (_, internal, gauss), state = python, numpy["state"]
    both = [*internal, gauss is not None, gauss or 0.0, *state["key"], state["pos"], numpy["has_gauss"], numpy["gauss"]]
    return [*map(float, [*_default.get_state().tolist(), *both])]


def set_globals(numbers: Sequence[float]) -> None:
    """Set the global generators from the result of `globals_as_numbers`."""
    count = _default.get_state().numel()
    internal, (has, gauss) = numbers[count : count + _WORDS], numbers[count + _WORDS : count + _WORDS + 2]
    *keys, position, has_gauss, cached = numbers[count + _WORDS + 2 :]
    _default.set_state(torch.tensor(numbers[:count], dtype=torch.uint8))
    python = (random.Random.VERSION, tuple(map(int, internal)), gauss if has else None)
    States(python, _numpy_state(np.array(keys, dtype=np.uint32), int(position), int(has_gauss), cached)).restore()


def _numpy_state(keys: Any, position: int, has_gauss: int, cached: float) -> dict[str, Any]:
    return {
        "bit_generator": _MERSENNE,
        "state": {"key": keys, "pos": position},
        "has_gauss": has_gauss,
        "gauss": cached,
    }


_MERSENNE = "MT19937"


@final
class PrivateRandomness:
    """A state of the random generators that belongs to one training; entered around each step, in the training's `turn`.

    Args:
        seed: Where the numbers begin.
        device: Its generator is private too, if it is not the CPU.
        more: Further devices, those that parts of a model are on.
    """

    def __init__(self, seed: int, device: torch.device, *, more: Collection[torch.device] = ()) -> None:
        others = sorted({other for other in more if other != device}, key=str)
        found = [generator for each in (device, *others) for generator in _device_generators(each)]
        self._generators = [_default, *found]
        self._mine = [torch.Generator(g.device).manual_seed(key_of(seed)).get_state() for g in self._generators]
        self._theirs: list[Tensor] = []
        self._others = PrivateGenerators(States.seeded(key_of(seed)))
        renewed_after_fork(self)

    def renew_after_fork(self) -> None:
        """Restore the public generators in a forked child, if another thread of its parent was in the block."""
        if self._theirs and not in_some_step():
            # A child cannot use the accelerator.
            _default.set_state(self._theirs[0])
            self._others.__exit__()

    def __enter__(self) -> None:
        self._theirs = [*map(_state_of, self._generators)]
        self._set(self._mine)
        self._others.__enter__()

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        self._others.__exit__()
        theirs, self._theirs = self._theirs, []
        for number, (generator, state) in enumerate(zip(self._generators, theirs, strict=True)):
            try:
                self._mine[number] = _state_of(generator)
                generator.set_state(state)
            except RuntimeError:
                # A device whose kernel has failed refuses everything after it; the first error is the one that explains.
                if error is None:
                    raise

    def reseed(self, seed: int) -> None:
        """Seed torch's generators with `seed`, between two blocks."""
        self._mine = [torch.Generator(g.device).manual_seed(seed).get_state() for g in self._generators]

    def rewind(self) -> None:
        """Reset the generators to the beginning of the block."""
        self._set(self._mine)
        self._others.rewind()

    def _set(self, states: Sequence[Tensor]) -> None:
        for generator, state in zip(self._generators, states, strict=True):
            generator.set_state(state)

    def state_dict(self) -> dict[str, Any]:
        """Return the states between two steps, in a step those before it, in types that a safe load accepts."""
        python, numpy = self._others.states
        (version, internal, gauss), state = python, numpy["state"]
        keys = torch.tensor(state["key"].astype(np.int64))
        return {
            "torch": list(self._mine),
            "python": [version, list(internal), gauss],
            "numpy": [_MERSENNE, keys, int(state["pos"]), int(numpy["has_gauss"]), float(numpy["gauss"])],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from what `state_dict` returned; generators of other devices than then start afresh.

        Raises:
            RuntimeError, TypeError, ValueError: It is the state of no generators.
        """
        version, internal, gauss = state["python"]
        kind, keys, position, has_gauss, cached = state["numpy"]
        if kind != _MERSENNE:
            raise ValueError(f"NumPy's generator is {kind!r}, not {_MERSENNE}")
        numpy = _numpy_state(keys.numpy().astype(np.uint32), position, has_gauss, cached)
        states = States((version, tuple(internal), gauss), numpy)
        mine = [saved.cpu() for saved in state["torch"][: len(self._mine)]]
        # Otherwise it would be a step that fails, later.
        states.restore(random.Random(), np.random.RandomState(0))  # noqa: S311  # for reproducible training, not for secrets
        torch.Generator().set_state(mine[0])
        self._mine[: len(mine)] = mine
        self._others.states = states


def _device_generators(device: torch.device) -> list[torch.Generator]:
    match device.type:
        case "cuda":
            torch.cuda.init()  # type: ignore[no-untyped-call]  # torch leaves it untyped
            return [torch.cuda.default_generators[device.index or 0]]
        case "mps":
            return [torch.mps._get_default_mps_generator()]
        case _:
            return []


random_state.between_steps, random_state.alone = between_steps, alone
"""What is drawn with a fixed seed, beside a step, would be drawn from its numbers."""
