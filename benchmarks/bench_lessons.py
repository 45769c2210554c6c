"""Each lesson in a fresh kernel, without pauses to read: seconds of the processor in all, and until something is to be seen.

Counted are the kernel and the processes that it starts, the import of torch included; the second column is the clock's, which
a busy machine stretches. The first effect is the first output of a cell after the first one, whose picture comes with the
question: a network that has learned, or a picture of one. Budget: 60 seconds of the processor, and 10 until the first effect.
"""

from __future__ import annotations

import time
from pathlib import Path

import nbformat
import psutil
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import start_new_kernel

LESSONS = Path(__file__).parents[1] / "notebooks" / "lessons"
WHOLE = 60.0
FIRST = 10.0


def used(kernel: psutil.Process) -> float:
    """Return the seconds of the processor that a kernel has used, with those of its processes, ended ones included."""
    times = [each.cpu_times() for each in (kernel, *kernel.children(recursive=True))]
    return sum(each.user + each.system for each in times) + times[0].children_user + times[0].children_system


def answer(client: BlockingKernelClient, code: str) -> bool:
    """Run a cell, and return whether it shows something."""
    shown: list[str] = []
    reply = client.execute_interactive(code, timeout=600, output_hook=lambda said: shown.append(said["msg_type"]))
    if reply["content"]["status"] != "ok":
        raise SystemExit(f"{code}: {reply['content']['evalue']}")
    return bool({"display_data", "execute_result", "stream"} & set(shown))


def measured(path: Path) -> tuple[float, float, float, float]:
    """Return the seconds of the processor and of the clock, of the whole lesson and until its first effect."""
    manager, client = start_new_kernel(kernel_name="python3", startup_timeout=120, cwd=str(path.parent))
    try:
        kernel = psutil.Process(manager.provisioner.pid)
        before, begun, first = used(kernel), time.perf_counter(), (0.0, 0.0)
        cells = [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
        for number, cell in enumerate(cells):
            effect = answer(client, cell.source) and number > 0
            now = used(kernel) - before, time.perf_counter() - begun
            if effect and not any(first):
                first = now
        return *now, *first
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def main() -> None:
    print(f"{'lesson':26s} {'CPU':>7s} {'clock':>8s}   first effect: CPU, clock")
    late = []
    for path in sorted(LESSONS.glob("*.ipynb")):
        cpu, clock, first_cpu, first_clock = measured(path)
        print(f"{path.stem:26s} {cpu:5.1f} s {clock:6.1f} s {first_cpu:19.1f} s {first_clock:5.1f} s", flush=True)
        if cpu > WHOLE or first_cpu > FIRST:
            late.append(path.stem)
    if late:
        raise SystemExit(
            f"Over the budget of {WHOLE:.0f} s, or {FIRST:.0f} s until the first effect: {', '.join(late)}."
        )
