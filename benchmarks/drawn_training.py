"""What the dashboard's benchmark runs inside the kernel: a training that is drawn and not drawn in turns."""

from __future__ import annotations

import gc
import json
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import pnne_nb as pn
from benchmarks.models import MODELS
from benchmarks.paired import Blocks, Comparison, Cost, compare
from pnne_nb.frames import Frame, StepFrame

BLOCK = 0.8
"""Seconds of one block."""
SETTLE = 0.3
"""Seconds until what opening or closing a dashboard set going has ended."""


@dataclass(frozen=True)
class Reading:
    """The training thread's clocks between two steps.

    Attributes:
        steps: Done so far.
        cpu: Seconds of the thread's own CPU time.
        wall: Seconds.
        queued: Seconds that the thread could have run, but other threads and programs had the cores.
    """

    steps: int
    cpu: float
    wall: float
    queued: float


@dataclass(frozen=True)
class Beside:
    """What happened beside the training while it was drawn, a second.

    Attributes:
        drawings: Sent to the page.
        frames: Steps whose layers were observed.
        shown: The cost of observing that the dashboard shows, 0 to 1.
        threads: CPU milliseconds by thread.
    """

    drawings: float
    frames: float
    shown: float
    threads: dict[str, float]


class DrawnTraining:
    """A training under way, with or without a dashboard.

    Args:
        name: Of the model.
    """

    def __init__(self, name: str) -> None:
        net, x, y = MODELS[name]()
        self.engine = pn.TrainingEngine(net, (x, y), epochs=1_000_000, batch_size=64, device="cpu")
        self.beside: list[Beside] = []
        self._dashboard: pn.TrainingDashboard | None = None
        self._pause = threading.Event()
        self._read = threading.Event()
        self._wanted = False
        self._frames = 0
        self._reading: Reading | None = None
        self.engine.on("step", self._stepped)
        self.engine.start()

    def bare(self) -> Cost:
        """A block without a dashboard."""
        if self._dashboard is not None:
            self._dashboard.close()
            self._dashboard = None
        return self._block()

    def drawn(self) -> Cost:
        """A block with one."""
        if self._dashboard is None:
            self._dashboard = pn.TrainingDashboard(self.engine)
            self._count_frames(self._dashboard)
        return self._block()

    def _count_frames(self, dashboard: pn.TrainingDashboard) -> None:
        probe = dashboard._probe
        close = probe.close

        def counted() -> Sequence[Frame]:
            self._frames += 1
            return close()

        probe.close = counted

    def _block(self) -> Cost:
        gc.collect()
        self._pause.wait(SETTLE)
        bar = None if self._dashboard is None else self._dashboard.children[0]
        before, ticks, frames, start = _thread_seconds(), bar.tick if bar else 0, self._frames, self._mark()
        self._pause.wait(BLOCK)
        end = self._mark()
        wall, cpu = end.wall - start.wall, end.cpu - start.cpu
        if bar is not None:
            after = _thread_seconds()
            taken = {name: 1e3 * (after[name] - before.get(name, 0.0)) / wall for name in after}
            rates = (bar.tick - ticks) / wall, (self._frames - frames) / wall
            self.beside.append(Beside(*rates, bar.status["cost"] or 0.0, taken))
        steps = end.steps - start.steps
        return {"cpu": cpu / steps, "unqueued": (wall - (end.queued - start.queued)) / steps, "wall": wall / steps}

    def _mark(self) -> Reading:
        self._read.clear()
        self._wanted = True
        self._read.wait()
        assert self._reading is not None
        return self._reading

    def _stepped(self, frame: StepFrame) -> None:
        if self._wanted:
            self._wanted = False
            queued = int(Path("/proc/thread-self/schedstat").read_text().split()[1]) / 1e9
            self._reading = Reading(frame.step, time.thread_time(), time.perf_counter(), queued)
            self._read.set()


def _thread_seconds() -> dict[str, float]:
    """CPU seconds of every Python thread, and of the process."""
    found = {"process": time.process_time()}
    for thread in threading.enumerate():
        if thread.ident is not None:
            spent = time.clock_gettime(time.pthread_getcpuclockid(thread.ident))
            found[thread.name] = found.get(thread.name, 0.0) + spent
    return found


def report(name: str, seconds: float) -> str:
    """Compare the training with and without its dashboard; JSON of comparisons by clock, and of what was beside."""
    training = DrawnTraining(name)

    def make() -> Blocks:
        return training.bare, training.bare, training.drawn

    found: dict[str, Comparison] = compare(make, seconds=seconds)
    training.bare()
    training.engine.stop()
    beside = [asdict(block) for block in training.beside]
    return json.dumps([{clock: asdict(comparison) for clock, comparison in found.items()}, beside])
