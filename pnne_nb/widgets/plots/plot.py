"""`Plot`: the base class of the dashboard's plots; `Growth`: when a curve is drawn again."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Final, final

import ipywidgets

from pnne_nb.telemetry.frames import Frame

SEEN: Final = 1 / 200
"""Share of a curve's length by which it must grow to look different: two of four hundred pixels, a common width."""
LATEST: Final = 10
"""Updates after which a grown curve is drawn in any case: a second, if the browser keeps up."""


class Plot(ABC):
    """One plot of the dashboard; only the pump's thread uses it, except for `view`.

    Attributes:
        view: What is shown.
    """

    view: ipywidgets.Widget

    @abstractmethod
    def take(self, frame: Frame) -> None:
        """Record `frame`, if it concerns this plot."""

    def is_due(self) -> bool:
        """Return whether the changes are visible; called once for each drawing while a training runs."""
        return True

    @abstractmethod
    def draw(self) -> None:
        """Send the changes since the last drawing to the browser."""


@final
class Growth:
    """Decides when a growing curve is drawn again: when its picture would change.

    After a minute of training, each of ten pictures a second adds less than a pixel to a curve, and drawing curves is
    half of what a picture costs the training.

    Attributes:
        newest: The step at which the curve ends, at least 0; the owner of the curve sets it.
    """

    def __init__(self) -> None:
        self.newest = 0
        self._drawn = 0
        self._pictures = 0

    def is_visible(self) -> bool:
        """Return whether to draw the curve; called once for each update."""
        self._pictures += 1
        return self._pictures >= LATEST or abs(self.newest - self._drawn) >= SEEN * self.newest

    def drawn(self) -> None:
        """Record that the curve was drawn."""
        self._drawn = self.newest
        self._pictures = 0
