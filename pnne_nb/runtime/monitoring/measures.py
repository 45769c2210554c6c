"""Measures from outside: `register_probe` adds numbers that every dashboard measures and draws while a model trains."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import SupportsFloat, TypeAlias, TypeVar, final

import torch
from torch import nn

from pnne_nb.errors import ArgumentError, expect, registers, shown
from pnne_nb.process.random_state import preserved_random_state
from pnne_nb.telemetry.frames import AnomalyFrame, Frame, MeasureFrame

Measure: TypeAlias = Callable[[nn.Module], Mapping[str, SupportsFloat]]
Registered = TypeVar("Registered", bound=Measure)

_measures: dict[str, Measure] = {}


def register_probe(title: str) -> Callable[[Registered], Registered]:
    """Return a decorator that adds a measure, which every dashboard that is made from now on measures and draws.

    What is decorated takes the model that trains and returns numbers by name. It is called after the backward pass of an
    observed step, without recording gradients, within the share of the time that a dashboard may take::

        @pn.register_probe("Norm of the weights")
        def weight_norms(model):
            return {name: float(weight.norm()) for name, weight in model.named_parameters()}

    It may read weights and ``.grad``, and must not change them. Random numbers that it draws are put back. A measure that
    raises is told among the findings and left out. Registering a title again replaces it. A training in a
    process of its own is not measured, because the process does not know the function.

    Args:
        title: The heading of its plot.

    Raises:
        ArgumentError: `title` is no text, or what is decorated cannot be called.
    """
    expect(title, str, "title", "the heading of the plot", 'Write @pn.register_probe("Norm of the weights").')
    return registers(lambda measure: _measures.update({title: measure}), "takes the model")


def measuring(model: nn.Module) -> dict[str, MeasureProbe]:
    """Return a probe of `model` for each registered measure, by title."""
    return {title: MeasureProbe(title, measure, model) for title, measure in _measures.items()}


@final
class MeasureProbe:
    """Calls a measure in each observed step, until it fails.

    Args:
        title: What it measures.
        measure: Returns numbers by name.
        model: What it is called with.
    """

    def __init__(self, title: str, measure: Measure, model: nn.Module) -> None:
        self._title = title
        self._measure: Measure | None = measure
        self._model = model
        self._step = 0
        self._frame: Frame | None = None

    def open(self, step: int) -> None:
        """Note the step."""
        self._step, self._frame = step, None

    def gradients_ready(self) -> None:
        """Measure."""
        if self._measure is None:
            return
        try:
            with torch.no_grad(), preserved_random_state():
                found: object = self._measure(self._model)
            if not isinstance(found, Mapping):
                raise ArgumentError(f"It returns {shown(found)}, not numbers by name.")
            self._frame = MeasureFrame(
                self._step, self._title, {str(name): float(value) for name, value in found.items()}
            )
        except Exception as error:  # noqa: BLE001  # whatever it raises, the training goes on
            self._measure = None
            said = f"The measure {self._title!r} is left out, because it failed: {type(error).__name__}: {error}"
            self._frame = AnomalyFrame(self._step, "measure-failed", said)

    def updated(self) -> None:
        """Do nothing."""

    def close(self) -> Sequence[Frame]:
        """Return what was measured."""
        return () if self._frame is None else (self._frame,)
