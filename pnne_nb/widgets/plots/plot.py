"""Defines the protocol of a plot of the dashboard, and when it is worth drawing."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Final, final

import ipywidgets

from pnne_nb.telemetry.frames import Frame

SEEN: Final = 1 / 200
"""Of a curve's length, what it must have grown by to look different: two pixels of four hundred, a common width."""
LATEST: Final = 10
"""Pictures after which a curve that has grown is drawn all the same: a second, as long as the browser keeps up."""


class Plot(ABC):
    """One picture of the dashboard; all but `view` is used by the pump's thread only.

    Attributes:
        view: What is shown.
    """

    view: ipywidgets.Widget

    @abstractmethod
    def take(self, frame: Frame) -> None:
        """Remember what `frame` says, if it concerns this plot."""

    def is_due(self) -> bool:
        """Return whether what has changed can be seen; asked once for each drawing while training runs."""
        return True

    @abstractmethod
    def draw(self) -> None:
        """Send what has changed since the last drawing to the browser."""


@final
class Growth:
    """Decides when a growing curve is drawn again: when it would look different.

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
        """Return whether to draw the curve as far as it has come; to be asked once for each picture."""
        self._pictures += 1
        return self._pictures >= LATEST or abs(self.newest - self._drawn) >= SEEN * self.newest

    def drawn(self) -> None:
        """Note that the curve was drawn as far as it has come."""
        self._drawn = self.newest
        self._pictures = 0
