"""What the dashboard's benchmark runs inside the kernel: a training that is drawn and not drawn in turns.

A dashboard takes most of a second to open or to close, and a shared machine becomes faster or slower meanwhile. So one open
dashboard is put to sleep and woken every 0.8 seconds; what an open one costs that sleeps is a slower comparison of its own.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import pnne_nb as pn
from benchmarks.models import MODELS
from benchmarks.paired import Blocks, Cost, compare
from pnne_nb.telemetry.frames import Frame, StepFrame
from pnne_nb.widgets.host.pump import POLL_SECONDS

BLOCK, LONG_BLOCK = 0.7, 2.4
"""Seconds of one block, and of one where a dashboard opens and closes: most of what is run is to be measured."""
AWAKE = 0.1
"""Seconds until the first steps are over that find the caches as the other way left them."""
OPENED = 0.8
"""Seconds until what opening or closing a dashboard set going has ended."""


Reading = dict[str, float]
"""What the training thread finds between two steps; of two, one minus the other is what happened between.

``steps`` done so far; seconds of the thread's own ``cpu`` time and on the ``wall``; seconds ``queued``, in which the thread
could have run, but other threads and programs had the cores; ``drawings`` sent to the page; steps whose layers were
``observed``, and the seconds that this is ``reckoned`` to have cost; CPU seconds of every Python thread, after
``thread``, and of the ``process``.
"""


class DrawnTraining:
    """A training under way, with or without a dashboard.

    Args:
        name: Of the model.

    Attributes:
        block_seconds: How long the next blocks are measured.
        drawn_blocks: What happened in each block with a dashboard at work.
    """

    def __init__(self, name: str) -> None:
        net, x, y = MODELS[name]()
        self.engine = pn.TrainingEngine(net, (x, y), epochs=1_000_000, batch_size=64, device="cpu")
        self.block_seconds = BLOCK
        self.drawn_blocks: list[Reading] = []
        self._dashboard: pn.TrainingDashboard | None = None
        self._pause = threading.Event()
        self._read = threading.Event()
        self._awake = False
        self._wanted = False
        self._observed = 0
        self._reading: Reading | None = None
        self.engine.on("step", self._stepped)
        self.engine.start()

    def bare(self) -> Cost:
        if self._dashboard is not None:
            self._dashboard.close()
            self._dashboard = None
            self._pause.wait(OPENED)
        return self._block()

    def asleep(self) -> Cost:
        self._open()
        self._awake = False
        return self._block()

    def drawn(self) -> Cost:
        dashboard = self._open()
        if not self._awake:
            # As if the page had gone on to answer.
            dashboard._pump.acknowledge(dashboard.children[0].tick)
            self._awake = True
        return self._block()

    def _open(self) -> pn.TrainingDashboard:
        if self._dashboard is None:
            self._dashboard = pn.TrainingDashboard(self.engine)
            self._count_observed(self._dashboard)
            self._let_sleep(self._dashboard)
            self._awake = True
            self._pause.wait(OPENED)
        return self._dashboard

    def _let_sleep(self, dashboard: pn.TrainingDashboard) -> None:
        pump, cadence = dashboard._pump, dashboard._cadence
        due, delay = cadence.due, pump._pacer.delay

        def delay_awake(now: float) -> float:
            # It takes in what comes, as with any dashboard.
            return delay(now) if self._awake else POLL_SECONDS

        cadence.due = lambda now: self._awake and due(now)
        pump._pacer.delay = delay_awake

    def _count_observed(self, dashboard: pn.TrainingDashboard) -> None:
        probe = dashboard._probe
        close = probe.close

        def counted() -> Sequence[Frame]:
            self._observed += 1
            return close()

        probe.close = counted

    def _block(self) -> Cost:
        self._pause.wait(AWAKE)
        start = self._mark()
        self._pause.wait(self.block_seconds)
        done = {name: value - start.get(name, 0.0) for name, value in self._mark().items()}
        if self._dashboard is not None and self._awake:
            self.drawn_blocks.append(done)
        spent = {"cpu": done["cpu"], "unqueued": done["wall"] - done["queued"], "wall": done["wall"]}
        return {clock: seconds / done["steps"] for clock, seconds in spent.items()}

    def _mark(self) -> Reading:
        self._read.clear()
        self._wanted = True
        self._read.wait()
        assert self._reading is not None
        return self._reading

    def _stepped(self, frame: StepFrame) -> None:
        if not self._wanted:
            return
        self._wanted = False
        self._reading = {
            "steps": frame.step,
            "cpu": time.thread_time(),
            "wall": time.perf_counter(),
            "queued": int(Path("/proc/thread-self/schedstat").read_text().split()[1]) / 1e9,
            "drawings": 0 if self._dashboard is None else self._dashboard.children[0].tick,
            "observed": self._observed,
            "reckoned": 0.0 if self._dashboard is None else self._dashboard._cadence._cost,
            "process": time.process_time(),
        }
        for thread in threading.enumerate():
            if thread.ident is not None:
                name, spent = f"thread {thread.name}", time.clock_gettime(time.pthread_getcpuclockid(thread.ident))
                self._reading[name] = self._reading.get(name, 0.0) + spent
        self._read.set()


def report(name: str, seconds: float, seconds_asleep: float) -> str:
    """Compare the training with a dashboard awake and asleep, and asleep and without.

    Returns:
        JSON of both comparisons by clock, and of each drawn block.
    """
    training = DrawnTraining(name)

    def awake() -> Blocks:
        return training.asleep, training.asleep, training.drawn

    def asleep() -> Blocks:
        return training.bare, training.bare, training.asleep

    found: list[object] = []
    for make, until, block in ((awake, seconds, BLOCK), (asleep, seconds_asleep, LONG_BLOCK)):
        training.block_seconds = block
        found.append({clock: asdict(comparison) for clock, comparison in compare(make, seconds=until).items()})
    training.bare()
    training.engine.stop()
    return json.dumps([*found, training.drawn_blocks])
