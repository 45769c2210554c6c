"""Swaps Python's and NumPy's global generators while trainings run: one pair for steps, another for all other code.

The generators themselves hold a training's state, so that whatever a step reaches them by is the training's: a function of
``random``, a name that was bound earlier, SciPy's own reference. The functions of ``random`` and ``numpy.random`` know the
thread meanwhile: outside of a step they draw from a second pair, which holds everybody else's state. So nobody waits for
anybody, a step pays nothing, and it does not matter when a training begins to draw.

A name that somebody bound before, such as ``from random import random``, is found in the namespaces of all modules, a
notebook's included. What is left is an earlier name in a closure or an attribute that is used outside of a training.
"""

from __future__ import annotations

import functools
import random
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, final

import numpy as np
from numpy.random import mtrand

from pnne_nb.process.fork import fork_safe, renewed_after_fork
from pnne_nb.runtime.thread.step_lock import turn

_mtrand: Any = mtrand
_random: Any = random


class Generators(NamedTuple):
    """A generator of Python and one of NumPy."""

    python: random.Random
    numpy: np.random.RandomState


_GLOBAL = Generators(_random._inst, _mtrand._rand)
_set_bit_generator = _mtrand.set_bit_generator


class States(NamedTuple):
    """The states of a pair of generators."""

    python: Any
    numpy: Any

    @classmethod
    def of(cls, generators: Generators) -> States:
        return cls(generators.python.getstate(), generators.numpy.get_state(legacy=False))

    @classmethod
    def seeded(cls, seed: int) -> States:
        """Return the states of both generators after seeding with `seed`."""
        return cls.of(Generators(random.Random(seed), np.random.RandomState(seed % 2**32)))  # noqa: S311  # for reproducible training, not for secrets

    def restore(self, generators: Generators) -> None:
        generators.python.setstate(self.python)
        generators.numpy.set_state(self.numpy)

    def same(self, other: States) -> bool:
        """Return whether both states give the same numbers."""
        mine, its = self.numpy, other.numpy
        return (
            self.python == other.python
            and all(mine[name] == its[name] for name in ("bit_generator", "has_gauss", "gauss"))
            and mine["state"]["pos"] == its["state"]["pos"]
            and np.array_equal(mine["state"]["key"], its["state"]["key"])
        )


_LOOKS_AT_FIRST = 8
_LOOK_EVERY = 256
"""A step that draws is known by its functions; that one draws by an earlier name is looked for in so many steps, because
both states together take some 40 µs to read."""


@final
class PrivateStates:
    """The states of one training, which begin with `seed`; entered around each of its steps, in its turn."""

    def __init__(self, seed: int) -> None:
        self.begun = States.seeded(seed)
        self.draws = False
        self._entered = 0
        self._outer: list[tuple[int | None, PrivateStates | None, States | None]] = []

    def __enter__(self) -> None:
        _shared.part()
        outer_states: States | None = None
        outer = _shared.thread, _shared.holder
        if outer[1] is not self:
            if outer[0] == threading.get_ident():
                outer_states = States.of(_GLOBAL)
            elif outer[1] is not None:
                outer[1].begun = States.of(_GLOBAL)
            self.begun.restore(_GLOBAL)
            _shared.holder = self
        elif self.draws or self._entered < _LOOKS_AT_FIRST or self._entered % _LOOK_EVERY == 0:
            before, self.begun = self.begun, States.of(_GLOBAL)
            self.draws = self.draws or not self.begun.same(before)
        self._entered += 1
        self._outer.append((*outer, outer_states))
        _shared.thread = threading.get_ident()

    def __exit__(self, *_: object) -> None:
        thread, holder, states = self._outer.pop()
        if states is not None:
            # This was a block inside a step of another training.
            self.begun = States.of(_GLOBAL)
            states.restore(_GLOBAL)
            _shared.holder = holder
        _shared.thread = thread
        _shared.unite()

    @property
    def now(self) -> States:
        """The states between two blocks."""
        with turn:  # another training becomes the holder when it has the turn
            return States.of(_GLOBAL) if _shared.holder is self else self.begun

    @now.setter
    def now(self, states: States) -> None:
        with turn:
            self.begun = states
            if _shared.holder is self:
                _shared.holder = None

    def rewind(self) -> None:
        """Reset the generators to the beginning of the block."""
        self.begun.restore(_GLOBAL)


@final
class _Shared:
    """The owner of the global generators.

    Attributes:
        holder: Whose states they hold while they are apart from everybody else's.
        thread: The one that is inside a block of the holder, or None.
    """

    def __init__(self) -> None:
        self.holder: PrivateStates | None = None
        self.thread: int | None = None
        self._lock = fork_safe(threading.RLock())
        self._uses = 0
        self._open = 0
        self._others: Generators | None = None
        self._bound: list[tuple[dict[str, Any], str, Any]] = []
        self._start_thread: Callable[[threading.Thread], None] = threading.Thread.start
        self._helpers: dict[int, PrivateStates] = {}
        renewed_after_fork(self)

    def here(self) -> Generators:
        """Return the generators that serve the calling thread as the global ones."""
        return _GLOBAL if self._in_step() else self._others or _GLOBAL

    def _in_step(self) -> bool:
        """Return whether the calling thread runs a step, or was started by a step of the same training."""
        caller = threading.get_ident()
        if self.thread == caller:
            return True
        return self.thread is not None and self._helpers.get(caller, self) is self.holder

    def drawn(self) -> Generators:
        """Return the generators for drawing, and record that a step draws."""
        if not self._in_step():
            return self._others or _GLOBAL
        if self.holder is not None:
            self.holder.draws = True
        return _GLOBAL

    @contextmanager
    def seeded(self, seed: int) -> Iterator[None]:
        """Seed the calling thread's generators with `seed` in this block, and restore them afterwards."""
        before, in_step = States.of(self.here()), self.thread == threading.get_ident()
        try:
            States.seeded(seed).restore(self.here())
            yield
        finally:
            # A training that has begun meanwhile, in another thread, has moved the states. A step may be left behind in
            # the block: then another thread leaves it.
            before.restore(_GLOBAL if in_step else self.here())

    @contextmanager
    def apart(self) -> Iterator[None]:
        """Make many blocks of private states inside this block fast: each takes microseconds."""
        self.part()
        try:
            yield
        finally:
            self.unite()

    def part(self) -> None:
        """Move the states of all other code from the global generators to a second pair."""
        with self._lock:
            self._uses += 1
            if self._others is not None:
                return
            states = States.of(_GLOBAL)
            # Of whatever kind it is, the bit generator stays everybody else's.
            others = Generators(random.Random(), np.random.RandomState(_GLOBAL.numpy._bit_generator))  # noqa: S311  # for reproducible training, not for secrets
            states.restore(others)
            _set_bit_generator(np.random.MT19937(0))
            self._others = others

    def unite(self) -> None:
        """Move these states back, unless another training still needs the global generators."""
        with self._lock:
            self._uses -= 1
            if self._uses or self._others is None:
                return
            if self.holder is not None:
                self.holder.begun = States.of(_GLOBAL)
            self.holder = None
            self._put_back(self._others)

    def _put_back(self, others: Generators) -> None:
        states = States.of(others)
        _set_bit_generator(others.numpy._bit_generator)
        states.restore(_GLOBAL)
        self._others = None

    def open(self) -> None:
        """Make the functions of ``random`` and ``numpy.random`` thread-aware, because a training begins."""
        with self._lock:
            self.part()
            self._open += 1
            if self._open == 1:
                self._bind()

    def close(self) -> None:
        """Restore the original functions when the last training has ended."""
        with self._lock:
            self._open -= 1
            if not self._open:
                self._unbind()
            self.unite()

    def set_bit_generator(self, bit_generator: Any) -> None:
        """Replacement for ``np.random.set_bit_generator``."""
        if self._others is None:
            _set_bit_generator(bit_generator)
        elif self._in_step():
            raise ValueError("A step of a training cannot exchange NumPy's bit generator: set it before the training.")
        else:
            self._others = self._others._replace(numpy=np.random.RandomState(bit_generator))

    def start_thread(self, thread: threading.Thread) -> None:
        """Replacement for ``Thread.start``: threads that a step starts draw from the step's generators."""
        holder = self.holder
        if holder is not None and self._in_step():
            run = thread.run

            def help_step() -> None:
                caller = threading.get_ident()
                self._helpers[caller] = holder
                try:
                    run()
                finally:
                    del self._helpers[caller]

            thread.run = help_step  # type: ignore[method-assign]  # every thread that starts is told of its generators
        self._start_thread(thread)

    def _bind(self) -> None:
        self._start_thread = threading.Thread.start
        threading.Thread.start = _start_knowing  # type: ignore[method-assign,assignment]  # every thread that starts is told of its generators
        for module in list(sys.modules.values()):
            namespace = getattr(module, "__dict__", None)
            if not isinstance(namespace, dict):
                continue
            for name, value in list(namespace.items()):
                if id(value) in _KNOWING:
                    self._bound.append((namespace, name, value))
                    namespace[name] = _KNOWING[id(value)]

    def _unbind(self) -> None:
        if threading.Thread.start is _start_knowing:
            setattr(threading.Thread, "start", self._start_thread)  # noqa: B010  a type checker wants its own method there
        bound, self._bound = self._bound, []
        for namespace, name, value in bound:
            if namespace.get(name) is _KNOWING[id(value)]:
                namespace[name] = value

    def renew_after_fork(self) -> None:
        """Set the global generators in a forked child to those of the thread that forked.

        Python's has begun afresh there, as in every child.
        """
        self._unbind()
        self._open = 0
        others, self._others = self._others, None
        if self.thread == threading.get_ident():
            return
        self._uses, self.thread, self.holder = 0, None, None
        if others is not None:
            states = others.numpy.get_state(legacy=False)
            _set_bit_generator(others.numpy._bit_generator)
            _GLOBAL.numpy.set_state(states)


_shared = _Shared()


def _start_knowing(thread: threading.Thread) -> None:
    _shared.start_thread(thread)


here, seeded, apart = _shared.here, _shared.seeded, _shared.apart
open_generators, close_generators = _shared.open, _shared.close


# What is in the place of the global generators and of their functions while trainings run


def _knowing(kind: Any, which: Callable[[], Any]) -> Any:
    """Return a generator that draws from the generator of the calling thread."""

    def forwarding(name: str) -> Callable[..., Any]:
        @functools.wraps(getattr(kind, name))
        def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
            del self
            return getattr(which(), name)(*args, **kwargs)

        return forward

    public = [name for name in dir(kind) if not name.startswith("_") and callable(getattr(kind, name))]
    # Copies of it, and what is pickled, are those of the generator itself.
    special = [
        name for name in ("__reduce__", "__getstate__", "__setstate__", "__repr__", "__str__") if hasattr(kind, name)
    ]
    body: dict[str, Any] = {name: forwarding(name) for name in [*public, *special]}
    body["__reduce_ex__"] = forwarding("__reduce_ex__")
    if kind is np.random.RandomState:
        body["_bit_generator"] = property(lambda _: which()._bit_generator)
    else:
        # Python's would seed, by the method that leads to the global one.
        body["__init__"] = lambda _: None
    knowing: Any = type(kind.__name__, (kind,), body)
    return knowing()


def _knowing_functions() -> dict[int, Any]:
    """Return thread-aware functions by the identity of the original ones."""
    python: Any = _knowing(random.Random, lambda: _shared.drawn().python)
    numpy: Any = _knowing(np.random.RandomState, lambda: _shared.drawn().numpy)
    found = {id(_GLOBAL.python): python, id(_GLOBAL.numpy): numpy, id(_set_bit_generator): _shared.set_bit_generator}
    for module, generator, knowing in ((_random, _GLOBAL.python, python), (_mtrand, _GLOBAL.numpy, numpy)):
        for name, value in vars(module).items():
            # The same function has several names, such as ``random`` and ``random_sample``.
            if getattr(value, "__self__", None) is generator and hasattr(knowing, getattr(value, "__name__", name)):
                found[id(value)] = getattr(knowing, value.__name__)
    return found


_KNOWING = _knowing_functions()
