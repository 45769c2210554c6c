"""Registry of this process's trainings by the module that they train."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Protocol

from torch import nn

from pnne_nb.errors import TrainingError
from pnne_nb.telemetry.frames import ENDED, TrainingState


class RegisteredTraining(Protocol):
    """A training that can be found by its module, such as ``TrainingEngine``."""

    @property
    def state(self) -> TrainingState:
        """What it does."""

    @property
    def module(self) -> nn.Module:
        """The module that is trained."""

    @property
    def in_process(self) -> bool:
        """Whether its steps run in a training process."""

    def paused(self) -> AbstractContextManager[nn.Module]:
        """Return a block that has the module to itself."""


_trainings: weakref.WeakSet[RegisteredTraining] = weakref.WeakSet()
"""Every training that still exists."""


_watching: dict[Callable[[Any], object], None] = {}
"""Who is told of each training."""


def add(training: RegisteredTraining) -> None:
    """Register a training for as long as it exists."""
    _trainings.add(training)
    for function in tuple(_watching):
        function(training)


def watch(function: Callable[[Any], object]) -> None:
    """Call `function` with each training that there is and each that is made later; a second call changes nothing."""
    if function not in _watching:
        _watching[function] = None
        for training in tuple(_trainings):
            function(training)


def trainings_of(module: nn.Module) -> list[RegisteredTraining]:
    """Return the running or paused trainings of `module`, of its submodules, or of modules that contain it."""
    own = {id(parameter) for parameter in module.parameters()}
    return [
        training
        for training in tuple(_trainings)
        if training.state not in {"idle", *ENDED} and any(id(one) in own for one in training.module.parameters())
    ]


def require_own(model: nn.Module, *, in_process: bool) -> None:
    """Raise an error if a running training uses the same model, and one of the two is in a process of its own (`in_process`).

    Two threads notice each other by the hooks of the model; a process that brings its weights back has none.

    Raises:
        TrainingError: Another training has the model, or a part of it.
    """
    if any(in_process or other.in_process for other in trainings_of(model)):
        raise TrainingError(
            "Another engine is training this model, or a part of it: stop it first, or train a copy of the model."
        )
