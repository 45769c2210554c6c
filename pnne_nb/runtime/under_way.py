"""Which trainings there are: for whoever has a module and asks who trains it."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

from torch import nn

from pnne_nb.runtime.control import ENDED

if TYPE_CHECKING:
    # An engine tells of itself here.
    from pnne_nb.runtime.engine import TrainingEngine

_engines: weakref.WeakSet[TrainingEngine] = weakref.WeakSet()
"""Every engine that still exists."""


def add(engine: TrainingEngine) -> None:
    """There is another engine."""
    _engines.add(engine)


def trainings_of(module: nn.Module) -> list[TrainingEngine]:
    """The trainings under way, running or paused, of `module`, of a part of it, or of what it is a part of."""
    own = {id(parameter) for parameter in module.parameters()}
    return [
        engine
        for engine in tuple(_engines)
        if engine.state not in {"idle", *ENDED} and any(id(one) in own for one in engine.module.parameters())
    ]
