"""Separates random numbers of cells from those of a running training.

The global generators hold the training's own state during a step and everybody else's between two steps.
So whatever draws or seeds in a cell waits for the end of the running step; a burst of draws waits once.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, cast, final

import torch

from pnne_nb.process.fork import fork_safe, renewed_after_fork
from pnne_nb.runtime.thread.control import Control
from pnne_nb.runtime.thread.python_generators import close_generators, open_generators
from pnne_nb.runtime.thread.step_lock import has_turn, turn
from pnne_nb.runtime.thread.torch_switches import name_default_generator

DRAWING = frozenset(
    """
    alpha_dropout alpha_dropout_ bernoulli bernoulli_ binomial cauchy_ dropout dropout1d dropout2d dropout3d dropout_
    exponential_ feature_alpha_dropout feature_alpha_dropout_ feature_dropout feature_dropout_ fractional_max_pool2d
    fractional_max_pool3d geometric_ gru gumbel_softmax log_normal_ lstm multi_head_attention_forward multinomial
    native_dropout normal normal_ poisson rand rand_like randint randint_like randn randn_like random_ randperm
    rnn_relu rnn_tanh rrelu rrelu_ rrelu_with_noise rrelu_with_noise_ scaled_dot_product_attention uniform_
    """.split()
)
"""Names of torch's functions and methods that may draw from the global generator."""

_REASON = "random numbers in a cell"
_LINGER = 0.005
"""Seconds for which the training waits for another draw: building a model draws hundreds of times."""


@final
class _Trainings:
    """The running trainings of this process, all of which swap the global generators."""

    def __init__(self) -> None:
        self._lock = fork_safe(threading.Lock())
        self._controls: tuple[Control, ...] = ()
        renewed_after_fork(self)

    def renew_after_fork(self) -> None:
        """Forget the trainings in a forked child, which has none."""
        self._controls = ()
        name_default_generator(_default)

    def add(self, control: Control) -> None:
        with self._lock:
            if not self._controls:
                name_default_generator(_guarded)
            self._controls = (*self._controls, control)
        open_generators()

    def remove(self, control: Control) -> None:
        with self._lock:
            self._controls = tuple(other for other in self._controls if other is not control)
            if not self._controls:
                name_default_generator(_default)
        close_generators()

    @contextmanager
    def between_steps(self) -> Iterator[None]:
        """Hold the global generators in their public state for this block."""
        controls = self._controls
        # Whoever has the turn draws what is a training's own.
        if has_turn():
            yield
            return
        if any(control.in_training_thread() for control in controls):
            with turn:  # such as before its first step, when it looks at an example
                yield
            return
        with ExitStack() as visits:
            for control in controls:
                visits.enter_context(control.visit(_REASON, linger=_LINGER))
            yield


trainings = _Trainings()
"""The one of this process, as there is one global generator."""


_default = torch.default_generator


class _GuardedGenerator(torch.Generator):
    """Replacement for torch's default generator by name: each method waits for the end of the running step."""

    def __getattribute__(self, name: str) -> Any:
        found = getattr(_default, name)
        if name.startswith("_") or not callable(found):
            return found

        def call(*args: Any, **kwargs: Any) -> Any:
            with trainings.between_steps():
                return found(*args, **kwargs)

        return call


def _guarded_default() -> torch.Generator:
    """Return a second object for torch's default generator; as ``generator=`` it draws from the default one.

    Torch has no constructor for that, so the one field of a generator object, a pointer to its numbers, is set to the
    default generator's. Where the field is not where torch tells that it points, there is no second object.
    """
    second, kind = _GuardedGenerator(), cast("Any", torch.Generator)
    fields = [ctypes.c_void_p.from_address(id(one) + object.__basicsize__) for one in (second, _default)]
    if [one.value for one in fields] != [kind._cdata.__get__(one) for one in (second, _default)]:
        return _default
    fields[0].value = fields[1].value
    # The pointer has no count of its own: never destroy the object.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(second))
    return second


_guarded = _guarded_default()


def is_global(generator: torch.Generator | None) -> bool:
    """Return whether `generator` draws from the CPU's global generator."""
    return generator is None or generator is _default or generator is _guarded
