"""Returns an inspection as frames, for the rules about trainings."""

from __future__ import annotations

import math
from collections.abc import Mapping

from pnne_nb.inspector.capture.run import Inspection
from pnne_nb.inspector.statistics.units import UnitCounts
from pnne_nb.telemetry.frames import Frame, NormsFrame, StatisticsFrame, StepFrame


def frames_of(inspection: Inspection) -> list[Frame]:
    """Return an inspection as the frames of an observed step; several outputs or calls become one frame each."""
    frames: list[Frame] = [
        StatisticsFrame(0, capture.layer, capture.quantity, _values(capture.statistics.to_row(), capture.units))
        for capture in inspection.captures
    ]
    if inspection.norms.by_layer:
        frames.append(NormsFrame(0, inspection.norms.by_layer, inspection.norms.total))
    if inspection.loss is not None:
        frames.append(StepFrame(0, 0, inspection.loss, math.nan, 0, 0.0))
    return frames


def _values(row: Mapping[str, object], units: UnitCounts | None) -> dict[str, float]:
    values = {name: float(value) for name, value in row.items() if isinstance(value, (int, float))}
    if units is not None:
        values["dead"] = units.dead / units.units
        values["saturation"] = units.saturation
    return values
