"""Runs one process of a group, as torchrun starts it: ``torchrun … -m pnne_nb.worker DIRECTORY``.

The place beside ``widgets`` where training and measuring meet.
"""

from __future__ import annotations

from pnne_nb.inspector.capture.live import LiveProbe
from pnne_nb.runtime.distributed.worker import main

if __name__ == "__main__":
    main(LiveProbe.of)
