"""Runs the warm server of a kernel: ``python -m pnne_nb.server CONTROL OUTPUT``.

The place beside ``widgets`` where training and measuring meet.
"""

from __future__ import annotations

import sys

from pnne_nb.inspector.capture.live import LiveProbe
from pnne_nb.runtime.training_process.fork_server import serve

if __name__ == "__main__":
    serve(int(sys.argv[1]), int(sys.argv[2]), LiveProbe.of)
