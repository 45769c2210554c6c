"""Random numbers in a cell beside a training: neither disturbs the other.

The global generators hold the training's own state during a step and everybody else's between two steps.
So whatever draws or seeds in a cell waits for the end of the running step; a burst of draws waits once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, final

import torch
from torch.overrides import TorchFunctionMode

from pnne_nb.runtime.control import Control
from pnne_nb.runtime.turn import has_turn, turn

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

_random: Any = torch.random
_REASON = "random numbers in a cell"
_LINGER = 0.005
"""Seconds for which the training waits for another draw: building a model draws hundreds of times."""


@final
class _Trainings:
    """The trainings under way in this process, all of which swap the global generators."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._controls: tuple[Control, ...] = ()

    def add(self, control: Control) -> None:
        with self._lock:
            if not self._controls:
                # torch.manual_seed, seed, get_rng_state, set_rng_state and fork_rng all go through this name.
                _random.default_generator = _GuardedGenerator()
            self._controls = (*self._controls, control)

    def remove(self, control: Control) -> None:
        with self._lock:
            self._controls = tuple(other for other in self._controls if other is not control)
            if not self._controls:
                _random.default_generator = torch.default_generator

    @contextmanager
    def between_steps(self) -> Iterator[None]:
        """Have the global generators as everybody but the trainings knows them."""
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


@final
class _GuardedGenerator:
    """Stands for torch's default generator where torch's own functions look it up."""

    def __getattr__(self, name: str) -> Any:
        found = getattr(torch.default_generator, name)
        if not callable(found):
            return found

        def call(*args: Any, **kwargs: Any) -> Any:
            with trainings.between_steps():
                return found(*args, **kwargs)

        return call


@final
class _DrawsBetweenSteps(TorchFunctionMode):
    """In one thread, functions that draw from the global generator wait for the end of the running step."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        # What a function of Python calls in turn is not seen here: initialisation counts as drawing as a whole.
        draws = getattr(func, "__name__", "") in DRAWING or getattr(func, "__module__", "") == "torch.nn.init"
        if not draws or kwargs.get("generator") is not None:
            return func(*args, **kwargs)
        with trainings.between_steps():
            return func(*args, **kwargs)


def guard_draws() -> Callable[[], None]:
    """From here on, draws in the calling thread wait for the end of the running step.

    Returns:
        Ends this; to be called in the same thread.
    """
    mode = _DrawsBetweenSteps()
    mode.__enter__()  # type: ignore[no-untyped-call]
    return lambda: mode.__exit__(None, None, None)  # type: ignore[no-untyped-call]
