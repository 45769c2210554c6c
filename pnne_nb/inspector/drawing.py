"""Where drawing comes in: the inspector knows no plots, so whoever does installs how a layer is drawn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, final

from pnne_nb.errors import InspectionError
from pnne_nb.frames import Quantity

if TYPE_CHECKING:
    # Not at run time: a drawer is installed when the package is imported, and that must not import torch.
    from pnne_nb.inspector.histogram import Histogram
    from pnne_nb.inspector.measure import Statistics


@final
@dataclass(frozen=True)
class LayerView:
    """What a plot of one layer shows.

    Attributes:
        layer: Path of the layer.
        kind: Name of its class.
        quantity: What of the layer.
        label: Which of several outputs, calls or parameters; ``""`` where there is one.
        histogram: Of the captured tensor.
        statistics: Of all its elements.
    """

    layer: str
    kind: str
    quantity: Quantity
    label: str
    histogram: Histogram
    statistics: Statistics


class Drawer(Protocol):
    """Draws a layer; what it returns displays itself in a notebook."""

    def __call__(self, view: LayerView, /) -> object:
        """Draw `view`."""


_drawer: Drawer | None = None


def install_drawer(drawer: Drawer) -> None:
    """Let `drawer` draw every layer from now on."""
    global _drawer  # noqa: PLW0603  # one composition root sets it, once
    _drawer = drawer


def draw(view: LayerView) -> object:
    """Draw a layer.

    Raises:
        InspectionError: If no drawer was installed.
    """
    if _drawer is None:
        raise InspectionError(
            "Nothing here can draw: use pnne_nb.Inspector, which brings its plots, or install_drawer(...)."
        )
    return _drawer(view)
