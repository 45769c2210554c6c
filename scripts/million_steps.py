"""Memory over a million steps: ``python scripts/million_steps.py [STEPS]``.

A tiny model, with everything on that a long training has: history, frames that nobody takes, a probe, metrics, a
scheduler. The process's memory is looked at twenty times. The history of the loss is full twice before its buffers
are as large as they will ever be: from then on, at step 150,000, memory must not grow by more than 2 MiB. What is
allowed to grow is little: 16 bytes for every sixteenth step's norm of the gradients, and some for each epoch.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import psutil  # type: ignore[import-untyped]
import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).parents[1]))

from pnne_nb.frames import StepFrame
from pnne_nb.inspector.live import LiveProbe
from pnne_nb.runtime.engine import TrainingEngine

ALLOWED = 2.0
"""MiB."""
SETTLED = 150_000
"""Steps."""


def main() -> int:
    """Train, look at the memory, and say what came of it."""
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    if steps < 2 * SETTLED:
        raise SystemExit(f"Memory has settled after {SETTLED:,} steps: ask for {2 * SETTLED:,} or more.")
    torch.set_num_threads(1)
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
    data = torch.randn(800, 4), torch.randint(0, 2, (800,))
    engine = TrainingEngine(
        model, data, epochs=steps // 100, batch_size=8, device="cpu", scheduler=("StepLR", {"step_size": 100})
    )
    engine.add_probe(LiveProbe(model))
    process, looks = psutil.Process(), []
    every = steps // 20

    def look(frame: StepFrame) -> None:
        if frame.step % every == 0:
            looks.append((frame.step, process.memory_info().rss / 2**20))
            print(f"step {frame.step:>9,}: {looks[-1][1]:.1f} MiB", flush=True)

    engine.on("step", look)
    began = time.perf_counter()
    engine.start()
    engine.wait()
    spent = time.perf_counter() - began
    settled = [used for step, used in looks if step >= SETTLED]
    growth = max(settled) - settled[0]
    points = len(engine.history["loss"])
    print(
        f"{engine.progress.step:,} steps in {spent:.0f} s: {growth:+.2f} MiB from step {SETTLED:,} to the most "
        f"(allowed {ALLOWED}); {points:,} points of the loss, {engine.channel.dropped:,} frames dropped"
    )
    return 1 if growth > ALLOWED else 0


if __name__ == "__main__":
    sys.exit(main())
