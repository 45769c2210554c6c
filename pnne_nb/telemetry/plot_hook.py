"""Connects trainings and the inspector with plots, of which they know nothing: the package installs them.

It does so when it is imported, which must import neither torch nor a library of plots: what is drawn has no type here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from pnne_nb.errors import PnneError


class Plots(Protocol):
    """Draws what was measured; whatever it returns shows itself in a notebook."""

    def history(
        self,
        history: Any,
        names: tuple[str, ...],
        *,
        log: bool = False,
        beside: Sequence[Any] = (),
        labels: Sequence[str] = (),
    ) -> Any:
        """Draw the series of a history by name, all important ones for no name, and other histories over it."""

    def live(self, monitor: Any) -> None:
        """Show the dashboard of a `TrainingMonitor` under the running cell, in a notebook."""

    def tiles(self, tiles: Any, caption: str, *, signed: bool = False) -> str:
        """Draw pictures `[n, h, w]` side by side, as HTML; `signed` ones from blue over white at 0 to red."""

    def layer(self, view: Any) -> Any:
        """Draw one captured tensor of a layer, given as `inspector.capture.capture.LayerView`."""


_plots: Plots | None = None


def install_plots(plots: Plots) -> None:
    """Have `plots` draw from now on."""
    global _plots  # noqa: PLW0603  # one composition root sets it, once
    _plots = plots


def installed_plots() -> Plots:
    """Return what draws.

    Raises:
        PnneError: If nothing was installed.
    """
    if _plots is None:
        raise PnneError("No plots are installed: import pnne_nb, which installs them.")
    return _plots
