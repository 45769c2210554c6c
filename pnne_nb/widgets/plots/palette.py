"""Defines the colours of every plot, live and static."""

from __future__ import annotations

from typing import Final

PALETTE: Final = ("#2f86c9", "#d07000", "#1a9871", "#b565c4", "#d1495b", "#1b93a5", "#8a8a10", "#7f7f7f")
"""Colours that colour-blind people can distinguish, with a contrast of at least 3:1 in both themes of JupyterLab."""

TRAINING_COLOUR: Final = PALETTE[0]
VALIDATION_COLOUR: Final = PALETTE[1]
