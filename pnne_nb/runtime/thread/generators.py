"""Python's and NumPy's global generators, which have a training's own states while it makes a step.

To read and set both states by their methods takes some 250 µs, a fifth of a small model's step. So NumPy's global generator
gets another bit generator, by NumPy's own function, and the bytes of Python's are copied. Where those bytes lie is tried out
when this file is imported; where the trial fails, the methods are used.
"""

from __future__ import annotations

import ctypes
import random
import struct
from typing import Any, Final, NamedTuple, final

import numpy as np
from numpy.random import mtrand

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
    """The states of one training; while it is entered, the global generators have them, and they are left as they were."""

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
