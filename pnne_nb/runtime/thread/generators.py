"""Python's and NumPy's global generators, which have a training's own states while it makes a step.

To read and set both states by their methods takes some 250 µs, a fifth of a small model's step. So NumPy's global generator
gets another bit generator, by NumPy's own function, and the bytes of Python's are copied. Where those bytes lie is tried out
when this file is imported; where the trial fails, the methods are used.
"""

from __future__ import annotations

import ctypes
import random
import sys
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
        self._place: int = self._bits.ctypes.state_address
        self.states = states

    @property
    def states(self) -> States:
        """Those before the block, where one is entered."""
        python, numpy = random.Random(), np.random.RandomState(np.random.MT19937(0))  # noqa: S311  # as above
        _exchange_python(python, self._python)
        numpy_bits: Any = numpy._bit_generator
        ctypes.memmove(numpy_bits.ctypes.state_address, self._words, _BYTES)
        _set_gauss(numpy, self._gauss)
        return States.of(python, numpy)

    @states.setter
    def states(self, states: States) -> None:
        python, numpy = random.Random(), np.random.RandomState(self._bits)  # noqa: S311  # as above
        states.restore(python, numpy)
        self._python, self._gauss = _exchange_python(python, None), _gauss(numpy)
        self._words = ctypes.string_at(self._place, _BYTES)

    def __enter__(self) -> None:
        self._theirs = NUMPY._bit_generator, _gauss(NUMPY), _exchange_python(PYTHON, self._python)
        _set_bit_generator(self._bits)
        _set_gauss(NUMPY, self._gauss)

    def __exit__(self, *_: object) -> None:
        bits, gauss, python = self._theirs
        self._words, self._gauss = ctypes.string_at(self._place, _BYTES), _gauss(NUMPY)
        self._python = _exchange_python(PYTHON, python)
        _set_bit_generator(bits)
        _set_gauss(NUMPY, gauss)

    def rewind(self) -> None:
        """Reset the generators to the beginning of the block."""
        _exchange_python(PYTHON, self._python)
        ctypes.memmove(self._place, self._words, _BYTES)
        _set_gauss(NUMPY, self._gauss)


# Python's generator: an index and 624 words behind the header of the object, and the second number of a pair

_BYTES: Final = 4 * 625
_HEADER: Final = object.__basicsize__


def _exchange_python(generator: Any, state: tuple[Any, float | None] | None) -> tuple[Any, float | None]:
    """Return the state of a generator, and give it another one unless that is None."""
    if _LIES_BEHIND_HEADER:
        place = id(generator) + _HEADER
        present = ctypes.string_at(place, _BYTES), generator.gauss_next
        if state is not None:
            ctypes.memmove(place, state[0], _BYTES)
            generator.gauss_next = state[1]
        return present
    kept = generator.getstate(), None
    if state is not None:
        generator.setstate(state[0])
    return kept


def _lies_behind_header() -> bool:
    drawn = random.Random(1)  # noqa: S311  # for reproducible training, not for secrets
    drawn.random()
    *words, index = drawn.getstate()[1]
    expected = b"".join(number.to_bytes(4, sys.byteorder) for number in (index, *words))
    return ctypes.string_at(id(drawn) + _HEADER, _BYTES) == expected


_LIES_BEHIND_HEADER: Final = _lies_behind_header()


# NumPy's: the second number of a pair is not a part of the bit generator


class _Gauss(ctypes.Structure):
    _fields_ = (("has", ctypes.c_int), ("value", ctypes.c_double))


def _gauss(generator: np.random.RandomState) -> tuple[int, float]:
    if _GAUSS_AT is None:
        state: Any = generator.get_state(legacy=False)
        return state["has_gauss"], state["gauss"]
    found = _Gauss.from_address(id(generator) + _GAUSS_AT)
    return found.has, found.value


def _set_gauss(generator: np.random.RandomState, gauss: tuple[int, float]) -> None:
    if _GAUSS_AT is None:
        state: Any = generator.get_state(legacy=False)
        generator.set_state(state | dict(zip(("has_gauss", "gauss"), gauss, strict=True)))
        return
    place = _Gauss.from_address(id(generator) + _GAUSS_AT)
    place.has, place.value = gauss


def _gauss_at() -> int | None:
    """Return where a ``RandomState`` keeps the second number of a pair, found in two that have drawn the first."""
    places: list[set[int]] = []
    for seed in (1, 2):
        drawn = np.random.RandomState(seed)
        drawn.standard_normal()
        state: Any = drawn.get_state(legacy=False)
        kept = bytes(_Gauss(state["has_gauss"], state["gauss"]))
        memory = ctypes.string_at(id(drawn), np.random.RandomState.__basicsize__)
        places.append({at for at in range(0, len(memory) - len(kept), 8) if memory[at : at + len(kept)] == kept})
    both = places[0] & places[1]
    return both.pop() if len(both) == 1 else None


_GAUSS_AT: Final = _gauss_at()
