"""Memory over a million steps: ``python scripts/million_steps.py [STEPS]``.

A tiny model, with everything on that a long training has: history, frames that nobody takes, a probe, metrics, a
scheduler. The process's memory is looked at twenty times. What the history keeps, it is meant to keep: 16 bytes for each
point, at most 65,536 points of each quantity over steps, and a point of each metric for each epoch. Beyond that, from
step 150,000 on, when the history of the loss has been full twice, memory must not grow by more than a MiB.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import psutil  # type: ignore[import-untyped]  # has no type information
import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).parents[1]))

from pnne_nb.inspector.capture.live import LiveProbe
from pnne_nb.runtime.engine import TrainingEngine
from pnne_nb.telemetry.frames import StepFrame

ALLOWED = 1.0
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
            history = engine.history.nbytes / 2**20
            looks.append((frame.step, process.memory_info().rss / 2**20, history))
            print(f"step {frame.step:>9,}: {looks[-1][1]:.1f} MiB, {history:.2f} of them history", flush=True)

    engine.on("step", look)
    began = time.perf_counter()
    engine.start()
    engine.wait()
    spent = time.perf_counter() - began
    settled = [(used, kept) for step, used, kept in looks if step >= SETTLED]
    (first, kept_first), (most, kept_most) = settled[0], max(settled, key=lambda look: look[0] - look[1])
    growth = most - first - (kept_most - kept_first)
    print(
        f"{engine.progress.step:,} steps in {spent:.0f} s: {most - first:+.2f} MiB from step {SETTLED:,} to the most, "
        f"{kept_most - kept_first:+.2f} of them history; beyond it {growth:+.2f} (allowed {ALLOWED}); "
        f"{engine.channel.dropped:,} frames dropped"
    )
    return 1 if growth > ALLOWED else 0


if __name__ == "__main__":
    sys.exit(main())
