"""Closes the gaps of nodes that are folded into one card; the browser does the same (``scene/folded.ts``)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from pnne_nb.graph.model.repeats import Run

Place: TypeAlias = tuple[float, float]


class _Band(NamedTuple):
    """A removed part of the canvas, across its whole width (`axis` 1) or height (0)."""

    axis: int
    start: float
    end: float


def closed(places: Mapping[str, Place], runs: Sequence[Run]) -> dict[str, Place]:
    """Return the places of nodes if each run is one card, at the place of its first node.

    The gap of the other nodes is closed if no other node is beside them.

    Args:
        places: Centres by name.
        runs: The folded nodes.
    """
    hidden = {name for run in runs for name in run[1:]}
    shown = {name: place for name, place in places.items() if name not in hidden}
    bands = [
        band
        for band in _merged(_band(places[run[0]], places[run[-1]]) for run in runs)
        if not any(band.start < place[band.axis] <= band.end for place in shown.values())
    ]
    return {name: _shown_at(place, bands) for name, place in shown.items()}


def _band(first: Place, last: Place) -> _Band:
    axis = 1 if abs(last[1] - first[1]) >= abs(last[0] - first[0]) else 0
    return _Band(axis, first[axis], last[axis])


def _merged(bands: Iterable[_Band]) -> list[_Band]:
    made: list[_Band] = []
    for band in sorted(bands):
        if band.end <= band.start:
            continue
        if made and made[-1].axis == band.axis and band.start < made[-1].end:
            made[-1] = made[-1]._replace(end=max(made[-1].end, band.end))
        else:
            made.append(band)
    return made


def _shown_at(place: Place, bands: Sequence[_Band]) -> Place:
    shown = list(place)
    for band in bands:
        shown[band.axis] -= min(max(place[band.axis] - band.start, 0.0), band.end - band.start)
    return shown[0], shown[1]
