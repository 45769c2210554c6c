"""The training's own random state, swapped in around each step, so that no cell can disturb a seeded run."""

from __future__ import annotations

import ctypes
import hashlib
import random
import struct
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple, final

import numpy as np
import torch
from numpy.random import mtrand
from torch import Tensor

from pnne_nb.process import random_state
from pnne_nb.process.fork import renewed_after_fork
from pnne_nb.runtime.thread.running_trainings import alone, between_steps
from pnne_nb.runtime.thread.step_lock import in_some_step

_mtrand: Any = mtrand
_random: Any = random
PYTHON: Final[random.Random] = _random._inst
NUMPY: Final[np.random.RandomState] = _mtrand._rand
_set_bit_generator: Final = _mtrand.set_bit_generator


class States(NamedTuple):
    """The states of a generator of Python and one of NumPy, as their methods give them."""

    python: Any
    numpy: Any

    @classmethod
    def of(cls, python: random.Random = PYTHON, numpy: np.random.RandomState = NUMPY) -> States:
        return cls(python.getstate(), numpy.get_state(legacy=False))

    @classmethod
    def seeded(cls, seed: int) -> States:
        """Return the states of both generators after seeding with `seed`."""
        return cls.of(random.Random(seed), np.random.RandomState(seed % 2**32))  # noqa: S311  # for reproducible training, not for secrets

    def restore(self, python: random.Random = PYTHON, numpy: np.random.RandomState = NUMPY) -> None:
        python.setstate(self.python)
        numpy.set_state(self.numpy)


@final
class PrivateGenerators:
    """The states of one training; while it is entered, the global generators have them, and they are left as they were.

    To read and set both states by their methods takes some 250 µs, a fifth of a small model's step. So NumPy's global
    generator gets another bit generator, by NumPy's own function, and the bytes of Python's are copied. Where those bytes lie
    is tried out when this file is imported; where the trial fails, the methods are used.
    """

    def __init__(self, states: States) -> None:
        self._bits = np.random.MT19937(0)
        self._memory = _memory(self._bits.ctypes.state_address, _WORDS.size)
        self.states = states

    @property
    def states(self) -> States:
        """Those before the block, where one is entered."""
        (*key, position), (has_gauss, gauss) = _WORDS.unpack(self._words), _GAUSS.unpack(self._gauss)
        bits = self._bits.state | {"state": {"key": np.array(key, dtype=np.uint32), "pos": position}}
        return States(_unpacked(self._python), bits | {"has_gauss": has_gauss, "gauss": gauss})

    @states.setter
    def states(self, states: States) -> None:
        self._python, self._bits.state = _packed(states.python), states.numpy
        self._words, self._gauss = bytes(self._memory), _GAUSS.pack(states.numpy["has_gauss"], states.numpy["gauss"])

    def __enter__(self) -> None:
        self._theirs = NUMPY._bit_generator, _exchange_gauss(self._gauss), _exchange_python(self._python)
        _set_bit_generator(self._bits)

    def __exit__(self, *_: object) -> None:
        bits, gauss, python = self._theirs
        self._words, self._gauss, self._python = bytes(self._memory), _exchange_gauss(gauss), _exchange_python(python)
        _set_bit_generator(bits)

    def rewind(self) -> None:
        """Reset the generators to the beginning of the block."""
        _exchange_python(self._python)
        self._memory[:] = self._words
        _exchange_gauss(self._gauss)


def _memory(place: int, count: int) -> memoryview:
    return memoryview((ctypes.c_ubyte * count).from_address(place)).cast("B")


# Python's generator: an index and 624 words behind the header of the object, and the second number of a pair

_WORDS: Final = struct.Struct("625I")


def _packed(state: Any) -> tuple[bytes, float | None]:
    _, (*words, index), gauss = state
    return _WORDS.pack(index, *words), gauss


def _unpacked(state: tuple[bytes, float | None]) -> Any:
    index, *words = _WORDS.unpack(state[0])
    return random.Random.VERSION, (*words, index), state[1]


def _memory_of(generator: random.Random) -> memoryview:
    return _memory(id(generator) + object.__basicsize__, _WORDS.size)


def _exchange_python(state: tuple[bytes, float | None]) -> tuple[bytes, float | None]:
    """Give the global generator another state; return the present one."""
    if not _LIES_BEHIND_HEADER:
        present = _packed(PYTHON.getstate())
        PYTHON.setstate(_unpacked(state))
        return present
    present = bytes(_PYTHON), PYTHON.gauss_next  # type: ignore[attr-defined]  # of every version since the first
    _PYTHON[:], PYTHON.gauss_next = state  # type: ignore[attr-defined]  # as above
    return present


def _lies_behind_header() -> bool:
    drawn = random.Random(1)  # noqa: S311  # for reproducible training, not for secrets
    drawn.random()
    return bytes(_memory_of(drawn)) == _packed(drawn.getstate())[0]


_PYTHON: Final = _memory_of(PYTHON)
_LIES_BEHIND_HEADER: Final = _lies_behind_header()


# NumPy's: the second number of a pair is not a part of the bit generator, but whether there is one, and which, lies elsewhere

_GAUSS: Final = struct.Struct("id")


def _exchange_gauss(gauss: bytes) -> bytes:
    """Give the global generator another such number; return the present one."""
    if _GAUSS_AT is None:
        state: Any = NUMPY.get_state(legacy=False)
        NUMPY.set_state(state | dict(zip(("has_gauss", "gauss"), _GAUSS.unpack(gauss), strict=True)))
        return _GAUSS.pack(state["has_gauss"], state["gauss"])
    present = bytes(_GAUSS_AT)
    _GAUSS_AT[:] = gauss
    return present


def _gauss_at() -> memoryview | None:
    """Return where the global generator keeps that number, found in two others that have drawn the first of a pair."""
    places: list[set[int]] = []
    for seed in (1, 2):
        drawn = np.random.RandomState(seed)
        drawn.standard_normal()
        state: Any = drawn.get_state(legacy=False)
        kept = _GAUSS.pack(state["has_gauss"], state["gauss"])
        memory = bytes(_memory(id(drawn), np.random.RandomState.__basicsize__))
        places.append({at for at in range(0, len(memory) - len(kept), 8) if memory[at : at + len(kept)] == kept})
    both = places[0] & places[1]
    return _memory(id(NUMPY) + both.pop(), _GAUSS.size) if len(both) == 1 else None


_GAUSS_AT: Final = _gauss_at()


def key_of(*parts: int) -> int:
    """Return a number below 2**63 for a tuple such as (seed, epoch, position); near tuples give unrelated numbers."""
    digest = hashlib.blake2b(repr(parts).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


_NUMBERS = 625
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
    internal, (has, gauss) = numbers[count : count + _NUMBERS], numbers[count + _NUMBERS : count + _NUMBERS + 2]
    *keys, position, has_gauss, cached = numbers[count + _NUMBERS + 2 :]
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
