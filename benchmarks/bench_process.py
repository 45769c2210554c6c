"""A training in a process of its own: what a cell of pure Python costs it, and how soon it starts and halts.

Steps are counted over windows of a second, quiet and beside the cell by turns, as `paired` says. Budget: 1.1 for the
cell, where there are two cores. The same step in a thread stands beside it, without a budget.
"""

from __future__ import annotations

import re
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable

import psutil  # type: ignore[import-untyped]  # its stubs are a package of their own
import torch

from benchmarks.budgets import Budgets
from benchmarks.models import MODELS
from benchmarks.paired import Block, Blocks, Comparison, Cost, compare
from pnne_nb.runtime.engine import TrainingEngine
from pnne_nb.runtime.training_process.training_process import TrainingProcess

BUDGET = 1.1
WINDOW = 1.0
"""Seconds."""
SECONDS = 90.0
"""For each comparison, at most."""
STARTS = 5
PAUSES = 40


def engine() -> TrainingEngine:
    model, x, y = MODELS["mlp"]()
    return TrainingEngine(model, (x, y), epochs=10**9, device="cpu")


def started(*, process: bool) -> TrainingEngine:
    trained = engine()
    trained.start(process=process)
    trained.step()
    return trained


def quiet() -> None:
    time.sleep(WINDOW)


def pure_python() -> None:
    until = time.perf_counter() + WINDOW
    while time.perf_counter() < until:
        sum(range(1000))


def cpu_of(trained: TrainingEngine) -> float:
    process = trained._execution.executor
    times = psutil.Process(process.pid if isinstance(process, TrainingProcess) else None).cpu_times()
    return float(times.user + times.system)


def window(trained: TrainingEngine, beside: Callable[[], None]) -> Block:
    """What a step takes, in seconds, while something happens in the kernel."""

    def run() -> Cost:
        made, began, spent = trained.progress.step, time.perf_counter(), cpu_of(trained)
        trained.resume()
        beside()
        trained.pause()
        # Afterwards, when everything that was made is told: beside a cell, the kernel hears of it later.
        made, took = trained.progress.step - made, time.perf_counter() - began
        return {"wall": took / max(1, made), "cpu": (cpu_of(trained) - spent) / max(1, made)}

    return run


def beside_a_cell(*, process: bool) -> dict[str, Comparison]:
    """A step beside a cell of pure Python, against a quiet one; by the clock on the wall, and in processor time."""
    trained = started(process=process)

    def make() -> Blocks:
        return window(trained, quiet), window(trained, quiet), window(trained, pure_python)

    try:
        return compare(make, seconds=SECONDS, precision=0.02)
    finally:
        trained.stop()


def against_the_thread() -> Comparison:
    """A step in a process against one in a thread, both quiet."""
    thread, process = started(process=False), started(process=True)
    try:
        blocks = window(thread, quiet), window(thread, quiet), window(process, quiet)
        return compare(lambda: blocks, seconds=SECONDS, precision=0.02)["wall"]
    finally:
        thread.stop()
        process.stop()


def starting() -> tuple[float, float]:
    """Seconds from `start` to the first step: the first time in a kernel, and the median of those after it."""
    took = []
    for _ in range(STARTS + 1):
        trained = engine()
        first = threading.Event()
        trained.on("step", lambda _, first=first: first.set(), waits=False)
        began = time.perf_counter()
        trained.start(process=True)
        first.wait()
        took.append(time.perf_counter() - began)
        trained.stop()
    return took[0], statistics.median(took[1:])


def halting() -> tuple[float, float]:
    """Median and 95th percentile, in milliseconds, of a pause that another thread asks for beside a cell of pure Python."""
    trained = started(process=True)
    waits: list[float] = []

    def press() -> None:
        for _ in range(PAUSES):
            trained.resume()
            time.sleep(0.05)
            began = time.perf_counter()
            trained.pause()
            waits.append((time.perf_counter() - began) * 1000)

    button = threading.Thread(target=press)
    button.start()
    while button.is_alive():
        sum(range(1000))
    trained.stop()
    return statistics.median(waits), statistics.quantiles(waits, n=20)[-1]


_PRESSES = """
import sys, time, urllib.request
for _ in range(40):
    began = time.perf_counter()
    urllib.request.urlopen(urllib.request.Request(sys.argv[1] + "/pause", method="POST")).close()
    print(1000 * (time.perf_counter() - began))
    time.sleep(0.2)
"""


def pressing() -> tuple[float, float]:
    """The same of a button of a page, which reaches the process itself, beside a cell that lets go of nothing for seconds.

    Until the request is answered; the training then halts after the running step.
    """
    trained = started(process=True)
    with subprocess.Popen(
        [sys.executable, "-c", _PRESSES, trained.direct_buttons], stdout=subprocess.PIPE, text=True
    ) as page:
        while page.poll() is None:
            trained.resume()
            re.match(r"(a+)+$", "a" * 24 + "b")
        assert page.stdout is not None
        waits = [float(line) for line in page.stdout]
    trained.stop()
    return statistics.median(waits), statistics.quantiles(waits, n=20)[-1]


def main() -> None:
    torch.set_num_threads(1)
    first, again = starting()
    middle, late = halting()
    pressed, pressed_late = pressing()
    print(
        f"start to first step {first:.1f} s, {again:.2f} s after the first; pause p50 {middle:.0f} ms, p95 {late:.0f} ms"
    )
    print(f"a page's button beside a regular expression of seconds: p50 {pressed:.0f} ms, p95 {pressed_late:.0f} ms")
    print(f"process / thread, quiet kernel {against_the_thread()}: no budget")
    print(f"thread beside a Python cell / quiet {beside_a_cell(process=False)['wall']}: no budget")
    both = beside_a_cell(process=True)
    found = both["wall"]
    budgets = Budgets()
    verdict = budgets.judge("a step beside a cell of pure Python", found, BUDGET)
    print(f"process beside a Python cell / quiet {found}: {verdict}   step {1e3 * found.bare:.2f} ms", flush=True)
    # Where others keep both cores busy, the cell takes the training's turns at them: this tells that from a slower step.
    print(f"    of the process's own processor time {both['cpu']}")
    budgets.end()


if __name__ == "__main__":
    main()
